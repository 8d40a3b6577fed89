//! Whose state the store shows, whether it can be compared with, and what the meta and the view's other keys say.

use std::time::Duration;

use super::{BETWEEN, LOOKS, Pass};
use crate::ports::{Lineage, Meta, Outline, PortResult, Snapshot, ViewStore};
use crate::pure::base::Head;
use crate::pure::drift::{Difference, FieldDifference, Kind, OWN_KEY, cursor_fields, meta_fields};
use crate::pure::meta::{Fingerprint, OF_TABLE};
use crate::pure::publish::Cursor;
use crate::pure::seq::Commit;

/// A beat that stood still for as many of its intervals is nobody's.
const BEATS_SILENT: u64 = 3;

/// What a meta is to a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It shows this commit of the base, and marks tell what changed since.
    Ours(Commit),
    /// There is no meta.
    Absent,
    /// Not now: why.
    Unfinished(&'static str),
    /// It names no state of this base.
    Foreign,
}

/// A meta of another lineage: how it looked first, and since when it has not moved.
struct Stranger {
    meta: Meta,
    since: u64,
    /// Its fields are those of a commit of ours, so that only the cursor was altered.
    altered: Option<Vec<FieldDifference>>,
}

pub(super) fn standing(snapshot: &mut dyn Snapshot, view: usize, meta: &Meta) -> PortResult<Standing> {
    if meta.is_empty() {
        return Ok(Standing::Absent);
    }
    let cursor = Cursor::from_meta(meta);
    if !cursor.token.is_empty() {
        return Ok(Standing::Unfinished("a publish in parts is unfinished"));
    }
    Ok(match snapshot.lineage(view, Commit(cursor.version), &cursor.nonce)? {
        Lineage::Marked => Standing::Ours(Commit(cursor.version)),
        Lineage::BeforeMarks => Standing::Unfinished("the version shown is from before the view's marks"),
        Lineage::Foreign => Standing::Foreign,
    })
}

/// What was found out about the cursor, the meta and the view's other own keys.
#[derive(Default)]
pub(super) struct Asked {
    /// Groups can be compared with what the store shows.
    pub comparable: bool,
    /// There is no meta, and nobody writes one.
    pub absent: bool,
    pub wrong: Vec<Difference>,
    /// Index entries that no range finds for certain.
    pub misplaced: Vec<String>,
    /// What keeps the pass from a judgement.
    pub trouble: Option<String>,
}

impl Pass<'_> {
    /// Waits until the store shows a state of this base, and finds out what is wrong with the view's own keys.
    pub(super) fn ask_cursor(&mut self, store: &mut dyn ViewStore) -> PortResult<Asked> {
        let mut asked = Asked::default();
        let mut stranger: Option<Stranger> = None;
        for look in 1..=LOOKS {
            // 1. The store, then the base.
            let outline = store.read_outline(&self.object)?;
            let now_ms = self.ports.clock.wall_ms();
            let table = self.catalog.views[self.view].table;
            let mut snapshot = self.ports.base.snapshot()?;
            let head = snapshot.head()?;
            let standing = standing(&mut *snapshot, self.view, &outline.meta)?;
            let shown = Commit(Cursor::from_meta(&outline.meta).version);
            let told = [shown, head.commit].map(|commit| snapshot.fingerprint(table, commit));
            drop(snapshot);
            let [told_shown, told_newest] = told;
            let (told_shown, told_newest) = (told_shown?, told_newest?);
            // 2. Keys that somebody else's values have taken the place of end everything.
            asked.wrong.extend(wrong_types(&outline));
            if !outline.wrong_types.is_empty() {
                return Ok(asked);
            }
            if !outline.meta.is_empty() {
                asked.wrong.extend(of_meta(cursor_fields(&outline.meta), shown));
            }
            // 3. What it shows, and whether that can be compared with.
            match &standing {
                Standing::Ours(_) => {
                    let (meta, index) = (&outline.meta, outline.index);
                    let wrong = meta_fields(self.catalog, self.view, &head, told_shown, meta, index, now_ms);
                    asked.wrong.extend(of_meta(wrong, shown));
                    asked.wrong.extend(expiring(&outline, shown));
                    asked.misplaced = outline.misplaced;
                    asked.comparable = true;
                    self.note_place(&outline.meta, shown);
                    return Ok(asked);
                }
                Standing::Foreign => {
                    if stranger.as_ref().is_none_or(|known| known.meta != outline.meta) {
                        let since = self.ports.clock.monotonic_ms();
                        let altered = altered(&outline.meta, &head, told_shown, told_newest);
                        stranger = Some(Stranger { meta: outline.meta.clone(), since, altered });
                    }
                    if let Some(altered) = self.once_silent(&stranger) {
                        asked.wrong.extend(of_meta(altered, shown));
                        return Ok(asked);
                    }
                }
                Standing::Absent if !head.positions.iter().any(|position| position.table == table) => {
                    asked.trouble =
                        Some("the base has not begun to read its log: there is nothing to prove".into());
                    return Ok(asked);
                }
                // A view that has been compared before was published before.
                Standing::Absent if head.views[self.view].reconciled.is_some() => asked.wrong.push(absent()),
                Standing::Absent | Standing::Unfinished(_) => {}
            }
            // 4. Until somebody has published, or nobody does.
            if look == LOOKS || self.is_stopped() {
                let known = head.views[self.view].reconciled.is_some();
                give_up(&mut asked, &standing, &outline.meta, known);
                return Ok(asked);
            }
            self.wait_for_cursor(look, "");
        }
        Ok(asked)
    }

    pub(super) fn wait_for_cursor(&mut self, look: u32, why: &str) {
        if !why.is_empty() {
            tracing::debug!(view = self.object, why, "reconcile: waiting");
        }
        self.waits += 1;
        (self.ports.wait)(Duration::from_millis(BETWEEN.delay_ms(look, 0)));
    }

    /// Where the pass stands.
    fn note_place(&mut self, meta: &Meta, version: Commit) {
        let text = |name: &str| meta.get(name).cloned().unwrap_or_default();
        if self.compared_at.nonce.is_empty() {
            self.compared_at.first_version = version.0;
        }
        self.compared_at.last_version = version.0;
        self.compared_at.nonce = text("nonce");
        self.compared_at.watermark = text("watermark");
        self.compared_at.generation = text("generation");
    }

    /// The altered fields of a stranger behind whom no live publisher stands.
    fn once_silent(&self, stranger: &Option<Stranger>) -> Option<Vec<FieldDifference>> {
        let stranger = stranger.as_ref()?;
        let silent = self.ports.clock.monotonic_ms().saturating_sub(stranger.since);
        (silent >= BEATS_SILENT * self.settings.beat_ms).then(|| stranger.altered.clone())?
    }
}

/// What a cursor that has not become ours means. `known`: the view was compared before, and so was published.
fn give_up(asked: &mut Asked, standing: &Standing, meta: &Meta, known: bool) {
    let text = |name: &str| meta.get(name).map_or("", String::as_str);
    match standing {
        Standing::Absent if known => {
            asked.absent = true;
            asked.comparable = true;
        }
        Standing::Absent => {
            asked.trouble =
                Some("the view is not in Redis, and was never compared before: start the maintainer".into());
        }
        Standing::Unfinished(why) => {
            asked.trouble =
                Some(format!("{why}, and nobody goes on with it: start the maintainer, and reconcile again"));
        }
        Standing::Ours(_) | Standing::Foreign => {
            asked.trouble = Some(format!(
                "Redis shows version {:?} of lineage {:?}, which is no state of this base: another base publishes the view, or this one is an older copy; reconcile with the base that publishes",
                text("version"),
                text("nonce")
            ));
        }
    }
}

fn own_key(kind: Kind, name: &str, version: Commit, detail: &str) -> Difference {
    Difference::new(kind, format!("{OWN_KEY}{name}"), version.0, detail)
}

fn absent() -> Difference {
    own_key(Kind::WrongMeta, "meta", Commit(0), "the view's meta is gone: for readers there is no such view")
}

/// Each wrong field of the meta as a difference of its own.
fn of_meta(wrong: Vec<FieldDifference>, version: Commit) -> impl Iterator<Item = Difference> {
    wrong.into_iter().map(move |field| {
        let detail = match field.base {
            None => "a field that driftless does not write; remove it with HDEL",
            Some(_) => "the meta says otherwise than its version's commit",
        };
        own_key(Kind::WrongMeta, &format!("meta {}", field.field), version, detail).with_fields(vec![field])
    })
}

fn wrong_types(outline: &Outline) -> impl Iterator<Item = Difference> {
    outline.wrong_types.iter().map(|(key, found)| {
        let kind = if key.ends_with(":index") { Kind::WrongIndex } else { Kind::WrongMeta };
        let detail = format!(
            "the key is a {found}, which driftless did not write; find out who did, then `DEL {key}`, and the publisher makes it again"
        );
        own_key(kind, key, Commit(0), &detail)
    })
}

fn expiring(outline: &Outline, version: Commit) -> impl Iterator<Item = Difference> {
    let told = move |key: &String| {
        own_key(Kind::WrongMeta, key, version, &format!("the key will expire: `PERSIST {key}`"))
    };
    outline.expiring.iter().map(told)
}

/// The cursor fields that somebody altered, where everything else of the meta is as a commit of ours has it.
fn altered(
    meta: &Meta,
    head: &Head,
    told_shown: Option<Fingerprint>,
    told_newest: Option<Fingerprint>,
) -> Option<Vec<FieldDifference>> {
    let text = |name: &str| meta.get(name).cloned().unwrap_or_default();
    let shown = Some(Fingerprint::of(&OF_TABLE.map(text)));
    let (name, base) = if told_shown == shown {
        ("nonce", "(a lineage of this base)".to_owned())
    } else if told_newest == shown {
        ("version", head.commit.to_string())
    } else {
        return None;
    };
    Some(vec![FieldDifference { field: name.to_owned(), base: Some(base), redis: meta.get(name).cloned() }])
}
