//! `driftless reconcile` as an operator meets it: every kind of damage that somebody can do to the view behind
//! driftless's back is found, named and mended, with the exit codes that are documented. Each test has a Redis and a
//! Kafka (in this process) of its own.

#[path = "reconcile/damages.rs"]
mod damages;
#[path = "support/fold.rs"]
mod fold;
#[path = "support/installation.rs"]
mod installation;
#[path = "support/redis_server.rs"]
mod redis_server;
#[path = "reconcile/topic.rs"]
mod topic;
#[path = "reconcile/world.rs"]
mod world;
