//! skeleton
pub mod io;
pub mod ports;
pub mod pure;
