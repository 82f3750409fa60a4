//! Fields of a protobuf message, as far as Kubernetes' generated code writes them.
//!
//! Source: protobuf.dev, "Encoding"; groups, which proto2 has deprecated, are malformed here.

/// Why octets are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An integer or a truth value.
    Varint(u64),
    /// A string, octets or a message.
    Octets(&'a [u8]),
    /// Four or eight octets; no field that is read has them.
    Fixed,
}

impl<'a> Value<'a> {
    /// The octets of a string or message.
    ///
    /// # Errors
    /// If the field has another type.
    pub fn octets(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Octets(octets) => Ok(octets),
            _ => Err(Malformed(
                "a field of another type where a string or message belongs",
            )),
        }
    }

    /// An integer.
    ///
    /// # Errors
    /// If the field has another type.
    pub fn integer(self) -> Result<u64, Malformed> {
        match self {
            Self::Varint(value) => Ok(value),
            _ => Err(Malformed("a field of another type where a number belongs")),
        }
    }
}

/// Iterates over the fields of a message: their numbers and values.  It ends after an error.
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The fields of a message.
    #[must_use]
    pub fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for (at, &octet) in self.rest.iter().enumerate().take(10) {
            value |= u64::from(octet & 0x7f) << (7 * at);
            if octet < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(Malformed("a number that does not end"))
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len > self.rest.len() {
            return Err(Malformed("a field that is longer than its message"));
        }
        let (found, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(found)
    }

    fn field(&mut self) -> Result<(u64, Value<'a>), Malformed> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let len = self.varint()?;
                Value::Octets(self.take(len)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(Malformed("a field of an unknown type")),
        };
        Ok((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let found = self.field();
        if found.is_err() {
            self.rest = &[];
        }
        Some(found)
    }
}

/// The last value of a string or message in a message; None if it has none.
///
/// # Errors
/// If the message is malformed.
pub fn last(message: &[u8], number: u64) -> Result<Option<&[u8]>, Malformed> {
    let mut found = None;
    for field in Fields::of(message) {
        let (each, value) = field?;
        if each == number {
            found = Some(value.octets()?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_numbers_and_values() {
        let message = [
            0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1d, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        let found: Result<Vec<_>, _> = Fields::of(&message).collect();
        let wanted = vec![
            (1, Value::Varint(150)),
            (2, Value::Octets(b"hi")),
            (3, Value::Fixed),
            (4, Value::Fixed),
        ];
        assert_eq!(found, Ok(wanted));
        assert_eq!(last(&message, 2), Ok(Some(&b"hi"[..])));
        assert_eq!(last(&message, 7), Ok(None));
        assert!(last(&message, 1).is_err());
    }

    #[test]
    fn malformed_messages_end() {
        for message in [
            &b"\x08"[..],
            b"\x12\x02h",
            b"\x0b",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ] {
            let found: Vec<_> = Fields::of(message).collect();
            assert_eq!(found.len(), 1);
            assert!(found[0].is_err());
        }
    }
}
