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
