//! Writes a protobuf message as JSON, with the fields of a schema: what the API server's own JSON has of them.
//!
//! Rule: octets that are no UTF-8 become U+FFFD, as in Go's JSON.

use super::schema::{Field, Form};
use super::wire::{Fields, Malformed, Value};

const SECONDS_A_DAY: u64 = 86_400;
const LAST_SECOND: u64 = 253_402_300_799; // of the year 9999

/// Write a message as an object.
///
/// # Errors
/// If the message is malformed; `out` has a part of it then.
pub fn write_message(message: &[u8], fields: &[Field], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let mut values = Vec::with_capacity(16);
    for each in Fields::of(message) {
        let (number, value) = each?;
        if let Some(at) = fields.iter().position(|field| field.number == number) {
            values.push((at, value));
        }
    }
    out.push(b'{');
    let begin = out.len();
    for (at, field) in fields.iter().enumerate() {
        let mut found = values.iter().filter(|each| each.0 == at).map(|each| each.1);
        let before = out.len();
        if before > begin {
            out.push(b',');
        }
        write_text(field.name.as_bytes(), out);
        out.push(b':');
        let is_there = match &field.form {
            Form::Map => write_many(found, b"{}", out, write_pair)?,
            Form::Texts => write_many(found, b"[]", out, |value, out| {
                write_text(value.octets()?, out);
                Ok(())
            })?,
            Form::Messages(inner) => write_many(found, b"[]", out, |value, out| {
                write_message(value.octets()?, inner, out)
            })?,
            // Of several values the last one counts.
            single => match found.next_back() {
                Some(value) => write_single(value, single, out)?,
                None => false,
            },
        };
        if !is_there {
            out.truncate(before);
        }
    }
    out.push(b'}');
    Ok(())
}

/// Find out whether write_message() can write a message, without writing it.
///
/// # Errors
/// If the message is malformed.
pub fn check_message(message: &[u8], fields: &[Field]) -> Result<(), Malformed> {
    for each in Fields::of(message) {
        let (number, value) = each?;
        let Some(field) = fields.iter().find(|field| field.number == number) else {
            continue;
        };
        match &field.form {
            Form::Message(inner) | Form::Messages(inner) => check_message(value.octets()?, inner)?,
            Form::Map => {
                pair(value.octets()?)?;
            }
            Form::Text | Form::KeptText | Form::Texts => {
                value.octets()?;
            }
            Form::Number | Form::KeptNumber | Form::Truth | Form::KeptTruth => {
                value.integer()?;
            }
            Form::Time => write_time(value.octets()?, &mut Vec::new())?,
            Form::NumberOrText => write_number_or_text(value.octets()?, &mut Vec::new())?,
        }
    }
    Ok(())
}

fn write_many<'a>(
    values: impl Iterator<Item = Value<'a>>,
    brackets: &[u8; 2],
    out: &mut Vec<u8>,
    write: impl Fn(Value<'a>, &mut Vec<u8>) -> Result<(), Malformed>,
) -> Result<bool, Malformed> {
    let start = out.len();
    for value in values {
        out.push(if out.len() == start {
            brackets[0]
        } else {
            b','
        });
        write(value, out)?;
    }
    if out.len() == start {
        return Ok(false);
    }
    out.push(brackets[1]);
    Ok(true)
}

fn write_pair(value: Value<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let (key, value) = pair(value.octets()?)?;
    write_text(key, out);
    out.push(b':');
    write_text(value, out);
    Ok(())
}

/// An entry of a map: key and value.
///
/// # Errors
/// If it is malformed.
pub fn pair(entry: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (mut key, mut found) = (&b""[..], &b""[..]);
    for field in Fields::of(entry) {
        match field? {
            (1, value) => key = value.octets()?,
            (2, value) => found = value.octets()?,
            _ => (),
        }
    }
    Ok((key, found))
}

fn write_single(value: Value<'_>, form: &Form, out: &mut Vec<u8>) -> Result<bool, Malformed> {
    match form {
        Form::Text | Form::KeptText => {
            let text = value.octets()?;
            if text.is_empty() && matches!(form, Form::Text) {
                return Ok(false);
            }
            write_text(text, out);
        }
        Form::Number | Form::KeptNumber => {
            let number = value.integer()? as i32; // as Go does
            if number == 0 && matches!(form, Form::Number) {
                return Ok(false);
            }
            out.extend_from_slice(number.to_string().as_bytes());
        }
        Form::Truth | Form::KeptTruth => {
            let truth = value.integer()? != 0;
            if !truth && matches!(form, Form::Truth) {
                return Ok(false);
            }
            out.extend_from_slice(if truth { b"true" } else { b"false" });
        }
        Form::Time => write_time(value.octets()?, out)?,
        Form::NumberOrText => write_number_or_text(value.octets()?, out)?,
        Form::Message(fields) => write_message(value.octets()?, fields, out)?,
        Form::Map | Form::Texts | Form::Messages(_) => unreachable!("several values"),
    }
    Ok(true)
}

fn write_number_or_text(message: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let (mut is_text, mut number, mut text) = (false, 0, &b""[..]);
    for field in Fields::of(message) {
        match field? {
            (1, value) => is_text = value.integer()? != 0,
            (2, value) => number = value.integer()? as i32,
            (3, value) => text = value.octets()?,
            _ => (),
        }
    }
    if is_text {
        write_text(text, out);
    } else {
        out.extend_from_slice(number.to_string().as_bytes());
    }
    Ok(())
}

/// Write a meta/v1 Time as in RFC 3339; its JSON has no fractions of a second.
fn write_time(message: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let mut seconds = 0;
    for field in Fields::of(message) {
        if let (1, value) = field? {
            seconds = value.integer()?;
        }
    }
    if seconds > LAST_SECOND {
        return Err(Malformed("a time that no date has"));
    }
    let (days, rest) = (seconds / SECONDS_A_DAY, seconds % SECONDS_A_DAY);
    // Days from 1 March of the year 0, in eras of 400 years (Howard Hinnant, "chrono-Compatible Low-Level Date
    // Algorithms", civil_from_days).
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let text = format!(
        "\"{:04}-{month:02}-{:02}T{:02}:{:02}:{:02}Z\"",
        year + era * 400 + u64::from(month <= 2),
        of_year - (153 * shifted + 2) / 5 + 1,
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    );
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Write a string in quotes.
fn write_text(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let lossy = String::from_utf8_lossy(text);
    let octets = lossy.as_bytes();
    out.push(b'"');
    let mut start = 0;
    for (at, &octet) in octets.iter().enumerate() {
        if octet >= 0x20 && octet != b'"' && octet != b'\\' {
            continue;
        }
        out.extend_from_slice(&octets[start..at]);
        start = at + 1;
        if octet < 0x20 {
            let [high, low] = [octet >> 4, octet & 15].map(|each| HEX[usize::from(each)]);
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        } else {
            out.extend_from_slice(&[b'\\', octet]);
        }
    }
    out.extend_from_slice(&octets[start..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(seconds: u64) -> String {
        let mut message = vec![8];
        let mut rest = seconds;
        while rest > 0x7f {
            message.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        message.push(rest as u8);
        let mut out = Vec::new();
        write_time(&message, &mut out).expect("a date");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn times_are_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_600, "2026-01-01T00:00:00Z"),
            (LAST_SECOND, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(time(seconds), format!("\"{text}\""));
        }
        assert!(
            write_time(
                b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                &mut Vec::new()
            )
            .is_err()
        );
    }

    #[test]
    fn strings_are_escaped() {
        let mut out = Vec::new();
        write_text(b"a\"b\\c\n\x01\xffd\xc3\xa9", &mut out);
        assert_eq!(
            String::from_utf8(out).expect("text"),
            "\"a\\\"b\\\\c\\u000a\\u0001\u{fffd}d\u{e9}\""
        );
    }
}
