//! What is counted of a question: its route, the reasons, the measures, by day, view and role. Must not know where
//! counts are kept.

use crate::pure::route::{Code, Route};

/// Longest name of a role that is kept; the rest is cut off.
pub const ROLE_CHARACTERS_MAX: usize = 64;
/// The role of a caller who names none.
pub const NO_ROLE: &str = "(none)";
/// Stands for the roles of a day beyond the limit.
pub const OTHER_ROLES: &str = "(other)";

/// One question that was answered or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// `YYYY-MM-DD` in UTC.
    pub day: String,
    pub view: String,
    pub role: String,
    /// `None` was refused.
    pub route: Option<Route>,
    pub reasons: Vec<Code>,
    /// Published names.
    pub measures: Vec<String>,
}

impl Use {
    /// The word for the route in counts.
    pub fn route_name(&self) -> &'static str {
        self.route.map_or("refused", Route::name)
    }
}

/// A role as it is kept: a caller's word, so it is cut to length and freed of what would spoil a table.
pub fn kept_role(role: Option<&str>) -> String {
    let Some(role) = role.filter(|role| !role.is_empty()) else { return NO_ROLE.to_owned() };
    let plain = role.chars().map(|character| if character.is_control() { '?' } else { character });
    plain.take(ROLE_CHARACTERS_MAX).collect()
}

/// How often something was asked; `reason` and `measure` are empty where the count is of the questions themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UseCount {
    pub view: String,
    pub role: String,
    pub route: String,
    pub reason: String,
    pub measure: String,
    pub times: u64,
    /// The newest day on which it was asked.
    pub last_day: String,
}
