//! Whether a change counts (P2): a row is the event with the greatest sequence for its key. Knows neither
//! storage nor formats.

use crate::pure::event::Image;
use crate::pure::seq::Seq;

/// What the base holds for a key: the latest event's sequence and image; a delete leaves its grave here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub seq: Seq,
    pub image: Image,
}

/// What becomes of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Apply,
    Duplicate,
    Stale,
    /// The same sequence with another content: the first stays, this one is a dead letter.
    Conflict,
}

/// Judges a change against the latest event of its key. Up to `floor` everything is in already: the table's first load
/// stands for it, or a truncation has removed it.
pub fn judge(floor: Option<Seq>, latest: Option<(Seq, &Image)>, seq: Seq, image: &Image) -> Verdict {
    if floor.is_some_and(|floor| seq <= floor) {
        return Verdict::Stale;
    }
    match latest {
        None => Verdict::Apply,
        Some((stored, _)) if seq > stored => Verdict::Apply,
        Some((stored, _)) if seq < stored => Verdict::Stale,
        Some((_, stored)) if stored == image => Verdict::Duplicate,
        Some(_) => Verdict::Conflict,
    }
}
