//! A configuration whose servers answer nobody, and rows to load. Must not know what is asserted.

use std::net::TcpListener;

use crate::installation::{Installation, TABLE};

pub const HEADER: &str =
    "order_id,line_no,order_date,product_id,customer_id,channel,quantity,amount_cents,cost_cents,status";
pub const ROWS: &str = "O1,1,2026-10-01,P1,C1,web,1,100,60,paid
O1,2,2026-10-01,P2,C1,web,2,200,150,paid
O2,1,2026-10-02,P1,C2,sales,1,-50,10,paid
O3,1,2026-10-02,P1,C2,sales,1,70,10,refunded
";

/// An address of this machine where nobody listens.
pub fn closed_address() -> String {
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    format!("127.0.0.1:{port}")
}

/// The example's table, fed by one topic; neither Kafka nor Redis answers.
pub fn configuration() -> String {
    let closed = closed_address();
    format!(
        r#"contracts = ["agg_daily_product.json"]
[base]
path = "base.db"
[kafka]
brokers = "{closed}"
[redis]
url = "redis://{closed}"
connect_timeout_ms = 300
response_timeout_ms = 300
{TABLE}
[[topic]]
name = "sales.changes"
table = "fact_sales"
format = "native"
watermark = "dense"
"#
    )
}

pub fn installation() -> Installation {
    Installation::new(&configuration())
}

/// An installation whose base holds the rows above as of sequence 20.
pub fn seeded() -> Installation {
    let installation = installation();
    installation.write("rows.csv", format!("{HEADER}\n{ROWS}"));
    installation
        .run(&["seed", "--table", "fact_sales", "--from", "rows.csv", "--through-seq", "20"])
        .expect(0)
        .says(&["4 rows"]);
    installation
}
