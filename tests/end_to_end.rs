//! The built program between a real Kafka and a Redis of each test's own: what it promises, seen from outside.
//! Needs `DRIFTLESS_KAFKA` (`scripts/services up`); without it every test says that it was skipped.

#[path = "end_to_end/corrections.rs"]
mod corrections;
#[path = "end_to_end/crashes.rs"]
mod crashes;
#[path = "end_to_end/dead_letters.rs"]
mod dead_letters;
#[path = "end_to_end/first_start.rs"]
mod first_start;
#[path = "support/fold.rs"]
mod fold;
#[path = "end_to_end/gaps.rs"]
mod gaps;
#[path = "end_to_end/generations.rs"]
mod generations;
#[path = "support/installation.rs"]
mod installation;
#[path = "end_to_end/modes.rs"]
mod modes;
#[path = "end_to_end/redis_loss.rs"]
mod redis_loss;
#[path = "support/redis_server.rs"]
mod redis_server;
#[path = "end_to_end/two_maintainers.rs"]
mod two_maintainers;
#[path = "end_to_end/world.rs"]
mod world;
