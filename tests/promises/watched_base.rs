//! A base writer that counts what it is asked to do, and fails where a test wants it to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use driftless::ports::{BaseWriter, Change, PortError, PortResult};
use driftless::pure::apply::Stored;
use driftless::pure::base::{
    Answer, Letter, LetterState, NewLetter, PartitionState, ReconcileRun, Request, TableState, ViewState,
};
use driftless::pure::event::Image;
use driftless::pure::group_key::GroupKey;
use driftless::pure::seq::{Commit, Seq};
use driftless::pure::value::Value;
use driftless::pure::watermark::{ChangedRuns, Run};

/// What a test holds of a watched base that a loop has borrowed.
#[derive(Debug, Default)]
pub struct Watch {
    /// Calls until the failing one; 0 never fails.
    fail_in: AtomicU64,
    pub calls: AtomicU64,
    rows: AtomicU64,
    /// Rows that one transaction wrote at most.
    pub rows_max: AtomicU64,
}

impl Watch {
    /// The call after this many more fails.
    pub fn fail_after(&self, calls: u64) {
        self.fail_in.store(calls + 1, Ordering::Relaxed);
    }
}

pub struct WatchedBase<'a> {
    inner: &'a mut dyn BaseWriter,
    watch: Arc<Watch>,
}

impl<'a> WatchedBase<'a> {
    pub fn new(inner: &'a mut dyn BaseWriter) -> (Self, Arc<Watch>) {
        let watch = Arc::new(Watch::default());
        (WatchedBase { inner, watch: watch.clone() }, watch)
    }

    fn call(&mut self) -> PortResult<&mut dyn BaseWriter> {
        self.watch.calls.fetch_add(1, Ordering::Relaxed);
        let left = self.watch.fail_in.load(Ordering::Relaxed);
        self.watch.fail_in.store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 1 {
            return Err(PortError::transient("the disk fails here"));
        }
        Ok(self.inner)
    }
}

macro_rules! pass_on {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(fn $name(&mut self, $($argument: $kind),*) -> PortResult<$result> {
            self.call()?.$name($($argument),*)
        })*
    };
}

impl BaseWriter for WatchedBase<'_> {
    pass_on! {
        partitions() -> Vec<PartitionState>;
        table_state(table: usize) -> TableState;
        runs(table: usize) -> Vec<Run>;
        holds(table: usize) -> Vec<(i64, Option<Seq>)>;
        stored(table: usize, key: &[&Value]) -> Option<Stored>;
        mark(view: usize, key: &GroupKey) -> ();
        mark_all(table: usize) -> ();
        truncate(table: usize, below: Seq) -> ();
        is_empty(table: usize) -> bool;
        append_change(change: &Change<'_>) -> ();
        save_partition(partition: &PartitionState) -> i64;
        save_table(table: usize, state: &TableState) -> ();
        save_runs(table: usize, changed: &ChangedRuns) -> ();
        add_letter(letter: &NewLetter<'_>, at_ms: i64) -> i64;
        save_hold(letter: i64, cap: Option<Seq>) -> ();
        open_letters(only: Option<i64>, after: i64, limit: usize) -> Vec<Letter>;
        resolve_letter(letter: i64, state: LetterState, who: &str, why: &str, at_ms: i64) -> ();
        record_waived_run(table: usize, run: Run, who: &str, why: &str, at_ms: i64) -> ();
        view_state(view: usize) -> ViewState;
        save_view_state(view: usize, state: &ViewState) -> ();
        add_reconcile(view: usize, run: &ReconcileRun, who: &str) -> i64;
        count_repair(view: usize, key: &GroupKey, at_ms: i64) -> u64;
        open_requests() -> Vec<Request>;
        answer_request(request: i64, answer: &Answer, at_ms: i64) -> ();
        commit(at_ms: i64) -> Commit;
    }

    fn begin(&mut self) -> PortResult<()> {
        self.watch.rows.store(0, Ordering::Relaxed);
        self.call()?.begin()
    }

    fn store(&mut self, table: usize, seq: Seq, image: &Image, replaces: bool) -> PortResult<()> {
        let rows = self.watch.rows.fetch_add(1, Ordering::Relaxed) + 1;
        self.watch.rows_max.fetch_max(rows, Ordering::Relaxed);
        self.call()?.store(table, seq, image, replaces)
    }

    fn rollback(&mut self) {
        self.inner.rollback();
    }
}
