//! A first start on a log that does not begin at its beginning: refused, until a seed or a word of the operator
//! says what stands for the part that is missing.

use crate::world::{World, sale, sales};

/// A topic whose first ten records are gone.
fn with_cut_log(case: &str, topic_settings: &str) -> Option<World> {
    let world = World::with_topic(case, 1, topic_settings)?;
    world.send(0, sales(1..=15));
    world.admin().delete_records_below(&world.place(0), 10).unwrap();
    Some(world)
}

#[test]
fn p11_a_first_start_on_a_cut_log_is_refused_and_names_the_seed() {
    let Some(world) = with_cut_log("cut-start", "watermark = \"dense\"") else { return };
    let place = format!("{}:0", world.topic);
    world.run(&["run", "--once"]).expect(2).says(&[
        &place,
        "offset 10",
        "remedy:",
        "driftless seed",
        "log-start",
    ]);
    assert!(world.meta().is_empty(), "nothing was published");
}

#[test]
fn a_first_start_from_what_is_left_says_since_when_history_is_known() {
    let Some(world) = with_cut_log("log-start", "watermark = \"sparse\"\nstart = \"log-start\"") else {
        return;
    };
    world.run(&["run", "--once"]).expect(0);
    assert_eq!(world.gmv("P1"), Some(5));
    let history: serde_json::Value = serde_json::from_str(&world.meta()["history_from"]).unwrap();
    assert_eq!(history, serde_json::json!({format!("{}:0", world.topic): 10}));
    assert_eq!(world.status()["partitions"][0]["first_offset"], 10);
    // A later start goes on from its own position.
    world.send(0, sales(16..=16));
    world.run(&["run", "--once"]).expect(0);
    assert_eq!(world.gmv("P1"), Some(6));
}

#[test]
fn a_seed_stands_for_what_the_log_no_longer_holds() {
    let Some(world) = with_cut_log("seeded", "watermark = \"dense\"") else { return };
    let header = "order_id,line_no,order_date,product_id,customer_id,channel,quantity,amount_cents,cost_cents,status\n";
    let rows: String =
        (1..=12).map(|number| format!("O{number},1,2026-10-01,P1,C1,web,1,1,1,paid\n")).collect();
    world.installation.write("rows.csv", format!("{header}{rows}"));
    // The file stands for one event more than the positions say: what comes again is stale.
    let positions = format!("{}:0=11", world.topic);
    world
        .run(&[
            "seed",
            "--table",
            "fact_sales",
            "--from",
            "rows.csv",
            "--through-seq",
            "12",
            "--positions",
            &positions,
        ])
        .expect(0)
        .says(&["12 rows"]);
    world.run(&["run", "--once"]).expect(0);
    assert_eq!(world.gmv("P1"), Some(15));
    assert_eq!(world.watermark(), "15");
    let partition = &world.status()["partitions"][0];
    assert_eq!(partition["first_offset"], 11, "{partition}");
    assert_eq!(partition["counts"]["stale"], 1, "{partition}");
    assert_eq!(partition["counts"]["applied"], 3, "{partition}");
    world.checksum(&[]);
    // A correction of a seeded row takes effect.
    world.send(0, [sale(16, 3, "P1", 101)]);
    world.run(&["run", "--once"]).expect(0);
    assert_eq!(world.gmv("P1"), Some(115));
}

#[test]
fn a_seed_is_published_with_its_watermark_before_any_event() {
    let Some(world) = World::with_topic("seed-only", 1, "watermark = \"dense\"") else { return };
    world.installation.write(
        "rows.jsonl",
        r#"{"order_id":"O1","line_no":1,"order_date":"2026-10-01","product_id":"P1","customer_id":"C1","channel":"web","quantity":1,"amount_cents":5,"cost_cents":1,"status":"paid","source_seq":3}"#,
    );
    world.run(&["seed", "--table", "fact_sales", "--from", "rows.jsonl", "--through-seq", "206"]).expect(0);
    world.run(&["run", "--once"]).expect(0);
    assert_eq!(world.watermark(), "206");
    assert_eq!(world.gmv("P1"), Some(5));
    world.send(0, [sale(207, 1, "P1", 9)]);
    world.run(&["run", "--once"]).expect(0);
    assert_eq!((world.watermark().as_str(), world.gmv("P1")), ("207", Some(9)));
}
