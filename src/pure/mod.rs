//! Functions of their arguments: no clock, no I/O, no async.

pub mod apply;
pub mod event;
pub mod group_key;
pub mod native;
pub mod publish;
pub mod schema;
pub mod seq;
pub mod value;
pub mod watermark;
