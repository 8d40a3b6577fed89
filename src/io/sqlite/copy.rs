//! A copy of a base as another generation: all facts, graves and positions of one snapshot, and nothing that was said
//! of the old one's publication. The writer of the original goes on meanwhile.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};

use super::{BaseSettings, Doing, connect, schema};
use crate::ports::{PortError, PortResult};
use crate::pure::base::{Action, ViewState, Word};
use crate::pure::sql::quote_identifier;

/// What is to differ in the copy.
#[derive(Clone, Debug)]
pub struct Copy<'a> {
    pub generation: &'a str,
    /// Definition hash by view: views that were built otherwise lose their groups, and are built anew by the
    /// copy's first writer.
    pub definitions: &'a BTreeMap<String, String>,
    /// A request that the copy's writer finds.
    pub request: Option<(&'a Action, &'a Word)>,
}

/// Copies the base into a new file. The copy appears under its name only once it is whole.
pub fn copy_base(from: &BaseSettings, to: &Path, copy: &Copy<'_>) -> PortResult<()> {
    let mut draft = to.as_os_str().to_owned();
    draft.push(".draft");
    let draft = Path::new(&draft);
    crate::io::control::remove_base(draft)?;
    let text = draft.to_str().ok_or_else(|| {
        PortError::permanent(format!("{}: SQLite takes file names in UTF-8 only", draft.display()))
    })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = connect(from, flags)?;
    schema::check_version(&source)?;
    source.execute("VACUUM INTO ?1", [text]).doing(&format!(
        "base: copy {} to {}",
        from.path.display(),
        to.display()
    ))?;
    let target = Connection::open_with_flags(draft, flags).doing(&format!("base {}", draft.display()))?;
    target.execute_batch("BEGIN IMMEDIATE").doing("base: rename a copy")?;
    become_another(&target, copy)?;
    target.execute_batch("COMMIT").doing("base: rename a copy")?;
    target.close().map_err(|(_, error)| super::trouble(error, "base: close a copy"))?;
    std::fs::rename(draft, to).map_err(|error| PortError::permanent(format!("{}: {error}", to.display())))
}

/// The covering indexes of a view that will be built anew: each name ends with a digest of twelve characters.
fn drop_indexes(target: &Connection, object: &str) -> PortResult<()> {
    let doing = "base: drop a view's index";
    let prefix = format!("driftless_index_{object}_");
    let names: Vec<String> = target
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'index' AND substr(name, 1, length(?1)) = ?1")
        .and_then(|mut statement| statement.query_map([&prefix], |row| row.get(0))?.collect())
        .doing(doing)?;
    for name in names.iter().filter(|name| name.len() == prefix.len() + 12) {
        target.execute_batch(&format!("DROP INDEX {}", quote_identifier(name))).doing(doing)?;
    }
    Ok(())
}

fn become_another(target: &Connection, copy: &Copy<'_>) -> PortResult<()> {
    let doing = "base: rename a copy";
    target
        .execute("UPDATE driftless_facts SET value = ?1 WHERE name = 'generation'", [copy.generation])
        .doing(doing)?;
    let views: Vec<(i64, String, String, String)> = target
        .prepare("SELECT view_id, object, definition_hash, state FROM driftless_views")
        .and_then(|mut statement| {
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?.collect()
        })
        .doing(doing)?;
    for (id, object, definition, state) in views {
        if copy.definitions.get(&object) != Some(&definition) {
            for table in ["driftless_groups", "driftless_changes", "driftless_views"] {
                let sql = format!("DELETE FROM {table} WHERE view_id = ?1");
                target.execute(&sql, [id]).doing(doing)?;
            }
            drop_indexes(target, &object)?;
            continue;
        }
        // The kill switch is an operator's word about the view; what a reconciler found is about its publication.
        let state: ViewState = serde_json::from_str(&state)
            .map_err(|error| PortError::permanent(format!("{doing}: view {object}: {error}")))?;
        let kept = ViewState { disabled: state.disabled, ..ViewState::default() };
        target
            .execute(
                "UPDATE driftless_views SET state = ?2 WHERE view_id = ?1",
                params![id, serde_json::json!(kept).to_string()],
            )
            .doing(doing)?;
    }
    target
        .execute_batch(
            "DELETE FROM driftless_reconciles; DELETE FROM driftless_repairs;
             DELETE FROM driftless_requests WHERE state = 'open';",
        )
        .doing(doing)?;
    if let Some((action, word)) = copy.request {
        let text = serde_json::to_string(action)
            .map_err(|error| PortError::permanent(format!("{doing}: {error}")))?;
        target
            .execute(
                "INSERT INTO driftless_requests (at_ms, who, why, action) VALUES (?1, ?2, ?3, ?4)",
                params![word.at_ms, word.who, word.why, text],
            )
            .doing(doing)?;
    }
    Ok(())
}
