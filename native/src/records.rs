//! The records of a reply to be stored: their offsets, and whether the reply can be stored.
//!
//! Rule 1: a reply can be stored if it is complete: QR set, TC clear, NOERROR, NXDOMAIN, SERVFAIL or NOTIMP, the
//!         question octet for octet, all records within the message, nothing after the last one.
//! Rule 2: its OPT, if any, is the last record; it is removed, because each client gets an OPT of its own.
//! Rule 3: names are skipped, not followed; a pointer points backward, to the question or to an earlier record (RFC
//!         1035 section 4.1.4).
//! Rule 4: the addresses of an answer can rotate if they are its last records, have equal lengths, and their owner is a
//!         pointer to a name before all of them: the question, or the target of a CNAME record.

use crate::key::{CD, HEADER_LEN, MAX_NAME_LEN, OPT, Query, RD, u16_at};

/// The longest reply that is stored; pointers reach every name in it.
pub const MAX_STORED_LEN: usize = 16_384;
/// Response code of a name that does not exist.
pub const NXDOMAIN: u16 = 3;

const NOERROR: u16 = 0;
const SERVFAIL: u16 = 2;
const NOTIMP: u16 = 4;
const SOA: u16 = 6;
const A: u16 = 1;
const AAAA: u16 = 28;
const QR: u16 = 0x8000;
const OPCODE: u16 = 0x7800;
const TC: u16 = 0x0200;
const RCODE: u16 = 0x000F;
const FIXED_LEN: usize = 10; // type 2, class 2, ttl 4, rdlength 2
const TTL_AT: usize = 4; // from the end of the owner
const SOA_NUMBERS_LEN: usize = 20; // serial first

/// The end of a name.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    /// The offset after it.
    pub end: usize,
    /// The target of the pointer that it ends with.
    pub pointer: Option<usize>,
}

/// The offsets of a record.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Its first octet.
    pub start: usize,
    /// Its owner.
    pub owner: Name,
    /// Its type.
    pub rrtype: u16,
    /// Where its RDATA starts.
    pub rdata: usize,
    /// The offset after it.
    pub end: usize,
}

/// The addresses of an answer that can rotate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotation {
    /// Where the first one starts, from the first record.
    pub first: u16,
    /// The length of each.
    pub len: u16,
    /// Their number.
    pub count: u16,
}

/// The stored parts of a reply.
#[derive(Debug)]
pub struct Outline {
    /// The header's second 16 bits, without RD and CD.
    pub flags: u16,
    /// How many records each section has, OPT not counted.
    pub counts: [u16; 3],
    /// Where the first record starts.
    pub start: usize,
    /// Where the last one ends, OPT not counted.
    pub end: usize,
    /// The offsets of SOA serials from `start`.
    pub serials: Vec<u16>,
    /// The offsets of TTLs from `start`.
    pub ttls: Vec<u16>,
    /// The answer's addresses, if they are two or more that can rotate.
    pub rotation: Option<Rotation>,
}

/// Skip a name.
#[must_use]
pub fn read_name(wire: &[u8], start: usize) -> Option<Name> {
    let mut at = start;
    loop {
        let length = usize::from(*wire.get(at)?);
        match length {
            0 => {
                let end = at + 1;
                return Some(Name { end, pointer: None });
            }
            1..=63 => at += 1 + length,
            0xC0.. if at + 2 <= wire.len() => {
                let pointer = Some(usize::from(u16_at(wire, at) & 0x3FFF));
                let end = at + 2;
                return Some(Name { end, pointer });
            }
            _ => return None,
        }
        if at - start >= MAX_NAME_LEN {
            return None;
        }
    }
}

/// Skip a record.
#[must_use]
pub fn read_record(wire: &[u8], start: usize) -> Option<Record> {
    let owner = read_name(wire, start)?;
    let rdata = owner.end + FIXED_LEN;
    if rdata > wire.len() {
        return None;
    }
    let end = rdata + usize::from(u16_at(wire, rdata - 2));
    (end <= wire.len()).then(|| Record {
        start,
        owner,
        rrtype: u16_at(wire, owner.end),
        rdata,
        end,
    })
}

/// The offset of a SOA record's serial; None if its RDATA is not two names and five numbers.
#[must_use]
pub fn soa_serial(wire: &[u8], record: &Record) -> Option<usize> {
    let rdata = &wire[..record.end];
    let mname = read_name(rdata, record.rdata)?;
    let rname = read_name(rdata, mname.end)?;
    (rname.end + SOA_NUMBERS_LEN == record.end).then_some(rname.end)
}

/// Examine the reply to a query; None if it cannot be stored.
#[must_use]
pub fn outline(query: &Query<'_>, reply: &[u8]) -> Option<Outline> {
    let question = query.question();
    let start = HEADER_LEN + question.len();
    if !(start..=MAX_STORED_LEN).contains(&reply.len())
        || u16_at(reply, 4) != 1
        || reply[HEADER_LEN..start] != *question
    {
        return None;
    }
    let flags = u16_at(reply, 2);
    let rcode = flags & RCODE;
    let is_stored = matches!(rcode, NOERROR | SERVFAIL | NXDOMAIN | NOTIMP);
    if flags & (QR | OPCODE | TC) != QR || !is_stored {
        return None;
    }
    let mut outline = Outline {
        flags: flags & !(RD | CD),
        counts: [u16_at(reply, 6), u16_at(reply, 8), u16_at(reply, 10)],
        start,
        end: start,
        serials: Vec::new(),
        ttls: Vec::new(),
        rotation: None,
    };
    let mut addresses = Addresses::default();
    let mut opt = false;
    for section in 0..3 {
        for _ in 0..outline.counts[section] {
            let record = read_record(reply, outline.end)?;
            if opt || !is_backward(record.owner, record.start) {
                return None;
            }
            if record.rrtype == OPT {
                let is_plain = reply[record.start] == 0 && reply[record.owner.end + 4] == 0;
                if section != 2 || !is_plain || record.end != reply.len() {
                    return None;
                }
                opt = true;
                continue;
            }
            if record.rrtype == SOA {
                let at = soa_serial(reply, &record)? - start;
                outline.serials.push(u16::try_from(at).ok()?);
            }
            if section == 0 {
                addresses.add(reply, &record);
            }
            let ttl = record.owner.end + TTL_AT - start;
            outline.ttls.push(u16::try_from(ttl).ok()?);
            outline.end = record.end;
        }
    }
    if opt {
        outline.counts[2] -= 1;
    } else if outline.end != reply.len() {
        return None;
    }
    outline.rotation = addresses.found(start);
    Some(outline)
}

/// Return whether a name at `start` has no pointer or one that points backward.
fn is_backward(name: Name, start: usize) -> bool {
    name.pointer
        .is_none_or(|target| (HEADER_LEN..start).contains(&target))
}

/// Determines whether the last records of an answer are addresses that can rotate.
#[derive(Default)]
struct Addresses {
    first: Option<Record>,
    count: u16,
    mixed: bool,
}

impl Addresses {
    fn add(&mut self, reply: &[u8], record: &Record) {
        let is_address = matches!(record.rrtype, A | AAAA);
        match &self.first {
            None if is_address => {
                // The root, or nothing but a pointer.
                let owner_len = if record.owner.pointer.is_some() { 2 } else { 1 };
                self.mixed = record.owner.end - record.start != owner_len;
                self.first = Some(*record);
            }
            None => return,
            Some(first) => {
                self.mixed |= first.rrtype != record.rrtype
                    || first.end - first.start != record.end - record.start
                    || reply[first.start..first.owner.end] != reply[record.start..record.owner.end];
            }
        }
        self.count += 1;
    }

    fn found(&self, start: usize) -> Option<Rotation> {
        let first = self.first.filter(|_| !self.mixed && self.count > 1)?;
        Some(Rotation {
            first: u16::try_from(first.start - start).ok()?,
            len: u16::try_from(first.end - first.start).ok()?,
            count: self.count,
        })
    }
}
