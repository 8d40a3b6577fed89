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

/// Judges a change against what is stored for its key. `floor` is the sequence that the table's first load
/// stands for: everything up to it is in already.
pub fn judge(floor: Option<Seq>, stored: Option<&Stored>, seq: Seq, image: &Image) -> Verdict {
    if floor.is_some_and(|floor| seq <= floor) {
        return Verdict::Stale;
    }
    match stored {
        None => Verdict::Apply,
        Some(stored) if seq > stored.seq => Verdict::Apply,
        Some(stored) if seq < stored.seq => Verdict::Stale,
        Some(stored) if stored.image == *image => Verdict::Duplicate,
        Some(_) => Verdict::Conflict,
    }
}
