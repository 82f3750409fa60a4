//! Times of annotations, which are RFC 3339.

/// The largest number of microseconds that a double has exactly.
const EXACT: i64 = 1 << 53;

/// Seconds since the epoch; None for what is no time in UTC, or not written as Kubernetes does, or centuries away.
#[must_use]
pub fn read_time(text: &str) -> Option<f64> {
    let text = text.as_bytes();
    let (whole, rest) = text.split_at_checked(19)?;
    let fraction = match rest.strip_suffix(b"Z")? {
        b"" => &b""[..],
        found => found
            .strip_prefix(b".")
            .filter(|digits| !digits.is_empty())?,
    };
    for (at, mark) in [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')] {
        if whole[at] != mark {
            return None;
        }
    }
    let (year, month, day) = (
        number(&whole[..4])?,
        number(&whole[5..7])?,
        number(&whole[8..10])?,
    );
    let (hour, minute, second) = (
        number(&whole[11..13])?,
        number(&whole[14..16])?,
        number(&whole[17..])?,
    );
    number(fraction)?; // digits beyond microseconds do not count, but are digits
    let known = &fraction[..fraction.len().min(6)];
    let micros = number(known)? * 10_i64.pow(6 - known.len() as u32);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=12).contains(&month)
        || !(1..=last).contains(&day)
        || hour > 23
        || minute > 59
        || second > 59
    {
        return None;
    }
    // The days since 0000-03-01 in a year that begins in March, whose last day is the leap day.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 1
        - 719_468;
    let found = (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000 + micros;
    (found.abs() < EXACT).then_some(found as f64 / 1e6)
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0_i64, |found, digit| {
        let digit = digit.is_ascii_digit().then_some(i64::from(digit - b'0'))?;
        Some(found.wrapping_mul(10).wrapping_add(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_since_the_epoch() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", Some(0.0)),
            (
                "2024-02-29T12:34:56.789012345Z",
                Some(1_709_210_096.789_012),
            ),
            ("1969-12-31T23:59:59.5Z", Some(-0.5)),
            ("2023-02-29T00:00:00Z", None),
            ("2024-01-01T24:00:00Z", None),
            ("2024-01-01T00:00:00.Z", None),
            ("2024-01-01T00:00:00.1xZ", None),
            ("2024-01-01T00:00:00+01:00", None),
            ("2024-01-01 00:00:00Z", None),
            ("0001-01-01T00:00:00Z", None),
            ("\u{e9}", None),
        ] {
            assert_eq!(read_time(text), seconds, "{text}");
        }
    }
}
