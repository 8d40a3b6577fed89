//! A whole message as one line of text, `{"topic", "partition", "key", "value", "headers"}`: what recorders write and
//! `produce --messages` and `inspect` read.

use serde::Deserialize;

use crate::pure::formats::Header;

/// One message; key and value as their text, or null.
#[derive(Clone, Debug)]
pub struct MessageLine {
    pub topic: Option<String>,
    pub partition: Option<i32>,
    pub key: Option<String>,
    pub value: Option<String>,
    pub headers: Vec<Header>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    topic: Option<String>,
    partition: Option<i32>,
    key: Option<String>,
    // Must be there: a line without it is something else.
    #[serde(deserialize_with = "Option::deserialize")]
    value: Option<String>,
    #[serde(default)]
    headers: Vec<(String, Option<String>)>,
    /// It was there, and compaction has removed it.
    #[serde(default)]
    compacted: bool,
}

impl MessageLine {
    /// Reads a line, or says what is wrong with it. `None` is a message that is not on the topic any more.
    pub fn parse(line: &[u8]) -> Result<Option<Self>, String> {
        let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if line.compacted {
            return Ok(None);
        }
        let header = |(name, value): (String, Option<String>)| Header {
            name: name.into(),
            value: value.map(|value| value.into_bytes().into()),
        };
        Ok(Some(MessageLine {
            topic: line.topic,
            partition: line.partition,
            key: line.key,
            value: line.value,
            headers: line.headers.into_iter().map(header).collect(),
        }))
    }
}
