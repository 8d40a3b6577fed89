//! What a base keeps besides its facts, as data: positions, counters, dead letters, requests, the head of a
//! snapshot. Knows no SQL.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::pure::event::Class;
use crate::pure::formats::Header;
use crate::pure::seq::{Commit, Seq, TopicPartition};

/// How many offsets of a partition ended in each class (P10). Their sum is what has been consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub applied: u64,
    pub duplicate: u64,
    pub stale: u64,
    pub expired: u64,
    pub control: u64,
    pub dead_letter: u64,
    /// Of the applied ones: changes that arrived at or below the watermark of that time.
    pub below_watermark: u64,
}

impl Counts {
    pub fn count(&mut self, class: Class) {
        *match class {
            Class::Applied => &mut self.applied,
            Class::Duplicate => &mut self.duplicate,
            Class::Stale => &mut self.stale,
            Class::Expired => &mut self.expired,
            Class::Control => &mut self.control,
            Class::DeadLetter => &mut self.dead_letter,
        } += 1;
    }

    pub fn consumed(&self) -> u64 {
        self.applied + self.duplicate + self.stale + self.expired + self.control + self.dead_letter
    }

    pub fn add(&mut self, other: &Counts) {
        self.applied += other.applied;
        self.duplicate += other.duplicate;
        self.stale += other.stale;
        self.expired += other.expired;
        self.control += other.control;
        self.dead_letter += other.dead_letter;
        self.below_watermark += other.below_watermark;
    }
}

/// The last record applied of a partition, to be met again at the next start (P11): another record at its
/// offset means that the topic is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    pub offset: i64,
    /// CRC-32 of key and value.
    pub checksum: u32,
}

/// How far one partition has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionState {
    /// The base's own number for the partition.
    pub id: i64,
    pub at: TopicPartition,
    /// Index of the table that it feeds.
    pub table: usize,
    /// Where this base's knowledge of the log begins.
    pub first_offset: i64,
    pub next_offset: i64,
    /// See [`Frontier`](crate::pure::watermark::Frontier).
    pub frontier: Option<Seq>,
    pub anchor: Option<Anchor>,
    pub counts: Counts,
}

/// What is known of a table as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableState {
    /// The sequence that the first load stands for.
    pub floor: Option<Seq>,
    /// The sequence of the last truncation: what came before it is gone.
    pub truncated: Option<Seq>,
    pub watermark: Option<Seq>,
    /// The greatest sequence applied.
    pub greatest: Option<Seq>,
}

impl TableState {
    /// Changes up to this one are stale, whatever the base holds: the first load stands for them, or a truncation
    /// has removed what they made.
    pub fn settled(&self) -> Option<Seq> {
        self.floor.max(self.truncated)
    }
}

/// A message that could not be applied, with all that is needed to try again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLetter<'a> {
    pub partition: i64,
    pub offset: i64,
    pub seq: Option<Seq>,
    pub reason: &'static str,
    pub detail: &'a str,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: &'a [Header],
}

/// What became of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LetterState {
    Open,
    /// An operator said that the event does not matter.
    Waived,
    /// Tried again, and applied or found to be a duplicate, stale or control.
    Retried,
}

impl LetterState {
    pub fn name(self) -> &'static str {
        match self {
            LetterState::Open => "open",
            LetterState::Waived => "waived",
            LetterState::Retried => "retried",
        }
    }
}

/// A dead letter as the base keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    pub id: i64,
    pub partition: i64,
    pub at: TopicPartition,
    pub offset: i64,
    pub seq: Option<Seq>,
    pub reason: String,
    pub detail: String,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    /// Kept where the topic's format reads them.
    pub headers: Vec<Header>,
    pub state: LetterState,
    pub created_ms: i64,
    /// Who resolved it and why; empty while it is open.
    pub who: String,
    pub why: String,
}

/// What a command asks of the holder of the writer's lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Give up a dead letter; `seq` names its event's sequence where the message itself could not.
    WaiveLetter { letter: i64, seq: Option<u64> },
    /// Say that sequence positions will never come (mode `dense`).
    WaiveSeq { table: String, from: u64, to: u64 },
    /// Decode and apply open letters again; `None` means all.
    RetryLetters { letter: Option<i64> },
    /// Mark groups, so that the publisher writes them again; named by their encoded keys.
    RepairGroups { view: String, groups: Vec<String> },
    /// Compare groups with what the store shows of them, in the publisher's own snapshot: nothing moves there.
    SettleGroups { view: String, groups: Vec<String> },
    /// Keep the result of a reconcile pass; drift puts the view under quarantine, a clean pass ends that.
    RecordReconcile { view: String, run: ReconcileRun },
    /// Take a view out of use, or back into it.
    EnableView { view: String, enabled: bool },
    /// Read part of the log once more into the base that has it already: from these offsets, by `topic:partition`, up
    /// to where the base stands.
    Reread { from: BTreeMap<String, i64> },
}

/// In one line, for the log: what is long is counted.
impl std::fmt::Display for Action {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Action::WaiveLetter { letter, .. } => write!(out, "waive dead letter {letter}"),
            Action::WaiveSeq { table, from, to } => write!(out, "waive sequences {from} to {to} of {table}"),
            Action::RetryLetters { letter: Some(letter) } => write!(out, "retry dead letter {letter}"),
            Action::RetryLetters { letter: None } => write!(out, "retry open dead letters"),
            Action::RepairGroups { view, groups } => write!(out, "repair {} groups of {view}", groups.len()),
            Action::SettleGroups { view, groups } => write!(out, "settle {} groups of {view}", groups.len()),
            Action::RecordReconcile { view, run } => {
                write!(out, "keep a reconcile pass over {view}: {}", run.verdict.name())
            }
            Action::EnableView { view, enabled: true } => write!(out, "enable view {view}"),
            Action::EnableView { view, enabled: false } => write!(out, "disable view {view}"),
            Action::Reread { from } => write!(out, "read {} partitions again", from.len()),
        }
    }
}

/// What a reconcile pass found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReconcileVerdict {
    InSync,
    /// Differences were found, and the same pass saw them mended.
    Repaired,
    Drift,
    /// Something kept the pass from a judgement.
    Undecided,
}

impl ReconcileVerdict {
    pub fn name(self) -> &'static str {
        match self {
            ReconcileVerdict::InSync => "in_sync",
            ReconcileVerdict::Repaired => "repaired",
            ReconcileVerdict::Drift => "drift",
            ReconcileVerdict::Undecided => "undecided",
        }
    }

    /// The inverse of [`name`](Self::name); an unknown one decides nothing.
    pub fn from_name(name: &str) -> Self {
        let known = [ReconcileVerdict::InSync, ReconcileVerdict::Repaired, ReconcileVerdict::Drift];
        known.into_iter().find(|verdict| verdict.name() == name).unwrap_or(ReconcileVerdict::Undecided)
    }
}

/// One reconcile pass as the base keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReconcileRun {
    pub started_ms: i64,
    pub ended_ms: i64,
    /// The version and watermark that were compared at; 0 and empty where none could be.
    pub version: u64,
    pub watermark: String,
    pub verdict: ReconcileVerdict,
    /// Whether every group was looked at; a part of the view proves nothing about the rest, and so neither ends
    /// a quarantine nor counts as the view's last reconciliation.
    pub whole: bool,
    /// The report as it was printed.
    pub report: serde_json::Value,
}

/// Somebody's word about a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    pub who: String,
    pub why: String,
    pub at_ms: i64,
}

/// The last pass that decided about a whole view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconciled {
    pub at_ms: i64,
    pub version: u64,
    pub verdict: ReconcileVerdict,
}

/// What operators and reconciler have said of a view; it reaches the meta with the next publish.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ViewState {
    pub disabled: Option<Word>,
    /// Since when drift stands unrepaired.
    pub quarantined: Option<Word>,
    pub reconciled: Option<Reconciled>,
}

impl ViewState {
    /// What a pass means for the view.
    pub fn note_reconcile(&mut self, run: &ReconcileRun, who: &str) {
        use ReconcileVerdict::{Drift, InSync, Repaired, Undecided};
        match run.verdict {
            Drift if self.quarantined.is_none() => {
                let why = "a reconcile pass found drift".to_owned();
                self.quarantined = Some(Word { who: who.to_owned(), why, at_ms: run.ended_ms });
            }
            InSync | Repaired if run.whole => self.quarantined = None,
            InSync | Repaired | Drift | Undecided => {}
        }
        if run.whole && run.verdict != Undecided || run.verdict == Drift {
            self.reconciled =
                Some(Reconciled { at_ms: run.ended_ms, version: run.version, verdict: run.verdict });
        }
    }
}

/// An [`Action`] on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub id: i64,
    pub action: Action,
    pub who: String,
    pub why: String,
}

/// The answer to a request: what was done, or why not.
pub type Answer = Result<serde_json::Value, String>;

/// One partition as a snapshot shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub at: TopicPartition,
    pub table: usize,
    pub first_offset: i64,
    pub next_offset: i64,
    /// Held back at the first offset whose event is an open dead letter.
    pub settled: i64,
    pub counts: Counts,
}

/// What a snapshot is a snapshot of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub commit: Commit,
    /// The lineage that wrote the commit.
    pub nonce: String,
    pub generation: String,
    pub positions: Vec<Position>,
    /// By table index.
    pub tables: Vec<TableState>,
    /// Open dead letters by table index.
    pub open_letters: Vec<u64>,
    /// By view index.
    pub views: Vec<ViewState>,
}
