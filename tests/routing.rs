//! The router on a real base, against a real Redis and the store in memory: which route each question takes in which
//! state and why, that both routes give the numbers of an independent recompute, and that neither tells what the
//! policy withholds.

mod support;

#[path = "routing/cases.rs"]
mod cases;
#[path = "routing/explaining.rs"]
mod explaining;
#[path = "routing/house.rs"]
mod house;
#[path = "routing/pages.rs"]
mod pages;
#[path = "routing/random.rs"]
mod random;
#[path = "support/redis_server.rs"]
mod redis_server;
#[path = "routing/shadows.rs"]
mod shadows;
#[path = "routing/table.rs"]
mod table;
