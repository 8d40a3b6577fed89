//! The only code that touches the world: brokers, databases, sockets. Each part implements a trait of
//! `ports`; none of them knows the pipeline or another part.

pub mod kafka;
