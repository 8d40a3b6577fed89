//! Carries out what commands asked of the holder of the writer's lock, each request in one commit, together
//! with its answer.

use crate::pipeline::ingest::{Ingest, TableChange};
use crate::pipeline::read::Message;
use crate::pipeline::schemas;
use crate::ports::{Change, PortResult};
use crate::pure::base::{Action, Answer, Letter, LetterState, Request, Word};
use crate::pure::event::{Class, Decoded, RowChange};
use crate::pure::formats::Record;
use crate::pure::group_key::GroupKey;
use crate::pure::seq::Seq;
use crate::pure::watermark::{Mode, Run};

/// Dead letters tried again in one commit.
const LETTERS_PER_COMMIT: usize = 1_000;
/// From how many repairs on a group's drift is reported as one that comes back.
const REPEATED_REPAIRS: u64 = 3;

/// Answers every open request but those to read again, which a new session of reading takes up. Returns how many.
/// Nobody publishes beside the caller.
pub fn carry_out(ingest: &mut Ingest<'_>) -> PortResult<usize> {
    carry_out_with(ingest, &mut |_, _| Some(Err("no maintainer runs that would publish them".to_owned())))
}

/// As [`carry_out`], beside a publisher: `settle` is given the number of a request and the action, hands it on
/// once, and returns the answer when there is one; until then the request stays open.
pub fn carry_out_with(
    ingest: &mut Ingest<'_>,
    settle: &mut dyn FnMut(i64, &Action) -> Option<Answer>,
) -> PortResult<usize> {
    let (later, requests): (Vec<_>, Vec<_>) = ingest
        .base
        .open_requests()?
        .into_iter()
        .partition(|request| matches!(request.action, Action::Reread { .. }));
    ingest.wants_reread = !later.is_empty() && ingest.reread.is_none();
    let mut answered = requests.len();
    for request in &requests {
        if let Action::SettleGroups { .. } = &request.action {
            match settle(request.id, &request.action) {
                Some(answer) => in_one_commit(ingest, request, |_, _| Ok(answer))?,
                None => answered -= 1,
            }
            continue;
        }
        tracing::info!(request = request.id, who = request.who, why = request.why, action = %request.action, "request");
        match &request.action {
            Action::RetryLetters { letter } => retry(ingest, request, *letter)?,
            Action::WaiveLetter { letter, seq } => in_one_commit(ingest, request, |ingest, at_ms| {
                waive_letter(ingest, request, *letter, *seq, at_ms)
            })?,
            Action::WaiveSeq { table, from, to } => in_one_commit(ingest, request, |ingest, at_ms| {
                waive_run(ingest, request, table, Run { from: *from, to: *to }, at_ms)
            })?,
            Action::RepairGroups { view, groups } => {
                in_one_commit(ingest, request, |ingest, at_ms| repair(ingest, view, groups, at_ms))?
            }
            Action::RecordReconcile { view, run } => in_one_commit(ingest, request, |ingest, _| {
                let Some(view) = ingest.catalog.view(view) else { return Ok(unknown_view(view)) };
                let mut state = ingest.base.view_state(view)?;
                state.note_reconcile(run, &request.who);
                ingest.base.save_view_state(view, &state)?;
                let id = ingest.base.add_reconcile(view, run, &request.who)?;
                Ok(Ok(serde_json::json!({"reconcile": id, "quarantined": state.quarantined.is_some()})))
            })?,
            Action::Reread { .. } => {}
            Action::EnableView { view, enabled } => in_one_commit(ingest, request, |ingest, at_ms| {
                enable(ingest, request, view, *enabled, at_ms)
            })?,
            Action::SettleGroups { .. } => {}
        }
    }
    Ok(answered)
}

fn in_one_commit(
    ingest: &mut Ingest<'_>,
    request: &Request,
    action: impl FnOnce(&mut Ingest<'_>, i64) -> PortResult<Answer>,
) -> PortResult<()> {
    let at_ms = ingest.clock.wall_ms();
    ingest.in_transaction(|ingest| {
        let answer = action(ingest, at_ms)?;
        ingest.base.answer_request(request.id, &answer, at_ms)?;
        ingest.save_partitions()?;
        ingest.save_tables()?;
        ingest.base.commit(at_ms).map(|_| ())
    })
}

fn unknown_view(object: &str) -> Answer {
    Err(format!("there is no view {object} in the maintainer's configuration"))
}

/// Marks the groups as changed by this commit: the publisher writes them again, and nobody else does.
fn repair(ingest: &mut Ingest<'_>, object: &str, groups: &[String], at_ms: i64) -> PortResult<Answer> {
    let Some(view) = ingest.catalog.view(object) else { return Ok(unknown_view(object)) };
    let mut repeated = Vec::new();
    for group in groups {
        let key = GroupKey::from_encoded(group.clone());
        ingest.base.mark(view, &key)?;
        ingest.base.append_change(&Change { view, key: &key, event: None })?;
        let times = ingest.base.count_repair(view, &key, at_ms)?;
        if times >= REPEATED_REPAIRS {
            repeated.push(serde_json::json!({"group": group, "times": times}));
        }
    }
    Ok(Ok(serde_json::json!({"marked": groups.len(), "repeated": repeated})))
}

fn enable(
    ingest: &mut Ingest<'_>,
    request: &Request,
    object: &str,
    enabled: bool,
    at_ms: i64,
) -> PortResult<Answer> {
    let Some(view) = ingest.catalog.view(object) else { return Ok(unknown_view(object)) };
    let mut state = ingest.base.view_state(view)?;
    state.disabled = (!enabled).then(|| Word { who: request.who.clone(), why: request.why.clone(), at_ms });
    ingest.base.save_view_state(view, &state)?;
    Ok(Ok(serde_json::json!({"view": object, "enabled": enabled})))
}

fn waive_letter(
    ingest: &mut Ingest<'_>,
    request: &Request,
    id: i64,
    seq: Option<u64>,
    at_ms: i64,
) -> PortResult<Answer> {
    let Some(letter) = ingest.base.open_letters(Some(id), 0, 1)?.pop() else {
        return Ok(Err(format!("there is no open dead letter {id}; see: driftless dlq list")));
    };
    let Some(slot) = slot_of(ingest, &letter) else {
        return Ok(Err(format!("the topic of dead letter {id} is not configured")));
    };
    let (table, partition) = (ingest.partitions[slot].table, letter.partition);
    if let Some(seq) = seq {
        let mode = ingest.catalog.tables[table].mode;
        if !matches!(mode, Mode::Dense { .. }) {
            let name = mode.name();
            return Ok(Err(format!("mode {name} has no holes: waive the letter without --seq")));
        }
        if ingest.frontiers[table].is_seen(seq) {
            return Ok(Err(format!(
                "sequence {seq} has been seen: it is not the one that this letter hides"
            )));
        }
    }
    ingest.base.resolve_letter(id, LetterState::Waived, &request.who, &request.why, at_ms)?;
    let frontier = &mut ingest.frontiers[table];
    frontier.release(id);
    // The event is given up, so its place in the sequence is no hole any more.
    if let Some(seq) = letter.seq.or(seq.map(Seq::at)) {
        frontier.observe(partition, seq);
        ingest.touch(slot);
    }
    ingest.frontiers[table].advance();
    Ok(Ok(serde_json::json!({
        "waived": id,
        "watermark": ingest.watermark(table).map(|watermark| watermark.to_string()),
        "first_hole": ingest.frontiers[table].holes(1).first().map(|run| run.from),
    })))
}

fn waive_run(
    ingest: &mut Ingest<'_>,
    request: &Request,
    table: &str,
    run: Run,
    at_ms: i64,
) -> PortResult<Answer> {
    let Some(index) = ingest.catalog.table(table) else {
        return Ok(Err(format!("there is no table {table} in the configuration")));
    };
    if !matches!(ingest.catalog.tables[index].mode, Mode::Dense { .. }) {
        let mode = ingest.catalog.tables[index].mode.name();
        return Ok(Err(format!("table {table} has mode {mode}: only dense sequences have holes to waive")));
    }
    ingest.base.record_waived_run(index, run, &request.who, &request.why, at_ms)?;
    let frontier = &mut ingest.frontiers[index];
    frontier.waive(run);
    frontier.advance();
    Ok(Ok(serde_json::json!({
        "waived": [run.from, run.to],
        "watermark": frontier.watermark().map(|watermark| watermark.to_string()),
        "first_hole": frontier.holes(1).first().map(|run| run.from),
    })))
}

/// Decodes and applies open letters again, a bounded number with each commit.
fn retry(ingest: &mut Ingest<'_>, request: &Request, only: Option<i64>) -> PortResult<()> {
    let (mut resolved, mut still_open, mut after) = (0u64, 0u64, 0i64);
    loop {
        let at_ms = ingest.clock.wall_ms();
        let last = ingest.in_transaction(|ingest| {
            let letters = ingest.base.open_letters(only, after, LETTERS_PER_COMMIT)?;
            for letter in &letters {
                after = letter.id;
                match retry_one(ingest, request, letter, at_ms)? {
                    true => resolved += 1,
                    false => still_open += 1,
                }
            }
            let last = letters.len() < LETTERS_PER_COMMIT;
            if last {
                let answer = match (only, resolved + still_open) {
                    (Some(id), 0) => {
                        Err(format!("there is no open dead letter {id}; see: driftless dlq list"))
                    }
                    _ => Ok(serde_json::json!({"retried": resolved, "still_open": still_open})),
                };
                ingest.base.answer_request(request.id, &answer, at_ms)?;
            }
            ingest.save_partitions()?;
            ingest.save_tables()?;
            ingest.base.commit(at_ms)?;
            Ok(last)
        })?;
        if last {
            return Ok(());
        }
    }
}

/// Whether the letter is resolved now.
fn retry_one(ingest: &mut Ingest<'_>, request: &Request, letter: &Letter, at_ms: i64) -> PortResult<bool> {
    let catalog = ingest.catalog.clone();
    let (Some(slot), Some(topic)) = (slot_of(ingest, letter), catalog.topic(&letter.at.topic)) else {
        return Ok(false);
    };
    let (key, value) = (letter.key.as_deref(), letter.value.as_deref());
    let record = Record { offset: letter.offset, key, value, headers: &letter.headers };
    if let Err(error) = schemas::learn(&topic.decoder, &record, &ingest.registry, true) {
        tracing::warn!(%error, letter = letter.id, "the letter stays open");
        return Ok(false);
    }
    let Ok(decoded) = topic.decoder.decode(&record) else {
        return Ok(false);
    };
    let message = Message {
        key: letter.key.clone().map(Into::into),
        value: letter.value.clone().map(Into::into),
        headers: letter.headers.clone(),
    };
    let (class, seqs) = match decoded {
        Decoded::Change { seq, image } => {
            let changes = [RowChange::new(seq, image)];
            (apply_again(ingest, slot, letter, &changes, &message)?, vec![seq])
        }
        Decoded::Changes(changes) => {
            let seqs = changes.iter().map(|change| change.seq).collect();
            (apply_again(ingest, slot, letter, &changes, &message)?, seqs)
        }
        Decoded::Truncate(seq) => (ingest.apply_truncation(topic.table, seq)?, vec![seq]),
        Decoded::Heartbeat(_) | Decoded::Control => (Some(Class::Control), Vec::new()),
    };
    let Some(class) = class else { return Ok(false) };
    for seq in seqs {
        ingest.frontiers[topic.table].observe(letter.partition, seq);
    }
    ingest.frontiers[topic.table].release(letter.id);
    let counts = &mut ingest.partitions[slot].counts;
    // The offset moves from one class to another: it is still counted once (P10).
    counts.dead_letter -= 1;
    counts.count(class);
    ingest.touch(slot);
    ingest.base.resolve_letter(letter.id, LetterState::Retried, &request.who, &request.why, at_ms)?;
    Ok(true)
}

/// Applies what a letter's message tells; `None` where the base still contradicts it.
fn apply_again(
    ingest: &mut Ingest<'_>,
    slot: usize,
    letter: &Letter,
    changes: &[RowChange],
    message: &Message,
) -> PortResult<Option<Class>> {
    let table = ingest.partitions[slot].table;
    let several = changes.len() > 1;
    let mut changes: Vec<TableChange<'_>> = changes
        .iter()
        .map(|RowChange { seq, image, kept }| {
            let (partition, offset) = (letter.partition, letter.offset);
            TableChange { slot, partition, offset, seq: *seq, image, kept, several, message, again: false }
        })
        .collect();
    ingest.apply_late(table, &mut changes)
}

fn slot_of(ingest: &Ingest<'_>, letter: &Letter) -> Option<usize> {
    ingest.partitions.iter().position(|state| state.id == letter.partition)
}
