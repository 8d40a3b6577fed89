//! The only code that touches the world: one folder a server, and the in-memory twins that stand in for them.
pub mod redis;
pub mod twin;
