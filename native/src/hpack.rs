//! Decodes header blocks of HTTP/2 (RFC 7541), for hsdns/http2.py.  Its twin is the library hpack.
//!
//! Rule 1: the table has at most TABLE_LEN octets, as the default setting says, and a list of fields as many as its
//!         reader allows.
//! Rule 2: after a fault nothing more is decoded: the connection ends (RFC 9113 section 4.3).

use std::collections::VecDeque;
use std::sync::OnceLock;

/// The default SETTINGS_HEADER_TABLE_SIZE, of which no other is told.
pub const TABLE_LEN: usize = 4096;
const FIELD_LEN: usize = 32; // beside its name and value (RFC 7541 section 4.1)
const EOS: usize = 256;
const MAX_CODE_LEN: u32 = 30; // bits

/// A name and a value.
pub type Field = (Vec<u8>, Vec<u8>);

/// Why a block cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is malformed.
    Malformed(&'static str),
    /// Its fields are longer than allowed.
    TooLong,
}

const CUT: Fault = Fault::Malformed("it ends within a field");
const NO_FIELD: Fault = Fault::Malformed("it refers to a field that is not in the table");
const NO_STRING: Fault = Fault::Malformed("a string is no Huffman code");
const NO_SIZE: Fault =
    Fault::Malformed("it changes the size of the table where that is not allowed");

/// The table of one direction of a connection.
pub struct Decoder {
    table: VecDeque<Field>,
    table_len: usize,
    most: usize,
    limit: usize,
    changes: u64,
}

impl Decoder {
    /// One with an empty table; its lists of fields may have so many octets, with 32 for each field.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            table: VecDeque::new(),
            table_len: 0,
            most: TABLE_LEN,
            limit,
            changes: 0,
        }
    }

    /// How often a block has changed the table: while none does, equal blocks have equal fields.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Decode a whole block.
    ///
    /// # Errors
    /// It is no header block, or its fields are too long.
    pub fn decode(&mut self, block: &[u8]) -> Result<Vec<Field>, Fault> {
        let mut left = block;
        let mut fields: Vec<Field> = Vec::with_capacity(8);
        let mut len = 0;
        while let Some(&first) = left.first() {
            let field = match first {
                0x80.. => {
                    let (name, value) = self.field(integer(&mut left, 7)?)?;
                    (name.to_vec(), value.to_vec())
                }
                0x40.. => {
                    let field = self.literal(&mut left, 6)?;
                    self.add(&field);
                    field
                }
                0x20.. => {
                    let most = integer(&mut left, 5)?;
                    if !fields.is_empty() || most > TABLE_LEN {
                        return Err(NO_SIZE);
                    }
                    self.most = most;
                    self.changes += 1;
                    self.shrink();
                    continue;
                }
                _ => self.literal(&mut left, 4)?,
            };
            len += len_of(&field);
            if len > self.limit {
                return Err(Fault::TooLong);
            }
            fields.push(field);
        }
        Ok(fields)
    }

    fn literal(&self, left: &mut &[u8], bits: u32) -> Result<Field, Fault> {
        let name = match integer(left, bits)? {
            0 => string(left)?,
            index => self.field(index)?.0.to_vec(),
        };
        Ok((name, string(left)?))
    }

    fn field(&self, index: usize) -> Result<(&[u8], &[u8]), Fault> {
        let index = index.checked_sub(1).ok_or(NO_FIELD)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let found = self.table.get(index - STATIC.len());
        let (name, value) = found.ok_or(NO_FIELD)?;
        Ok((name, value))
    }

    /// Put a field into the table; one that is longer than it only empties it (RFC 7541 section 4.4).
    fn add(&mut self, field: &Field) {
        self.changes += 1;
        self.table_len += len_of(field);
        self.table.push_front(field.clone());
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.table_len > self.most {
            let Some(last) = self.table.pop_back() else {
                return;
            };
            self.table_len -= len_of(&last);
        }
    }
}

fn len_of((name, value): &Field) -> usize {
    name.len() + value.len() + FIELD_LEN
}

/// Take an integer from the last bits of the first octet on (RFC 7541 section 5.1).
fn integer(left: &mut &[u8], bits: u32) -> Result<usize, Fault> {
    let most = (1 << bits) - 1;
    let mut number = usize::from(take(left)?) & most;
    if number < most {
        return Ok(number);
    }
    for shift in (0..).step_by(7) {
        let octet = usize::from(take(left)?);
        if shift > 21 {
            return Err(Fault::Malformed("a number is too great"));
        }
        number += (octet & 127) << shift;
        if octet < 128 {
            break;
        }
    }
    Ok(number)
}

fn take(left: &mut &[u8]) -> Result<u8, Fault> {
    let (&first, rest) = left.split_first().ok_or(CUT)?;
    *left = rest;
    Ok(first)
}

fn string(left: &mut &[u8]) -> Result<Vec<u8>, Fault> {
    let is_coded = left.first().is_some_and(|first| first & 0x80 > 0);
    let len = integer(left, 7)?;
    let (octets, rest) = left.split_at_checked(len).ok_or(CUT)?;
    *left = rest;
    if !is_coded {
        return Ok(octets.to_vec());
    }
    decoded(octets).ok_or(NO_STRING)
}

/// Decode Huffman's code (RFC 7541 section 5.2), whose codes of one length are successive numbers.
fn decoded(octets: &[u8]) -> Option<Vec<u8>> {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    let rows = ROWS.get_or_init(rows);
    let mut text = Vec::with_capacity(octets.len() * 8 / 5);
    let (mut bits, mut count) = (0u64, 0); // those that are not decoded, in the lowest places
    let mut left = octets.iter();
    loop {
        while count <= 32 {
            let Some(&octet) = left.next() else { break };
            bits = bits << 8 | u64::from(octet);
            count += 8;
        }
        let mut found = rows.iter().take_while(|row| row.len <= count);
        let found = found.find_map(|row| {
            let place = (bits >> (count - row.len)).checked_sub(row.first)?;
            Some((row.len, *row.symbols.get(place as usize)?))
        });
        match found {
            Some((_, EOS)) => return None,
            Some((len, symbol)) => {
                text.push(symbol as u8);
                count -= len;
                bits &= (1 << count) - 1;
            }
            // The rest is the beginning of EOS, of ones.
            None => return (count < 8 && bits + 1 == 1 << count).then_some(text),
        }
    }
}

/// The codes of one length.
struct Row {
    len: u32,
    first: u64,
    symbols: Vec<usize>,
}

fn rows() -> Vec<Row> {
    let mut first = 0;
    let mut rows = Vec::new();
    for len in 1..=MAX_CODE_LEN {
        first <<= 1;
        let symbols: Vec<usize> = (0..=EOS)
            .filter(|&symbol| u32::from(CODE_LEN[symbol]) == len)
            .collect();
        let count = symbols.len() as u64;
        if count > 0 {
            let row = Row {
                len,
                first,
                symbols,
            };
            rows.push(row);
        }
        first += count;
    }
    rows
}

/// The number of bits of each symbol's code (RFC 7541 appendix B).
#[rustfmt::skip]
const CODE_LEN: [u8; EOS + 1] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// RFC 7541 appendix A.
#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
];
