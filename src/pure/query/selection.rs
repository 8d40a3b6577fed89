//! The rows of the base that a question is about, as SQL with bound parameters. Builds text; must not run it.

use super::Query;
use crate::pure::recompute::Recompute;
use crate::pure::schema::Table;
use crate::pure::sql::quote_identifier;
use crate::pure::value::Value;

/// A statement that reads rows, and what is bound to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    pub sql: String,
    pub parameters: Vec<Value>,
    /// Columns of each row.
    pub width: usize,
}

impl Selection {
    /// `SELECT leading…, inputs…` of the view's rows that satisfy the conditions; `ordered` sorts by the leading ones.
    pub fn new(
        query: &Query,
        recompute: &Recompute,
        table: &Table,
        leading: &[usize],
        inputs: &[usize],
        ordered: bool,
    ) -> Self {
        let name = |column: &usize| quote_identifier(&table.columns[*column].name);
        let mut selected: Vec<String> = leading.iter().chain(inputs).map(name).collect();
        if selected.is_empty() {
            selected.push("1".to_owned());
        }
        let mut parameters = Vec::new();
        let mut sql = format!("SELECT {} {}", selected.join(", "), recompute.rows_from);
        for condition in &query.conditions {
            sql.push_str(" AND ");
            sql.push_str(&condition.sql(table, &mut parameters));
        }
        if ordered && !leading.is_empty() {
            let order: Vec<String> = leading.iter().map(name).collect();
            sql.push_str(&format!(" ORDER BY {}", order.join(", ")));
        }
        Selection { sql, parameters, width: leading.len() + inputs.len() }
    }
}
