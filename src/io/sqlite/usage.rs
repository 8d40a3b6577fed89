//! The book of what was asked through the router: counts by day, view, role, route, reason and measure. Short
//! transactions of its own connection, which wait for the writer a moment and then give up.

use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::{BaseSettings, Doing, connect};
use crate::ports::{PortError, PortResult, UseBook};
use crate::pure::usage::{OTHER_ROLES, Use, UseCount};

/// How long a count may wait for the base's writer.
const PATIENCE: Duration = Duration::from_millis(100);
/// Different roles that are told apart on one day and view; a role is a caller's word, so their number is bounded.
const ROLES_PER_DAY_MAX: i64 = 100;

/// The one connection that counts.
pub struct SqliteUseBook {
    connection: Connection,
    days_max: u32,
    /// The day on which older ones were last forgotten.
    pruned: String,
}

impl SqliteUseBook {
    /// Opens the book of a base; counts of more than `days_max` days are forgotten.
    pub fn open(settings: &BaseSettings, days_max: u32) -> PortResult<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = connect(settings, flags)?;
        connection.busy_timeout(PATIENCE).doing("base: open the book of uses")?;
        Ok(SqliteUseBook { connection, days_max, pruned: String::new() })
    }

    /// What was asked of a view since a day, most frequent first; all views where none is named.
    pub fn counts(&self, view: Option<&str>, since_day: &str) -> PortResult<Vec<UseCount>> {
        let read = || -> rusqlite::Result<Vec<UseCount>> {
            self.connection
                .prepare(
                    "SELECT object, role, route, reason, measure, sum(times), max(day) FROM driftless_uses
                     WHERE day >= ?1 AND (?2 IS NULL OR object = ?2)
                     GROUP BY object, role, route, reason, measure
                     ORDER BY object, sum(times) DESC, role, route, reason, measure",
                )?
                .query_map(params![since_day, view], |row| {
                    Ok(UseCount {
                        view: row.get(0)?,
                        role: row.get(1)?,
                        route: row.get(2)?,
                        reason: row.get(3)?,
                        measure: row.get(4)?,
                        times: row.get::<_, i64>(5)?.unsigned_abs(),
                        last_day: row.get(6)?,
                    })
                })?
                .collect()
        };
        read().doing("base: read the book of uses")
    }

    fn add(&mut self, used: &Use) -> rusqlite::Result<()> {
        let transaction =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let role = role_to_count(&transaction, used)?;
        let count = |reason: &str, measure: &str| {
            transaction
                .prepare_cached(
                    "INSERT INTO driftless_uses VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1)
                     ON CONFLICT DO UPDATE SET times = times + 1",
                )?
                .execute(params![used.day, used.view, role, used.route_name(), reason, measure])
        };
        count("", "")?;
        for reason in &used.reasons {
            count(reason.name(), "")?;
        }
        for measure in &used.measures {
            count("", measure)?;
        }
        if self.pruned != used.day {
            transaction.execute(
                "DELETE FROM driftless_uses WHERE day < date(?1, '-' || ?2 || ' days')",
                params![used.day, self.days_max],
            )?;
        }
        transaction.commit()?;
        self.pruned.clone_from(&used.day);
        Ok(())
    }
}

/// The role itself while it is one of few.
fn role_to_count(connection: &Connection, used: &Use) -> rusqlite::Result<String> {
    let known = connection
        .prepare_cached("SELECT 1 FROM driftless_uses WHERE day = ?1 AND object = ?2 AND role = ?3 LIMIT 1")?
        .query_row([&used.day, &used.view, &used.role], |_| Ok(()))
        .optional()?;
    if known.is_some() {
        return Ok(used.role.clone());
    }
    let roles: i64 = connection
        .prepare_cached("SELECT count(DISTINCT role) FROM driftless_uses WHERE day = ?1 AND object = ?2")?
        .query_row([&used.day, &used.view], |row| row.get(0))?;
    Ok(if roles < ROLES_PER_DAY_MAX { used.role.clone() } else { OTHER_ROLES.to_owned() })
}

impl UseBook for SqliteUseBook {
    fn count(&mut self, used: &Use) -> PortResult<()> {
        self.add(used).doing("base: count a use").map_err(|error| {
            PortError { hint: None, ..error }
                .with_hint("set route.count_uses = false where nobody wants the counts")
        })
    }
}
