//! Writes a reply from stored records and from its query.
//!
//! Rule 1: the reply copies from the query the ID, RD, CD and the question in the client's letter case; it has an OPT
//!         record if the query has one.
//! Rule 2: the OPT repeats the client's payload size, DO, and those of its options that are echoed, in order; if these
//!         leave no room, the OPT has no options (as hsdns/wire/encode.py, byte for byte).
//! Rule 3: records that do not fit are left out from the end, and TC is set.
//! Rule 4: Extended DNS Errors follow the echoed options of an OPT record.  They are left out first: without room for
//!         them beside all records, they are left out and TC is set (RFC 8914 section 3).
//! Rule 5: the SOA serial is the current one wherever it occurs: it changes with every event, while the rest of the
//!         records stays.  A timed reply has the current TTL in each record.

use crate::key::{CD, Edns, HEADER_LEN, OPT, OPT_FIXED_LEN, Query, RD};
use crate::records::read_record;

/// The longest TCP message.
pub const MAX_TCP_LEN: usize = 65_535;

const TC: u16 = 0x0200;
const DO_OCTET: u8 = 0x80;

/// The parts of a reply that do not depend on its query.
pub struct Draft<'a> {
    /// The header's second 16 bits, without RD and CD.
    pub flags: u16,
    /// How many records each section has.
    pub counts: [u16; 3],
    /// The records, in up to four pieces of whole records.
    pub records: [&'a [u8]; 4],
    /// The offsets of the current number, from the first record: the SOA serial, or the TTL that is left.
    pub numbers: &'a [u16],
    /// That number.
    pub number: u32,
    /// Options with Extended DNS Errors, for queries with an OPT record.
    pub errors: &'a [u8],
}

impl Draft<'_> {
    /// Append a reply of at most `limit` octets; header, question and an OPT without options are always written.
    pub fn write(&self, query: &Query<'_>, limit: usize, out: &mut Vec<u8>) {
        let question = query.question();
        let head_len = HEADER_LEN + question.len();
        let (opt_len, with_options) = match query.edns {
            None => (0, false),
            Some(edns) if head_len + OPT_FIXED_LEN + edns.echoed_len <= limit => {
                (OPT_FIXED_LEN + edns.echoed_len, true)
            }
            Some(_) => (OPT_FIXED_LEN, false),
        };
        let room = limit.saturating_sub(opt_len + head_len);
        let start = out.len();
        let body = start + head_len;
        let len: usize = self.records.iter().map(|piece| piece.len()).sum();
        out.reserve(head_len + len.min(room) + opt_len + self.errors.len());
        out.extend_from_slice(&query.wire[..2]);
        out.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        out.extend_from_slice(question);
        let mut counts = self.counts;
        let mut flags = self.flags | query.flags & (RD | CD);
        let mut errors = self.errors;
        if len + errors.len() > room && query.edns.is_some() {
            errors = &[];
            if !self.errors.is_empty() {
                flags |= TC;
            }
        }
        if len <= room {
            for piece in self.records {
                out.extend_from_slice(piece);
            }
        } else {
            flags |= TC;
            for piece in self.records {
                let left = body + room - out.len();
                out.extend_from_slice(&piece[..piece.len().min(left)]);
            }
            let end = cut(&out[body..], &mut counts);
            out.truncate(body + end);
        }
        for &at in self.numbers {
            let at = body + usize::from(at);
            if at + 4 <= out.len() {
                out[at..at + 4].copy_from_slice(&self.number.to_be_bytes());
            }
        }
        if let Some(edns) = query.edns {
            counts[2] += 1;
            write_opt(&edns, with_options, errors, out);
        }
        let header = &mut out[start..start + HEADER_LEN];
        header[2..4].copy_from_slice(&flags.to_be_bytes());
        for (slot, count) in header[6..].chunks_exact_mut(2).zip(counts) {
            slot.copy_from_slice(&count.to_be_bytes());
        }
    }
}

/// Find the end of the last complete record that fits, and lower the counts accordingly.
fn cut(records: &[u8], counts: &mut [u16; 3]) -> usize {
    let mut end = 0;
    let mut is_full = false;
    for count in counts {
        let mut complete = 0;
        while complete < *count && !is_full {
            match read_record(records, end) {
                Some(record) => {
                    end = record.end;
                    complete += 1;
                }
                None => is_full = true,
            }
        }
        *count = complete;
    }
    end
}

fn write_opt(edns: &Edns<'_>, with_options: bool, errors: &[u8], out: &mut Vec<u8>) {
    let options_len = if with_options { edns.echoed_len } else { 0 };
    let [type_high, type_low] = OPT.to_be_bytes();
    let [size_high, size_low] = edns.payload_size.to_be_bytes();
    // Options come from a query of at most 512 octets, and errors are at most MAX_ERRORS_LEN.
    let [len_high, len_low] = u16::try_from(options_len + errors.len())
        .unwrap_or(0)
        .to_be_bytes();
    let flags = if edns.dnssec_ok { DO_OCTET } else { 0 };
    out.extend_from_slice(&[
        0, type_high, type_low, size_high, size_low, 0, 0, flags, 0, len_high, len_low,
    ]);
    if options_len == edns.options.len() {
        out.extend_from_slice(edns.options);
    } else if options_len > 0 {
        edns.for_each_echoed(|option| out.extend_from_slice(option));
    }
    out.extend_from_slice(errors);
}
