//! The recompute plan of a view: the columns it reads, the covering index and the two queries as SQL text, and
//! the accumulator that turns rows into a group's value. Builds text and adds numbers; must not run a query.

mod accumulator;
mod wide_sum;

#[cfg(test)]
mod tests;

pub use accumulator::Accumulator;

use crate::pure::canonical::sha256_hex;
use crate::pure::contract::{Aggregate, Measure, View};
use crate::pure::schema::Table;
use crate::pure::sql::{quote_identifier, storage_name};

/// The storage column that tells rows (1) from graves (0), quoted.
const LIVE: &str = "\"_live\"";

/// How the groups of one view are computed from the stored rows of its table.
///
/// The queries see live rows that pass the contract's and the policy's filters, and nothing else. Both read the
/// covering index alone.
#[derive(Clone, Debug)]
pub struct Recompute {
    /// Table columns that the aggregates need, each once. A query selects them in this order, and
    /// [`Accumulator::add`] takes them so.
    pub inputs: Vec<usize>,
    /// `CREATE INDEX IF NOT EXISTS`, to be run once when the base is opened. The index name ends with a
    /// digest of what the index is, so that a changed view never meets the index of its predecessor.
    pub index_sql: String,
    /// `SELECT inputs…` of one group; parameter n is grain value n, from 1. Without inputs a 1 stands in.
    pub group_sql: String,
    /// `SELECT grain…, inputs…` of all groups, ordered by grain **values** (null, integers, text by UTF-8
    /// bytes), which is not the order of encoded group keys. Rows of one group lie together.
    pub all_sql: String,
    /// As `all_sql`, from the grain values in the first parameters to those in the ones that follow, both included.
    /// `None` where a grain value may be null: null is in no range.
    pub range_sql: Option<String>,
    /// `FROM … WHERE …` of the rows that the view aggregates; further conditions go behind it.
    pub rows_from: String,
    /// Quoted names of the grain, for [`Recompute::walk_sql`].
    grain: Vec<String>,
    /// One a measure, with columns as positions in `inputs`.
    aggregates: Vec<Aggregate>,
    minimum_group_lines: u64,
}

impl Recompute {
    /// The plan of `view`, which must have been compiled with `table`.
    pub fn new(view: &View, table: &Table) -> Self {
        let (inputs, aggregates) = inputs_and_aggregates(&view.measures);
        let names = |columns: &[usize]| -> Vec<String> {
            columns.iter().map(|column| quote_identifier(&table.columns[*column].name)).collect()
        };
        let grain: Vec<usize> = view.grain.iter().map(|dimension| dimension.column).collect();
        let storage = quote_identifier(&storage_name(&view.base));
        let condition = condition(view, table);

        // SQLite reads the columns of the condition although the index implies it, so they are in it too.
        let mut covered = names(&index_columns(view, table, &grain, &inputs));
        covered.push(LIVE.to_owned());
        let covered = covered.join(", ");
        let index_body = format!("ON {storage} ({covered}) WHERE {condition}");
        let digest = sha256_hex(index_body.as_bytes());
        let index = quote_identifier(&format!("driftless_index_{}_{}", view.object, &digest[..12]));

        let from = format!("FROM {storage} INDEXED BY {index} WHERE {condition}");
        let input_names = names(&inputs);
        let grain_names = names(&grain);
        let selected = if inputs.is_empty() { "1".to_owned() } else { input_names.join(", ") };
        let group: String = view
            .grain
            .iter()
            .zip(&grain_names)
            .enumerate()
            .map(|(position, (dimension, name))| {
                let equals = if dimension.nullable { "IS" } else { "=" };
                format!(" AND {name} {equals} ?{}", position + 1)
            })
            .collect();
        let all: Vec<String> = grain_names.iter().chain(&input_names).cloned().collect();
        let nullable = view.grain.iter().any(|dimension| dimension.nullable);
        let range_sql = (!nullable && !view.grain.is_empty()).then(|| {
            let (names, count) = (grain_names.join(", "), grain_names.len());
            let parameters = |first: usize| -> String {
                (first..first + count).map(|number| format!("?{number}")).collect::<Vec<_>>().join(", ")
            };
            format!(
                "SELECT {} {from} AND ({names}) >= ({}) AND ({names}) <= ({}) ORDER BY {names}",
                all.join(", "),
                parameters(1),
                parameters(count + 1)
            )
        });
        Recompute {
            range_sql,
            index_sql: format!("CREATE INDEX IF NOT EXISTS {index} {index_body}"),
            group_sql: format!("SELECT {selected} {from}{group}"),
            all_sql: format!("SELECT {} {from} ORDER BY {}", all.join(", "), grain_names.join(", ")),
            rows_from: from,
            grain: grain_names,
            inputs,
            aggregates,
            minimum_group_lines: view.minimum_group_lines(),
        }
    }
}

impl Recompute {
    /// `SELECT DISTINCT grain…` in the order of grain values: those whose first `equal` values are the parameters
    /// from 1 on and whose next one is greater than the parameter after them (`after_null`: is anything but null).
    /// The parameter after those is the most to return. `None` walks from the start, with the limit alone.
    pub fn walk_sql(&self, from: Option<(usize, bool)>) -> String {
        let (names, source) = (&self.grain, &self.rows_from);
        let mut condition = String::new();
        let mut parameters = 0;
        if let Some((equal, after_null)) = from {
            for name in &names[..equal] {
                parameters += 1;
                condition.push_str(&format!(" AND {name} IS ?{parameters}"));
            }
            match after_null {
                true => condition.push_str(&format!(" AND {} IS NOT NULL", names[equal])),
                false => {
                    parameters += 1;
                    condition.push_str(&format!(" AND {} > ?{parameters}", names[equal]));
                }
            }
        }
        let list = names.join(", ");
        format!("SELECT DISTINCT {list} {source}{condition} ORDER BY {list} LIMIT ?{}", parameters + 1)
    }
}

/// The columns that the aggregates of these measures read, each once, and the aggregates with positions among them.
pub fn inputs_and_aggregates<'a>(
    measures: impl IntoIterator<Item = &'a Measure>,
) -> (Vec<usize>, Vec<Aggregate>) {
    let mut inputs: Vec<usize> = Vec::new();
    let mut position = |column: usize| {
        inputs.iter().position(|input| *input == column).unwrap_or_else(|| {
            inputs.push(column);
            inputs.len() - 1
        })
    };
    let aggregates = measures
        .into_iter()
        .map(|measure| match &measure.aggregate {
            Aggregate::CountRows => Aggregate::CountRows,
            Aggregate::CountDistinct(column) => Aggregate::CountDistinct(position(*column)),
            Aggregate::Count(inner) => Aggregate::Count(inner.with_columns(&mut position)),
            Aggregate::Sum(inner) => Aggregate::Sum(inner.with_columns(&mut position)),
            Aggregate::Min(inner) => Aggregate::Min(inner.with_columns(&mut position)),
            Aggregate::Max(inner) => Aggregate::Max(inner.with_columns(&mut position)),
        })
        .collect();
    (inputs, aggregates)
}

/// Grain first, then what makes the index covering. Key columns are in every index of a WITHOUT ROWID table.
fn index_columns(view: &View, table: &Table, grain: &[usize], inputs: &[usize]) -> Vec<usize> {
    let mut columns = grain.to_vec();
    let filtered = view.all_filters().map(|filter| filter.column);
    for column in inputs.iter().copied().chain(filtered) {
        if !columns.contains(&column) && !table.is_key(column) {
            columns.push(column);
        }
    }
    columns
}

/// The condition of the partial index, repeated word for word in the queries so that SQLite sees that it holds.
fn condition(view: &View, table: &Table) -> String {
    let mut terms = vec![format!("{LIVE} = 1")];
    terms.extend(view.all_filters().map(|filter| filter.sql(table)));
    terms.join(" AND ")
}
