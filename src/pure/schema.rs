//! The shape of a base table: columns, types, primary key. Knows nothing of how it is stored.

use std::sync::Arc;

/// What a column holds. A date is text `YYYY-MM-DD` that names a day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    Integer,
    Text,
    Date,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: Arc<str>,
    pub column_type: ColumnType,
    pub nullable: bool,
}

/// One table of facts. `key` holds the positions in `columns` of the primary key, in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub name: Arc<str>,
    pub columns: Vec<Column>,
    pub key: Vec<usize>,
}

impl Table {
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| &*column.name == name)
    }

    pub fn is_key(&self, column: usize) -> bool {
        self.key.contains(&column)
    }
}

/// Exactly `YYYY-MM-DD`, and a day that the calendar has.
pub fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes[at].wrapping_sub(b'0');
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    if [0, 1, 2, 3, 5, 6, 8, 9].iter().any(|&at| digit(at) > 9) {
        return false;
    }
    let year = (0..4).fold(0i16, |year, at| year * 10 + i16::from(digit(at)));
    let month = (digit(5) * 10 + digit(6)) as i8;
    let day = (digit(8) * 10 + digit(9)) as i8;
    jiff::civil::Date::new(year, month, day).is_ok()
}
