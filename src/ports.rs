//! What the pipeline needs of the outside world, each method with its contract. Real servers implement
//! these in `io`; tests implement them in memory, and one suite holds both to the same contract.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::pure::apply::Stored;
use crate::pure::base::{
    Action, Answer, Head, Letter, LetterState, NewLetter, PartitionState, ReconcileRun, Request, TableState,
    ViewState,
};
use crate::pure::event::Image;
use crate::pure::formats::Header;
use crate::pure::group_key::GroupKey;
use crate::pure::meta::Fingerprint;
use crate::pure::publish::{GroupValue, Publish, PublishReply};
use crate::pure::query::Selection;
use crate::pure::seq::{Commit, Seq, TopicPartition};
use crate::pure::usage::Use;
use crate::pure::value::Value;
use crate::pure::watermark::{ChangedRuns, Run};

/// A failure of the outside world, told so that an operator can act on it.
#[derive(Debug, thiserror::Error)]
#[error("{what}{}", hint.as_deref().map(|hint| format!("\n  remedy: {hint}")).unwrap_or_default())]
pub struct PortError {
    pub kind: Trouble,
    /// What failed and where (address, topic, file), with the cause.
    pub what: String,
    /// What the operator can do.
    pub hint: Option<String>,
}

/// What a caller may do about a [`PortError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// May pass by itself: try again with backoff.
    Transient,
    /// Stays until somebody changes something.
    Permanent,
}

impl PortError {
    pub fn transient(what: impl Into<String>) -> Self {
        PortError { kind: Trouble::Transient, what: what.into(), hint: None }
    }

    pub fn permanent(what: impl Into<String>) -> Self {
        PortError { kind: Trouble::Permanent, what: what.into(), hint: None }
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn is_transient(&self) -> bool {
        self.kind == Trouble::Transient
    }
}

pub type PortResult<T> = Result<T, PortError>;

/// A record as the log delivers it, borrowed from the client's buffer.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// Which of the assigned partitions: its index in the slice given to [`Log::assign`].
    pub slot: usize,
    pub offset: i64,
    /// Milliseconds since the epoch as the log says, for ages only.
    pub timestamp_ms: Option<i64>,
    /// The bytes of the message key; `None` is a null key.
    pub key: Option<&'a [u8]>,
    /// The bytes of the message; `None` is a tombstone, which an empty value is not.
    pub value: Option<&'a [u8]>,
    /// In the message's order; empty where the log was not asked for them.
    pub headers: &'a [Header],
}

/// One thing that [`Log::poll`] delivers.
#[derive(Clone, Copy, Debug)]
pub enum LogItem<'a> {
    Record(RecordRef<'a>),
    /// The partition has been read to its present end; `next_offset` lies behind transaction markers too.
    End {
        slot: usize,
        next_offset: i64,
    },
}

/// First offset held and the offset after the last readable one (read_committed).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub low: i64,
    pub high: i64,
}

/// A partitioned log, read by one reader.
///
/// # Contract
/// - After [`assign`](Log::assign), records of a partition come in offset order, starting at the first record
///   at or after the offset given. Nothing is skipped; a record may come twice.
/// - Nothing is read of a partition that was not assigned.
/// - An offset outside the log is a permanent error from `poll`, never a silent reset. A passing error is
///   transient: calling again goes on where it stopped.
pub trait Log: Send {
    /// All partitions that the topics have now, sorted.
    fn partitions(&mut self) -> PortResult<Vec<TopicPartition>>;

    /// The bounds of a partition now.
    fn bounds(&mut self, partition: &TopicPartition) -> PortResult<Bounds>;

    /// The first offset whose record is not older than a time in milliseconds since the epoch, as the log dates its
    /// records; `None` where all are older.
    fn offset_at(&mut self, partition: &TopicPartition, timestamp_ms: i64) -> PortResult<Option<i64>>;

    /// Replaces the assignment: read these partitions from these offsets.
    fn assign(&mut self, from: &[(TopicPartition, i64)]) -> PortResult<()>;

    /// Hands up to `records_max` items to `sink`; waits up to `wait` for the first, never for a second.
    /// Returns how many.
    fn poll(
        &mut self,
        records_max: usize,
        wait: Duration,
        sink: &mut dyn FnMut(LogItem<'_>),
    ) -> PortResult<usize>;

    /// Tells lag tools how far the base is. Advice: never read back, and a failure is only logged.
    fn advise(&mut self, next: &[(TopicPartition, i64)]);
}

/// The meta hash of a view, fields as they are stored; empty where the view is absent.
pub type Meta = std::collections::BTreeMap<String, String>;

/// The fields of one published row, as stored.
pub type StoredFields = std::collections::BTreeMap<String, String>;

/// A range of a view as one atomic read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeRead {
    pub meta: Meta,
    /// Index entries in order, each with its row's fields (empty where the row is missing).
    pub rows: Vec<(String, StoredFields)>,
}

/// A group as the store shows it: its row's fields (empty where there is no row), and whether the index names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredGroup {
    pub fields: StoredFields,
    pub indexed: bool,
}

/// What a view's own keys are, rows aside, as one atomic read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Empty where the view is absent, or its key is of another type.
    pub meta: Meta,
    /// Entries of the index.
    pub index: u64,
    /// Index entries with another score than 0, which no range finds for certain; up to 1,000 of them.
    pub misplaced: Vec<String>,
    /// Own keys that somebody else's value has taken the place of, each with its type.
    pub wrong_types: Vec<(String, String)>,
    /// Own keys that will expire.
    pub expiring: Vec<String>,
}

/// One step of a walk over all keys under a view's prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyScan {
    /// Where to go on; 0 at the end.
    pub next: u64,
    /// Encoded group keys of rows that the index does not name, as found, valid or not.
    pub strays: Vec<String>,
    /// Whole names of keys that are none of the view's kinds.
    pub foreign: Vec<String>,
}

/// Where views are published.
///
/// # Contract
/// - [`publish`](ViewStore::publish) is atomic: all of it happens, or nothing. An error leaves the outcome
///   unknown; the caller reads the cursor again before it does anything else, and never sends again blindly.
/// - A read shows one instant.
/// - After an error the next call opens a new connection.
pub trait ViewStore: Send {
    /// The meta of a view.
    fn read_meta(&mut self, object: &str) -> PortResult<Meta>;

    /// Compares the cursor and, where it matches, writes groups and meta.
    /// `columns` names the fields of [`GroupValue::Measures`](crate::pure::publish::GroupValue) in order.
    fn publish(&mut self, object: &str, columns: &[String], publish: &Publish) -> PortResult<PublishReply>;

    /// Meta and up to `limit` (at most 1,000) entries of the index with `after < entry`, and `entry <= through`
    /// where that is given; `None` reads from the start, or to the end.
    fn read_range(
        &mut self,
        object: &str,
        after: Option<&str>,
        through: Option<&str>,
        limit: usize,
    ) -> PortResult<RangeRead>;

    /// Meta and the fields of the rows named, as one atomic read; fields are empty where there is no row.
    fn read_rows(&mut self, object: &str, keys: &[GroupKey]) -> PortResult<(Meta, Vec<StoredFields>)>;

    /// As [`read_rows`](ViewStore::read_rows), and whether the index names each.
    fn read_groups(&mut self, object: &str, keys: &[GroupKey]) -> PortResult<(Meta, Vec<StoredGroup>)>;

    /// The view's own keys, rows aside.
    fn read_outline(&mut self, object: &str) -> PortResult<Outline>;

    /// One step of a walk over all keys under the view's prefix, for those that do not belong there: rows without
    /// an index entry, whatever is behind them, and keys that are none of the view's kinds. Starts with cursor 0
    /// and ends when 0 comes back; what is there all the time is found.
    fn scan_strays(&mut self, object: &str, cursor: u64) -> PortResult<KeyScan>;
}

/// The time, so that tests can hold it.
pub trait Clock: Send + Sync {
    /// Milliseconds since the epoch: for ages and records, never for order.
    fn wall_ms(&self) -> i64;
    /// Milliseconds that never go back, from any start: for time-outs.
    fn monotonic_ms(&self) -> u64;
}

/// The writer's side of a base: the only connection that changes it.
///
/// # Contract
/// - Everything between [`begin`](BaseWriter::begin) and [`commit`](BaseWriter::commit) happens at once or
///   not at all (P1). After any error the caller rolls back and restores its own state from the base.
/// - Only one writer exists for a file; the lock is held for its whole life.
pub trait BaseWriter: Send {
    fn partitions(&mut self) -> PortResult<Vec<PartitionState>>;
    fn table_state(&mut self, table: usize) -> PortResult<TableState>;
    /// Dense runs above the watermark.
    fn runs(&mut self, table: usize) -> PortResult<Vec<Run>>;
    /// Open dead letters of a table and the greatest watermark that each allows.
    fn holds(&mut self, table: usize) -> PortResult<Vec<(i64, Option<Seq>)>>;

    fn begin(&mut self) -> PortResult<()>;
    /// The latest event of a key, whose parts are given in key order.
    fn stored(&mut self, table: usize, key: &[&Value]) -> PortResult<Option<Stored>>;
    /// Makes an event the latest of its key. `replaces` says whether [`stored`](BaseWriter::stored) found one.
    fn store(&mut self, table: usize, seq: Seq, image: &Image, replaces: bool) -> PortResult<()>;
    /// Marks a group as changed by this commit.
    fn mark(&mut self, view: usize, key: &GroupKey) -> PortResult<()>;
    /// Marks all groups that the table's rows have, for all its views; older published versions no longer
    /// tell what changed since (see [`Lineage::BeforeMarks`]).
    fn mark_all(&mut self, table: usize) -> PortResult<()>;
    /// Makes graves with this sequence of all rows below it, and says that marks begin with this commit.
    fn truncate(&mut self, table: usize, below: Seq) -> PortResult<()>;
    /// Whether the table holds no row and no grave.
    fn is_empty(&mut self, table: usize) -> PortResult<bool>;
    /// Adds to the history: this group was touched, by this event or by a repair.
    fn append_change(&mut self, change: &Change<'_>) -> PortResult<()>;
    /// Stores a partition; a new one (id 0) gets its number, which is returned.
    fn save_partition(&mut self, partition: &PartitionState) -> PortResult<i64>;
    fn save_table(&mut self, table: usize, state: &TableState) -> PortResult<()>;
    fn save_runs(&mut self, table: usize, changed: &ChangedRuns) -> PortResult<()>;
    fn add_letter(&mut self, letter: &NewLetter<'_>, at_ms: i64) -> PortResult<i64>;
    fn save_hold(&mut self, letter: i64, cap: Option<Seq>) -> PortResult<()>;
    fn open_letters(&mut self, only: Option<i64>, after: i64, limit: usize) -> PortResult<Vec<Letter>>;
    fn resolve_letter(
        &mut self,
        letter: i64,
        state: LetterState,
        who: &str,
        why: &str,
        at_ms: i64,
    ) -> PortResult<()>;
    fn record_waived_run(
        &mut self,
        table: usize,
        run: Run,
        who: &str,
        why: &str,
        at_ms: i64,
    ) -> PortResult<()>;
    /// What operators and reconciler have said of a view.
    fn view_state(&mut self, view: usize) -> PortResult<ViewState>;
    fn save_view_state(&mut self, view: usize, state: &ViewState) -> PortResult<()>;
    /// Adds to the history of reconcile passes. Returns the pass's number.
    fn add_reconcile(&mut self, view: usize, run: &ReconcileRun, who: &str) -> PortResult<i64>;
    /// Counts a repair of a group; returns how many there have been, this one included.
    fn count_repair(&mut self, view: usize, key: &GroupKey, at_ms: i64) -> PortResult<u64>;
    /// Requests that nobody has answered, oldest first. Cheap while there is none.
    fn open_requests(&mut self) -> PortResult<Vec<Request>>;
    fn answer_request(&mut self, request: i64, answer: &Answer, at_ms: i64) -> PortResult<()>;
    /// Ends the transaction and numbers it.
    fn commit(&mut self, at_ms: i64) -> PortResult<Commit>;
    fn rollback(&mut self);
}

/// One entry of the change history.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    pub view: usize,
    pub key: &'a GroupKey,
    /// The event that touched it; `None` is a repair.
    pub event: Option<ChangeEvent>,
}

/// Which event touched a group.
#[derive(Clone, Copy, Debug)]
pub struct ChangeEvent {
    pub partition: i64,
    pub offset: i64,
    pub seq: Seq,
}

/// A group's key and the commit that marked it last.
pub type Marked = (GroupKey, Commit);

/// What a state named by commit number and nonce is to a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lineage {
    /// A state of this file, and the marks tell what changed since.
    Marked,
    /// A state of this file from before the view's marks began.
    BeforeMarks,
    /// Not a state of this file: another base's, or one that a restore or a power cut took away.
    Foreign,
}

/// A reader's side of a base.
pub trait BaseReader: Send {
    /// A snapshot that no later commit changes. Hold it under a second: the WAL grows meanwhile.
    fn snapshot(&mut self) -> PortResult<Box<dyn Snapshot + '_>>;
}

/// One state of a base.
pub trait Snapshot {
    fn head(&mut self) -> PortResult<Head>;
    /// Whether (commit, nonce) names a state of this very file, at or before this snapshot.
    fn lineage(&mut self, view: usize, commit: Commit, nonce: &str) -> PortResult<Lineage>;
    /// The groups of a view marked by commits after `after`, sorted.
    fn dirty_since(&mut self, view: usize, after: Commit) -> PortResult<Vec<GroupKey>>;
    /// Up to `limit` groups that were ever marked, in order, after the one given, each with its mark.
    fn groups_after(&mut self, view: usize, after: Option<&str>, limit: usize) -> PortResult<Vec<Marked>>;
    /// The commit that marked a group last; `None` where none ever did.
    fn mark(&mut self, view: usize, key: &GroupKey) -> PortResult<Option<Commit>>;
    /// A group recomputed from its rows; `None` where it has none.
    fn recompute(&mut self, view: usize, key: &GroupKey) -> PortResult<Option<GroupValue>>;
    /// Many groups recomputed from their rows, as [`recompute`](Snapshot::recompute) does each; the keys are sorted.
    fn recompute_sorted(&mut self, view: usize, keys: &[&str]) -> PortResult<Vec<Option<GroupValue>>>;
    /// Walks over the groups that the rows have, in the order of their grain's values, up to `groups` of them after
    /// those of `place`, and returns the ones that were never marked. `place` moves on; it is `None` at the end.
    fn unmarked(
        &mut self,
        view: usize,
        place: &mut Option<Box<[Value]>>,
        groups: usize,
    ) -> PortResult<Vec<GroupKey>>;
    /// What the meta of a view over this table said of it at a commit; `None` where that is not kept any more.
    fn fingerprint(&mut self, table: usize, commit: Commit) -> PortResult<Option<Fingerprint>>;
    /// The latest event of a key of a table; `None` where it never had one.
    fn row(&mut self, table: usize, key: &[Value]) -> PortResult<Option<Stored>>;
    /// Up to `limit` keys of a table with their latest events, graves included, in key order after the one given.
    fn rows_after(
        &mut self,
        table: usize,
        after: Option<&[Value]>,
        limit: usize,
    ) -> PortResult<Vec<(Box<[Value]>, Stored)>>;
    /// Every group recomputed from its rows, ordered by its grain's values.
    fn each_group(&mut self, view: usize, sink: &mut dyn FnMut(&[Value], &GroupValue)) -> PortResult<()>;
    /// Hands the selected rows to `sink`, until it breaks off.
    fn select(
        &mut self,
        selection: &Selection,
        sink: &mut dyn FnMut(&[Value]) -> ControlFlow<()>,
    ) -> PortResult<()>;
}

/// Where the router counts what was asked. Advice: a failure never fails an answer.
pub trait UseBook: Send {
    /// Adds one question. Waits for nobody for long.
    fn count(&mut self, used: &Use) -> PortResult<()>;
}

/// What a loop beside the maintainer asks of the holder of the writer's lock.
pub trait Requests: Send {
    /// Puts the action on record and waits for its answer. No answer in time is a transient error.
    fn ask(&mut self, action: &Action, why: &str) -> PortResult<Answer>;
}

/// A row of a first load, and where it came from for messages.
#[derive(Clone, Debug)]
pub struct SeedRow {
    pub row: Box<[Value]>,
    /// The row's own sequence; without one it enters at the load's.
    pub seq: Option<Seq>,
    pub place: String,
}

/// Where the rows of a first load come from.
pub trait RowSource {
    /// Hands every row to `sink`; ends at the first error of either side.
    fn each(&mut self, sink: &mut dyn FnMut(SeedRow) -> PortResult<()>) -> PortResult<()>;
}
