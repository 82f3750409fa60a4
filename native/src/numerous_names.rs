//! Replies about names without number, made from replies of the chain: those of Pods where every address has one (`pods
//! insecure`), and those that select topology zones which no endpoint is in.
//!
//! Rule 1: the name is that of one address, in its canonical form with dashes, in a namespace that exists; up to two
//!         labels to the left do not matter (CoreDNS plugin/kubernetes/parse.go).  Other forms go to the chain, and
//!         addresses in ::/80, whose forms differ between libraries.
//! Rule 2: the type of the address gets the address, others NODATA; each of these replies has its own form, which is taken
//!         from one of the chain.  SRV is left to the chain, as its reply has more in it.
//! Rule 3: ZONE.pin._zone and a headless Service are NODATA for all types, unless the zone is listed (names.rs).

use std::collections::HashMap;

use crate::key::{HEADER_LEN, Query, u16_at};
use crate::names::TOPOLOGY;
use crate::records::{outline, read_record};
use crate::reply::Draft;
use crate::service_reply::{address_type, undashed};
use crate::soa_template::{CLASS_IN, RCODE, SoaTemplate};

const NOERROR: u16 = 0;
/// The label directly below the zone, in wire form.
pub const PODS: &[u8] = b"\x03pod";
const PIN: &[u8] = b"\x03pin";
const FIXED_LEN: usize = 10; // type, class, TTL and length of the RDATA
const OWNER: [u8; 2] = [0xC0, HEADER_LEN as u8]; // the question's name

/// How a reply is counted.
#[derive(Clone, Copy)]
pub struct Counted {
    /// The row of counters.
    pub group: u32,
    /// Whether it counts as hit or miss of `cache`; None: as neither.
    pub cache: Option<bool>,
}

/// What a name is about.
enum Subject {
    Pod(Vec<u8>),
    TopologyZone,
}

/// The forms of the replies in one zone, by type, whether there is an answer, and whether it is about a Pod.
#[derive(Default)]
pub struct NumerousNames {
    forms: HashMap<(u16, bool, bool), (Form, Counted)>,
}

enum Form {
    Address { flags: u16, ttl: [u8; 4] },
    NoData(SoaTemplate),
}

impl NumerousNames {
    /// Take the form of a reply of the chain; return whether that is possible.
    pub fn set_form(
        &mut self,
        query: &Query<'_>,
        left: usize,
        reply: &[u8],
        size: usize,
        counted: Counted,
    ) -> bool {
        let Some(subject) = subject_of(query, left) else {
            return false;
        };
        let form = match subject.answer_to(query) {
            Some(address) => address_form(query, address, reply, size),
            None => SoaTemplate::of(query, left, reply, NOERROR, size).map(Form::NoData),
        };
        let is_taken = form.is_some();
        if let Some(form) = form {
            self.forms.insert(subject.key(query), (form, counted));
        }
        is_taken
    }

    /// Append the reply to a query for a name in a namespace that exists; None if the chain must answer.  Return how it
    /// is counted, its octets without compression, and whether it has an answer.  `lacks` says whether a Service has
    /// names of topology zones, but not this one.
    pub fn answer(
        &self,
        query: &Query<'_>,
        (left, lacks): (usize, impl FnOnce() -> bool),
        serial: u32,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Option<(Counted, u32, bool)> {
        if self.forms.is_empty() {
            return None;
        }
        let subject = subject_of(query, left)?;
        let (form, counted) = self.forms.get(&subject.key(query))?;
        if matches!(subject, Subject::TopologyZone) && !lacks() {
            return None;
        }
        let size = match (form, subject.answer_to(query)) {
            (Form::Address { flags, ttl }, Some(address)) => {
                write_address(query, address, *flags, *ttl, limit, out);
                size_with(query, address) as u32 // below 1,024
            }
            (Form::NoData(template), None) => {
                template.write(query, left, serial, limit, out);
                template.size(query)
            }
            _ => return None,
        };
        Some((*counted, size, matches!(form, Form::Address { .. })))
    }
}

impl Subject {
    fn key(&self, query: &Query<'_>) -> (u16, bool, bool) {
        let is_answer = self.answer_to(query).is_some();
        (query.qtype(), is_answer, matches!(self, Self::Pod(_)))
    }

    fn answer_to(&self, query: &Query<'_>) -> Option<&[u8]> {
        match self {
            Self::Pod(address) if address_type(address) == query.qtype() => Some(address),
            _ => None,
        }
    }
}

fn subject_of(query: &Query<'_>, left: usize) -> Option<Subject> {
    // A dot within a label is none of those that a topology zone may have.
    let is_zone = left > 5
        && query.qname()[query.label(left - 5)] == *PIN
        && query.qname()[query.label(left - 4)] == *TOPOLOGY
        && !(0..left - 5).any(|index| query.qname()[query.label(index)][1..].contains(&b'.'));
    if is_zone {
        return Some(Subject::TopologyZone);
    }
    address_of(query, left).map(Subject::Pod)
}

/// The address in the name of a Pod.
fn address_of(query: &Query<'_>, left: usize) -> Option<Vec<u8>> {
    let qname = query.qname();
    if !(3..=5).contains(&left) || qname[query.label(left - 1)] != *PODS {
        return None;
    }
    undashed(&qname[query.label(left - 3)][1..])
        .filter(|address| address.len() == 4 || address[..10] != [0; 10])
}

fn address_form(query: &Query<'_>, address: &[u8], reply: &[u8], size: usize) -> Option<Form> {
    let outline = outline(query, reply)?;
    let record = read_record(reply, outline.start)?;
    let fixed = record.owner.end;
    let is_alike = outline.flags & RCODE == NOERROR
        && outline.counts == [1, 0, 0]
        && reply[record.start..fixed] == OWNER
        && record.rrtype == query.qtype()
        && u16_at(reply, fixed + 2) == CLASS_IN
        && reply[record.rdata..record.end] == *address
        && size == size_with(query, address);
    is_alike.then_some(Form::Address {
        flags: outline.flags,
        ttl: reply[fixed + 4..fixed + 8].try_into().ok()?,
    })
}

/// Octets of the reply with an address, without compression.
fn size_with(query: &Query<'_>, address: &[u8]) -> usize {
    HEADER_LEN + query.question().len() + query.qname().len() + FIXED_LEN + address.len()
}

fn write_address(
    query: &Query<'_>,
    address: &[u8],
    flags: u16,
    ttl: [u8; 4],
    limit: usize,
    out: &mut Vec<u8>,
) {
    let mut record = Vec::with_capacity(OWNER.len() + FIXED_LEN + address.len());
    record.extend_from_slice(&OWNER);
    record.extend_from_slice(&query.qtype().to_be_bytes());
    record.extend_from_slice(&CLASS_IN.to_be_bytes());
    record.extend_from_slice(&ttl);
    record.extend_from_slice(&(address.len() as u16).to_be_bytes()); // 4 or 16
    record.extend_from_slice(address);
    Draft {
        flags,
        counts: [1, 0, 0],
        records: [&record, &[], &[], &[]],
        numbers: &[],
        number: 0,
        errors: &[],
    }
    .write(query, limit, out);
}
