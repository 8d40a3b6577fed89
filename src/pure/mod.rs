//! Functions of their arguments: no clock, no I/O, no async.

pub mod apply;
pub mod backoff;
pub mod base;
pub mod canonical;
pub mod catalog;
pub mod checksum;
pub mod contract;
pub mod drift;
pub mod event;
pub mod expression;
pub mod formats;
pub mod generation;
pub mod group_key;
pub mod inspect;
pub mod meta;
pub mod publish;
pub mod recompute;
pub mod schedule;
pub mod schema;
pub mod secret;
pub mod seq;
pub mod sql;
pub mod value;
pub mod watermark;
