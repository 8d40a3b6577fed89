//! SQL text: the only place that quotes an identifier or a literal, and the names of what the base stores.
//! Builds text; must not run it.

use crate::pure::value::Value;

/// The SQLite table that holds the rows of the base table `table`, `_live = 0` ones (graves) included.
pub fn storage_name(table: &str) -> String {
    format!("driftless_rows_{table}")
}

/// The identifier between double quotes. A name with NUL is refused where contracts and settings are read.
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The value as an SQL literal. Text with NUL is refused where contracts are read.
pub fn quote_literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_name_or_text_sqlite_reads_it_back() {
        let base = rusqlite::Connection::open_in_memory().unwrap();
        for text in ["", "a\"b", "a'b''", "x'); drop table y; --", "/* */", "`[]`", "\\'", "é😀\n"] {
            let sql = format!("SELECT {} AS {}", quote_literal(&text.into()), quote_identifier(text));
            let mut statement = base.prepare(&sql).unwrap();
            assert!(statement.column_names().eq([text]));
            let read: String = statement.query_row([], |row| row.get(0)).unwrap();
            assert_eq!(read, text);
        }
        for number in [i64::MIN, -1, 0, i64::MAX] {
            let sql = format!("SELECT {}", quote_literal(&number.into()));
            let read: i64 = base.query_row(&sql, [], |row| row.get(0)).unwrap();
            assert_eq!(read, number);
        }
    }
}
