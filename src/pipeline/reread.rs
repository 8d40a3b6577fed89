//! Reading part of the log once more into a base that has it already. P2 makes that harmless: what is there is a
//! duplicate or stale, and what had been lost is applied. Offsets are not counted a second time (P10), and the
//! position does not move.

use std::collections::BTreeMap;

use crate::pipeline::ingest::Ingest;
use crate::pipeline::read::{Item, What};
use crate::ports::{BaseWriter, Log, PortResult};
use crate::pure::base::{Action, Answer, PartitionState, Request};
use crate::pure::event::Class;

/// What became of events that were read once more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct AgainCounts {
    /// Not in the base, and now they are.
    pub applied: u64,
    pub duplicate: u64,
    pub stale: u64,
    /// The base holds another content under their key and sequence, and keeps it.
    pub conflict: u64,
    pub control: u64,
    /// They could not be applied; what stands open of them are the dead letters of the first reading.
    pub rejected: u64,
}

impl AgainCounts {
    pub(super) fn count(&mut self, class: Class) {
        *match class {
            Class::Applied => &mut self.applied,
            Class::Duplicate => &mut self.duplicate,
            Class::Stale => &mut self.stale,
            Class::Expired | Class::Control => &mut self.control,
            Class::DeadLetter => &mut self.rejected,
        } += 1;
    }

    fn total(&self) -> u64 {
        self.applied + self.duplicate + self.stale + self.conflict + self.control + self.rejected
    }
}

/// One such reading under way.
#[derive(Clone, Debug)]
pub struct Reread {
    request: Request,
    /// By slot: from where, up to where, and how far it has come; `None` where nothing is read again.
    spans: Vec<Option<Span>>,
    pub counts: AgainCounts,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    from: i64,
    until: i64,
    reached: i64,
}

impl Reread {
    /// Takes up the oldest request to read again. One that cannot be carried out is answered so.
    pub fn take_up(
        base: &mut dyn BaseWriter,
        log: &mut dyn Log,
        planned: &[PartitionState],
        at_ms: i64,
    ) -> PortResult<Option<Reread>> {
        for request in base.open_requests()? {
            let Action::Reread { from } = &request.action else { continue };
            match spans(log, planned, from)? {
                Ok(spans) => {
                    tracing::info!(
                        request = request.id,
                        who = request.who,
                        why = request.why,
                        ?from,
                        "reading again"
                    );
                    return Ok(Some(Reread { request, spans, counts: AgainCounts::default() }));
                }
                Err(refusal) => answer(base, &request, &Err(refusal), at_ms)?,
            }
        }
        Ok(None)
    }

    /// Where reading a partition has to start for it.
    pub fn start(&self, slot: usize) -> Option<i64> {
        self.spans.get(slot).copied().flatten().map(|span| span.from)
    }

    /// Offsets that are still to be read again.
    pub fn left(&self) -> u64 {
        self.spans.iter().flatten().map(|span| (span.until - span.reached).max(0) as u64).sum()
    }

    fn is_done(&self) -> bool {
        self.left() == 0
    }

    /// Notes that a partition has been read up to `offset`. False for what is not read again.
    fn pass(&mut self, slot: usize, offset: i64, next: i64) -> bool {
        let Some(Some(span)) = self.spans.get_mut(slot) else { return false };
        let within = offset >= span.reached && offset < span.until;
        span.reached = span.reached.max(next);
        within
    }
}

impl Ingest<'_> {
    /// Whether an item whose offset has been consumed before is to be applied once more.
    pub(super) fn meet_again(&mut self, item: &Item) -> bool {
        let Some(reread) = self.reread.as_mut() else { return false };
        if matches!(item.what, What::End) {
            reread.pass(item.slot, item.offset, item.offset);
            return false;
        }
        if !reread.pass(item.slot, item.offset, item.offset + 1) {
            return false;
        }
        match &item.what {
            What::Change { .. } | What::Changes { .. } | What::Truncate { .. } => return true,
            What::Rejected { .. } => reread.counts.rejected += 1,
            What::Heartbeat(_) | What::Control | What::End => reread.counts.control += 1,
        }
        false
    }

    /// An item at the base's position shows that everything below it has been read.
    pub(super) fn pass_again(&mut self, item: &Item) {
        if let Some(reread) = &mut self.reread {
            reread.pass(item.slot, item.offset, item.offset);
        }
    }

    pub(in crate::pipeline) fn count_again(&mut self, count: impl FnOnce(&mut AgainCounts)) {
        if let Some(reread) = &mut self.reread {
            count(&mut reread.counts);
        }
    }

    /// Answers the request once everything has been read again.
    pub(super) fn finish_reread(&mut self) -> PortResult<()> {
        let Some(reread) = self.reread.take_if(|reread| reread.is_done()) else { return Ok(()) };
        let counts = reread.counts;
        tracing::info!(request = reread.request.id, ?counts, "read again");
        let done = Ok(serde_json::json!({"read": counts.total(), "classes": counts}));
        answer(self.base, &reread.request, &done, self.clock.wall_ms())
    }
}

fn answer(base: &mut dyn BaseWriter, request: &Request, answer: &Answer, at_ms: i64) -> PortResult<()> {
    base.begin()?;
    let written = base.answer_request(request.id, answer, at_ms).and_then(|()| base.commit(at_ms));
    if written.is_err() {
        base.rollback();
    }
    written.map(|_| ())
}

/// From where to where each partition is read again, or why that cannot be.
fn spans(
    log: &mut dyn Log,
    planned: &[PartitionState],
    from: &BTreeMap<String, i64>,
) -> PortResult<Result<Vec<Option<Span>>, String>> {
    let mut spans = vec![None; planned.len()];
    for (at, &offset) in from {
        let Some(slot) = planned.iter().position(|state| state.at.to_string() == *at) else {
            return Ok(Err(format!("the base does not know partition {at}")));
        };
        let state = &planned[slot];
        let bounds = log.bounds(&state.at)?;
        if offset < bounds.low {
            return Ok(Err(format!(
                "partition {at}: offset {offset} is no longer in the log, which begins at {}",
                bounds.low
            )));
        }
        if offset > state.next_offset {
            return Ok(Err(format!(
                "partition {at}: offset {offset} is past the base's position {}: events between them would be skipped",
                state.next_offset
            )));
        }
        spans[slot] = Some(Span { from: offset, until: state.next_offset, reached: offset });
    }
    Ok(Ok(spans))
}
