//! The statements that read and write the latest event of a key, as text, one set a table.

use std::sync::Arc;

use crate::pure::schema::Table;
use crate::pure::sql::{quote_identifier, storage_name};

pub(super) struct TableStatements {
    pub(super) shape: Arc<Table>,
    pub(super) select: String,
    /// A walk in key order: from the start, and from behind a key.
    pub(super) select_first: String,
    pub(super) select_after: String,
    pub(super) insert: String,
    pub(super) update: String,
    pub(super) insert_grave: String,
    pub(super) update_grave: String,
    /// Graves of all rows below a sequence, which is parameter 4; as a plain one they are below 1 or, where 2 is
    /// true, all of them; as bytes below 3.
    pub(super) truncate: String,
}

impl TableStatements {
    pub(super) fn new(shape: Arc<Table>) -> Self {
        let storage = quote_identifier(&storage_name(&shape.name));
        let name = |&column: &usize| quote_identifier(&shape.columns[column].name);
        let all: Vec<usize> = (0..shape.columns.len()).collect();
        let others: Vec<usize> = all.iter().copied().filter(|&c| !shape.is_key(c)).collect();
        let key_match = |first: usize| -> String {
            let terms: Vec<String> = shape
                .key
                .iter()
                .enumerate()
                .map(|(part, column)| format!("{} = ?{}", name(column), first + part))
                .collect();
            terms.join(" AND ")
        };
        let list = |columns: &[usize]| -> String { columns.iter().map(name).collect::<Vec<_>>().join(", ") };
        let marks = |count: usize| vec!["?"; count].join(", ");
        let (total, key_count) = (all.len(), shape.key.len());
        // Column n of the row is parameter n + 1 throughout; the sequence comes after the last column.
        let assignments: Vec<String> =
            others.iter().map(|column| format!("{} = ?{}, ", name(column), column + 1)).collect();
        let nulls: Vec<String> = others.iter().map(|column| format!("{} = NULL, ", name(column))).collect();
        let row_key_match: Vec<String> =
            shape.key.iter().map(|column| format!("{} = ?{}", name(column), column + 1)).collect();
        let (row, key) = (format!("SELECT _seq, _live, {} FROM {storage}", list(&all)), list(&shape.key));
        let numbers: Vec<String> = (1..=key_count).map(|number| format!("?{number}")).collect();
        TableStatements {
            select: format!("{row} WHERE {}", key_match(1)),
            select_first: format!("{row} ORDER BY {key} LIMIT ?1"),
            select_after: format!(
                "{row} WHERE ({key}) > ({}) ORDER BY {key} LIMIT ?{}",
                numbers.join(", "),
                key_count + 1
            ),
            insert: format!(
                "INSERT INTO {storage} ({}, _seq, _live) VALUES ({}, 1)",
                list(&all),
                marks(total + 1)
            ),
            update: format!(
                "UPDATE {storage} SET {}_seq = ?{}, _live = 1 WHERE {}",
                assignments.concat(),
                total + 1,
                row_key_match.join(" AND ")
            ),
            insert_grave: format!(
                "INSERT INTO {storage} ({}, _seq, _live) VALUES ({}, 0)",
                list(&shape.key),
                marks(key_count + 1)
            ),
            update_grave: format!(
                "UPDATE {storage} SET {}_seq = ?{}, _live = 0 WHERE {}",
                nulls.concat(),
                key_count + 1,
                key_match(1)
            ),
            truncate: format!(
                "UPDATE {storage} SET {}_seq = ?4, _live = 0 WHERE _live = 1
                   AND CASE typeof(_seq) WHEN 'integer' THEN ?2 OR _seq < ?1 ELSE _seq < ?3 END",
                nulls.concat(),
            ),
            shape,
        }
    }
}
