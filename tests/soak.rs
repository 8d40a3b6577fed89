//! Long runs on real servers, by hand: `cargo test --release --test soak -- --ignored --nocapture`. Each prints what it
//! measured. Needs `DRIFTLESS_KAFKA` (`scripts/services up`).

#[path = "support/fold.rs"]
mod fold;
#[path = "soak/generations.rs"]
mod generations;
#[path = "support/installation.rs"]
mod installation;
#[path = "support/redis_server.rs"]
mod redis_server;
#[path = "end_to_end/world.rs"]
#[allow(dead_code)]
mod world;
