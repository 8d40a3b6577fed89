//! From commits to what readers see: the loop of the publish chain for one view (P4 to P8).
//!
//! ```text
//! look at the cursor ──▶ ours, no part open ──▶ delta: the groups marked since the version shown
//!                    ├─▶ absent, or another state ──▶ sweep: whatever differs
//!                    └─▶ somebody else's, alive ──▶ stand by
//! list ──▶ recompute in one snapshot ──▶ one script, or begin, parts, finish
//! ```

mod look;

use std::sync::Arc;

use look::{Foreign, Plan};

use crate::pipeline::ingest::Probe;
use crate::pipeline::settle::Settling;
use crate::pipeline::sweep;
use crate::ports::{BaseReader, Clock, PortResult, Snapshot, ViewStore};
use crate::pure::base::Head;
use crate::pure::catalog::Catalog;
use crate::pure::group_key::GroupKey;
use crate::pure::meta::{self, Ages};
use crate::pure::publish::{ChangeEntry, Cursor, GroupWrite, Publish, PublishReply};
use crate::pure::seq::{Commit, Seq};

/// Keys that a change entry names at most.
const CHANGE_KEYS_MAX: usize = 100;

#[derive(Clone, Copy, Debug)]
pub struct PublishSettings {
    /// Groups that one script writes at most; more go in parts.
    pub groups_per_script_max: usize,
    /// An idle publisher says that it is alive at least this often.
    pub beat_ms: u64,
    /// How long another publisher's beat must stand still before it counts as gone.
    pub takeover_ms: u64,
}

/// What an operator's activation allows a publisher to replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Succession {
    /// Number of the activation that made ours the live one; the first generation needs none and has 1.
    pub activation: u64,
    /// Generations whose publication ours succeeds, where that is of an earlier activation.
    pub replaces: Vec<String>,
    /// Even where ours is behind what is shown.
    pub may_be_behind: bool,
    /// Ours ends at a point of the log on purpose: having read up to the log's ends says nothing of its freshness.
    pub stands_still: bool,
}

impl Default for Succession {
    fn default() -> Self {
        Succession { activation: 1, replaces: Vec::new(), may_be_behind: false, stands_still: false }
    }
}

/// What one step did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The base has nothing that is not shown.
    Idle,
    /// Nothing new, but the meta says again that we are alive and how fresh the view is.
    Beat,
    Published {
        version: Commit,
        groups: u64,
        parts: u32,
    },
    /// Another publisher's cursor is shown and its beat moves, or it is ahead of us.
    Standby,
    /// The store refused: the next step looks at the cursor again.
    Refused(PublishReply),
}

/// Publishes one view.
pub struct Publisher {
    catalog: Arc<Catalog>,
    view: usize,
    columns: Vec<String>,
    clock: Arc<dyn Clock>,
    settings: PublishSettings,
    /// Names publishes in parts; no two alike.
    token_prefix: String,
    tokens: u64,
    /// The cursor after our last accepted publish; `None` where it must be looked at.
    shown: Option<Cursor>,
    shown_watermark: Option<Seq>,
    sweep_next: bool,
    succession: Succession,
    /// What another publisher shows, its beat included, and since when we have seen it so. All of it, since a
    /// store that lost its data counts beats from the start again.
    foreign: Option<Foreign>,
    beat_at_ms: Option<u64>,
    probes: Vec<Probe>,
    refreshed_ms: Option<i64>,
    confirmed_ms: Option<i64>,
    pub(super) settling: Settling,
}

impl Publisher {
    pub fn new(
        catalog: Arc<Catalog>,
        view: usize,
        clock: Arc<dyn Clock>,
        settings: PublishSettings,
        random: u64,
    ) -> Self {
        Publisher {
            columns: catalog.views[view].view.columns(),
            catalog,
            view,
            clock,
            settings,
            token_prefix: format!("{random:016x}"),
            tokens: 0,
            shown: None,
            shown_watermark: None,
            sweep_next: false,
            succession: Succession::default(),
            foreign: None,
            beat_at_ms: None,
            probes: Vec::new(),
            refreshed_ms: None,
            confirmed_ms: None,
            settling: Settling::default(),
        }
    }

    /// Of the live generation: what it may replace.
    pub fn with_succession(self, succession: Succession) -> Self {
        Publisher { succession, ..self }
    }

    pub fn object(&self) -> &str {
        &self.catalog.views[self.view].view.object
    }

    /// The version shown after our last accepted publish.
    pub fn version(&self) -> Option<Commit> {
        self.shown.as_ref().map(|cursor| Commit(cursor.version))
    }

    /// Notes the ends of the log at a time; the view is confirmed for that time once it shows all of it.
    pub fn note_probe(&mut self, probe: Probe) {
        // The oldest is the next to be met, the newest the best: those between would only add work.
        self.probes.truncate(1);
        self.probes.push(probe);
    }

    /// One round of the loop. After an error the cursor is looked at again, and nothing is sent twice.
    pub fn step(&mut self, base: &mut dyn BaseReader, store: &mut dyn ViewStore) -> PortResult<Step> {
        let result = self.try_step(base, store);
        match &result {
            Ok(Step::Idle | Step::Beat | Step::Published { .. }) => {}
            Ok(Step::Standby | Step::Refused(_)) => self.shown = None,
            Err(_) => {
                self.shown = None;
                // Nobody could beat meanwhile, so standing still says nothing.
                self.foreign = None;
            }
        }
        if let Ok(Step::Refused(reply)) = &result {
            self.sweep_next |= matches!(reply, PublishReply::CountDiffers { .. });
            tracing::info!(view = self.object(), ?reply, "publish refused; looking at the cursor again");
        }
        result
    }

    fn try_step(&mut self, base: &mut dyn BaseReader, store: &mut dyn ViewStore) -> PortResult<Step> {
        // 1. What the store shows.
        let plan = match self.shown.clone() {
            Some(cursor) => Plan::Delta(cursor),
            None => self.look(base, store)?,
        };
        // 2. Which groups may differ from it.
        match plan {
            Plan::Standby => Ok(Step::Standby),
            Plan::Nothing => Ok(Step::Idle),
            Plan::Delta(cursor) => {
                let shown = Commit(cursor.version);
                let mut snapshot = base.snapshot()?;
                let head = snapshot.head()?;
                if head.commit == shown && head.nonce == cursor.nonce {
                    self.shown_watermark = head.tables[self.catalog.views[self.view].table].watermark;
                    self.shown = Some(cursor.clone());
                    self.settle(&mut *snapshot, store, &head)?;
                    return self.beat_if_due(store, cursor, &head);
                }
                drop(snapshot);
                self.publish(base, store, cursor, Vec::new(), shown, true)
            }
            Plan::Sweep(cursor) => {
                tracing::info!(view = self.object(), ?cursor, "sweep: comparing all groups with the base");
                let Some(found) = sweep::run(self, base, store, &cursor)? else {
                    return Ok(Step::Refused(PublishReply::CursorDiffers(cursor)));
                };
                let step = self.publish(base, store, cursor, found.candidates, found.since, false)?;
                if matches!(step, Step::Published { .. }) {
                    self.sweep_next = false;
                }
                Ok(step)
            }
        }
    }

    fn beat_if_due(&mut self, store: &mut dyn ViewStore, cursor: Cursor, head: &Head) -> PortResult<Step> {
        if !self.is_beat_due() {
            return Ok(Step::Idle);
        }
        let publish = Publish {
            expected: cursor,
            check_count: true,
            groups: Vec::new(),
            meta: self.finished_meta(head, false),
            change: None,
        };
        match self.send(store, &publish)? {
            PublishReply::Accepted { .. } => Ok(Step::Beat),
            refused => Ok(Step::Refused(refused)),
        }
    }

    fn is_beat_due(&self) -> bool {
        let now = self.clock.monotonic_ms();
        self.beat_at_ms.is_none_or(|at| now.saturating_sub(at) >= self.settings.beat_ms)
    }

    /// The next step says how fresh the view is, however short ago the last one did.
    pub fn beat_now(&mut self) {
        self.beat_at_ms = None;
    }

    /// Raises the beat of a cursor of ours while a long sweep goes on.
    pub(super) fn beat_during_sweep(&mut self, store: &mut dyn ViewStore, cursor: &Cursor) -> PortResult<()> {
        if cursor.is_absent() || !self.is_beat_due() {
            return Ok(());
        }
        let publish = Publish {
            expected: cursor.clone(),
            check_count: false,
            groups: Vec::new(),
            meta: Vec::new(),
            change: None,
        };
        self.send(store, &publish).map(|_| ())
    }

    /// Publishes `candidates` and all groups marked after `since`: in one script, or in parts.
    fn publish(
        &mut self,
        base: &mut dyn BaseReader,
        store: &mut dyn ViewStore,
        mut cursor: Cursor,
        candidates: Vec<GroupKey>,
        mut since: Commit,
        check_count: bool,
    ) -> PortResult<Step> {
        let mut keys = candidates;
        let (mut published, mut begun) = (0, false);
        loop {
            // 1. List what changed since the last list.
            let mut snapshot = base.snapshot()?;
            let head = snapshot.head()?;
            keys.extend(snapshot.dirty_since(self.view, since)?);
            keys.sort_unstable();
            keys.dedup();
            // 2. Few enough: recompute in this very snapshot and finish.
            if keys.len() <= self.settings.groups_per_script_max {
                let groups = self.recompute(&mut *snapshot, &keys)?;
                published += groups.len() as u64;
                let mut kept = self.is_settling().then_some(snapshot);
                let step = self.finish(store, cursor, &head, groups, published, check_count || begun)?;
                if let (Some(snapshot), Step::Published { .. }) = (&mut kept, &step) {
                    self.settle(&mut **snapshot, store, &head)?;
                }
                return Ok(step);
            }
            drop(snapshot);
            // 3. Too many for one script: parts, each of a snapshot of its own. What an earlier attempt left
            //    unfinished is not continued: a begin makes the meta count what the index holds.
            if !begun {
                match self.begin(store, &cursor, &head, check_count)? {
                    Ok(next) => cursor = next,
                    Err(refused) => return Ok(Step::Refused(refused)),
                }
                begun = true;
            }
            for part in keys.chunks(self.settings.groups_per_script_max) {
                let groups = self.recompute(&mut *base.snapshot()?, part)?;
                published += groups.len() as u64;
                match self.send_part(store, &cursor, groups)? {
                    Ok(next) => cursor = next,
                    Err(refused) => return Ok(Step::Refused(refused)),
                }
            }
            // 4. What changed meanwhile is the next list.
            since = head.commit;
            keys.clear();
        }
    }

    /// The keys are sorted.
    fn recompute(&self, snapshot: &mut dyn Snapshot, keys: &[GroupKey]) -> PortResult<Vec<GroupWrite>> {
        let sorted: Vec<&str> = keys.iter().map(GroupKey::as_str).collect();
        let values = snapshot.recompute_sorted(self.view, &sorted)?;
        Ok(keys.iter().zip(values).map(|(key, value)| GroupWrite { key: key.clone(), value }).collect())
    }

    fn begin(
        &mut self,
        store: &mut dyn ViewStore,
        cursor: &Cursor,
        head: &Head,
        check_count: bool,
    ) -> PortResult<Result<Cursor, PublishReply>> {
        self.tokens += 1;
        let begun =
            Cursor { token: format!("{}-{}", self.token_prefix, self.tokens), part: 0, ..cursor.clone() };
        let mut meta = meta::identity(&self.catalog, self.view, &head.generation);
        meta.push((meta::ACTIVATION, self.succession.activation.to_string()));
        meta.extend(begun.fields());
        let publish =
            Publish { expected: cursor.clone(), check_count, groups: Vec::new(), meta, change: None };
        Ok(accepted(self.send(store, &publish)?, begun))
    }

    fn send_part(
        &mut self,
        store: &mut dyn ViewStore,
        cursor: &Cursor,
        groups: Vec<GroupWrite>,
    ) -> PortResult<Result<Cursor, PublishReply>> {
        let next = Cursor { part: cursor.part + 1, ..cursor.clone() };
        let publish = Publish {
            expected: cursor.clone(),
            check_count: true,
            groups,
            meta: vec![("part", next.part.to_string())],
            change: None,
        };
        Ok(accepted(self.send(store, &publish)?, next))
    }

    fn finish(
        &mut self,
        store: &mut dyn ViewStore,
        cursor: Cursor,
        head: &Head,
        groups: Vec<GroupWrite>,
        published: u64,
        check_count: bool,
    ) -> PortResult<Step> {
        let table = self.catalog.views[self.view].table;
        let watermark = head.tables[table].watermark;
        if self.version().is_some() {
            assert!(watermark >= self.shown_watermark, "P5: the published watermark does not fall");
        }
        let few = cursor.part == 0 && groups.len() <= CHANGE_KEYS_MAX;
        let keys = groups.iter().filter(|_| few).map(|group| group.key.clone()).collect();
        let change = ChangeEntry {
            version: head.commit.0,
            watermark: meta::watermark_text(head, table),
            groups: published,
            keys,
        };
        let parts = cursor.part;
        let publish = Publish {
            check_count,
            expected: cursor,
            groups,
            meta: self.finished_meta(head, true),
            change: Some(change),
        };
        match self.send(store, &publish)? {
            PublishReply::Accepted { .. } => {
                let shown = Cursor { version: head.commit.0, nonce: head.nonce.clone(), ..Cursor::default() };
                self.shown = Some(shown);
                self.shown_watermark = watermark;
                self.foreign = None;
                Ok(Step::Published { version: head.commit, groups: published, parts })
            }
            refused => Ok(Step::Refused(refused)),
        }
    }

    fn finished_meta(&mut self, head: &Head, refreshed: bool) -> Vec<(&'static str, String)> {
        let now_ms = self.clock.wall_ms();
        if refreshed || self.refreshed_ms.is_none() {
            self.refreshed_ms = Some(now_ms);
        }
        self.confirm(head);
        let ages = Ages { now_ms, refreshed_ms: self.refreshed_ms, confirmed_ms: self.confirmed_ms };
        let mut fields = meta::finished(&self.catalog, self.view, head, &ages);
        fields.push((meta::ACTIVATION, self.succession.activation.to_string()));
        fields
    }

    /// Confirms the view for the times of those probes whose ends this head has reached.
    fn confirm(&mut self, head: &Head) {
        if self.succession.stands_still {
            return;
        }
        let table = self.catalog.views[self.view].table;
        // A partition that the probe saw and the base does not know yet has not been read to its end.
        let reached = |probe: &Probe| {
            let ends = probe
                .ends
                .iter()
                .filter(|(at, _)| self.catalog.topic(&at.topic).is_some_and(|topic| topic.table == table));
            let mut read = ends.map(|(at, end)| {
                head.positions.iter().any(|position| position.at == *at && position.next_offset >= *end)
            });
            read.all(|read| read)
        };
        let met = self.probes.iter().filter(|probe| reached(probe)).map(|probe| probe.asked_ms).max();
        self.confirmed_ms = self.confirmed_ms.max(met);
        self.probes.retain(|probe| !reached(probe));
    }

    fn send(&mut self, store: &mut dyn ViewStore, publish: &Publish) -> PortResult<PublishReply> {
        let reply = store.publish(self.object(), &self.columns, publish)?;
        if matches!(reply, PublishReply::Accepted { .. }) {
            self.beat_at_ms = Some(self.clock.monotonic_ms());
        }
        Ok(reply)
    }

    pub(super) fn view(&self) -> usize {
        self.view
    }

    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }
}

fn accepted(reply: PublishReply, cursor: Cursor) -> Result<Cursor, PublishReply> {
    match reply {
        PublishReply::Accepted { .. } => Ok(cursor),
        refused => Err(refused),
    }
}
