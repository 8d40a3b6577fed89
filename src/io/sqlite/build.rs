//! What a writer makes when it opens a base: tables that are new, views built from rows, marks dropped of
//! views that left the configuration.

use rusqlite::{OptionalExtension, params};

use super::writer::SqliteWriter;
use super::{Doing, schema};
use crate::ports::{BaseWriter, PortError, PortResult};
use crate::pure::catalog::{Catalog, CatalogView};
use crate::pure::group_key::GroupKey;
use crate::pure::value::Value;

pub(super) const MARK: &str =
    "INSERT INTO driftless_groups (view_id, group_key, changed_at) VALUES (?1, ?2, ?3)
    ON CONFLICT (view_id, group_key) DO UPDATE SET changed_at = excluded.changed_at";

/// How the group keys of a view are found among its rows.
pub(super) struct ViewKeys {
    pub(super) object: String,
    all_sql: String,
    grain: usize,
}

impl ViewKeys {
    pub(super) fn new(entry: &CatalogView) -> Self {
        ViewKeys {
            object: entry.view.object.clone(),
            all_sql: entry.recompute.all_sql.clone(),
            grain: entry.view.grain.len(),
        }
    }
}

impl SqliteWriter {
    /// Tables and views of the catalog, in one commit where something is new.
    pub(super) fn ensure_catalog(&mut self, catalog: &Catalog, at_ms: i64) -> PortResult<()> {
        self.begin()?;
        let tables_before: i64 = self.count("driftless_tables")?;
        self.table_ids = schema::ensure_tables(&self.connection, catalog)?;
        let mut changed = self.count("driftless_tables")? != tables_before;
        changed |= self.forget_views(catalog)?;
        for (index, entry) in catalog.views.iter().enumerate() {
            let view = &entry.view;
            let known: Option<(i64, String)> = self
                .connection
                .query_row(
                    "SELECT view_id, definition_hash FROM driftless_views WHERE object = ?1",
                    [&view.object],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .optional()
                .doing("base: look for a view")?;
            match known {
                Some((id, stored)) if stored == view.definition_hash => self.view_ids.push(id),
                Some((_, stored)) => {
                    return Err(PortError::permanent(format!(
                        "view {} has definition {}, the base was built with {stored}",
                        view.object, view.definition_hash
                    ))
                    .with_hint("a changed definition is a new generation: driftless generations build --contract FILE builds it from this base's rows; or give the changed view a new object name"));
                }
                None => {
                    self.build_view(catalog, index)?;
                    changed = true;
                }
            }
        }
        if changed {
            self.commit(at_ms)?;
        } else {
            self.rollback();
        }
        Ok(())
    }

    /// A view that is new to the base: its index, and a mark for every group that its rows have.
    fn build_view(&mut self, catalog: &Catalog, index: usize) -> PortResult<()> {
        let entry = &catalog.views[index];
        let doing = format!("base: build view {}", entry.view.object);
        tracing::info!(view = entry.view.object, "building the view from the base's rows");
        self.connection
            .execute(
                "INSERT INTO driftless_views (object, definition_hash, document, since_commit) VALUES (?1, ?2, ?3, ?4)",
                params![
                    entry.view.object,
                    entry.view.definition_hash,
                    entry.view.document.to_string(),
                    self.commit.next().0 as i64
                ],
            )
            .doing(&doing)?;
        self.view_ids.push(self.connection.last_insert_rowid());
        self.connection.execute_batch(&entry.recompute.index_sql).doing(&doing)?;
        self.mark_all_groups(index)
    }

    /// Marks every group that the rows of a view's table have, and says that marks begin here.
    pub(super) fn mark_all_groups(&mut self, view: usize) -> PortResult<()> {
        let ViewKeys { object, all_sql, grain } = &self.views[view];
        let doing = format!("base: mark all groups of {object}");
        let commit = self.commit.next().0 as i64;
        let mark_all = || -> rusqlite::Result<()> {
            self.connection.execute(
                "UPDATE driftless_views SET since_commit = ?2 WHERE view_id = ?1",
                params![self.view_ids[view], commit],
            )?;
            let mut last: Option<GroupKey> = None;
            let mut keys = self.connection.prepare(all_sql)?;
            let mut rows = keys.query([])?;
            let mut mark = self.connection.prepare(MARK)?;
            while let Some(row) = rows.next()? {
                let parts: Vec<Value> =
                    (0..*grain).map(|column| row.get(column)).collect::<Result<_, _>>()?;
                let key = GroupKey::encode(&parts);
                if last.as_ref() != Some(&key) {
                    mark.execute(params![self.view_ids[view], key.as_str(), commit])?;
                    last = Some(key);
                }
            }
            Ok(())
        };
        mark_all().doing(&doing)
    }

    /// Views that are no longer configured lose their marks: nobody would keep them. Configured again, such a
    /// view is built from its rows, as a new one is.
    fn forget_views(&mut self, catalog: &Catalog) -> PortResult<bool> {
        let doing = "base: forget views that are no longer configured";
        let known: Vec<(i64, String)> = self
            .connection
            .prepare("SELECT view_id, object FROM driftless_views")
            .and_then(|mut statement| {
                statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
            })
            .doing(doing)?;
        let mut any = false;
        for (id, object) in known {
            if catalog.view(&object).is_some() {
                continue;
            }
            tracing::info!(view = object, "the view is no longer configured: its marks are dropped");
            self.run("DELETE FROM driftless_groups WHERE view_id = ?1", [id], doing)?;
            self.run("DELETE FROM driftless_changes WHERE view_id = ?1", [id], doing)?;
            self.run("DELETE FROM driftless_views WHERE view_id = ?1", [id], doing)?;
            any = true;
        }
        Ok(any)
    }

    fn count(&self, table: &str) -> PortResult<i64> {
        self.connection
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
            .doing("base: count")
    }
}
