//! Holds the Kafka log to the contract of the port: on a broker inside this process always, and on a real one
//! where `DRIFTLESS_KAFKA` names it (`scripts/services up`). Must not know how the log is read.

mod cluster;
mod headers;
mod reading;
mod refusing;
mod transactions;
