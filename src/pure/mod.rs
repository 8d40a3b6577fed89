//! Functions of their arguments: no clock, no I/O, no async.
pub mod backoff;
pub mod group_key;
pub mod publish;
pub mod schema;
pub mod secret;
pub mod seq;
pub mod value;
