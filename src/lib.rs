//! skeleton
pub mod commands;
pub mod config;
pub mod example;
pub mod io;
pub mod pipeline;
pub mod ports;
pub mod pure;
pub mod telemetry;
