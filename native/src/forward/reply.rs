//! Reads the reply of an upstream as hsdns/wire/decode.py does, judges it as hsdns/plugins/cache/store.py does, and
//! writes it octet for octet as hsdns/wire/encode.py does.
//!
//! Rule 1: what is malformed, truncated, an error, not stored by `cache` or of a type that is not listed here is left
//!         to the chain.
//! Rule 2: no octet of the reply is sent on unread: names are followed and compressed anew.

use std::collections::HashSet;

use crate::key::{AA, AD, CD, HEADER_LEN, MAX_NAME_LEN, OPT, Query, RD, name_len, u16_at};
use crate::records::NXDOMAIN;
use crate::service_reply::{Places, compressed};

const QR: u16 = 0x8000;
const RA: u16 = 0x0080;
const OPCODE_TC: u16 = 0x7A00;
const RCODE: u16 = 0x000F;
const CLASS_IN: u16 = 1;
const FIXED_LEN: usize = 10; // type, class, TTL and length of the RDATA
const MAX_POINTERS: usize = 126;

const A: u16 = 1;
const NS: u16 = 2;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const PTR: u16 = 12;
const MX: u16 = 15;
const TXT: u16 = 16;
const AAAA: u16 = 28;
const SRV: u16 = 33;
const SVCB: u16 = 64;
const HTTPS: u16 = 65;

/// The least and the most seconds that `cache` stores a reply.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The least.
    pub floor: u32,
    /// The most.
    pub most: u32,
}

/// A reply for a client, complete, without an OPT record, and with TTLs of 0.
#[derive(Debug, PartialEq, Eq)]
pub struct Made {
    /// Its octets.
    pub wire: Vec<u8>,
    /// Octets without compression.
    pub size: u32,
    /// The seconds for which `cache` stores it, which all of its records have.
    pub ttl: u32,
    /// Whether it belongs to the half `denial` of `cache`.
    pub is_denial: bool,
}

/// Make the reply to a query from that of an upstream to the same question; None if the chain has to.
///
/// `rotates`: the table reorders the addresses, so that the records have to be in the order of `loadbalance`.
#[must_use]
pub fn make(
    query: &Query<'_>,
    reply: &[u8],
    rotates: bool,
    success: Bounds,
    denial: Bounds,
) -> Option<Made> {
    let question = query.question();
    let start = HEADER_LEN + question.len();
    let flags = u16_at(reply.get(..start)?, 2);
    let rcode = flags & RCODE;
    if flags & (QR | OPCODE_TC) != QR || u16_at(reply, 4) != 1 || ![0, NXDOMAIN].contains(&rcode) {
        return None;
    }
    let mut out = Vec::with_capacity(reply.len() + 64);
    out.extend_from_slice(&query.wire[..2]);
    let flags = QR | flags & (AA | RA | AD) | query.flags & (RD | CD) | rcode;
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(question);
    let mut writer = Writer {
        qname: query.qname(),
        size: out.len(),
        out,
        owners: Places::default(),
        names: Places::default(),
    };
    let mut found = Found::default();
    let (mut at, mut has_opt, mut least) = (start, false, u32::MAX);
    for section in 0..3 {
        let (mut count, mut last) = (0u16, 0);
        for _ in 0..u16_at(reply, 6 + 2 * section) {
            let record = read(reply, at)?;
            at = record.end;
            if record.rrtype == OPT {
                let is_plain = record.owner.len() == 1 && record.ttl >> 16 == 0;
                if section != 2 || has_opt || !is_plain || !record.rdata.is_empty() {
                    return None;
                }
                has_opt = true;
                continue;
            }
            let class = order(record.rrtype);
            if record.class != CLASS_IN || rotates && rcode == 0 && class < last {
                return None;
            }
            last = class;
            least = least.min(record.ttl);
            count += 1;
            writer.write(&record);
            found.add(section, record);
        }
        writer.out[6 + 2 * section..8 + 2 * section].copy_from_slice(&count.to_be_bytes());
    }
    if at != reply.len() || rotates && rcode == 0 && !found.rotates() {
        return None;
    }
    let is_denial = !(rcode == 0 && found.is_answered(query)?);
    if is_denial && (!found.has_soa || rcode == NXDOMAIN && !found.answer.is_empty()) {
        return None;
    }
    let Bounds { floor, most } = if is_denial { denial } else { success };
    let ttl = least.max(floor).min(most);
    (ttl > 0).then(|| Made {
        size: u32::try_from(writer.size).unwrap_or(u32::MAX),
        wire: writer.out,
        ttl,
        is_denial,
    })
}

/// The place of a type in the order of `loadbalance`.
fn order(rrtype: u16) -> u8 {
    match rrtype {
        CNAME => 0,
        A | AAAA => 2,
        MX => 3,
        _ => 1,
    }
}

//----- Reading ---------------------------------------------------------------

struct Record {
    owner: Vec<u8>,
    rrtype: u16,
    class: u16,
    ttl: u32,
    /// With uncompressed names.
    rdata: Vec<u8>,
    end: usize,
}

/// The names in the RDATA of a type: octets before them, their number, octets after them, None for any number.
fn names_of(rrtype: u16) -> Option<(usize, usize, Option<usize>)> {
    match rrtype {
        NS | CNAME | PTR => Some((0, 1, Some(0))),
        SOA => Some((0, 2, Some(20))),
        MX => Some((2, 1, Some(0))),
        SRV => Some((6, 1, Some(0))),
        SVCB | HTTPS => Some((2, 1, None)), // and parameters (RFC 9460 section 2.2)
        _ => None,
    }
}

fn read(wire: &[u8], at: usize) -> Option<Record> {
    let mut owner = Vec::new();
    let at = read_name(wire, at, &mut owner)?;
    let fixed = wire.get(at..at + FIXED_LEN)?;
    let (rrtype, start) = (u16_at(fixed, 0), at + FIXED_LEN);
    let end = start + usize::from(u16_at(fixed, 8));
    let octets = wire.get(start..end)?;
    let rdata = match (rrtype, octets.len(), names_of(rrtype)) {
        (A, 4, _) | (AAAA, 16, _) | (TXT | OPT, _, _) => octets.to_vec(),
        (_, _, Some((before, count, after))) => {
            let mut rdata = octets.get(..before)?.to_vec();
            let mut at = start + before;
            for _ in 0..count {
                at = read_name(&wire[..end], at, &mut rdata)?;
            }
            if after.is_some_and(|after| at + after != end) {
                return None;
            }
            rdata.extend_from_slice(&wire[at..end]);
            rdata
        }
        _ => return None,
    };
    let ttl = u32::from(u16_at(fixed, 4)) << 16 | u32::from(u16_at(fixed, 6));
    let class = u16_at(fixed, 2);
    Some(Record {
        owner,
        rrtype,
        class,
        ttl,
        rdata,
        end,
    })
}

/// Append a name, and return the offset after it.
fn read_name(wire: &[u8], start: usize, out: &mut Vec<u8>) -> Option<usize> {
    let (mut at, mut first, mut pointers) = (start, start, 0);
    let (mut after, begin) = (None, out.len());
    loop {
        let length = usize::from(*wire.get(at)?);
        match length {
            0 => {
                out.push(0);
                let is_short = out.len() - begin <= MAX_NAME_LEN;
                return is_short.then_some(after.unwrap_or(at + 1));
            }
            1..=63 => {
                out.extend_from_slice(wire.get(at..=at + length)?);
                at += 1 + length;
            }
            0xC0.. => {
                let target = (length & 0x3F) << 8 | usize::from(*wire.get(at + 1)?);
                pointers += 1;
                // Backward from where this piece of the name began, so that it ends.
                if target >= first || pointers > MAX_POINTERS {
                    return None;
                }
                after = after.or(Some(at + 2));
                (at, first) = (target, target);
            }
            _ => return None,
        }
        if out.len() - begin > MAX_NAME_LEN {
            return None;
        }
    }
}

//----- Judging ---------------------------------------------------------------

#[derive(Default)]
struct Found {
    /// The owner in lower case, the type, and the RDATA of a CNAME in lower case.
    answer: Vec<(Vec<u8>, u16, Vec<u8>)>,
    /// The owners of addresses in the answer, in lower case, with their types.
    addresses: HashSet<(Vec<u8>, u16)>,
    exchanges: usize,
    has_soa: bool,
}

impl Found {
    fn add(&mut self, section: usize, mut record: Record) {
        self.has_soa |= section == 1 && record.rrtype == SOA;
        if section > 0 {
            return;
        }
        record.owner.make_ascii_lowercase();
        match record.rrtype {
            A | AAAA => {
                self.addresses.insert((record.owner.clone(), record.rrtype));
            }
            MX => self.exchanges += 1,
            CNAME => record.rdata.make_ascii_lowercase(),
            _ => {}
        }
        self.answer
            .push((record.owner, record.rrtype, record.rdata));
    }

    /// Whether the table can reorder the answer as `loadbalance` does.
    fn rotates(&self) -> bool {
        self.exchanges < 2 && self.addresses.len() < 2
    }

    /// Whether the chain of CNAME records ends at a record of the wanted type; None if the chain forks or loops.
    fn is_answered(&self, query: &Query<'_>) -> Option<bool> {
        let mut name = query.qname();
        if query.qtype() != CNAME {
            for _ in 0..=self.answer.len() {
                let mut targets = self
                    .answer
                    .iter()
                    .filter(|(owner, rrtype, _)| *rrtype == CNAME && *owner == name);
                let Some((_, _, target)) = targets.next() else {
                    let is_end = |(owner, rrtype, _): &(Vec<u8>, u16, Vec<u8>)| {
                        *rrtype == query.qtype() && *owner == name
                    };
                    return Some(self.answer.iter().any(is_end));
                };
                if targets.any(|(_, _, other)| other != target) {
                    return None;
                }
                name = target;
            }
            return None;
        }
        let own = self
            .answer
            .iter()
            .filter(|(owner, rrtype, _)| *rrtype == CNAME && *owner == name);
        Some(
            own.map(|(_, _, target)| target)
                .collect::<HashSet<_>>()
                .len()
                == 1,
        )
    }
}

//----- Writing ---------------------------------------------------------------

struct Writer<'a> {
    qname: &'a [u8],
    out: Vec<u8>,
    /// Octets without compression.
    size: usize,
    /// Owners in lower case, but the question's.
    owners: Places,
    /// Names in RDATA.
    names: Places,
}

impl Writer<'_> {
    fn write(&mut self, record: &Record) {
        let start = self.out.len();
        let (owner, rdata) = (&record.owner, &record.rdata);
        let lower = owner.to_ascii_lowercase();
        let head = compressed(owner, |at| self.place(&lower[at..]));
        let is_cut = head.len() < owner.len();
        self.size += owner.len() + FIXED_LEN + rdata.len();
        self.out.extend_from_slice(&head);
        self.out.extend_from_slice(&record.rrtype.to_be_bytes());
        self.out.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
        let body = self.out.len();
        let mut noted = Vec::new();
        match names_of(record.rrtype) {
            // Never compressed (RFC 2782; RFC 9460 section 2.2), but owners may point to the former.
            Some((before, _, _)) if matches!(record.rrtype, SRV | SVCB | HTTPS) => {
                self.out.extend_from_slice(rdata);
                if record.rrtype == SRV {
                    noted.push((&rdata[before..], body + before));
                }
            }
            Some((before, count, _)) => {
                self.out.extend_from_slice(&rdata[..before]);
                let mut at = before;
                for _ in 0..count {
                    let end = at + name_len(&rdata[at..]);
                    let (name, place) = (&rdata[at..end], self.out.len());
                    self.out.extend_from_slice(&self.names.compressed(name));
                    self.names.remember(name, place, usize::MAX);
                    at = end;
                }
                self.out.extend_from_slice(&rdata[at..]);
            }
            None => self.out.extend_from_slice(rdata),
        }
        let len = u16::try_from(self.out.len() - body).unwrap_or(u16::MAX);
        self.out[body - 2..body].copy_from_slice(&len.to_be_bytes());
        if head.len() > 2 {
            let written = head.len() - if is_cut { 2 } else { 0 };
            self.owners.remember(&lower, start, written);
        }
        for (name, place) in noted {
            self.names.remember(name, place, usize::MAX);
        }
    }

    /// Where a name is, which is in lower case.
    fn place(&self, name: &[u8]) -> Option<u16> {
        let in_question = self.qname.len().checked_sub(name.len());
        in_question
            .filter(|&at| self.qname[at..] == *name && is_label(self.qname, at))
            .map(|at| (HEADER_LEN + at) as u16)
            .or_else(|| self.owners.find(name).or_else(|| self.names.find(name)))
    }
}

/// Whether a label of a name begins at an offset.
fn is_label(name: &[u8], wanted: usize) -> bool {
    let mut at = 0;
    while at < wanted {
        at += 1 + usize::from(name[at]);
    }
    at == wanted
}
