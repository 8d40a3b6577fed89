//! One suite of tests a port, run on the twin in memory and on the real server, so that whoever is tested with
//! the twin is tested with the truth. Knows the ports' contracts, not how they are kept.

#[path = "support/redis_server.rs"]
mod redis_server;
#[path = "port_contract/view_store.rs"]
mod view_store;
#[path = "port_contract/view_store_cases.rs"]
mod view_store_cases;
#[path = "port_contract/view_store_measure.rs"]
mod view_store_measure;
#[path = "port_contract/view_store_real.rs"]
mod view_store_real;
#[path = "port_contract/view_store_security.rs"]
mod view_store_security;
#[path = "port_contract/view_store_twin.rs"]
mod view_store_twin;
