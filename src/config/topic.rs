//! The settings of a topic: its table, its format and what the format needs to know, and what the writer of the
//! log promises. Types alone; what they mean together is `formats`' and `catalog`'s.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicSection {
    pub name: String,
    pub table: String,
    pub format: Format,
    pub watermark: WatermarkMode,
    /// Mode dense: the first sequence of all. Default 1.
    pub first_seq: Option<u64>,
    /// Mode sparse: several events may share a sequence. Default false.
    #[serde(default)]
    pub shared_seq: bool,
    /// `log-start`: a first start may begin on a log that does not begin at offset 0.
    #[serde(default)]
    pub start: StartSetting,
    /// The table of the source whose records count: `table`, `schema.table` or `database.schema.table`. Formats
    /// whose messages name their table need it.
    pub source_table: Option<String>,
    /// Where the day of an instant is read off, by its name in the time zone database. Default `UTC`.
    pub time_zone: Option<String>,
    /// Debezium: what stands for a value that the database's log does not hold. Default
    /// `__debezium_unavailable_value`.
    pub unavailable_value: Option<String>,
    /// Unwrapped Debezium: how the transform tells deletes. Required there.
    pub deletes: Option<DeletesSetting>,
    /// How columns of the table are read, by name; without an entry, from the field of the same name, as it is.
    #[serde(default)]
    pub columns: BTreeMap<String, ColumnSetting>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    Native,
    Debezium,
    DebeziumUnwrapped,
    Upsert,
    Maxwell,
    Canal,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Format::Native => "native",
            Format::Debezium => "debezium",
            Format::DebeziumUnwrapped => "debezium_unwrapped",
            Format::Upsert => "upsert",
            Format::Maxwell => "maxwell",
            Format::Canal => "canal",
        }
    }
}

/// The transform's `delete.tombstone.handling.mode` (`delete.handling.mode` before Debezium 2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeletesSetting {
    Rewrite,
    Tombstone,
    Drop,
}

/// How one column is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ColumnSetting {
    /// The field of the message. Default: the column's own name.
    pub from: Option<String>,
    /// Native: the header that tells this column of the primary key.
    pub header: Option<String>,
    /// How the value is written. Default: as the column is.
    #[serde(rename = "as")]
    pub encoding: EncodingSetting,
    /// `decimal`, `decimal_bytes`: the column counts units of ten to the minus this, 0 to 18. Default 0.
    pub scale: Option<u32>,
    /// `decimal_bytes`: the scale of the bytes themselves, 0 to 38, where no schema tells it.
    pub bytes_scale: Option<u32>,
    /// In place of the topic's.
    pub time_zone: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EncodingSetting {
    #[default]
    Plain,
    Text,
    Bool,
    Decimal,
    DecimalBytes,
    Days,
    Seconds,
    Millis,
    Micros,
    Nanos,
    LocalSeconds,
    LocalMillis,
    LocalMicros,
    LocalNanos,
    Iso,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatermarkMode {
    Dense,
    Sparse,
    AppendOrdered,
    Offsets,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartSetting {
    #[default]
    Complete,
    LogStart,
}
