//! Functions of their arguments: no clock, no I/O, no async.
pub mod canonical;
pub mod checksum;
pub mod contract;
pub mod expression;
pub mod group_key;
pub mod publish;
pub mod recompute;
pub mod schema;
pub mod seq;
pub mod sql;
pub mod value;
