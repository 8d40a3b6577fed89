//! skeleton
pub mod ports;
pub mod pure;
