//! The table of cases: in which state, under which policy, which question takes which route, and every reason. Reasons
//! stand in the order of their gravity; `ELIGIBLE` is that of an answer from Redis.

/// What the view, Redis and the base are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Published, confirmed and reconciled just now.
    Ready,
    NeverReconciled,
    /// Reconciled 26 hours and a second ago, and fresh.
    ReconciledLongAgo,
    /// Confirmed 901 seconds ago.
    Stale,
    /// The base knows, Redis does not yet.
    QuarantinedInBase,
    QuarantinedInRedis,
    DisabledInBase,
    DisabledInRedis,
    /// In use again by the base's word, while Redis still shows the view as disabled.
    EnabledInBase,
    /// A message that is no event.
    DeadLetter,
    /// `mixed` is 1.
    PublishInParts,
    OtherGeneration,
    OtherContract,
    OtherDefinition,
    /// Redis keeps groups from 2026-09-22 on.
    Retained,
    Unreachable,
    Absent,
    /// The row of 2026-09-21, P100 has a field that is no number.
    DamagedRow,
    /// The row of 2026-09-21, P100 is gone, its index entry is there.
    RowGone,
    /// The index entry of 2026-09-21, P100 is gone, its row is there.
    EntryGone,
    /// 2026-12-01, P900 is published as overflow.
    Overflow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    Open,
    /// Only the role `sales`.
    Roles,
    /// `channel = 'web'`.
    RowFilter,
    /// Groups of one row are withheld.
    TwoLines,
}

#[derive(Clone, Copy, Debug)]
pub enum With {
    Nothing,
    Role(&'static str),
    MaxStaleness(u64),
    Contract(&'static str),
    Redis,
    Base,
}

pub struct Case {
    pub state: State,
    pub policy: Policy,
    pub measures: &'static [&'static str],
    pub conditions: &'static str,
    pub group_by: &'static [&'static str],
    pub with: With,
    pub route: &'static str,
    pub reasons: &'static [&'static str],
}

const HASH: &str = "9a7b963a31b049bbe64a822b6a2dd9549f43b2732222cfac29cd600c0bf9a747";
const OTHER_HASH: &str = "0a7b963a31b049bbe64a822b6a2dd9549f43b2732222cfac29cd600c0bf9a747";

const DAY: &[&str] = &["order_date"];
const PRODUCT: &[&str] = &["product_id"];
const GRAIN: &[&str] = &["order_date", "product_id"];
const TOTAL: &[&str] = &[];
const SUMS: &[&str] = &["units", "gmv_cents", "cost_cents", "profit_cents", "line_count"];
const ORDERS: &[&str] = &["order_count"];
const ELIGIBLE: &[&str] = &["ELIGIBLE"];

const RANGE: &str = "order_date >= '2026-09-21' and order_date <= '2026-09-22'";
const ONE_DAY: &str = "order_date = '2026-09-22'";
const ONE_GROUP: &str = "order_date = '2026-09-22' and product_id = 'P100'";

const fn case(
    state: State,
    policy: Policy,
    question: (&'static [&'static str], &'static str, &'static [&'static str]),
    with: With,
    route: &'static str,
    reasons: &'static [&'static str],
) -> Case {
    let (measures, conditions, group_by) = question;
    Case { state, policy, measures, conditions, group_by, with, route, reasons }
}

use Policy::{Open, Roles, RowFilter, TwoLines};
use State::*;
use With::{Base, Contract, MaxStaleness, Nothing, Redis, Role};

pub const CASES: &[Case] = &[
    // Coverage and additivity, in the best of states.
    case(Ready, Open, (SUMS, RANGE, PRODUCT), Nothing, "redis", ELIGIBLE),
    case(Ready, Open, (SUMS, "", TOTAL), Nothing, "redis", ELIGIBLE),
    case(Ready, Open, (SUMS, "", DAY), Nothing, "redis", ELIGIBLE),
    case(Ready, Open, (SUMS, ONE_GROUP, TOTAL), Nothing, "redis", ELIGIBLE),
    case(Ready, Open, (SUMS, "product_id in ('P100', 'P300')", PRODUCT), Nothing, "redis", ELIGIBLE),
    case(
        Ready,
        Open,
        (SUMS, "product_id > 'P100' and order_date < '2026-09-22'", GRAIN),
        Nothing,
        "redis",
        ELIGIBLE,
    ),
    case(
        Ready,
        Open,
        (SUMS, "order_date between '2026-09-21' and '2026-09-23'", DAY),
        Nothing,
        "redis",
        ELIGIBLE,
    ),
    case(
        Ready,
        Open,
        (SUMS, "status = 'paid' and order_date != '2026-09-21'", DAY),
        Nothing,
        "redis",
        ELIGIBLE,
    ),
    case(Ready, Open, (SUMS, "order_date = '2031-01-01'", TOTAL), Nothing, "redis", ELIGIBLE),
    case(Ready, Open, (ORDERS, "", GRAIN), Nothing, "redis", ELIGIBLE),
    case(Ready, Open, (ORDERS, ONE_DAY, PRODUCT), Nothing, "redis", ELIGIBLE),
    case(Ready, Open, (ORDERS, ONE_GROUP, TOTAL), Nothing, "redis", ELIGIBLE),
    case(Ready, Open, (ORDERS, "product_id in ('P100')", DAY), Nothing, "redis", ELIGIBLE),
    case(
        Ready,
        Open,
        (ORDERS, "order_date between '2026-09-22' and '2026-09-22'", PRODUCT),
        Nothing,
        "redis",
        ELIGIBLE,
    ),
    case(Ready, Open, (ORDERS, ONE_DAY, TOTAL), Nothing, "base", &["NOT_ADDITIVE"]),
    case(Ready, Open, (ORDERS, RANGE, PRODUCT), Nothing, "base", &["NOT_ADDITIVE"]),
    case(Ready, Open, (ORDERS, "product_id in ('P100', 'P200')", DAY), Nothing, "base", &["NOT_ADDITIVE"]),
    case(Ready, Open, (ORDERS, "", TOTAL), Nothing, "base", &["NOT_ADDITIVE"]),
    case(Ready, Open, (&["units", "order_count"], ONE_DAY, TOTAL), Nothing, "base", &["NOT_ADDITIVE"]),
    case(Ready, Open, (ORDERS, ONE_DAY, TOTAL), Redis, "nobody", &["NOT_ADDITIVE"]),
    case(Ready, Open, (SUMS, "", &["channel"]), Nothing, "base", &["GRAIN_NOT_COVERED"]),
    case(Ready, Open, (SUMS, "", &["channel", "order_date"]), Nothing, "base", &["GRAIN_NOT_COVERED"]),
    case(Ready, Open, (SUMS, "channel = 'web'", DAY), Nothing, "base", &["FILTER_NOT_COVERED"]),
    case(
        Ready,
        Open,
        (SUMS, "quantity > 1 and order_date = '2026-09-22'", TOTAL),
        Nothing,
        "base",
        &["FILTER_NOT_COVERED"],
    ),
    case(
        Ready,
        Open,
        (ORDERS, "channel = 'web'", &["customer_id"]),
        Nothing,
        "base",
        &["GRAIN_NOT_COVERED", "FILTER_NOT_COVERED", "NOT_ADDITIVE"],
    ),
    case(Ready, Open, (SUMS, "status = 'refunded'", TOTAL), Nothing, "base", &["FILTER_NOT_COVERED"]),
    case(Ready, Open, (SUMS, RANGE, PRODUCT), Base, "base", ELIGIBLE),
    case(Ready, Open, (SUMS, RANGE, PRODUCT), Redis, "redis", ELIGIBLE),
    // The contract asked for.
    case(Ready, Open, (SUMS, RANGE, DAY), Contract(HASH), "redis", ELIGIBLE),
    case(Ready, Open, (SUMS, RANGE, DAY), Contract(OTHER_HASH), "nobody", &["CONTRACT_MISMATCH"]),
    case(OtherContract, Open, (SUMS, RANGE, DAY), Nothing, "base", &["CONTRACT_MISMATCH"]),
    case(OtherDefinition, Open, (SUMS, RANGE, DAY), Nothing, "base", &["CONTRACT_MISMATCH"]),
    case(OtherDefinition, Open, (SUMS, RANGE, DAY), Redis, "nobody", &["CONTRACT_MISMATCH"]),
    // Freshness.
    case(Ready, Open, (SUMS, RANGE, DAY), MaxStaleness(0), "redis", ELIGIBLE),
    case(Stale, Open, (SUMS, RANGE, DAY), Nothing, "base", &["STALE"]),
    case(Stale, Open, (SUMS, RANGE, DAY), MaxStaleness(900), "base", &["STALE"]),
    case(Stale, Open, (SUMS, RANGE, DAY), MaxStaleness(901), "redis", ELIGIBLE),
    case(Stale, Open, (SUMS, RANGE, DAY), Redis, "nobody", &["STALE"]),
    // Proof.
    case(NeverReconciled, Open, (SUMS, RANGE, DAY), Nothing, "base", &["NOT_RECONCILED"]),
    case(ReconciledLongAgo, Open, (SUMS, RANGE, DAY), Nothing, "base", &["NOT_RECONCILED"]),
    case(QuarantinedInBase, Open, (SUMS, RANGE, DAY), Nothing, "base", &["QUARANTINED", "NOT_RECONCILED"]),
    case(QuarantinedInRedis, Open, (SUMS, RANGE, DAY), Nothing, "base", &["QUARANTINED", "NOT_RECONCILED"]),
    case(QuarantinedInBase, Open, (SUMS, RANGE, DAY), Redis, "nobody", &["QUARANTINED", "NOT_RECONCILED"]),
    // The kill switch.
    case(DisabledInBase, Open, (SUMS, RANGE, DAY), Nothing, "base", &["DISABLED"]),
    case(DisabledInBase, Open, (SUMS, RANGE, DAY), Redis, "nobody", &["DISABLED"]),
    case(DisabledInRedis, Open, (SUMS, ONE_GROUP, TOTAL), Nothing, "base", &["DISABLED"]),
    case(EnabledInBase, Open, (SUMS, ONE_GROUP, TOTAL), Nothing, "base", &["DISABLED"]),
    // Health.
    case(DeadLetter, Open, (SUMS, RANGE, DAY), Nothing, "base", &["INCOMPLETE"]),
    case(PublishInParts, Open, (SUMS, RANGE, DAY), Nothing, "base", &["MIXED"]),
    case(PublishInParts, Open, (ORDERS, ONE_DAY, TOTAL), Nothing, "base", &["NOT_ADDITIVE", "MIXED"]),
    case(OtherGeneration, Open, (SUMS, RANGE, DAY), Nothing, "base", &["MIXED"]),
    case(Unreachable, Open, (SUMS, RANGE, DAY), Nothing, "base", &["UNREACHABLE"]),
    case(Unreachable, Open, (SUMS, RANGE, DAY), Redis, "nobody", &["UNREACHABLE"]),
    case(
        Unreachable,
        Open,
        (SUMS, "channel = 'web'", DAY),
        Nothing,
        "base",
        &["UNREACHABLE", "FILTER_NOT_COVERED"],
    ),
    case(Absent, Open, (SUMS, RANGE, DAY), Nothing, "base", &["UNREACHABLE"]),
    case(Absent, Open, (SUMS, ONE_GROUP, TOTAL), Nothing, "base", &["UNREACHABLE"]),
    case(DamagedRow, Open, (SUMS, RANGE, DAY), Nothing, "base", &["UNREACHABLE"]),
    case(DamagedRow, Open, (SUMS, ONE_DAY, DAY), Nothing, "redis", ELIGIBLE),
    case(RowGone, Open, (SUMS, "order_date = '2026-09-21'", TOTAL), Nothing, "base", &["UNREACHABLE"]),
    case(
        RowGone,
        Open,
        (SUMS, "order_date = '2026-09-21' and product_id = 'P100'", TOTAL),
        Nothing,
        "base",
        &["UNREACHABLE"],
    ),
    case(
        EntryGone,
        Open,
        (SUMS, "order_date = '2026-09-21' and product_id in ('P100', 'P200')", GRAIN),
        Nothing,
        "base",
        &["UNREACHABLE"],
    ),
    case(RowGone, Open, (SUMS, ONE_GROUP, GRAIN), Nothing, "redis", ELIGIBLE),
    case(
        Overflow,
        Open,
        (&["units"], "order_date = '2026-12-01'", TOTAL),
        Nothing,
        "base",
        &["NOT_ADDITIVE"],
    ),
    case(
        Overflow,
        Open,
        (&["units"], "order_date = '2026-12-01' and product_id = 'P900'", TOTAL),
        Nothing,
        "base",
        &["NOT_ADDITIVE"],
    ),
    case(Overflow, Open, (SUMS, "order_date < '2026-12-01'", DAY), Nothing, "redis", ELIGIBLE),
    // Retention.
    case(Retained, Open, (SUMS, RANGE, DAY), Nothing, "base", &["RETENTION_EXPIRED"]),
    case(Retained, Open, (SUMS, "", TOTAL), Nothing, "base", &["RETENTION_EXPIRED"]),
    case(Retained, Open, (SUMS, "order_date >= '2026-09-22'", DAY), Nothing, "redis", ELIGIBLE),
    case(Retained, Open, (ORDERS, ONE_GROUP, TOTAL), Nothing, "redis", ELIGIBLE),
    // Policy.
    case(Ready, Roles, (SUMS, RANGE, DAY), Role("sales"), "redis", ELIGIBLE),
    case(Ready, Roles, (SUMS, RANGE, DAY), Nothing, "nobody", &["POLICY_DENIED"]),
    case(Ready, Roles, (SUMS, RANGE, DAY), Role("ops"), "nobody", &["POLICY_DENIED"]),
    case(Ready, Roles, (SUMS, RANGE, DAY), Base, "nobody", &["POLICY_DENIED"]),
    case(Ready, Roles, (SUMS, RANGE, DAY), Redis, "nobody", &["POLICY_DENIED"]),
    case(Ready, Roles, (ORDERS, ONE_DAY, TOTAL), Role("sales"), "base", &["NOT_ADDITIVE"]),
    case(Ready, RowFilter, (SUMS, "", TOTAL), Nothing, "redis", ELIGIBLE),
    case(Ready, RowFilter, (SUMS, "channel = 'web'", DAY), Nothing, "redis", ELIGIBLE),
    case(Ready, RowFilter, (SUMS, "channel = 'store'", DAY), Nothing, "base", &["FILTER_NOT_COVERED"]),
    case(Ready, RowFilter, (ORDERS, "", TOTAL), Nothing, "base", &["NOT_ADDITIVE"]),
    case(Ready, TwoLines, (SUMS, "", GRAIN), Nothing, "redis", ELIGIBLE),
    case(Ready, TwoLines, (ORDERS, ONE_DAY, PRODUCT), Nothing, "redis", ELIGIBLE),
    case(Ready, TwoLines, (SUMS, ONE_DAY, DAY), Nothing, "base", &["POLICY_DENIED"]),
    case(Ready, TwoLines, (SUMS, "", TOTAL), Nothing, "base", &["POLICY_DENIED"]),
    case(Ready, TwoLines, (ORDERS, RANGE, PRODUCT), Nothing, "base", &["POLICY_DENIED", "NOT_ADDITIVE"]),
    case(Ready, TwoLines, (SUMS, "channel = 'web'", GRAIN), Nothing, "nobody", &["POLICY_DENIED"]),
    case(
        Ready,
        TwoLines,
        (SUMS, "", &["order_date", "product_id", "order_id"]),
        Nothing,
        "nobody",
        &["POLICY_DENIED"],
    ),
    case(Ready, TwoLines, (SUMS, "channel = 'web'", GRAIN), Base, "nobody", &["POLICY_DENIED"]),
];
