//! The formats: one history of orders told in each of them, through the real reader, writer and base, ends in the
//! rows that the source's database ended with. The messages are in `tests/formats/<name>`, each with the
//! configuration that reads them and where they come from.

mod support;

#[path = "formats/bytes.rs"]
mod bytes;
#[path = "formats/history.rs"]
mod history;
#[path = "formats/messages.rs"]
mod messages;
#[path = "formats/odds.rs"]
mod odds;
#[path = "formats/refused.rs"]
mod refused;
