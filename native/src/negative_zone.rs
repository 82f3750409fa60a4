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
//! Rule 4: it also answers for Pods where every address has a name, and for made-up topology zones (numerous_names.rs).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::key::Query;
use crate::log::ReplySummary;
use crate::names::{Below, ClusterNames};
use crate::numerous_names::{Counted, NumerousNames, PODS};
use crate::records::NXDOMAIN;
use crate::soa_template::SoaTemplate;

/// Labels directly below the zone whose subtrees are not listed in `ClusterNames`.
const UNLISTED: [&[u8]; 2] = [b"\x03dns", b"\x0bdns-version"];

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
    template: Option<SoaTemplate>,
    numerous: NumerousNames,
}

/// The counted properties of a reply of a negative zone.
pub struct ZoneHit {
    /// How it is counted.
    pub counted: Counted,
    /// The counted and logged properties of the reply.
    pub summary: ReplySummary,
    /// Whether the name does not exist; else it is one without number.
    pub is_denial: bool,
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
            numerous: NumerousNames::default(),
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
        let template = query
            .labels_left_of(&self.zone)
            .and_then(|left| SoaTemplate::of(query, left, reply, NXDOMAIN, size));
        let is_taken = template.is_some();
        if is_taken {
            self.template = template;
        }
        is_taken
    }

    /// Take the form of a reply about a name without number, for all of them; return whether that is possible.
    pub fn set_form(
        &mut self,
        query: &Query<'_>,
        reply: &[u8],
        size: usize,
        counted: Counted,
    ) -> bool {
        query
            .labels_left_of(&self.zone)
            .is_some_and(|left| self.numerous.set_form(query, left, reply, size, counted))
    }

    /// Append the reply to a query whose name is below the zone; None if the chain must answer.
    pub fn answer(&self, query: &Query<'_>, limit: usize, out: &mut Vec<u8>) -> Option<ZoneHit> {
        let left = query.labels_left_of(&self.zone)?;
        if self.no_edns && query.edns.is_some() || !self.names.is_open() || self.is_excluded(query)
        {
            return None;
        }
        let serial = self.names.serial();
        if !self.is_absent(query, left) {
            let lacks = || {
                let (from, to) = (query.label(left - 4).end, query.label(left - 2).end);
                let qname = query.qname();
                let service = &qname[from..to];
                self.names.lacks_topology_zone(service, &qname[..from])
            };
            let (counted, size, is_answer) =
                (self.numerous).answer(query, (left, lacks), serial, limit, out)?;
            return Some(self.hit(counted, size, is_answer, false));
        }
        let template = self.template.as_ref()?;
        let counted = Counted {
            group: *self.groups.get(&query.qtype())?,
            cache: self.cache,
        };
        template.write(query, left, serial, limit, out);
        Some(self.hit(counted, template.size(query), false, true))
    }

    fn hit(&self, counted: Counted, size: u32, is_answer: bool, is_denial: bool) -> ZoneHit {
        ZoneHit {
            counted,
            summary: ReplySummary {
                log: self.log,
                size,
                answers: u16::from(is_answer),
            },
            is_denial,
        }
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

/// Return whether a label may be an address, or one with dashes; false for labels that certainly are none.
fn may_be_address(label: &[u8]) -> bool {
    let dashes = label.iter().filter(|&&octet| octet == b'-').count();
    (dashes > 1 || label.contains(&b'.'))
        && label
            .iter()
            .all(|octet| matches!(octet, b'0'..=b'9' | b'a'..=b'f' | b'-' | b'.'))
}
