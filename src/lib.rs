//! driftless keeps precomputed aggregates in Redis true.
//!
//! # The map
//!
//! ```text
//!  Kafka ──poll──▶ decode ──▶ writer ─────────────▶ base.db (WAL)
//!                               │ upsert rows, mark groups, positions, commit C
//!                               ▼ wake
//!                            publisher ── read snapshot C ── recompute groups with
//!                               │         a mark in (R, C] and the watermark of C
//!                               ▼ one script: if (R, nonce) match, write all, then R = C and W
//!                             Redis ──▶ dashboards
//!                               ▲
//!                           reconciler: recompute all, compare, repair through the marks
//! ```
//!
//! Modules, in the order in which data flows through them:
//!
//! | step | decides (`pure`) | loops (`pipeline`) | touches the world (`io`) |
//! | --- | --- | --- | --- |
//! | declare | [`pure::contract`], [`pure::schema`], [`pure::catalog`], [`pure::impact`] | | [`config`] |
//! | read | [`pure::formats`] (one decoder a format), [`pure::event`] | [`pipeline::read`] | [`io::kafka`] |
//! | apply | [`pure::apply`], [`pure::watermark`], [`pure::group_key`] | [`pipeline::ingest`], [`pipeline::seed`], [`pipeline::requests`] | [`io::sqlite`] |
//! | recompute | [`pure::recompute`], [`pure::expression`] | | [`io::sqlite`] |
//! | publish | [`pure::publish`], [`pure::meta`] | [`pipeline::publish`], [`pipeline::sweep`] | [`io::redis`] |
//! | prove | [`pure::checksum`]; drift: planned | reconcile: planned | [`io::sqlite`], [`io::redis`] |
//! | answer | [`pure::query`], [`pure::route`], [`pure::usage`] | [`pipeline::route`], [`pipeline::shadow`] | [`io::sqlite`], [`io::redis`]; HTTP: planned |
//! | replay | [`pure::generation`] | [`pipeline::reread`], [`pipeline::compare`], [`pipeline::certify`] | [`io::control`], [`io::sqlite`] |
//!
//! [`pipeline::maintain`] joins the loops on their threads; [`ports`] are the traits between loops and world;
//! [`commands`] wire one subcommand each; [`example`] is the shipped example and the only module that knows its
//! columns.
//!
//! Who may import whom: `pure` imports `pure`; `ports` imports `pure`; `pipeline` imports `pure` and `ports`;
//! `io` imports `pure`, `ports` and `config`; `config` and `example` import `pure`; `commands` import everything.
//! A test reads the sources and fails on any other arrow.
//!
//! # The promises
//!
//! Each is asserted where it could break and has a test named after it; `docs/ARCHITECTURE.md` lists both.
//!
//! - **P1 One step.** Row changes, group marks, positions, dead letters, counters and the commit number change in
//!   one SQLite transaction.
//! - **P2 Order does not matter.** A row is the event with the greatest sequence for its key; deletes leave a
//!   grave. Duplicates, redelivery, rewinds and disorder all end in the same base.
//! - **P3 Marks are complete.** Each row change marks the stored old group and the stored new group.
//! - **P4 Values are recomputed.** A published group is a pure function of the base at one snapshot.
//! - **P5 The watermark is true.** Nothing with a sequence at or below it is missing from what is published.
//! - **P6 A batch is atomic.** Outside a flagged bulk load, Redis equals the groups of one snapshot exactly.
//! - **P7 Only the right writer writes.** A publish is accepted only when Redis still shows the cursor that it was
//!   computed from.
//! - **P8 Loss heals.** Redis falling back to an earlier state, or to nothing, is repaired by the next publish.
//! - **P9 The reconciler is sound.** (With the reconciler.)
//! - **P10 Everything is accounted for.** Each consumed offset is exactly one of applied, duplicate, stale,
//!   expired, control, dead letter, and the sums match.
//! - **P11 No silent gap.** A stored position that the log no longer holds stops the maintainer.
//! - **P12 Bounded.** Every queue, batch, retry and buffer has a limit that is a setting with a default.

pub mod commands;
pub mod config;
pub mod example;
pub mod io;
pub mod pipeline;
pub mod ports;
pub mod pure;
pub mod telemetry;
