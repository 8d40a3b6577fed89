//! Drift that is to go: seen whether the publisher has mended it already, marked so that it does, and looked at again.
//! Never writes to the store.

use std::time::Duration;

use super::cursor::{Standing, standing};
use super::{BETWEEN, LOOKS, Pass};
use crate::ports::{PortError, PortResult, ViewStore};
use crate::pure::base::Action;
use crate::pure::drift::{Difference, Kind};

/// Groups of one request: what its one commit marks.
const CHUNK: usize = 1_000;

impl Pass<'_> {
    /// What differed may be right by now: a publisher that lives mends much by itself.
    pub(super) fn verify(&mut self, store: &mut dyn ViewStore) -> PortResult<()> {
        self.look_whether_mended(store, 1)?;
        self.look_at_own_keys(store)
    }

    /// Marks what differs, waits for the publisher, and looks again.
    pub(super) fn repair(&mut self, store: &mut dyn ViewStore) -> PortResult<()> {
        // 1. Marks, a bounded number with each request; wrong metas alone need a publish, which is a request of none.
        let groups: Vec<String> = self
            .differences
            .iter()
            .filter(|difference| !difference.mended && difference.is_of_group())
            .map(|difference| difference.key.clone())
            .collect();
        let chunks: Vec<&[String]> =
            if groups.is_empty() { vec![&[]] } else { groups.chunks(CHUNK).collect() };
        for chunk in chunks {
            let action = Action::RepairGroups { view: self.object.clone(), groups: chunk.to_vec() };
            let done = self.ports.requests.ask(&action, &self.settings.why)?.map_err(|refusal| {
                PortError::permanent(format!("the repair was refused: {refusal}"))
                    .with_hint("run the repair with the maintainer's own configuration")
            })?;
            self.repairs_asked += chunk.len() as u64;
            self.note_repeated(&done["repeated"]);
        }
        // 2. Until the store shows a version with these marks.
        self.await_publish(store)?;
        // 3. Again, with patience: the publisher may be busy.
        self.look_whether_mended(store, LOOKS)?;
        self.look_at_own_keys(store)
    }

    /// Groups whose drift comes back.
    fn note_repeated(&mut self, repeated: &serde_json::Value) {
        for one in repeated.as_array().into_iter().flatten() {
            let (Some(group), Some(times)) = (one["group"].as_str(), one["times"].as_u64()) else { continue };
            self.repeated.push(group.to_owned());
            for difference in self.differences.iter_mut().filter(|difference| difference.key == group) {
                difference.repaired_times = Some(times);
            }
        }
    }

    fn await_publish(&mut self, store: &mut dyn ViewStore) -> PortResult<()> {
        let wanted = self.ports.base.snapshot()?.head()?.commit;
        for look in 1..=LOOKS {
            let meta = store.read_meta(&self.object)?;
            let mut snapshot = self.ports.base.snapshot()?;
            if matches!(standing(&mut *snapshot, self.view, &meta)?, Standing::Ours(shown) if shown >= wanted)
            {
                return Ok(());
            }
            drop(snapshot);
            if self.is_stopped() {
                break;
            }
            (self.ports.wait)(Duration::from_millis(BETWEEN.delay_ms(look, 0)));
        }
        Ok(())
    }

    /// Asks about the view's own keys and foreign ones once more: what is not found again is mended.
    fn look_at_own_keys(&mut self, store: &mut dyn ViewStore) -> PortResult<()> {
        let of_keys = |difference: &Difference| !difference.mended && !difference.is_of_group();
        if !self.differences.iter().any(of_keys) {
            return Ok(());
        }
        let asked = self.ask_cursor(store)?;
        let mut found = asked.wrong;
        if self.differences.iter().any(|one| one.kind == Kind::ForeignKey) {
            found.extend(self.find_strangers(store)?.foreign);
        }
        for difference in self.differences.iter_mut().filter(|difference| of_keys(difference)) {
            difference.mended = asked.trouble.is_none()
                && !found.iter().any(|one| one.key == difference.key && one.kind == difference.kind);
        }
        Ok(())
    }
}
