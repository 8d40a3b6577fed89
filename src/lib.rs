//! skeleton
pub mod example;
pub mod io;
pub mod pipeline;
pub mod ports;
pub mod pure;
