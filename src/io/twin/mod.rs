//! In-memory implementations of the ports, for tests and simulation. Knows no server; one contract suite holds
//! each twin and its real counterpart to the same behaviour.
pub mod log;
pub mod view_store;
