//! The loops: read, ingest, publish, seed. They do no I/O of their own; everything outside comes through
//! `ports`, so that the same code runs on real servers and in tests that hold every clock and every fault.

pub mod ingest;
pub mod maintain;
pub mod publish;
pub mod read;
pub mod requests;
pub mod route;
pub mod seed;
pub mod shadow;
pub mod sweep;
