//! The only code that touches the world: Kafka, Redis, SQLite. It implements `ports` and decides nothing.

pub mod sqlite;
