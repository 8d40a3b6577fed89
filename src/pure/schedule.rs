//! When something that comes again is due: every so often, or at a time of day. Reads no clock.

use std::fmt;

/// A day in milliseconds.
const DAY_MS: i64 = 86_400_000;

/// `15m`, `2h`, `1d`, `90s`: so long after the last time. `02:30`: every day at that time, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    Every(i64),
    Daily(i64),
}

impl Schedule {
    /// `None` where the text is none of the forms, or the interval is not from 1 s to 366 days.
    pub fn parse(text: &str) -> Option<Self> {
        let number = |digits: &str| -> Option<i64> {
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        if let Some((hours, minutes)) = text.split_once(':') {
            let (hours, minutes) = (number(hours)?, number(minutes)?);
            let valid = hours < 24 && minutes < 60 && text.len() == 5;
            return valid.then_some(Schedule::Daily((hours * 60 + minutes) * 60_000));
        }
        let unit = match text.bytes().last()? {
            b's' => 1_000,
            b'm' => 60_000,
            b'h' => 3_600_000,
            b'd' => DAY_MS,
            _ => return None,
        };
        let every = number(&text[..text.len() - 1])?.checked_mul(unit)?;
        (1_000..=366 * DAY_MS).contains(&every).then_some(Schedule::Every(every))
    }

    /// When it is due after `last`, which is when it was done last; `None` is never: then an interval is due at
    /// `now_ms`, a time of day when it comes next.
    pub fn next(self, last: Option<i64>, now_ms: i64) -> i64 {
        match (self, last) {
            (Schedule::Every(every), Some(last)) => last.saturating_add(every),
            (Schedule::Every(_), None) => now_ms,
            (Schedule::Daily(at), last) => {
                let after = last.unwrap_or(now_ms);
                let today = after.div_euclid(DAY_MS) * DAY_MS + at;
                if today > after { today } else { today + DAY_MS }
            }
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Every(every) => write!(out, "every {} s", every / 1_000),
            Schedule::Daily(at) => write!(out, "daily at {:02}:{:02} UTC", at / 3_600_000, at / 60_000 % 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_that_are_understood() {
        let parse = Schedule::parse;
        assert_eq!(parse("15m"), Some(Schedule::Every(900_000)));
        assert_eq!(parse("1d"), Some(Schedule::Every(DAY_MS)));
        assert_eq!(parse("02:30"), Some(Schedule::Daily(9_000_000)));
        for wrong in
            ["", "m", "0s", "-1m", "1.5h", "24:00", "2:30", "02:60", "367d", "15", "15 m", "é", "+2:30"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn due_times() {
        let (every, daily) = (Schedule::Every(10), Schedule::Daily(9_000_000));
        assert_eq!((every.next(Some(5), 7), every.next(None, 7)), (15, 7));
        assert_eq!(daily.next(None, DAY_MS), DAY_MS + 9_000_000);
        assert_eq!(daily.next(Some(9_000_000), 0), DAY_MS + 9_000_000);
        assert_eq!(daily.next(Some(8_999_999), 0), 9_000_000);
    }
}
