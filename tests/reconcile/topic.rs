//! What only a replay of the log finds: a change that the base itself has lost.

use serde_json::{Value, json};

use crate::world::{World, sale};

/// Changes the base file behind driftless's back.
fn tamper(world: &World, sql: &str) {
    let connection = rusqlite::Connection::open(world.installation.path("base.db")).unwrap();
    assert_eq!(connection.execute(sql, []).unwrap(), 1, "{sql}");
}

#[test]
fn a_change_lost_by_the_base_is_found_by_the_log_and_by_nothing_weaker() {
    let mut world = World::published();
    world.run(&["reconcile", "--against-topic"]).expect(0).says(&["in sync"]);
    // 1. A row is gone, and its group has been published again since: for everything that asks the base, all is well.
    tamper(&world, "DELETE FROM driftless_rows_fact_sales WHERE order_id = 'O5'");
    world.send(&sale(25, 25, "2026-10-02", "P3"));
    world.run(&["run", "--once"]).expect(0);
    assert_eq!(world.reconcile(&[], 0)["verdict"], "in_sync");
    let of = |from: &str| -> Value {
        world.run(&["checksum", "--from", from, "--format", "json"]).expect(0).json()["sha256"].clone()
    };
    assert_eq!(of("redis"), of("base"));
    assert_ne!(of("redis"), world.expected_checksum());
    // 2. The log tells.
    let report = world.reconcile(&["--against-topic"], 1);
    assert_eq!(report["verdict"], "drift");
    assert_eq!(report["tables"][0]["missing"], 1, "{report:#}");
    assert_eq!(report["differences"][0]["key"], json!(["O5", 1]));
    assert_eq!(report["differences"][0]["log_seq"], "5");
    assert!(
        world.installation.files().iter().all(|file| !file.contains("scratch")),
        "{:?}",
        world.installation.files()
    );
}

#[test]
fn each_kind_of_difference_between_base_and_log_is_named() {
    let world = World::published();
    tamper(&world, "UPDATE driftless_rows_fact_sales SET amount_cents = 1 WHERE order_id = 'O6'");
    tamper(&world, "UPDATE driftless_rows_fact_sales SET _seq = 3 WHERE order_id = 'O7'");
    tamper(
        &world,
        "INSERT INTO driftless_rows_fact_sales SELECT 'O99', line_no, order_date, product_id, customer_id, channel,
         quantity, amount_cents, cost_cents, status, 99, 1 FROM driftless_rows_fact_sales WHERE order_id = 'O8'",
    );
    let report = world.reconcile(&["--against-topic"], 1);
    let table = &report["tables"][0];
    assert_eq!(
        (&table["equal"], &table["different"], &table["extra"]),
        (&22.into(), &2.into(), &1.into()),
        "{report:#}"
    );
    let columns = &report["differences"][0]["columns"];
    assert_eq!(columns[0], json!({"column": "amount_cents", "base": "1", "log": "600"}), "{report:#}");
}
