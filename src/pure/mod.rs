//! Functions of their arguments: no clock, no I/O, no async.

pub mod apply;
pub mod backoff;
pub mod base;
pub mod canonical;
pub mod catalog;
pub mod checksum;
pub mod contract;
pub mod event;
pub mod expression;
pub mod group_key;
pub mod impact;
pub mod meta;
pub mod native;
pub mod publish;
pub mod query;
pub mod recompute;
pub mod route;
pub mod schema;
pub mod secret;
pub mod seq;
pub mod sql;
pub mod usage;
pub mod value;
pub mod watermark;
