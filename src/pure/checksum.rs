//! Evidence about a set of rows: a checksum over their canonical JSON, and totals of what may be added up.
//! Must not know where the rows come from.

use sha2::{Digest, Sha256};

use crate::pure::canonical::{hex, write_text};
use crate::pure::contract::View;
use crate::pure::publish::{GroupValue, decimal};
use crate::pure::value::Value;

/// sha256 over rows as one canonical JSON array of arrays, `[[…],[…]]`, streamed: no white space, plain
/// decimal integers, ASCII text. The caller brings the rows in the order that the checksum is about.
#[derive(Clone)]
pub struct ChecksumWriter {
    digest: Sha256,
    buffer: Vec<u8>,
    rows: u64,
}

/// Bytes that are gathered before they are hashed.
const BUFFER_BYTES: usize = 64 * 1024;

impl Default for ChecksumWriter {
    fn default() -> Self {
        ChecksumWriter { digest: Sha256::new(), buffer: Vec::with_capacity(BUFFER_BYTES + 1024), rows: 0 }
    }
}

impl ChecksumWriter {
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one row.
    pub fn row<'a>(&mut self, values: impl IntoIterator<Item = &'a Value>) {
        self.buffer.extend_from_slice(if self.rows == 0 { b"[[" } else { b",[" });
        self.rows += 1;
        for (position, value) in values.into_iter().enumerate() {
            if position > 0 {
                self.buffer.push(b',');
            }
            match value {
                Value::Null => self.buffer.extend_from_slice(b"null"),
                Value::Integer(number) => self.buffer.extend_from_slice(decimal(*number, &mut [0; 20])),
                Value::Text(text) => write_text(text, &mut self.buffer),
            }
        }
        self.buffer.push(b']');
        if self.buffer.len() >= BUFFER_BYTES {
            self.digest.update(&self.buffer);
            self.buffer.clear();
        }
    }

    /// How many rows have been appended.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The checksum in lower-case hex; no rows are `[]`.
    pub fn finish(mut self) -> String {
        self.buffer.extend_from_slice(if self.rows == 0 { b"[]" } else { b"]" });
        self.digest.update(&self.buffer);
        hex(&self.digest.finalize())
    }
}

/// Totals over groups, for comparing two sides at a glance. Only additive measures have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controls {
    groups: u64,
    overflowed: u64,
    /// Published field, and its total where the measure is additive.
    totals: Vec<(String, Option<i128>)>,
}

impl Controls {
    pub fn new(view: &View) -> Self {
        let measures = view.measures.iter();
        Controls {
            groups: 0,
            overflowed: 0,
            totals: measures.map(|measure| (measure.column.clone(), measure.additive.then_some(0))).collect(),
        }
    }

    /// Adds one group, its measures in the order of the view's columns.
    pub fn add(&mut self, group: &GroupValue) {
        self.groups += 1;
        match group {
            GroupValue::Overflow => self.overflowed += 1,
            GroupValue::Measures(numbers) => {
                for ((_, total), number) in self.totals.iter_mut().zip(numbers) {
                    if let (Some(total), Some(number)) = (total, number) {
                        // 2^64 groups of 64-bit numbers fit into 128 bits.
                        *total += i128::from(*number);
                    }
                }
            }
        }
    }

    pub fn groups(&self) -> u64 {
        self.groups
    }

    /// Groups that publish an overflow and take no part in the totals.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Field and total of each additive measure, in the order of the view's columns.
    pub fn totals(&self) -> impl Iterator<Item = (&str, i128)> {
        self.totals.iter().filter_map(|(field, total)| total.map(|total| (field.as_str(), total)))
    }

    /// `{"groups": 9, "overflowed": 0, "totals": {"units": "11"}}`; totals are decimal text, since they may
    /// need more than 64 bits.
    pub fn to_json(&self) -> serde_json::Value {
        let totals: serde_json::Map<String, serde_json::Value> =
            self.totals().map(|(field, total)| (field.to_owned(), total.to_string().into())).collect();
        serde_json::json!({ "groups": self.groups, "overflowed": self.overflowed, "totals": totals })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pure::canonical::{canonical_json, sha256_hex};
    use crate::pure::schema::{Column, ColumnType, Table};

    fn checksum(rows: &[Vec<Value>]) -> String {
        let mut writer = ChecksumWriter::new();
        rows.iter().for_each(|row| writer.row(row));
        assert_eq!(writer.rows(), rows.len() as u64);
        writer.finish()
    }

    #[test]
    fn the_text_that_is_hashed_is_fixed() {
        assert_eq!(checksum(&[]), sha256_hex(b"[]"));
        let rows = [
            vec!["O1".into(), i64::MIN.into(), Value::Null],
            vec!["\"\\/\u{7f}é😀\n".into(), 0.into(), 120.into()],
        ];
        let text = r#"[["O1",-9223372036854775808,null],["\"\\/\u007f\u00e9\ud83d\ude00\n",0,120]]"#;
        assert_eq!(checksum(&rows), sha256_hex(text.as_bytes()));
    }

    proptest! {
        #[test]
        fn streaming_gives_the_checksum_of_the_whole_text(
            rows in proptest::collection::vec((any::<String>(), any::<i64>()), 0..50), copies in 1_usize..40
        ) {
            let rows: Vec<Vec<Value>> = rows
                .into_iter()
                .map(|(text, number)| vec![Value::text(text), number.into(), Value::Null])
                .collect();
            let rows: Vec<Vec<Value>> = std::iter::repeat_n(rows, copies).flatten().collect();
            let json: serde_json::Value = rows
                .iter()
                .map(|row| row.iter().map(Value::to_json).collect::<serde_json::Value>())
                .collect();
            prop_assert_eq!(checksum(&rows), sha256_hex(canonical_json(&json).as_bytes()));
        }
    }

    #[test]
    fn only_additive_measures_have_a_total() {
        let column =
            |name: &str| Column { name: name.into(), column_type: ColumnType::Integer, nullable: true };
        let table = Table { name: "t".into(), columns: vec![column("a"), column("b")], key: vec![0] };
        let document = r#"{"object":"v","base":"t","refresh":{"freshness_slo_seconds":1},"metric_contract":{
            "filters":[],"aggregate_grain":["a"],"measures":{"rows":"count(*)","kinds":"count(distinct b)",
            "total":"sum(b)","least":"min(b)","some":"count(b)"}}}"#;
        let view = View::compile(document, "v.json", &[table]).unwrap();
        let mut controls = Controls::new(&view);
        let max = Some(i64::MAX);
        controls.add(&GroupValue::Measures(vec![Some(1), Some(1), max, Some(3), Some(1)]));
        controls.add(&GroupValue::Measures(vec![Some(2), Some(1), max, Some(3), Some(2)]));
        controls.add(&GroupValue::Measures(vec![Some(2), Some(0), None, None, Some(0)]));
        controls.add(&GroupValue::Overflow);
        assert_eq!(
            controls.to_json().to_string(),
            r#"{"groups":4,"overflowed":1,"totals":{"rows":"5","total":"18446744073709551614","some":"3"}}"#
        );
    }
}
