//! Which queries are plain, and what their key is: the rules of src/key.rs, row by row.

mod build;

use build::{A, name, query, with_opt};
use hsdns_native::key::Reader;

fn key(wire: &[u8]) -> Option<Vec<u8>> {
    Reader::default()
        .read(wire)
        .map(|query| query.key().to_vec())
}

fn changed(at: usize, octet: u8) -> Vec<u8> {
    let mut wire = with_opt(query("www.example.org", A), 1232, false, &[0, 10, 0, 1, 7]);
    wire[at] = octet;
    wire
}

#[test]
fn plain_queries() {
    let plain = query("www.example.org", A);
    assert_eq!(
        key(&plain).unwrap(),
        b"\x03www\x07example\x03org\x00\x00\x01\x00"
    );
    let rows: [(&str, Vec<u8>, u8); 5] = [
        ("EDNS", with_opt(plain.clone(), 1232, false, &[]), 4),
        ("DO", with_opt(plain.clone(), 0, true, &[0, 99, 0, 0]), 5),
        ("CD", [&[9, 9, 0, 0x10], &plain[4..]].concat(), 2),
        ("AD", [&[9, 9, 1, 0x20], &plain[4..]].concat(), 0),
        ("no RD", [&[9, 9, 0, 0], &plain[4..]].concat(), 0),
    ];
    for (what, wire, octet) in rows {
        assert_eq!(key(&wire).unwrap().last(), Some(&octet), "{what}");
    }
}

#[test]
fn the_key_is_in_lower_case_but_for_the_type() {
    let upper = query("WWW.Example.ORG", 65);
    assert_eq!(
        key(&upper).unwrap(),
        b"\x03www\x07example\x03org\x00\x00\x41\x00"
    );
    assert_ne!(key(&upper), key(&query("www.example.org", 97)));
}

#[test]
fn long_names() {
    let most_labels = "a.".repeat(127);
    assert_eq!(name(&most_labels).len(), 255);
    assert!(key(&query(&most_labels, A)).is_some());
    let longest = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
    assert_eq!(name(&longest).len(), 255);
    assert!(key(&query(&longest, A)).is_some());
    let too_long = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(62));
    assert!(key(&query(&too_long, A)).is_none());
    assert!(key(&query(&format!("{most_labels}a."), A)).is_none());
}

#[test]
fn queries_that_are_not_plain() {
    let plain = query("www.example.org", A);
    let opt_at = plain.len();
    let options = |count: usize| [0, 10, 0, 0].repeat(count);
    let rows: Vec<(&str, Vec<u8>)> = vec![
        ("root", query("", A)),
        ("empty", vec![]),
        ("header", plain[..12].to_vec()),
        ("no type", plain[..plain.len() - 3].to_vec()),
        ("QR", changed(2, 0x81)),
        ("opcode", changed(2, 0x09)),
        ("AA", changed(2, 0x05)),
        ("TC", changed(2, 0x03)),
        ("RA", changed(3, 0x80)),
        ("Z", changed(3, 0x40)),
        ("RCODE", changed(3, 1)),
        ("no question", changed(5, 0)),
        ("two questions", changed(5, 2)),
        ("many questions", changed(4, 1)),
        ("answer", changed(7, 1)),
        ("authority", changed(9, 1)),
        ("two additional", changed(11, 2)),
        ("additional that is not there", {
            let mut wire = plain.clone();
            wire[11] = 1;
            wire
        }),
        ("additional that is not counted", changed(11, 0)),
        ("label too long", changed(12, 64)),
        ("pointer", changed(12, 0xC0)),
        ("class", changed(opt_at - 1, 3)),
        ("OPT owner", changed(opt_at, 1)),
        ("not an OPT", changed(opt_at + 2, 40)),
        ("extended RCODE", changed(opt_at + 5, 1)),
        ("version", changed(opt_at + 6, 1)),
        ("flags", changed(opt_at + 7, 0x40)),
        ("other flags", changed(opt_at + 8, 1)),
        ("RDLENGTH short", changed(opt_at + 10, 4)),
        ("RDLENGTH long", changed(opt_at + 10, 6)),
        ("option too long", changed(opt_at + 14, 2)),
        ("option too short", changed(opt_at + 14, 0)),
        (
            "17 options",
            with_opt(plain.clone(), 512, false, &options(17)),
        ),
        ("trailing octet", [&plain[..], &[0]].concat()),
        (
            "513 octets",
            with_opt(plain.clone(), 512, false, &{
                let len = 513 - plain.len() - 11 - 4;
                [
                    &[0, 12][..],
                    &u16::try_from(len).unwrap().to_be_bytes(),
                    &vec![0; len],
                ]
                .concat()
            }),
        ),
    ];
    for (what, wire) in rows {
        assert!(key(&wire).is_none(), "{what}");
    }
    assert!(key(&with_opt(plain, 512, false, &options(16))).is_some());
}

#[test]
fn labels_left_of_a_zone() {
    let wire = query("a.b.cluster.local", A);
    let mut reader = Reader::default();
    let query = reader.read(&wire).unwrap();
    let rows = [
        ("cluster.local", Some(2)),
        ("local", Some(3)),
        ("", Some(4)),
        ("a.b.cluster.local", Some(0)),
        ("x.a.b.cluster.local", None),
        ("uster.local", None),
        ("cluster.localx", None),
    ];
    for (zone, left) in rows {
        assert_eq!(query.labels_left_of(&name(zone)), left, "{zone}");
    }
    assert_eq!(query.suffix(2), name("cluster.local"));
    assert_eq!(query.suffix(4), b"\0");
}

#[test]
fn udp_limits() {
    let plain = query("example.org", A);
    for (payload_size, limit) in [(0, 512), (511, 512), (1232, 1232), (65_535, 65_507)] {
        let wire = with_opt(plain.clone(), payload_size, false, &[]);
        assert_eq!(Reader::default().read(&wire).unwrap().udp_limit(), limit);
    }
    assert_eq!(Reader::default().read(&plain).unwrap().udp_limit(), 512);
}

#[test]
fn lowered_sizes() {
    let plain = query("example.org", A);
    let mut reader = Reader::default();
    let without = reader.read(&plain).unwrap();
    assert_eq!(without.payload_size(), 0);
    assert!(without.lowered(600).edns.is_none());
    for (asked, lowered) in [(0, 0), (599, 599), (600, 600), (601, 600), (65_535, 600)] {
        let wire = with_opt(plain.clone(), asked, true, &[0, 10, 0, 1, 7]);
        let mut reader = Reader::default();
        let found = reader.read(&wire).unwrap().lowered(600);
        assert_eq!(found.payload_size(), lowered);
        assert!(found.dnssec_ok(), "the rest stays");
        assert_eq!(found.edns.unwrap().echoed_len, 5);
        assert_eq!(found.wire, wire);
    }
}
