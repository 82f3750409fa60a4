//! Queries, replies and tables for tests.
#![allow(dead_code)] // each test file uses its share

use std::collections::HashMap;
use std::sync::Arc;

use hsdns_native::entry::Terms;
use hsdns_native::hit_counts::BatchCounts;
use hsdns_native::key::Reader;
use hsdns_native::names::ClusterNames;
use hsdns_native::negative_zone::NegativeZone;
use hsdns_native::table::{AnswerTable, Client};
use hsdns_native::versions::{Dependency, Versions};

pub const A: u16 = 1;
pub const SOA: u16 = 6;
pub const AAAA: u16 = 28;
pub const CLIENT: Client = Client {
    is_ipv6: false,
    is_tcp: false,
    now: 0,
};
/// As much of that client's socket address as tests compare.
pub const ADDRESS: &[u8] = &[2, 0, 0, 53];

/// A name in wire form.
pub fn name(text: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in text.split('.').filter(|label| !label.is_empty()) {
        wire.push(u8::try_from(label.len()).unwrap());
        wire.extend_from_slice(label.as_bytes());
    }
    wire.push(0);
    wire
}

/// A query with RD, without OPT.
pub fn query(text: &str, qtype: u16) -> Vec<u8> {
    let mut wire = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    wire.extend_from_slice(&name(text));
    wire.extend_from_slice(&qtype.to_be_bytes());
    wire.extend_from_slice(&[0, 1]);
    wire
}

/// The same query with an OPT record.
pub fn with_opt(mut query: Vec<u8>, payload_size: u16, dnssec_ok: bool, options: &[u8]) -> Vec<u8> {
    query[11] = 1;
    query.extend_from_slice(&opt(payload_size, dnssec_ok, options));
    query
}

/// An OPT record.
pub fn opt(payload_size: u16, dnssec_ok: bool, options: &[u8]) -> Vec<u8> {
    let mut wire = vec![0, 0, 41];
    wire.extend_from_slice(&payload_size.to_be_bytes());
    wire.extend_from_slice(&[0, 0, if dnssec_ok { 0x80 } else { 0 }, 0]);
    wire.extend_from_slice(&u16::try_from(options.len()).unwrap().to_be_bytes());
    wire.extend_from_slice(options);
    wire
}

/// A record; `owner` in wire form, perhaps a pointer.
pub fn record(owner: &[u8], rrtype: u16, rdata: &[u8]) -> Vec<u8> {
    let mut wire = owner.to_vec();
    wire.extend_from_slice(&rrtype.to_be_bytes());
    wire.extend_from_slice(&[0, 1, 0, 0, 0, 5]);
    wire.extend_from_slice(&u16::try_from(rdata.len()).unwrap().to_be_bytes());
    wire.extend_from_slice(rdata);
    wire
}

/// An address record of the name asked for; the last octet tells it from others.
pub fn address(last: u8) -> Vec<u8> {
    record(&[0xC0, 12], A, &[10, 0, 0, last])
}

/// The RDATA of a SOA with all names in full.
pub fn soa_rdata(zone: &str, serial: u32) -> Vec<u8> {
    let mut rdata = name(&format!("ns.dns.{zone}"));
    rdata.extend_from_slice(&name(&format!("hostmaster.{zone}")));
    rdata.extend_from_slice(&serial.to_be_bytes());
    rdata.extend_from_slice(&[0; 16]);
    rdata
}

/// A reply with QR and AA to a query without OPT.
pub fn reply(query: &[u8], rcode: u8, sections: [&[Vec<u8>]; 3]) -> Vec<u8> {
    let mut wire = query[..12].to_vec();
    wire[2] |= 0x84;
    wire[3] |= rcode;
    wire[11] = 0;
    let end = 12 + question_len(query);
    wire.extend_from_slice(&query[12..end]);
    for (index, records) in sections.into_iter().enumerate() {
        wire[7 + 2 * index] = u8::try_from(records.len()).unwrap();
        wire.extend(records.concat());
    }
    wire
}

/// Octets of the question of a well-formed query.
pub fn question_len(query: &[u8]) -> usize {
    let mut at = 12;
    while query[at] != 0 {
        at += 1 + usize::from(query[at]);
    }
    at + 5 - 12
}

/// Terms without anything special.
pub fn terms() -> Terms {
    Terms {
        dependencies: Box::default(),
        group: 1,
        size: 100,
        rotate: false,
        names: None,
        mark_ttl: -1,
        log: false,
        max_payload: u16::MAX,
        timing: None,
        errors: Box::default(),
    }
}

/// Terms that depend on counters as they stand.
pub fn terms_with(versions: &Versions, indexes: &[u16]) -> Terms {
    let dependencies = indexes.iter().map(|&index| Dependency {
        index,
        value: versions.read(index),
    });
    Terms {
        dependencies: dependencies.collect(),
        ..terms()
    }
}

/// An empty table of a megabyte, and its counters.
pub fn table() -> (Arc<Versions>, Arc<AnswerTable>) {
    let versions = Arc::new(Versions::new());
    let table = AnswerTable::new(Arc::clone(&versions), 1 << 20);
    (versions, Arc::new(table))
}

/// What a table replies over UDP.
pub fn ask(table: &AnswerTable, query: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::default();
    let query = reader.read(query)?;
    let mut out = Vec::new();
    let mut counts = BatchCounts::default();
    let limit = query.udp_limit();
    let reading = table.open();
    let place = reading.locate(&query);
    let summary = reading.answer(&query, place, limit, CLIENT, &mut out, &mut counts);
    drop(reading);
    table.count(&mut counts, false, 0);
    summary.map(|_| out)
}

/// Names of a cluster with the Service web in the namespace default, its endpoint pod-0 and its port http; serial 7,
/// open.
pub fn cluster_names() -> Arc<ClusterNames> {
    let names = Arc::new(ClusterNames::default());
    names.add_namespace(b"default");
    names.add_service(b"default", b"web");
    let labels = [&b"\x05pod-0"[..], b"\x04http\x03tcp"];
    names.add_labels(b"default", b"web", labels.into_iter());
    names.set_serial(7);
    names.set_open(true);
    names
}

/// An NXDOMAIN with the zone's SOA, compressed as hsdns/wire/encode.py does it: owner into the question, RNAME into
/// MNAME.
pub fn nxdomain(query: &[u8], zone: &str) -> Vec<u8> {
    let question_end = 12 + question_len(query);
    let zone_at = question_end - 4 - name(zone).len();
    let mname = name(&format!("ns.dns.{zone}"));
    // Within MNAME the zone follows "ns" and "dns".
    let target = question_end + 12 + 7;
    let mut rdata = mname;
    rdata.extend_from_slice(b"\x0ahostmaster");
    rdata.extend_from_slice(&pointer(target));
    rdata.extend_from_slice(&[0; 20]);
    reply(
        query,
        3,
        [&[], &[record(&pointer(zone_at), SOA, &rdata)], &[]],
    )
}

/// A pointer to an offset.
pub fn pointer(target: usize) -> [u8; 2] {
    (0xC000 | u16::try_from(target).unwrap()).to_be_bytes()
}

/// A negative zone without template for A (group 7) and AAAA (group 8).
pub fn negative_zone(zone: &str, names: &Arc<ClusterNames>, exclusions: &[&str]) -> NegativeZone {
    NegativeZone::new(
        &name(zone),
        Arc::clone(names),
        exclusions
            .iter()
            .map(|excluded| name(excluded).into_boxed_slice()),
        HashMap::from([(A, 7), (AAAA, 8)]),
        false,
    )
}
