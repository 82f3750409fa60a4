//! What must hold for any octets: shared by tests/hostile.rs and the fuzzer, fuzz/fuzz_targets/query.rs.
//!
//! Rule 1: nothing panics, whatever is asked, learned or taken as template.
//! Rule 2: what goes out answers what came in: same ID, same question, whole records, within the limit.

#[path = "../build/mod.rs"]
mod build;

use std::sync::Arc;

use build::{
    A, AAAA, ADDRESS, CLIENT, SOA, ask, cluster_names, name, nxdomain, query, region, reply, terms,
};
use build::{address, record, soa_rdata};
use hsdns_native::batch::{ReplyControl, is_ipv6};
use hsdns_native::entry::Terms;
use hsdns_native::key::{Query, Reader};
use hsdns_native::names::ClusterNames;
use hsdns_native::records::read_record;
use hsdns_native::table::AnswerTable;
use hsdns_native::versions::Versions;

const ZONE: &str = "cluster.local";
const SMALL: usize = 300;
const MAX_PAYLOAD: u16 = 600;

/// A table that knows something, for any number of inputs.
pub struct Subject {
    table: AnswerTable,
    names: Arc<ClusterNames>,
    lesson: Vec<u8>,
    region: usize,
}

impl Subject {
    /// Make a small table: it evicts, too.
    pub fn new() -> Self {
        let table = AnswerTable::new(Arc::new(Versions::new()), 64 << 10);
        let names = cluster_names();
        let lesson = query("nope.svc.cluster.local", A);
        let taught = table.add_negative_zone(region(ZONE, &names, &["hole.cluster.local"]));
        let answer = nxdomain(&lesson, ZONE);
        assert_eq!(
            table.set_template(taught, &lesson, &answer, 150),
            Some(true)
        );
        let region =
            table.add_negative_zone(region("org", &names, &[]).with_max_payload(MAX_PAYLOAD));
        Self {
            table,
            names,
            lesson,
            region,
        }
    }

    /// Let the octets be a query, a reply and a template.
    pub fn take(&self, octets: &[u8]) {
        self.ask(octets);
        self.learn_for(octets);
        self.store(octets);
        self.teach(octets);
        assert!(ReplyControl::new(octets).octets().len() <= 40);
        let _ = is_ipv6(octets);
    }

    /// The octets are a query.
    fn ask(&self, octets: &[u8]) {
        if let Some(answer) = ask(&self.table, octets) {
            let mut reader = Reader::default();
            let query = reader
                .read(octets)
                .expect("only usual queries are answered");
            check(&query, &answer, query.udp_limit());
        }
        if let Some(answer) = self.table.lookup(octets, SMALL, CLIENT, ADDRESS) {
            let mut reader = Reader::default();
            let query = reader
                .read(octets)
                .expect("only usual queries are answered");
            check(&query, &answer, SMALL);
        }
    }

    /// The octets are a query; it gets a reply that is learned.
    fn learn_for(&self, octets: &[u8]) {
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

    /// The octets are a reply: whole, and behind the header and question of a query.
    fn store(&self, octets: &[u8]) {
        let asked = query("www.example.org", AAAA);
        let header = reply(&asked, 0, [&[], &[], &[]]);
        let tail = octets.get(12..).unwrap_or_default();
        let mut spliced = [&header, tail].concat();
        spliced[6..12].copy_from_slice(octets.get(6..12).unwrap_or(&[0, 1, 0, 0, 0, 0]));
        for answer in [octets, &spliced] {
            if self.table.store(&asked, answer, self.terms()) {
                let again = ask(&self.table, &asked).expect("it was learned");
                let mut reader = Reader::default();
                let query = reader.read(&asked).expect("it is usual");
                check(&query, &again, query.udp_limit());
                self.ask(&asked);
            }
        }
    }

    /// The octets are a template, or the RDATA of one.
    fn teach(&self, octets: &[u8]) {
        let asked = query("www.example.org", A);
        let owner = build::pointer(asked.len() - 4 - name("org").len());
        let soa = record(&owner, SOA, &octets[..octets.len().min(900)]);
        let made = reply(&asked, 3, [&[], &[soa], &[]]);
        for answer in [octets, &made] {
            self.table.set_template(self.region, &asked, answer, 200);
        }
        self.table.set_template(self.region, octets, &made, 200);
        self.ask(&query(
            "a.much.longer.name.than.the.one.it.was.taught.with.example.org",
            AAAA,
        ));
        self.ask(&query("x.org", A));
        self.ask(&self.lesson);
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
        at = read_record(answer, at).expect("records are whole").end;
    }
    assert_eq!(at, answer.len(), "nothing behind the last record");
}
