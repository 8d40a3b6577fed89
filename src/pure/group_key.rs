//! Group keys and their reversible encoding, the only place that builds one.

/// A group key in its encoded form: parts joined by `:`, each escaped so that joining is reversible.
/// Its order is by bytes, the order of a Redis index with equal scores and of a SQLite text key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey(Box<str>);

impl GroupKey {
    /// Takes a key that is encoded already, as it was read from the base or from Redis.
    pub fn from_encoded(encoded: impl Into<Box<str>>) -> Self {
        GroupKey(encoded.into())
    }

    /// The encoded form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
