//! What must hold for any octets: shared by tests/hostile.rs and the fuzzer, fuzz/fuzz_targets/query.rs.
//!
//! Rule 1: nothing panics, whatever is asked, stored or used as template.
//! Rule 2: a reply answers its query: same ID, same question, complete records, within the limit.

#[path = "../build/mod.rs"]
mod build;

use std::sync::Arc;

use build::{
    A, AAAA, ADDRESS, CLIENT, SOA, ask, cluster_names, name, negative_zone, nxdomain, query, reply,
    terms,
};
use build::{address, record, soa_rdata};
use hsdns_native::batch::{ReplyControl, is_ipv6};
use hsdns_native::entry::Terms;
use hsdns_native::forward::reply::{Bounds, make};
use hsdns_native::key::{Query, Reader};
use hsdns_native::names::ClusterNames;
use hsdns_native::numerous_names::Counted;
use hsdns_native::records::read_record;
use hsdns_native::table::AnswerTable;
use hsdns_native::timing::Timing;
use hsdns_native::versions::Versions;

const ZONE: &str = "cluster.local";
const SMALL: usize = 300;
const MAX_PAYLOAD: u16 = 600;
const COUNTED: Counted = Counted {
    group: 3,
    cache: None,
};

/// A table with some contents, for any number of inputs.
pub struct Harness {
    table: Arc<AnswerTable>,
    names: Arc<ClusterNames>,
    sample: Vec<u8>,
    negative_zone: usize,
}

impl Harness {
    /// Make a small table, which also evicts.
    pub fn new() -> Self {
        let table = Arc::new(AnswerTable::new(Arc::new(Versions::new()), 64 << 10));
        let names = cluster_names();
        let sample = query("nope.svc.cluster.local", A);
        let number =
            table.add_negative_zone(negative_zone(ZONE, &names, &["excluded.cluster.local"]));
        let answer = nxdomain(&sample, ZONE);
        assert_eq!(
            table.set_template(number, &sample, &answer, 150),
            Some(true)
        );
        let negative_zone = table
            .add_negative_zone(negative_zone("org", &names, &[]).with_max_payload(MAX_PAYLOAD));
        Self {
            table,
            names,
            sample,
            negative_zone,
        }
    }

    /// Use the octets as query, as reply and as template.
    pub fn take(&self, octets: &[u8]) {
        self.ask(octets);
        self.store_reply_to(octets);
        self.store(octets);
        self.set_template(octets);
        self.set_form(octets);
        assert!(ReplyControl::new(octets).octets().len() <= 40);
        let _ = is_ipv6(octets);
    }

    /// The octets are a query.
    fn ask(&self, octets: &[u8]) {
        if let Some(answer) = ask(&self.table, octets) {
            let mut reader = Reader::default();
            let query = reader
                .read(octets)
                .expect("only plain queries are answered");
            check(&query, &answer, query.udp_limit());
        }
        if let Some(answer) = self.table.lookup(octets, Some(SMALL), CLIENT, ADDRESS) {
            let mut reader = Reader::default();
            let query = reader
                .read(octets)
                .expect("only plain queries are answered");
            check(&query, &answer, SMALL);
        }
    }

    /// The octets are a query; a reply to it is stored.
    fn store_reply_to(&self, octets: &[u8]) {
        let mut reader = Reader::default();
        let Some(query) = reader.read(octets) else {
            return;
        };
        let soa = record(&[0xC0, 12], SOA, &soa_rdata("example.org", 1));
        let addresses: Vec<_> = (0..40).map(address).collect();
        let answer = reply(octets, 0, [&addresses, &[soa], &[]]);
        assert!(self.table.store(octets, &answer, self.terms()));
        assert!(query.key().len() > 3);
        self.ask(octets);
    }

    /// The octets are the reply of an upstream.
    fn forward(&self, asked: &[u8], octets: &[u8]) {
        let bounds = Bounds { floor: 5, most: 30 };
        let mut reader = Reader::default();
        let query = reader.read(asked).expect("it is plain");
        let Some(made) = make(&query, octets, true, bounds, bounds) else {
            return;
        };
        check(&query, &made.wire, made.wire.len());
        let timing = Some(Timing {
            stored: 0,
            ttl: made.ttl,
            expires: u64::MAX,
        });
        let terms = Terms { timing, ..terms() };
        let mut first = Vec::new();
        let limit = query.udp_limit();
        if self
            .table
            .store_first(&query, &made.wire, terms, limit, &mut first)
        {
            check(&query, &first, limit);
        }
    }

    /// The octets are a reply, and what follows the header and question of a reply.
    fn store(&self, octets: &[u8]) {
        let asked = query("www.example.org", AAAA);
        let header = reply(&asked, 0, [&[], &[], &[]]);
        let tail = octets.get(12..).unwrap_or_default();
        let mut spliced = [&header, tail].concat();
        spliced[6..12].copy_from_slice(octets.get(6..12).unwrap_or(&[0, 1, 0, 0, 0, 0]));
        let timed = Terms {
            timing: Some(Timing {
                stored: 0,
                ttl: u32::MAX,
                expires: u64::MAX,
            }),
            ..self.terms()
        };
        self.forward(&asked, octets);
        self.forward(&asked, &spliced);
        for (answer, terms) in [octets, &spliced]
            .into_iter()
            .flat_map(|answer| [(answer, self.terms()), (answer, timed.clone())])
        {
            if self.table.store(&asked, answer, terms) {
                let again = ask(&self.table, &asked).expect("it was stored");
                let mut reader = Reader::default();
                let query = reader.read(&asked).expect("it is plain");
                check(&query, &again, query.udp_limit());
                self.ask(&asked);
            }
        }
    }

    /// The octets are a template, or the RDATA of one.
    fn set_template(&self, octets: &[u8]) {
        let asked = query("www.example.org", A);
        let owner = build::pointer(asked.len() - 4 - name("org").len());
        let soa = record(&owner, SOA, &octets[..octets.len().min(900)]);
        let made = reply(&asked, 3, [&[], &[soa], &[]]);
        for answer in [octets, &made] {
            self.table
                .set_template(self.negative_zone, &asked, answer, 200);
        }
        self.table
            .set_template(self.negative_zone, octets, &made, 200);
        self.ask(&query(
            "a.much.longer.name.than.the.one.of.the.template.example.org",
            AAAA,
        ));
        self.ask(&query("x.org", A));
        self.ask(&self.sample);
    }

    /// The octets are a reply about the name of a Pod, or the address in one.
    fn set_form(&self, octets: &[u8]) {
        let asked = query("10-0-0-1.default.pod.org", A);
        let found = record(&[0xC0, 12], A, &octets[..octets.len().min(16)]);
        let made = reply(&asked, 0, [&[found], &[], &[]]);
        let right = reply(&asked, 0, [&[address(1)], &[], &[]]);
        let size = right.len() - 2 + name("10-0-0-1.default.pod.org").len();
        for (asked, answer, size) in [
            (&asked[..], octets, octets.len()),
            (&asked, &made, made.len()),
            (octets, &made, size),
            (&asked, &right, size),
        ] {
            self.table
                .set_form(self.negative_zone, asked, answer, size, COUNTED);
        }
        let another = ask(&self.table, &query("x.10-0-0-2.default.pod.org", A));
        assert!(another.is_some(), "the form of the right reply");
        self.ask(octets);
    }

    fn terms(&self) -> Terms {
        Terms {
            names: Some(Arc::clone(&self.names)),
            rotate: true,
            max_payload: MAX_PAYLOAD,
            ..terms()
        }
    }
}

/// Rule 2.
fn check(query: &Query<'_>, answer: &[u8], limit: usize) {
    let question_end = 12 + query.question().len();
    assert_eq!(answer[..2], query.wire[..2], "ID");
    assert_eq!(answer[2] & 0xF8, 0x80, "QR, opcode");
    assert_eq!(answer[12..question_end], *query.question(), "question");
    assert!(answer.len() <= limit.max(question_end + 11), "limit");
    let counts = [6, 8, 10].map(|at| usize::from(answer[at]) << 8 | usize::from(answer[at + 1]));
    let mut at = question_end;
    for _ in 0..counts.iter().sum() {
        at = read_record(answer, at).expect("records are complete").end;
    }
    assert_eq!(at, answer.len(), "nothing after the last record");
}
