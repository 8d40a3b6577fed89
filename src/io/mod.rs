//! The only code that touches the world: one folder a server, and the in-memory twins that stand in for them.
//! It implements `ports` and decides nothing.

pub mod clock;
pub mod control;
pub mod kafka;
pub mod machine;
pub mod redis;
pub mod rows;
pub mod sqlite;
pub mod twin;
