//! Names that do not exist: the rules of src/negative_zone.rs, row by row.

mod build;

use build::{
    A, AAAA, SOA, address, ask, cluster_names, name, negative_zone, nxdomain, query, record, reply,
    soa_rdata, table, with_opt,
};
use hsdns_native::numerous_names::Counted;

const ZONE: &str = "cluster.local";

#[test]
fn each_rule() {
    let (_, table) = table();
    let names = cluster_names();
    let number = table.add_negative_zone(negative_zone(ZONE, &names, &["excluded.cluster.local"]));
    let sample = query("nope.svc.cluster.local", A);
    assert!(ask(&table, &sample).is_none(), "no template");
    assert_eq!(
        table.set_template(number, &sample, &nxdomain(&sample, ZONE), 150),
        Some(true)
    );
    let rows = [
        ("x.cluster.local", true),
        ("google.com.default.svc.cluster.local", true),
        ("x.default.svc.cluster.local", true),
        ("a.b.x.default.svc.cluster.local", true),
        ("nope.svc.cluster.local", true),
        ("web.nope.svc.cluster.local", true),
        ("google.com.svc.cluster.local", true),
        ("google.com.cluster.local", true),
        ("svcx.cluster.local", true),
        ("cluster.local", false),
        ("svc.cluster.local", false),
        ("default.svc.cluster.local", false),
        ("web.default.svc.cluster.local", false),
        ("a.web.default.svc.cluster.local", true),
        ("pod-0.web.default.svc.cluster.local", false),
        ("_http._tcp.web.default.svc.cluster.local", false),
        ("_http._udp.web.default.svc.cluster.local", true),
        ("a._http._tcp.web.default.svc.cluster.local", true),
        ("a.b._zone.web.default.svc.cluster.local", true),
        ("pod.cluster.local", false),
        ("1-2-3-4.default.pod.cluster.local", false),
        ("ns.dns.cluster.local", false),
        ("dns-version.cluster.local", false),
        ("excluded.cluster.local", false),
        ("a.excluded.cluster.local", false),
        ("xexcluded.cluster.local", true),
        ("xcluster.local", false),
        ("local", false),
        ("example.org", false),
    ];
    let serial = |wire: &mut Vec<u8>| {
        let at = wire.len() - 20;
        wire[at..at + 4].copy_from_slice(&7_u32.to_be_bytes());
    };
    for (text, is_absent) in rows {
        for (qtype, is_answered) in [(A, is_absent), (AAAA, is_absent), (16, false)] {
            let asked = query(text, qtype);
            let expected = is_answered.then(|| {
                let mut wire = nxdomain(&asked, ZONE);
                serial(&mut wire);
                wire
            });
            assert_eq!(ask(&table, &asked), expected, "{text} {qtype}");
            let mut upper = asked.clone();
            upper[12..asked.len() - 4].make_ascii_uppercase();
            let found = ask(&table, &upper).map(|mut wire| {
                assert_eq!(wire[12..upper.len()], upper[12..], "the client's case");
                wire[12..asked.len()].copy_from_slice(&asked[12..]);
                wire
            });
            assert_eq!(found, expected, "{text} {qtype}, upper case");
        }
    }
    let asked = query("x.cluster.local", A);
    names.set_open(false);
    assert!(ask(&table, &asked).is_none(), "not open");
    names.set_open(true);
    let with_edns = ask(&table, &with_opt(asked, 1232, true, &[])).unwrap();
    assert_eq!(with_edns[11], 1);
    assert_eq!(
        with_edns[with_edns.len() - 11..],
        build::opt(1232, true, &[])
    );
}

#[test]
fn a_reply_is_counted() {
    let (_, table) = table();
    let names = cluster_names();
    let number = table.add_negative_zone(negative_zone(ZONE, &names, &[]));
    let sample = query("x.cluster.local", A);
    table.set_template(number, &sample, &nxdomain(&sample, ZONE), 150);
    ask(&table, &query("twelve-octet.cluster.local", AAAA)).unwrap();
    let rows = table.take_counts();
    assert_eq!((rows[0].0, rows[0].1, rows.len()), (8, false, 1));
    assert_eq!(rows[0].2[34], 150 + 11, "size moves with the question");
    assert_eq!(table.statistics().totals.negative_hits, 1);
    assert_eq!(table.statistics().entries, 0);
}

#[test]
fn the_longest_zone_decides() {
    let (_, table) = table();
    let names = cluster_names();
    let outer = table.add_negative_zone(negative_zone("local", &names, &[]));
    table.add_negative_zone(negative_zone(ZONE, &names, &[]));
    let sample = query("x.local", A);
    assert_eq!(
        table.set_template(outer, &sample, &nxdomain(&sample, "local"), 90),
        Some(true)
    );
    assert!(ask(&table, &query("y.local", A)).is_some());
    assert!(
        ask(&table, &query("y.cluster.local", A)).is_none(),
        "no template"
    );
}

#[test]
fn refusals() {
    let (_, table) = table();
    let names = cluster_names();
    let number = table.add_negative_zone(negative_zone(ZONE, &names, &[]));
    let sample = query("x.cluster.local", A);
    let good = nxdomain(&sample, ZONE);
    let end = sample.len();
    let with = |at: usize, octet: u8| {
        let mut reply = good.clone();
        reply[at] = octet;
        reply
    };
    let rname_pointer = end + 12 + name("ns.dns.cluster.local").len() + 11;
    let rows = [
        ("NOERROR", with(3, 0)),
        ("AA of a query", with(2, 1)),
        ("another owner", with(end + 1, 22)),
        ("class", with(end + 5, 3)),
        ("type", with(end + 3, 5)),
        ("no record", {
            let mut reply = good[..end].to_vec();
            reply[9] = 0;
            reply
        }),
        (
            "RDATA points into the question",
            with(rname_pointer + 1, 14),
        ),
        (
            "RDATA points forward",
            with(rname_pointer + 1, good[rname_pointer + 1] + 40),
        ),
    ];
    assert_eq!(good[rname_pointer] & 0xC0, 0xC0);
    for (what, reply) in rows {
        assert_eq!(
            table.set_template(number, &sample, &reply, 90),
            Some(false),
            "{what}"
        );
    }
    assert_eq!(
        table.set_template(number, &sample, &good, 3),
        Some(false),
        "size"
    );
    assert_eq!(
        table.set_template(number, &sample[1..], &good, 90),
        Some(false)
    );
    let apex = query(ZONE, A);
    assert_eq!(
        table.set_template(number, &apex, &nxdomain(&apex, ZONE), 90),
        Some(false)
    );
    assert_eq!(table.set_template(1, &sample, &good, 90), None);
    assert_eq!(table.set_template(number, &sample, &good, 90), Some(true));
}

#[test]
fn every_address_has_the_name_of_a_pod() {
    let (_, table) = table();
    let names = cluster_names();
    let number = table.add_negative_zone(negative_zone(ZONE, &names, &["excluded.cluster.local"]));
    let counted = Counted {
        group: 9,
        cache: Some(false),
    };
    let pod = |left: &str| format!("{left}.pod.{ZONE}");
    let set = |left: &str, qtype, reply: fn(&[u8]) -> Vec<u8>, size| {
        let asked = query(&pod(left), qtype);
        let reply = reply(&asked);
        table.set_form(number, &asked, &reply, size, counted)
    };
    let with_address = |asked: &[u8]| reply(asked, 0, [&[address(9)], &[], &[]]);
    let without = |asked: &[u8]| {
        let soa = record(
            &[0xC0, u8::try_from(asked.len()).unwrap() - 4 - 15],
            SOA,
            &soa_rdata(ZONE, 7),
        );
        reply(asked, 0, [&[], &[soa], &[]])
    };
    let first = "10-0-0-9.default";
    let size = 12 + 40 + 36 + 14; // header, question, owner, and the rest of the record
    for (left, qtype, reply, size, taken) in [
        (
            first,
            A,
            with_address as fn(&[u8]) -> Vec<u8>,
            size - 1,
            false,
        ),
        ("10-0-0-8.default", A, with_address, size, false),
        ("web.default", A, with_address, size, false),
        (first, AAAA, with_address, size, false),
        (first, A, without, size, false),
        (first, A, with_address, size, true),
        (first, AAAA, without, 130, true),
    ] {
        assert_eq!(set(left, qtype, reply, size), Some(taken), "{left} {qtype}");
    }
    let asked = query(&pod(first), A);
    assert_eq!(table.set_form(1, &asked, &[], 0, counted), None);
    for (left, qtype, answer) in [
        (first, A, Some(9)),
        ("10-0-0-77.default", A, Some(77)),
        ("a.b.10-0-0-77.default", A, Some(77)),
        ("a.b.c.10-0-0-77.default", A, None),
        ("10-0-0-077.default", A, None),
        ("10-0-0-77.nope", A, None),
        ("fd00--1.default", AAAA, None), // no form yet
    ] {
        let asked = query(&pod(left), qtype);
        let expected = answer.map(|last| reply(&asked, 0, [&[address(last)], &[], &[]]));
        assert_eq!(ask(&table, &asked), expected, "{left} {qtype}");
    }
    let asked = query(&pod("10-0-0-88.default"), AAAA);
    assert_eq!(ask(&table, &asked), Some(without(&asked)));
    let rows = table.take_counts();
    assert_eq!((rows[0].0, rows[0].1, rows.len()), (9, false, 1));
    assert_eq!(
        (rows[0].2[0], rows[0].2[54]),
        (4, 4),
        "hits, misses of `cache`"
    );
    names.set_open(false);
    assert!(ask(&table, &asked).is_none(), "not open");
}

#[test]
fn a_made_up_topology_zone_has_no_records() {
    let (_, table) = table();
    let names = cluster_names();
    let number = table.add_negative_zone(negative_zone(ZONE, &names, &[]));
    names.add_service(b"default", b"all");
    let listed: [&[u8]; 2] = [b"\x05_zone", b"\x02eu\x02-1\x03pin\x05_zone"];
    names.add_labels(b"default", b"all", listed.into_iter());
    let counted = Counted {
        group: 9,
        cache: None,
    };
    let asked = |left: &str| query(&format!("{left}.default.svc.{ZONE}"), A);
    let without = |asked: &[u8]| {
        let owner = [0xC0, u8::try_from(asked.len()).unwrap() - 4 - 15];
        let soa = record(&owner, SOA, &soa_rdata(ZONE, 7));
        reply(asked, 0, [&[], &[soa], &[]])
    };
    for (left, taken) in [("x.prefer._zone.all", false), ("x.pin._zone.all", true)] {
        let asked = asked(left);
        let found = table.set_form(number, &asked, &without(&asked), 130, counted);
        assert_eq!(found, Some(taken), "{left}");
    }
    for (left, is_made) in [
        ("us.pin._zone.all", true),
        ("-1.pin._zone.all", true),
        ("x.eu.-1.pin._zone.all", true),
        ("eu.-1.pin._zone.all", false),
        ("us.prefer._zone.all", false),
        ("pin._zone.all", false),
        ("us.pin._zone.web", false),
    ] {
        let asked = asked(left);
        let expected = is_made.then(|| without(&asked));
        let found = ask(&table, &asked).filter(|found| found[3] & 15 == 0);
        assert_eq!(found, expected, "{left}");
    }
    names.remove_labels(b"default", b"all", listed[1..].iter().copied());
    assert!(ask(&table, &asked("eu.-1.pin._zone.all")).is_some());
}
