//! The publish chain as data: the cursor that Redis shows, a publish computed from it, and the answers
//! that are possible. Decides; touches nothing.

use std::collections::BTreeMap;

use crate::pure::base::ViewState;
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
    /// Whether the index must count as many groups as the meta says. A sweep, which mends the index, does not
    /// ask for it.
    pub check_count: bool,
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

impl Cursor {
    /// As the meta's fields say; what is missing or unreadable is as if the view were absent.
    pub fn from_meta(meta: &BTreeMap<String, String>) -> Self {
        let text = |name: &str| meta.get(name).cloned().unwrap_or_default();
        Cursor {
            version: text("version").parse().unwrap_or(0),
            nonce: text("nonce"),
            token: text("token"),
            part: text("part").parse().unwrap_or(0),
        }
    }

    pub fn is_absent(&self) -> bool {
        *self == Cursor::default()
    }

    /// The cursor as meta fields.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("version", self.version.to_string()),
            ("nonce", self.nonce.clone()),
            ("token", self.token.clone()),
            ("part", self.part.to_string()),
            ("mixed", if self.token.is_empty() { "0" } else { "1" }.to_owned()),
        ]
    }
}

impl GroupValue {
    /// The fields of the group's row in the store.
    pub fn fields(&self, columns: &[String]) -> BTreeMap<String, String> {
        match self {
            GroupValue::Overflow => BTreeMap::from([("_error".to_owned(), "overflow".to_owned())]),
            GroupValue::Measures(values) => columns
                .iter()
                .zip(values)
                .filter_map(|(column, value)| Some((column.clone(), value.as_ref()?.to_string())))
                .collect(),
        }
    }
}

impl GroupValue {
    /// Whether [`fields`](Self::fields) gives just these, without making them.
    pub fn is_stored_as(&self, columns: &[String], fields: &BTreeMap<String, String>) -> bool {
        let GroupValue::Measures(values) = self else {
            return *fields == self.fields(columns);
        };
        let mut count = 0;
        let mut digits = [0; 20];
        let same = columns.iter().zip(values).all(|(column, value)| match value {
            None => true,
            Some(number) => {
                count += 1;
                fields.get(column).is_some_and(|text| text.as_bytes() == decimal(*number, &mut digits))
            }
        });
        same && fields.len() == count
    }
}

/// A number as it is written, in a buffer of the caller's.
pub(crate) fn decimal(number: i64, digits: &mut [u8; 20]) -> &[u8] {
    let mut start = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        start -= 1;
        // A remainder of ten is a digit.
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        start -= 1;
        digits[start] = b'-';
    }
    &digits[start..]
}

/// What readers are told of a view's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Fresh,
    /// Not confirmed against the ends of the log within the freshness objective.
    Stale,
    /// Dead letters are open.
    Incomplete,
    /// The reconciler found drift that no later pass has found mended.
    Quarantined,
    /// An operator took the view out of use.
    Disabled,
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Status::Fresh => "fresh",
            Status::Stale => "stale",
            Status::Incomplete => "incomplete",
            Status::Quarantined => "quarantined",
            Status::Disabled => "disabled",
        }
    }

    /// The gravest that holds.
    pub fn judge(
        state: &ViewState,
        open_letters: u64,
        now_ms: i64,
        confirmed_ms: Option<i64>,
        slo_seconds: u64,
    ) -> Self {
        let within = |confirmed: i64| {
            now_ms.saturating_sub(confirmed)
                <= i64::try_from(slo_seconds).unwrap_or(i64::MAX).saturating_mul(1000)
        };
        match confirmed_ms {
            _ if state.disabled.is_some() => Status::Disabled,
            _ if state.quarantined.is_some() => Status::Quarantined,
            _ if open_letters > 0 => Status::Incomplete,
            Some(confirmed) if within(confirmed) => Status::Fresh,
            _ => Status::Stale,
        }
    }
}

/// Milliseconds since the epoch as people and programs read them: `2026-09-22T08:15:30.125Z`; empty where unknown.
pub fn timestamp_text(at_ms: Option<i64>) -> String {
    at_ms
        .and_then(|at| jiff::Timestamp::from_millisecond(at).ok())
        .map(|at| format!("{at:.3}"))
        .unwrap_or_default()
}

/// The inverse of [`timestamp_text`].
pub fn timestamp_ms(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(|at| at.as_millisecond())
}
