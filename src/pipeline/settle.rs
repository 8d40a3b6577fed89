//! Groups compared inside the publisher's own snapshot: right after a publish the store shows exactly that snapshot,
//! whatever the writer has committed since, so nothing is ever pending here. Asked for by a reconcile pass, of groups
//! that change faster than it can look.

use serde_json::{Value, json};

use crate::pipeline::publish::Publisher;
use crate::ports::{PortResult, Snapshot, ViewStore};
use crate::pure::base::Head;
use crate::pure::drift::compare_group;
use crate::pure::group_key::GroupKey;
use crate::pure::publish::Cursor;

/// Groups that wait to be compared, and the answer.
#[derive(Default)]
pub(super) struct Settling {
    asked: Option<Vec<GroupKey>>,
    answer: Option<Value>,
}

impl Publisher {
    /// Asks for these groups to be compared at the next state of which both sides are known.
    pub fn settle_next(&mut self, groups: Vec<GroupKey>) {
        self.settling = Settling { asked: Some(groups), answer: None };
    }

    /// The answer, once there is one; asking again begins anew.
    pub fn take_settled(&mut self) -> Option<Value> {
        self.settling.answer.take()
    }

    pub(super) fn is_settling(&self) -> bool {
        self.settling.asked.is_some()
    }

    /// Compares what is asked for, where the store shows the snapshot's own commit.
    pub(super) fn settle(
        &mut self,
        snapshot: &mut dyn Snapshot,
        store: &mut dyn ViewStore,
        head: &Head,
    ) -> PortResult<()> {
        let Some(keys) = &self.settling.asked else { return Ok(()) };
        let (meta, stored) = store.read_groups(self.object(), keys)?;
        let shown = Cursor { version: head.commit.0, nonce: head.nonce.clone(), ..Cursor::default() };
        if Cursor::from_meta(&meta) != shown {
            return Ok(());
        }
        let mut differences = Vec::new();
        for (key, stored) in keys.iter().zip(stored) {
            let value = snapshot.recompute(self.view(), key)?;
            let (fields, indexed, version) = (&stored.fields, stored.indexed, head.commit.0);
            let columns = self.columns();
            differences.extend(compare_group(
                key.as_str(),
                value.as_ref(),
                columns,
                fields,
                indexed,
                version,
            ));
        }
        let answer = json!({"version": head.commit.0, "compared": keys.len(), "differences": differences});
        self.settling = Settling { asked: None, answer: Some(answer) };
        Ok(())
    }
}
