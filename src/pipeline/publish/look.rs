//! What the store shows, and what a publisher does about it: the table of the publish chain in the architecture
//! page. Sends nothing.

use super::{Publisher, Succession};
use crate::ports::{BaseReader, Lineage, Meta, PortError, PortResult, ViewStore};
use crate::pure::base::Head;
use crate::pure::meta;
use crate::pure::publish::{Cursor, timestamp_ms};
use crate::pure::seq::Commit;

/// Another publisher's meta: since when it has stood like this, and when it was last looked at.
pub(super) struct Foreign {
    meta: Meta,
    since: u64,
    looked: u64,
}

/// What to do with what the store shows.
pub(super) enum Plan {
    Delta(Cursor),
    Sweep(Cursor),
    Standby,
    /// The base stands for nothing yet.
    Nothing,
}

impl Publisher {
    pub(super) fn look(&mut self, base: &mut dyn BaseReader, store: &mut dyn ViewStore) -> PortResult<Plan> {
        let meta = store.read_meta(self.object())?;
        let cursor = Cursor::from_meta(&meta);
        let mut snapshot = base.snapshot()?;
        let head = snapshot.head()?;
        // Without a partition no start has been found possible: an empty view would be a claim, and in the way of
        // the generation that comes instead.
        let table = self.catalog.views[self.view].table;
        if !head.positions.iter().any(|position| position.table == table) {
            return Ok(Plan::Nothing);
        }
        if meta.is_empty() {
            return Ok(Plan::Sweep(Cursor::default()));
        }
        if self.succeeds(&meta, &head) {
            return Ok(self.look_at_predecessor(cursor, &meta, &head));
        }
        self.check_identity(&meta, &head)?;
        // A standby of the same generation may not know how often it was activated.
        self.succession.activation = self.succession.activation.max(meta::parse_activation(&meta));
        let lineage = snapshot.lineage(self.view, Commit(cursor.version), &cursor.nonce)?;
        let virgin = cursor.version == 0 && cursor.nonce.is_empty();
        let plan = match lineage {
            Lineage::Marked if cursor.token.is_empty() && !self.sweep_next => Plan::Delta(cursor),
            Lineage::Marked | Lineage::BeforeMarks => Plan::Sweep(cursor),
            Lineage::Foreign if self.may_take_over(&meta, &head, virgin) => Plan::Sweep(cursor),
            Lineage::Foreign => Plan::Standby,
        };
        // What is shown was confirmed for a time, and our positions are at or past it: so are we. Where they may not
        // be, as for a standby, the time is somebody else's.
        if !virgin && matches!(plan, Plan::Delta(_) | Plan::Sweep(_)) {
            self.confirmed_ms = self.confirmed_ms.max(confirmed_ms(&meta));
        }
        Ok(plan)
    }

    /// The view in the store must be the one we publish: another definition or generation is never replaced
    /// without an operator's word.
    fn check_identity(&self, meta: &Meta, head: &Head) -> PortResult<()> {
        for (field, ours) in meta::identity(&self.catalog, self.view, &head.generation) {
            if !matches!(field, "schema" | "definition_hash" | "generation") {
                continue;
            }
            let shown = meta.get(field).map_or("", String::as_str);
            if shown != ours {
                return Err(PortError::permanent(format!(
                    "view {}: Redis shows {field} {shown:?}, this maintainer has {ours:?}; nothing was published",
                    self.object()
                ))
                .with_hint("where this is meant to be shown instead, activate it (driftless generations activate NAME); a base that knows nothing of what is shown needs another redis.prefix, or the published view retired first (stop its maintainer and delete its keys)"));
            }
        }
        Ok(())
    }

    /// Whether the publisher whose cursor is shown is gone and we are not behind what it showed.
    fn may_take_over(&mut self, meta: &Meta, head: &Head, virgin: bool) -> bool {
        let now = self.clock.monotonic_ms();
        // Standing still is seen by looking again and again; a look after a long pause (a suspended machine) begins anew.
        let since = match &self.foreign {
            Some(seen)
                if seen.meta == *meta && now.saturating_sub(seen.looked) <= self.settings.takeover_ms =>
            {
                seen.since
            }
            _ => now,
        };
        self.foreign = Some(Foreign { meta: meta.clone(), since, looked: now });
        let still = now.saturating_sub(since) >= self.settings.takeover_ms;
        still && (virgin || has_read(head, meta))
    }

    /// Whether what is shown is a generation that a later activation has made ours the successor of. Nobody publishes
    /// it any more, so its beat is not waited for; should somebody all the same, the cursor tells. One that was set
    /// aside and does not know it finds a later activation shown, and succeeds nobody.
    fn succeeds(&self, meta: &Meta, head: &Head) -> bool {
        let Succession { activation, replaces, .. } = &self.succession;
        let shown = meta.get("generation").map_or("", String::as_str);
        shown != head.generation
            && replaces.iter().any(|known| known == shown)
            && meta::parse_activation(meta) < *activation
    }

    fn look_at_predecessor(&mut self, cursor: Cursor, meta: &Meta, head: &Head) -> Plan {
        if has_read(head, meta) {
            if !self.succession.stands_still {
                self.confirmed_ms = self.confirmed_ms.max(confirmed_ms(meta));
            }
            Plan::Sweep(cursor)
        } else if self.succession.may_be_behind {
            Plan::Sweep(cursor)
        } else {
            Plan::Standby
        }
    }
}

/// Whether our positions are at or past those shown.
fn has_read(head: &Head, meta: &Meta) -> bool {
    let shown = meta::parse_positions(meta.get("positions").map_or("", String::as_str));
    shown.iter().all(|(at, &offset)| {
        head.positions.iter().any(|position| position.at.to_string() == *at && position.next_offset >= offset)
    })
}

fn confirmed_ms(meta: &Meta) -> Option<i64> {
    meta.get("confirmed_at").and_then(|text| timestamp_ms(text))
}
