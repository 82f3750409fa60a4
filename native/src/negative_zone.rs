//! Negative zones: zones in which all existing names are known, so that all other names need no entry.
//!
//! Rule 1: a negative zone is a forward zone of a `kubernetes` block for whose nonexistent names no other plugin
//!         answers; its template is one real NXDOMAIN reply of that block.  Python decides about its exclusions (names
//!         that other handlers may answer).
//! Rule 2: it answers only for a name strictly below the zone, of a type that has a group, while an unlisted name is
//!         NXDOMAIN.
//! Rule 3: the labels to the left of the zone are checked from the right (Kubernetes DNS specification 1.1.0): queries
//!         for `dns` and `dns-version` go to the chain, and any other label but `svc` and `pod` does not exist.  Below
//!         these, a namespace that is not listed does not exist.  Below `svc`, Services and labels below a Service that
//!         are not listed do not exist (names.rs); below `pod`, labels that are not addresses do not exist.  A query
//!         for a name that may exist goes to the chain, and with `no_edns` also a query with an OPT record.
//! Rule 4: the SOA's owner points at the zone within each question, and pointers within its RDATA move with the
//!         question's length.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::key::{HEADER_LEN, Query, u16_at};
use crate::log::ReplySummary;
use crate::names::{Below, ClusterNames};
use crate::records::{NXDOMAIN, outline, read_name, read_record};
use crate::reply::Draft;

const SOA: u16 = 6;
const RCODE: u16 = 0x000F;
const POINTER: u16 = 0xC000;
/// The longest SOA record: owner pointer and fixed part, two names and five numbers.
const MAX_RECORD_LEN: usize = 600;
const CLASS_IN: u16 = 1;
/// Labels directly below the zone whose subtrees are not listed in `ClusterNames`.
const UNLISTED: [&[u8]; 2] = [b"\x03dns", b"\x0bdns-version"];
const PODS: &[u8] = b"\x03pod";

/// One negative zone; it answers nothing before it has a template.
pub struct NegativeZone {
    zone: Box<[u8]>,
    names: Arc<ClusterNames>,
    exclusions: HashSet<Box<[u8]>>,
    groups: HashMap<u16, u32>,
    cache: Option<bool>,
    log: bool,
    no_edns: bool,
    /// Larger payload sizes of queries are lowered to this.
    pub max_payload: u16,
    template: Option<Template>,
}

/// The SOA record of a reply of the chain, and the offsets of its parts that differ between replies.
struct Template {
    flags: u16,
    record: Box<[u8]>,
    /// The offset of each pointer in the record, and of its target from the record's start.
    pointers: Box<[(usize, u16)]>,
    serial: u16,
    /// Octets of a reply without compression, without its question.
    size_beside_question: u32,
}

/// The counted properties of a reply of a negative zone.
pub struct NegativeHit {
    /// The row of counters for its hits.
    pub group: u32,
    /// The counted and logged properties of the reply.
    pub summary: ReplySummary,
    /// Whether it counts as hit or miss of `cache`; None: as neither.
    pub cache: Option<bool>,
}

impl NegativeZone {
    /// Make one without template.  `zone` and `exclusions` are lower-case wire names.
    #[must_use]
    pub fn new(
        zone: &[u8],
        names: Arc<ClusterNames>,
        exclusions: impl IntoIterator<Item = Box<[u8]>>,
        groups: HashMap<u16, u32>,
        counts_as_miss: bool,
    ) -> Self {
        Self {
            zone: zone.into(),
            names,
            exclusions: exclusions.into_iter().collect(),
            groups,
            cache: counts_as_miss.then_some(false),
            log: false,
            no_edns: false,
            max_payload: u16::MAX,
            template: None,
        }
    }

    /// Set whether its hits are logged.
    #[must_use]
    pub fn logged(self, log: bool) -> Self {
        Self { log, ..self }
    }

    /// Lower larger payload sizes of queries to this.
    #[must_use]
    pub fn with_max_payload(self, max_payload: u16) -> Self {
        Self {
            max_payload,
            ..self
        }
    }

    /// Let the chain answer queries with an OPT record, because its replies say why the name does not exist.
    #[must_use]
    pub fn without_edns(self, no_edns: bool) -> Self {
        Self { no_edns, ..self }
    }

    /// The number of labels of the zone, which is its precedence, if a query's name is strictly below it.
    #[must_use]
    pub fn labels_above(&self, query: &Query<'_>) -> Option<usize> {
        match query.labels_left_of(&self.zone)? {
            0 => None,
            left => Some(query.label_count() - left),
        }
    }

    /// Make a template from a reply of the chain; return whether that is possible.
    pub fn set_template(&mut self, query: &Query<'_>, reply: &[u8], size: usize) -> bool {
        let template = self.template_of(query, reply, size);
        let is_taken = template.is_some();
        if is_taken {
            self.template = template;
        }
        is_taken
    }

    fn template_of(&self, query: &Query<'_>, reply: &[u8], size: usize) -> Option<Template> {
        let left = query.labels_left_of(&self.zone)?;
        if left == 0 || left == query.label_count() {
            return None; // the question has no label to point at for the root
        }
        let outline = outline(query, reply)?;
        let start = outline.start;
        let record = read_record(reply, start)?;
        let zone_at = HEADER_LEN + query.label(left).start;
        if outline.flags & RCODE != NXDOMAIN
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
        Some(Template {
            flags: outline.flags,
            record: reply[start..record.end].into(),
            pointers: pointers.into_boxed_slice(),
            serial: *outline.serials.first()?,
            size_beside_question: beside,
        })
    }

    /// Append the NXDOMAIN reply to a query whose name is below the zone; None if the chain must answer.
    pub fn answer(
        &self,
        query: &Query<'_>,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Option<NegativeHit> {
        let template = self.template.as_ref()?;
        let group = *self.groups.get(&query.qtype())?;
        let left = query.labels_left_of(&self.zone)?;
        if self.no_edns && query.edns.is_some() {
            return None;
        }
        if !self.names.is_open() || !self.is_absent(query, left) || self.is_excluded(query) {
            return None;
        }
        template.write(query, left, self.names.serial(), limit, out);
        Some(NegativeHit {
            group,
            summary: ReplySummary {
                log: self.log,
                size: template.size_beside_question + query.question().len() as u32, // below 512
                answers: 0,
            },
            cache: self.cache,
        })
    }

    /// Return whether a query is for an existing Service, or for an endpoint of one.
    #[must_use]
    pub fn is_listed(&self, query: &Query<'_>) -> bool {
        query.labels_left_of(&self.zone).is_some_and(|left| {
            (3..=4).contains(&left)
                && query.qname()[query.label(left - 1)] == *b"\x03svc"
                && self.names.is_open()
                && !self.is_absent(query, left)
        })
    }

    /// Rule 3.
    fn is_absent(&self, query: &Query<'_>, left: usize) -> bool {
        let qname = query.qname();
        let first = &qname[query.label(left - 1)];
        if UNLISTED.contains(&first) {
            return false;
        }
        if first != b"\x03svc" && first != PODS {
            return true;
        }
        if left < 2 {
            return false;
        }
        let namespace = query.label(left - 2);
        if !self.names.has_namespace_wire(&qname[namespace.clone()]) {
            return true;
        }
        if left < 3 {
            return false;
        }
        let service = query.label(left - 3);
        if first == PODS {
            return !may_be_address(&qname[service][1..]);
        }
        let label = |from_service: usize| &qname[query.label(left - 3 - from_service)];
        let below = match left - 3 {
            0 => Below::Nothing,
            1 => Below::Endpoint(label(1)),
            2 => Below::Port(label(2), label(1)),
            _ => Below::Deeper(label(1)),
        };
        !self
            .names
            .may_exist(&qname[service.start..namespace.end], below)
    }

    fn is_excluded(&self, query: &Query<'_>) -> bool {
        !self.exclusions.is_empty()
            && (0..=query.label_count())
                .rev()
                .any(|index| self.exclusions.contains(query.suffix(index)))
    }
}

impl Template {
    fn write(&self, query: &Query<'_>, left: usize, serial: u32, limit: usize, out: &mut Vec<u8>) {
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

/// Return whether a label may be an address, or one with dashes; false for labels that certainly are none.
fn may_be_address(label: &[u8]) -> bool {
    let dashes = label.iter().filter(|&&octet| octet == b'-').count();
    (dashes > 1 || label.contains(&b'.'))
        && label
            .iter()
            .all(|octet| matches!(octet, b'0'..=b'9' | b'a'..=b'f' | b'-' | b'.'))
}

/// Write a pointer; the offsets of a question and a SOA need fewer than 14 bits.
fn point(record: &mut [u8], place: usize, target: usize) {
    let target = u16::try_from(target).unwrap_or(0);
    record[place..place + 2].copy_from_slice(&(POINTER | target).to_be_bytes());
    debug_assert_eq!(u16_at(record, place) & !POINTER, target);
}
