//! The publish chain as data: the cursor that Redis shows, a publish computed from it, and the answers
//! that are possible. Decides; touches nothing.

use crate::pure::group_key::GroupKey;

/// What Redis says of a view's publishing state. The default is that of a view which is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The commit that the view shows; 0 where the view is absent.
    pub version: u64,
    /// The lineage which that commit number belongs to; empty where the view is absent.
    pub nonce: String,
    /// Names a publish in parts that has begun and not finished; empty otherwise.
    pub token: String,
    /// How many parts of that publish have been accepted.
    pub part: u32,
}

/// The value of one group: a field each measure (`None` is SQL null, published as an absent field),
/// in the order of the view's columns; or the error that stands for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupValue {
    Measures(Vec<Option<i64>>),
    /// A final value outside 64 bits: the row holds `_error=overflow` and nothing else.
    Overflow,
}

/// A group and what Redis has to hold for it: `None` means no row and no index entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupWrite {
    pub key: GroupKey,
    pub value: Option<GroupValue>,
}

/// One script call: accepted only where Redis still shows `expected`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    pub expected: Cursor,
    pub groups: Vec<GroupWrite>,
    /// Meta fields to set after the groups, cursor fields included.
    pub meta: Vec<(&'static str, String)>,
    /// Entry for the view's stream of changes; a part other than the last has none.
    pub change: Option<ChangeEntry>,
}

/// What the stream of changes tells of one publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeEntry {
    pub version: u64,
    /// Empty where the view has no scalar watermark.
    pub watermark: String,
    /// Number of groups published, all parts together.
    pub groups: u64,
    /// Their keys where there are at most 100, otherwise empty.
    pub keys: Vec<GroupKey>,
}

/// What the store answered to a [`Publish`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishReply {
    Accepted {
        /// Groups the index counts afterwards.
        groups: u64,
    },
    /// The store shows another cursor; nothing was written.
    CursorDiffers(Cursor),
    /// A key of the view has a type that is not the view's; nothing was written.
    WrongType { key: String, found: String },
    /// Index and meta count different numbers of groups: rows were lost; nothing was written.
    CountDiffers { index: u64, meta: u64 },
}
