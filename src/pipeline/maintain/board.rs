//! What the threads of a maintainer tell each other and the terminal: numbers and wake-ups. Holds no
//! decision: whoever reads it decides.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::pipeline::ingest::Probe;
use crate::pure::base::{Action, Answer};
use crate::pure::group_key::GroupKey;
use crate::pure::seq::{Commit, Seq, TopicPartition};

/// One view as the publisher last saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewNumbers {
    pub object: String,
    pub version: u64,
    pub groups_published: u64,
    pub publishes: u64,
    /// Why it does not publish now; empty while it does.
    pub waits: String,
}

/// Numbers for the terminal and for tests.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    pub consumed: u64,
    pub applied: u64,
    pub commit: Commit,
    /// By table.
    pub watermarks: Vec<Option<Seq>>,
    pub greatest: Vec<Option<Seq>>,
    pub positions: Vec<(TopicPartition, i64)>,
    /// Records behind the ends that the prober saw last.
    pub lag: Option<u64>,
    pub views: Vec<ViewNumbers>,
    /// Offsets that a reading once more has still to pass.
    pub left_to_reread: u64,
    /// Why reading or committing is held up now; empty while it is not.
    pub held_up: String,
}

#[derive(Debug, Default)]
struct State {
    numbers: Numbers,
    probe_for_writer: Option<Probe>,
    probe_for_publisher: Option<Probe>,
    /// Raised by every commit and probe; the publisher sleeps until it changes.
    ticks: u64,
    /// No commit will follow.
    finished: bool,
    errand: Option<Errand>,
    errand_answer: Option<(i64, Answer)>,
}

/// Groups that a request wants compared by their view's publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Errand {
    pub request: i64,
    pub view: String,
    pub groups: Vec<GroupKey>,
    /// The publisher has it in hand.
    pub taken: bool,
}

/// The shared board.
#[derive(Debug, Default)]
pub struct Board {
    state: Mutex<State>,
    changed: Condvar,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Numbers stay readable when a thread has ended badly.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn numbers(&self) -> Numbers {
        self.lock().numbers.clone()
    }

    /// Records behind the ends that the prober saw last.
    pub(super) fn lag(&self) -> Option<u64> {
        self.lock().numbers.lag
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Numbers)) {
        change(&mut self.lock().numbers);
    }

    /// Something is new for the publisher.
    pub(super) fn wake(&self) {
        self.lock().ticks += 1;
        self.changed.notify_all();
    }

    /// No commit will follow the present one.
    pub(super) fn finish(&self) {
        self.lock().finished = true;
        self.wake();
    }

    pub(super) fn is_finished(&self) -> bool {
        self.lock().finished
    }

    /// Waits until something is new since `seen`, at most `longest`. Returns the new mark.
    pub(super) fn wait(&self, seen: u64, longest: Duration) -> u64 {
        let state = self.lock();
        let (state, _) = self
            .changed
            .wait_timeout_while(state, longest, |state| state.ticks == seen)
            .unwrap_or_else(PoisonError::into_inner);
        state.ticks
    }

    /// Hands a request on to the publisher, one at a time, and returns its answer once there is one.
    pub(super) fn settle(&self, request: i64, action: &Action) -> Option<Answer> {
        let Action::SettleGroups { view, groups } = action else { return None };
        let mut state = self.lock();
        if state.errand.is_none() {
            let groups = groups.iter().map(|group| GroupKey::from_encoded(group.as_str())).collect();
            state.errand = Some(Errand { request, view: view.clone(), groups, taken: false });
            drop(state);
            self.wake();
            return None;
        }
        // An answer to another request is one that nobody waits for any more.
        let (_, answer) = state.errand_answer.take_if(|(answered, _)| *answered == request)?;
        state.errand = None;
        Some(answer)
    }

    pub(super) fn take_errand(&self) -> Option<Errand> {
        let mut state = self.lock();
        let errand = state.errand.as_mut().filter(|errand| !errand.taken)?;
        errand.taken = true;
        Some(errand.clone())
    }

    pub(super) fn answer_errand(&self, request: i64, answer: Answer) {
        self.lock().errand_answer = Some((request, answer));
    }

    pub(super) fn put_probe(&self, probe: Probe) {
        let mut state = self.lock();
        state.probe_for_writer = Some(probe.clone());
        state.probe_for_publisher = Some(probe);
        drop(state);
        self.wake();
    }

    pub(super) fn take_probe_for_writer(&self) -> Option<Probe> {
        self.lock().probe_for_writer.take()
    }

    pub(super) fn take_probe_for_publisher(&self) -> Option<Probe> {
        self.lock().probe_for_publisher.take()
    }
}
