//! The reply to every name that has no records: the SOA record of the zone, made from one such reply of the chain.
//!
//! Rule: the SOA's owner points at the zone within each question, and pointers within its RDATA move with the question's
//!       length.

use crate::key::{HEADER_LEN, Query, u16_at};
use crate::records::{outline, read_name, read_record};
use crate::reply::Draft;

/// Response code in the header's second 16 bits.
pub const RCODE: u16 = 0x000F;
/// The class of every record.
pub const CLASS_IN: u16 = 1;

const SOA: u16 = 6;
const POINTER: u16 = 0xC000;
/// The longest SOA record: owner pointer and fixed part, two names and five numbers.
const MAX_RECORD_LEN: usize = 600;

/// The SOA record of a reply of the chain, and the offsets of its parts that differ between replies.
pub struct SoaTemplate {
    flags: u16,
    record: Box<[u8]>,
    /// The offset of each pointer in the record, and of its target from the record's start.
    pointers: Box<[(usize, u16)]>,
    serial: u16,
    /// Octets of a reply without compression, without its question.
    size_beside_question: u32,
}

impl SoaTemplate {
    /// Take it from a reply with this rcode to a name with `left` labels more than the zone; None if that is not
    /// possible.  `size`: octets of the reply without compression.
    pub fn of(
        query: &Query<'_>,
        left: usize,
        reply: &[u8],
        rcode: u16,
        size: usize,
    ) -> Option<Self> {
        if left == 0 || left == query.label_count() {
            return None; // the question has no label to point at for the root
        }
        let outline = outline(query, reply)?;
        let start = outline.start;
        let record = read_record(reply, start)?;
        let zone_at = HEADER_LEN + query.label(left).start;
        if outline.flags & RCODE != rcode
            || outline.counts != [0, 1, 0]
            || record.rrtype != SOA
            || u16_at(reply, record.owner.end + 2) != CLASS_IN
            || record.end - start > MAX_RECORD_LEN
            || record.owner.end != start + 2
            || record.owner.pointer != Some(zone_at)
        {
            return None;
        }
        let mut pointers = Vec::new();
        let mut at = record.rdata;
        for _ in 0..2 {
            let name = read_name(reply, at)?;
            if let Some(target) = name.pointer {
                if !(start..at).contains(&target) {
                    return None; // into the question, whose length and labels vary
                }
                pointers.push((name.end - 2 - start, u16::try_from(target - start).ok()?));
            }
            at = name.end;
        }
        let beside = u32::try_from(size.checked_sub(query.question().len())?).ok()?;
        Some(Self {
            flags: outline.flags,
            record: reply[start..record.end].into(),
            pointers: pointers.into_boxed_slice(),
            serial: *outline.serials.first()?,
            size_beside_question: beside,
        })
    }

    /// Octets of the reply to a query, without compression.
    #[must_use]
    pub fn size(&self, query: &Query<'_>) -> u32 {
        self.size_beside_question + query.question().len() as u32 // below 512
    }

    /// Append the reply to a query for a name with `left` labels more than the zone.
    pub fn write(
        &self,
        query: &Query<'_>,
        left: usize,
        serial: u32,
        limit: usize,
        out: &mut Vec<u8>,
    ) {
        let mut buffer = [0; MAX_RECORD_LEN];
        let record = &mut buffer[..self.record.len()];
        record.copy_from_slice(&self.record);
        let start = HEADER_LEN + query.question().len();
        point(record, 0, HEADER_LEN + query.label(left).start);
        for &(place, distance) in &self.pointers {
            point(record, place, start + usize::from(distance));
        }
        Draft {
            flags: self.flags,
            counts: [0, 1, 0],
            records: [record, &[], &[], &[]],
            numbers: &[self.serial],
            number: serial,
            errors: &[],
        }
        .write(query, limit, out);
    }
}

/// Write a pointer; the offsets of a question and a SOA need fewer than 14 bits.
fn point(record: &mut [u8], place: usize, target: usize) {
    let target = u16::try_from(target).unwrap_or(0);
    record[place..place + 2].copy_from_slice(&(POINTER | target).to_be_bytes());
    debug_assert_eq!(u16_at(record, place) & !POINTER, target);
}
