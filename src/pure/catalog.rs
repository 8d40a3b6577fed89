//! What this maintainer is configured to maintain: tables, the topics that feed them, the views over them.
//! Indexes into these lists are how the rest of the code speaks of them.

use std::sync::Arc;

use crate::pure::contract::View;
use crate::pure::formats::Decoder;
use crate::pure::formats::native::Order;
use crate::pure::recompute::Recompute;
use crate::pure::schema::Table;
use crate::pure::watermark::Mode;

/// Where a first start may begin to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Only at offset 0: a log that begins later needs a first load.
    Complete,
    /// At whatever the log still holds; the meta shows from where history is known.
    LogStart,
}

/// A topic and what is promised of it.
#[derive(Clone, Debug)]
pub struct Topic {
    pub name: Arc<str>,
    pub table: usize,
    pub start: Start,
    pub decoder: Decoder,
}

/// A table and the mode of its one sequence space.
#[derive(Clone, Debug)]
pub struct BaseTable {
    pub shape: Arc<Table>,
    pub mode: Mode,
}

impl BaseTable {
    /// Where the order of a key's events comes from.
    pub fn order(mode: Mode) -> Order {
        match mode {
            Mode::Offsets => Order::Offset,
            Mode::Dense { .. } | Mode::Sparse { .. } | Mode::AppendOrdered => Order::SourceSeq,
        }
    }
}

/// A view and how its groups are recomputed.
#[derive(Clone, Debug)]
pub struct CatalogView {
    pub view: View,
    pub table: usize,
    pub recompute: Recompute,
}

/// Everything that is maintained over one base.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    pub tables: Vec<BaseTable>,
    pub topics: Vec<Topic>,
    pub views: Vec<CatalogView>,
}

impl Catalog {
    pub fn table(&self, name: &str) -> Option<usize> {
        self.tables.iter().position(|table| &*table.shape.name == name)
    }

    pub fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.iter().find(|topic| &*topic.name == name)
    }

    pub fn view(&self, object: &str) -> Option<usize> {
        self.views.iter().position(|entry| entry.view.object == object)
    }

    /// The views over one table.
    pub fn views_of(&self, table: usize) -> impl Iterator<Item = (usize, &CatalogView)> {
        self.views.iter().enumerate().filter(move |(_, entry)| entry.table == table)
    }
}
