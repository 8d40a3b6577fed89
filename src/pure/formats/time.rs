//! Days and instants, as numbers or as text, brought to a day of the calendar. An instant needs a zone to have a
//! day; a wall clock's time has its own. No clock is read here.

use jiff::civil::{Date, date};
use jiff::tz::TimeZone;

use crate::pure::event::{Mistake, Reason};
use crate::pure::schema::is_date;

/// How many ticks of a time stamp make a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    fn per_second(self) -> i64 {
        match self {
            Unit::Seconds => 1,
            Unit::Millis => 1_000,
            Unit::Micros => 1_000_000,
            Unit::Nanos => 1_000_000_000,
        }
    }
}

/// Where an instant's day is read off.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone(TimeZone);

impl Zone {
    pub fn utc() -> Self {
        Zone(TimeZone::UTC)
    }

    /// A zone by its name in the time zone database, such as `Europe/Berlin`.
    pub fn named(name: &str) -> Option<Self> {
        if name == "UTC" {
            return Some(Zone::utc());
        }
        TimeZone::get(name).ok().map(Zone)
    }

    fn day_of(&self, at: jiff::Timestamp) -> Date {
        self.0.to_datetime(at).date()
    }
}

/// The day that lies so many days after 1970-01-01.
pub fn of_days(days: i64) -> Result<String, Mistake> {
    let beyond = || (Reason::NotADate, format!("{days} days after 1970-01-01 is no day from year 0 to 9999"));
    let days = i32::try_from(days).map_err(|_| beyond())?;
    let day = date(1970, 1, 1).checked_add(jiff::Span::new().try_days(days).map_err(|_| beyond())?);
    text(day.map_err(|_| beyond())?).ok_or_else(beyond)
}

/// The day of so many ticks after 1970-01-01T00:00: in the zone for an instant, as a wall clock says without one.
pub fn of_ticks(ticks: i64, unit: Unit, zone: Option<&Zone>) -> Result<String, Mistake> {
    let seconds = ticks.div_euclid(unit.per_second());
    let Some(zone) = zone else {
        return of_days(seconds.div_euclid(86_400)).map_err(|_| beyond_ticks(ticks, unit));
    };
    let at = jiff::Timestamp::from_second(seconds).map_err(|_| beyond_ticks(ticks, unit))?;
    text(zone.day_of(at)).ok_or_else(|| beyond_ticks(ticks, unit))
}

fn beyond_ticks(ticks: i64, unit: Unit) -> Mistake {
    (Reason::NotADate, format!("{ticks} ({unit:?}) after 1970 lies on no day from year 0 to 9999"))
}

/// The day of a text in ISO form: a date, or a time as a wall clock says, is that day; with `Z` or an offset it is
/// an instant, whose day is read off in the zone. The blank of SQL is taken for the `T`.
pub fn of_text(written: &str, zone: &Zone) -> Result<String, Mistake> {
    let wrong = || (Reason::NotADate, format!("{written:?} is no date or time in ISO form"));
    let (day, rest) = written.split_at_checked(10).ok_or_else(wrong)?;
    if !is_date(day) {
        return Err(wrong());
    }
    // A day with a zone, as `2026-09-22Z`, is that day.
    if rest.is_empty() || rest == "Z" || is_offset(rest) {
        return Ok(day.to_owned());
    }
    if !rest.starts_with(['T', ' ']) {
        return Err(wrong());
    }
    let time = &rest[1..];
    if time.ends_with(['Z', 'z']) || time.bytes().skip(1).any(|byte| matches!(byte, b'+' | b'-')) {
        let written = written.replacen(' ', "T", 1).replace(' ', "");
        let at: jiff::Timestamp = written.parse().map_err(|_| wrong())?;
        return text(zone.day_of(at)).ok_or_else(wrong);
    }
    time.parse::<jiff::civil::Time>().map_err(|_| wrong())?;
    Ok(day.to_owned())
}

fn is_offset(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 6
        && matches!(bytes[0], b'+' | b'-')
        && bytes[3] == b':'
        && [1, 2, 4, 5].iter().all(|&at| bytes[at].is_ascii_digit())
}

fn text(day: Date) -> Option<String> {
    let (year, month, day) = (day.year(), day.month(), day.day());
    (0..=9999).contains(&year).then(|| format!("{year:04}-{month:02}-{day:02}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_ticks_are_days_of_the_calendar() {
        assert_eq!(of_days(0).as_deref(), Ok("1970-01-01"));
        assert_eq!(of_days(-1).as_deref(), Ok("1969-12-31"));
        assert_eq!(of_days(19_782).as_deref(), Ok("2024-02-29"));
        for (ticks, unit) in [
            (1_772_937_000, Unit::Seconds),
            (1_772_937_000_000, Unit::Millis),
            (1_772_937_000_000_000, Unit::Micros),
            (1_772_937_000_000_000_000, Unit::Nanos),
        ] {
            assert_eq!(of_ticks(ticks, unit, None).as_deref(), Ok("2026-03-08"), "{unit:?}");
        }
        assert_eq!(of_ticks(-1, Unit::Nanos, None).as_deref(), Ok("1969-12-31"));
    }

    #[test]
    fn infinity_and_what_lies_beyond_the_calendar_is_no_date() {
        for days in [i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX, i64::MIN, -2_440_588, 2_932_897] {
            assert_eq!(of_days(days).expect_err("beyond").0, Reason::NotADate, "{days}");
        }
        for unit in [Unit::Seconds, Unit::Millis, Unit::Micros, Unit::Nanos] {
            for ticks in [i64::MAX, i64::MIN, 9_223_372_036_825_200_000, -9_223_372_036_832_400_000] {
                for zone in [None, Zone::named("Europe/Berlin")] {
                    if let Ok(day) = of_ticks(ticks, unit, zone.as_ref()) {
                        assert_eq!(unit, Unit::Nanos, "{ticks}: {day}");
                    }
                }
            }
        }
        for text in ["infinity", "-infinity", "292278994-08-17T07:12:55Z", "0000-00-00", "2026-02-30"] {
            assert_eq!(of_text(text, &Zone::utc()).expect_err(text).0, Reason::NotADate);
        }
    }

    #[test]
    fn the_zone_decides_the_day_of_an_instant_and_of_nothing_else() {
        let (utc, new_york) = (Zone::utc(), Zone::named("America/New_York").expect("a zone"));
        for (text, in_utc, in_new_york) in [
            ("2026-01-01T00:30:00+07:00", "2025-12-31", "2025-12-31"),
            ("2026-01-01T03:30:00Z", "2026-01-01", "2025-12-31"),
            ("2026-01-01 04:59:59.999999+00:00", "2026-01-01", "2025-12-31"),
            // The night in which the clocks go forward: at 05:00Z it is midnight, before and after it is not.
            ("2026-03-08T04:59:59Z", "2026-03-08", "2026-03-07"),
            ("2026-03-08T05:00:00Z", "2026-03-08", "2026-03-08"),
            ("2026-03-09T03:59:59Z", "2026-03-09", "2026-03-08"),
            ("2026-03-09T04:00:00Z", "2026-03-09", "2026-03-09"),
            // Wall clocks and days stay what they say, hours that no clock showed too.
            ("2026-03-08T02:30:00", "2026-03-08", "2026-03-08"),
            ("2026-03-08 23:59:59.9", "2026-03-08", "2026-03-08"),
            ("2026-03-08", "2026-03-08", "2026-03-08"),
            ("2026-03-08Z", "2026-03-08", "2026-03-08"),
        ] {
            assert_eq!(of_text(text, &utc).as_deref(), Ok(in_utc), "{text}");
            assert_eq!(of_text(text, &new_york).as_deref(), Ok(in_new_york), "{text}");
        }
        let five = 1_772_946_000; // 2026-03-08T05:00:00Z
        for (seconds, day) in [(five - 1, "2026-03-07"), (five, "2026-03-08")] {
            assert_eq!(of_ticks(seconds, Unit::Seconds, Some(&new_york)).as_deref(), Ok(day));
        }
        for text in [
            "2026-03-08T",
            "2026-03-08T25:00:00",
            "2026-03-08X",
            "2026-03-08T10:00:00+",
            "08.03.2026",
            "é026-03-08",
            "",
        ] {
            assert!(of_text(text, &utc).is_err(), "{text}");
        }
        assert_eq!(Zone::named("Mars/Olympus"), None);
    }
}
