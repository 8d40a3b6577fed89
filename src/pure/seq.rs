//! The numbers that order things, each a type of its own so that they cannot be mixed up.

use std::fmt;

/// Orders the changes of one table: source epoch, position in the source's log, row within that position. What each
/// part holds is the format's to say; the native format fills `position` alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq {
    pub epoch: u32,
    pub position: u64,
    pub row: u64,
}

impl Seq {
    /// The greatest position: SQLite and most sources count in signed 64 bits.
    pub const POSITION_MAX: u64 = i64::MAX as u64;

    pub const fn at(position: u64) -> Self {
        Seq { epoch: 0, position, row: 0 }
    }

    /// The next lower sequence of the same source position scale; the lowest stays itself.
    pub fn just_below(self) -> Self {
        if self.row > 0 {
            return Seq { row: self.row - 1, ..self };
        }
        Seq { position: self.position.saturating_sub(1), ..self }
    }

    /// Whether the plain number `position` says it all.
    pub fn is_plain(self) -> bool {
        self.epoch == 0 && self.row == 0
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_plain() {
            write!(out, "{}", self.position)
        } else {
            write!(out, "{}.{}.{}", self.epoch, self.position, self.row)
        }
    }
}

impl std::str::FromStr for Seq {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.splitn(3, '.');
        let first = parts.next().unwrap_or_default();
        match (parts.next(), parts.next()) {
            (Some(position), Some(row)) => {
                Ok(Seq { epoch: first.parse()?, position: position.parse()?, row: row.parse()? })
            }
            _ => Ok(Seq::at(text.parse()?)),
        }
    }
}

impl serde::Serialize for Seq {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Seq {
    fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        <String as serde::Deserialize>::deserialize(input)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The number of one writer transaction of a base file: 1, 2, 3 … ; 0 is a base nobody has written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Commit(pub u64);

impl Commit {
    pub fn next(self) -> Self {
        Commit(self.0 + 1)
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// A partition of a topic, by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic: std::sync::Arc<str>,
    pub partition: i32,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.topic, self.partition)
    }
}
