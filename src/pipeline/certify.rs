//! Proof that a base is fit to be published: every group computed both ways, from a scan over all rows and one by one
//! as the publisher does, and the accounts of its positions. All of it in one snapshot.

use sha2::{Digest, Sha256};

use crate::ports::{PortResult, Snapshot};
use crate::pure::base::Head;
use crate::pure::catalog::Catalog;
use crate::pure::checksum::ChecksumWriter;
use crate::pure::generation::ViewProof;
use crate::pure::group_key::GroupKey;
use crate::pure::publish::GroupValue;
use crate::pure::value::Value;

/// Groups listed at once.
const SLICE: usize = 1_000;

/// A set of groups, whatever their order: how many, and the sum of their digests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct GroupSet {
    groups: u64,
    digests: u128,
}

impl GroupSet {
    fn add(&mut self, key: &GroupKey, value: &GroupValue) {
        let mut digest = Sha256::new();
        digest.update(key.as_str());
        match value {
            GroupValue::Overflow => digest.update([0]),
            GroupValue::Measures(values) => {
                for value in values {
                    digest.update([1 + u8::from(value.is_some())]);
                    digest.update(value.unwrap_or_default().to_le_bytes());
                }
            }
        }
        let mut half = [0; 16];
        half.copy_from_slice(&digest.finalize()[..16]);
        self.groups += 1;
        self.digests = self.digests.wrapping_add(u128::from_le_bytes(half));
    }
}

/// Computes all groups of a view both ways. The error is what does not agree.
pub fn prove_view(
    snapshot: &mut dyn Snapshot,
    catalog: &Catalog,
    view: usize,
    progress: &mut dyn FnMut(u64),
) -> PortResult<Result<ViewProof, String>> {
    let entry = &catalog.views[view].view;
    // 1. From a scan over all rows.
    let (mut scanned, mut sum) = (GroupSet::default(), ChecksumWriter::new());
    snapshot.each_group(view, &mut |key, value| {
        scanned.add(&GroupKey::encode_all(key), value);
        let measures = match value {
            GroupValue::Measures(values) => {
                values.iter().map(|value| value.map_or(Value::Null, Value::Integer)).collect()
            }
            GroupValue::Overflow => vec![Value::text("overflow")],
        };
        sum.row(key.iter().chain(&measures));
        progress(1);
    })?;
    // 2. One by one, by the marks, as the publisher lists and computes them.
    let mut listed = GroupSet::default();
    let mut after: Option<GroupKey> = None;
    loop {
        let keys = snapshot.groups_after(view, after.as_ref().map(GroupKey::as_str), SLICE)?;
        for (key, _) in &keys {
            if let Some(value) = snapshot.recompute(view, key)? {
                listed.add(key, &value);
            }
        }
        progress(keys.len() as u64);
        match keys.into_iter().next_back() {
            Some((last, _)) => after = Some(last),
            None => break,
        }
    }
    if scanned != listed {
        return Ok(Err(format!(
            "view {}: {} groups by a scan over its rows, {} by its marks, and they {}",
            entry.object,
            scanned.groups,
            listed.groups,
            if scanned.groups == listed.groups { "hold other values" } else { "are others" }
        )));
    }
    Ok(Ok(ViewProof {
        groups: scanned.groups,
        rows_sha256: sum.finish(),
        definition_hash: entry.definition_hash.clone(),
    }))
}

/// What speaks against a base besides its groups.
pub fn accounts(catalog: &Catalog, head: &Head) -> Vec<String> {
    let mut faults = Vec::new();
    if head.positions.is_empty() {
        faults.push("it has read no partition".to_owned());
    }
    for position in &head.positions {
        let passed = (position.next_offset - position.first_offset).unsigned_abs();
        if position.counts.consumed() != passed {
            faults.push(format!(
                "partition {}: {} offsets passed, {} counted",
                position.at,
                passed,
                position.counts.consumed()
            ));
        }
    }
    for (table, &open) in catalog.tables.iter().zip(&head.open_letters) {
        if open > 0 {
            faults.push(format!("table {}: {open} dead letters are open", table.shape.name));
        }
    }
    faults
}
