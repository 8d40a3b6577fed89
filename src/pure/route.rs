//! Whether a view in Redis may answer a question: every check with a stable reason code and its evidence. A function
//! of the question, the view, what Redis shows and what the base says; touches neither.

mod state;

#[cfg(test)]
mod tests;

use crate::pure::contract::View;
use crate::pure::query::Query;
use crate::pure::schema::Table;

pub use state::{Facts, ReconcilePolicy, state_checks};

/// Which store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Route {
    Redis,
    Base,
}

impl Route {
    pub fn name(self) -> &'static str {
        match self {
            Route::Redis => "redis",
            Route::Base => "base",
        }
    }
}

/// What a check is about, and the reason where it fails. The names are a public interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// Nothing stands against Redis.
    Eligible,
    PolicyDenied,
    ContractMismatch,
    Disabled,
    Quarantined,
    Unreachable,
    GrainNotCovered,
    FilterNotCovered,
    NotAdditive,
    RetentionExpired,
    Incomplete,
    Stale,
    NotReconciled,
    Mixed,
}

impl Code {
    pub fn name(self) -> &'static str {
        match self {
            Code::Eligible => "ELIGIBLE",
            Code::PolicyDenied => "POLICY_DENIED",
            Code::ContractMismatch => "CONTRACT_MISMATCH",
            Code::Disabled => "DISABLED",
            Code::Quarantined => "QUARANTINED",
            Code::Unreachable => "UNREACHABLE",
            Code::GrainNotCovered => "GRAIN_NOT_COVERED",
            Code::FilterNotCovered => "FILTER_NOT_COVERED",
            Code::NotAdditive => "NOT_ADDITIVE",
            Code::RetentionExpired => "RETENTION_EXPIRED",
            Code::Incomplete => "INCOMPLETE",
            Code::Stale => "STALE",
            Code::NotReconciled => "NOT_RECONCILED",
            Code::Mixed => "MIXED",
        }
    }
}

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    Holds,
    Fails,
    /// There was nothing to look at.
    Unknown,
}

/// Whom a failed check keeps from answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bars {
    Redis,
    Both,
}

/// One check and its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub code: Code,
    pub finding: Finding,
    pub bars: Bars,
    pub evidence: String,
}

impl Check {
    fn of(code: Code, bars: Bars, holds: bool, evidence: impl Into<String>) -> Self {
        let finding = if holds { Finding::Holds } else { Finding::Fails };
        Check { code, finding, bars, evidence: evidence.into() }
    }

    /// A check of Redis alone that fails: found out while its rows were read.
    pub fn failed(code: Code, evidence: impl Into<String>) -> Self {
        Check::of(code, Bars::Redis, false, evidence)
    }

    fn unknown(code: Code, evidence: impl Into<String>) -> Self {
        Check { code, finding: Finding::Unknown, bars: Bars::Redis, evidence: evidence.into() }
    }

    fn bars(&self, route: Route) -> bool {
        self.finding == Finding::Fails && (route == Route::Redis || self.bars == Bars::Both)
    }
}

/// All checks of one question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub checks: Vec<Check>,
}

impl Decision {
    pub fn allows(&self, route: Route) -> bool {
        !self.checks.iter().any(|check| check.bars(route))
    }

    /// What stands against Redis, each once, the gravest first; [`Code::Eligible`] where nothing does.
    pub fn reasons(&self) -> Vec<Code> {
        let mut reasons: Vec<Code> =
            self.checks.iter().filter(|check| check.bars(Route::Redis)).map(|check| check.code).collect();
        reasons.sort_unstable();
        reasons.dedup();
        if reasons.is_empty() {
            reasons.push(Code::Eligible);
        }
        reasons
    }

    /// Evidence of the checks that fail.
    pub fn failures(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.finding == Finding::Fails)
    }
}

/// What can be told from question and view alone, whatever state the view is in.
pub fn shape_checks(query: &Query, view: &View, table: &Table) -> Vec<Check> {
    let mut checks = policy(query, view, table);
    checks.extend([
        pinned_contract(query, view),
        grain(query, view, table),
        filters(query, view, table),
        additivity(query, view),
    ]);
    checks
}

fn policy(query: &Query, view: &View, table: &Table) -> Vec<Check> {
    let roles = &view.policy.roles;
    let named = |role: &String| roles.contains(role);
    let may = roles.iter().any(|role| role == "*") || query.role.as_ref().is_some_and(named);
    let role = query.role.as_deref().map_or_else(|| "no role".to_owned(), |role| format!("role {role}"));
    let evidence = match may {
        true => format!("{role} may read the view (roles: {})", list(roles)),
        // Who else may is nobody's business who may not.
        false => format!("{role} may not read the view"),
    };
    let mut checks = vec![Check::of(Code::PolicyDenied, Bars::Both, may, evidence)];
    let lines = view.minimum_group_lines();
    if lines > 1 {
        // A condition on anything else could cut one row out of a group, which is what the policy withholds.
        let outside = names(table, &[query.filtered_outside(view), query.grouped_outside(view)].concat());
        let evidence = match outside.as_str() {
            "" => format!("groups of fewer than {lines} rows are withheld; only grain columns are used"),
            outside => {
                format!("groups of fewer than {lines} rows are withheld, and {outside} would divide them")
            }
        };
        checks.push(Check::of(Code::PolicyDenied, Bars::Both, outside.is_empty(), evidence));
        let rolled_up = query.rolled_up(view);
        let evidence = match rolled_up.is_empty() {
            true => "no roll-up".to_owned(),
            false => format!("groups are withheld, so the base adds up over {}", rolled_up.join(", ")),
        };
        checks.push(Check::of(Code::PolicyDenied, Bars::Redis, rolled_up.is_empty(), evidence));
    }
    checks
}

fn pinned_contract(query: &Query, view: &View) -> Check {
    let ours = &view.contract_hash;
    let (holds, evidence) = match &query.contract {
        None => (true, format!("no contract was asked for; this is {ours}")),
        Some(asked) if asked == ours => (true, format!("the contract asked for is {ours}")),
        Some(asked) => (false, format!("asked for {asked}, the view has {ours}")),
    };
    Check::of(Code::ContractMismatch, Bars::Both, holds, evidence)
}

fn grain(query: &Query, view: &View, table: &Table) -> Check {
    let outside = names(table, &query.grouped_outside(view));
    let evidence = match outside.as_str() {
        "" => "every column grouped by is in the grain".to_owned(),
        outside => format!("grouped by {outside}; the grain is {}", grain_names(view)),
    };
    Check::of(Code::GrainNotCovered, Bars::Redis, outside.is_empty(), evidence)
}

fn filters(query: &Query, view: &View, table: &Table) -> Check {
    let outside = names(table, &query.filtered_outside(view));
    let evidence = match outside.as_str() {
        "" => "every condition is on the grain, or one of the view's own filters".to_owned(),
        outside => format!("a condition on {outside}; the grain is {}", grain_names(view)),
    };
    Check::of(Code::FilterNotCovered, Bars::Redis, outside.is_empty(), evidence)
}

fn additivity(query: &Query, view: &View) -> Check {
    let rolled_up = query.rolled_up(view);
    let never_added = query.measures.iter().map(|measure| &view.measures[*measure]);
    let never_added: Vec<&str> =
        never_added.filter(|measure| !measure.additive).map(|measure| measure.column.as_str()).collect();
    let holds = rolled_up.is_empty() || never_added.is_empty();
    let evidence = match (rolled_up.is_empty(), holds) {
        (true, _) => "each row is one published group".to_owned(),
        (false, true) => format!("added up over {}", rolled_up.join(", ")),
        (false, false) => {
            format!("{} cannot be added up over {}", never_added.join(", "), rolled_up.join(", "))
        }
    };
    Check::of(Code::NotAdditive, Bars::Redis, holds, evidence)
}

fn names(table: &Table, columns: &[usize]) -> String {
    let mut names: Vec<&str> = columns.iter().map(|column| &*table.columns[*column].name).collect();
    names.dedup();
    names.join(", ")
}

fn grain_names(view: &View) -> String {
    let names: Vec<&str> = view.grain.iter().map(|dimension| dimension.name.as_str()).collect();
    names.join(", ")
}

fn list(roles: &[String]) -> String {
    roles.join(", ")
}
