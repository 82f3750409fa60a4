//! What the table stores and refuses, what it replies, and what it evicts.

mod build;

use std::sync::Arc;

use build::{
    A, AAAA, ADDRESS, CLIENT, SOA, address, ask, cluster_names, negative_zone, nxdomain, opt,
    query, record, reply, soa_rdata, table, terms, terms_with, with_opt,
};
use hsdns_native::entry::Terms;
use hsdns_native::log::ReplySummary;
use hsdns_native::table::{AnswerTable, Client, MAX_ERRORS_LEN};
use hsdns_native::versions::Versions;

fn addresses(count: u8) -> Vec<Vec<u8>> {
    (0..count).map(address).collect()
}

/// The last octets of the address records of a reply to a query without OPT.
fn order(query: &[u8], reply: &[u8]) -> Vec<u8> {
    reply[query.len()..]
        .chunks(16)
        .map(|record| record[15])
        .collect()
}

#[test]
fn a_reply_is_given_again_with_what_the_query_says() {
    let (_, table) = table();
    let asked = query("www.example.org", A);
    let answer = reply(&asked, 0, [&addresses(3), &[], &[]]);
    assert!(ask(&table, &asked).is_none());
    assert!(table.store(&asked, &answer, terms()));
    assert_eq!(ask(&table, &asked).unwrap(), answer);

    let mut other = query("wWw.eXample.Org", A);
    other[..4].copy_from_slice(&[9, 9, 0, 0x20]);
    let mut expected = reply(&other, 0, [&addresses(3), &[], &[]]);
    expected[2..4].copy_from_slice(&[0x84, 0]);
    assert_eq!(ask(&table, &other).unwrap(), expected);
    assert!(ask(&table, &query("www.example.org", AAAA)).is_none());
    assert!(ask(&table, &with_opt(asked, 1232, false, &[])).is_none());
}

#[test]
fn options_are_echoed_by_kind_and_left_out_where_they_leave_no_room() {
    let (_, table) = table();
    let plain = query("www.example.org", A);
    let asked = with_opt(plain.clone(), 1232, true, &[]);
    let answer = reply(&plain, 0, [&addresses(1), &[], &[]]);
    assert!(table.store(&asked, &answer, terms()));
    let echoed = [0, 10, 0, 2, 1, 2, 0, 3, 0, 0];
    let sent = [&[0, 8, 0, 1, 9][..], &echoed].concat();
    let full = |options: &[u8]| {
        let mut expected = [&answer[..], &opt(1232, true, options)].concat();
        expected[11] = 1;
        expected
    };
    let asked = with_opt(plain, 1232, true, &sent);
    assert_eq!(ask(&table, &asked).unwrap(), full(&echoed));
    let least = 12 + build::question_len(&asked) + 11 + echoed.len();
    let lookup = |limit| table.lookup(&asked, Some(limit), CLIENT, ADDRESS).unwrap();
    let bare = lookup(least - 1);
    assert_eq!(bare[bare.len() - 11..], opt(1232, true, &[]));
    let whole = lookup(least);
    assert_eq!(
        whole[whole.len() - 11 - echoed.len()..],
        opt(1232, true, &echoed)
    );
    assert_eq!(whole[2] & 2, 2, "the address has no room");
}

#[test]
fn larger_sizes_are_lowered() {
    let (_, table) = table();
    let (plain, absent) = (
        query("www.example.org", A),
        query("nope.svc.cluster.local", A),
    );
    let stored = with_opt(plain.clone(), 0, false, &[]);
    let answer = reply(&plain, 0, [&addresses(60), &[], &[]]);
    let lowered = |max_payload| Terms {
        max_payload,
        ..terms()
    };
    assert!(table.store(&stored, &answer, lowered(600)));
    let names = cluster_names();
    let number =
        table.add_negative_zone(negative_zone("cluster.local", &names, &[]).with_max_payload(700));
    let sample = nxdomain(&absent, "cluster.local");
    assert_eq!(
        table.set_template(number, &absent, &sample, 200),
        Some(true)
    );
    for size in [0, 511, 512, 599, 600, 601, 699, 700, 701, 65_535] {
        let asked = with_opt(plain.clone(), size, false, &[]);
        let shown = opt(size.min(600), false, &[]);
        let found = ask(&table, &asked).unwrap();
        let limit = usize::from(size.clamp(512, 600));
        assert_eq!((limit - found.len()) / 16, 0, "as many records as fit");
        assert_eq!(found[2] & 2, 2, "TC");
        assert_eq!(found[found.len() - 11..], shown);
        let client = Client {
            is_tcp: true,
            ..CLIENT
        };
        let whole = table.lookup(&asked, Some(65_535), client, ADDRESS).unwrap();
        assert_eq!(whole.len(), answer.len() + 11);
        assert_eq!(whole[whole.len() - 11..], shown);
        let denied = ask(&table, &with_opt(absent.clone(), size, false, &[])).unwrap();
        assert_eq!(
            denied[denied.len() - 11..],
            opt(size.min(700), false, &[]),
            "of the negative_zone"
        );
    }
    assert!(
        table.store(&plain, &answer, lowered(600)) && ask(&table, &plain).unwrap().len() <= 512,
        "without EDNS nothing is lowered, and nothing raised"
    );
}

#[test]
fn records_are_left_out_from_the_tail() {
    let (_, table) = table();
    let asked = query("www.example.org", A);
    let other = record(&build::name("other.example"), A, &[1, 1, 1, 1]);
    let answer = reply(
        &asked,
        0,
        [&addresses(2), std::slice::from_ref(&other), &addresses(2)],
    );
    assert!(table.store(&asked, &answer, terms()));
    let head = asked.len();
    let ends = [0, 16, 32, 32 + other.len(), 48 + other.len()];
    for limit in head..=answer.len() {
        let cut = table.lookup(&asked, Some(limit), CLIENT, ADDRESS).unwrap();
        let end = ends
            .iter()
            .copied()
            .filter(|end| head + end <= limit)
            .max()
            .unwrap();
        let whole = ends.iter().position(|&at| at == end).unwrap();
        if limit == answer.len() {
            assert_eq!(cut, answer);
            continue;
        }
        assert_eq!(cut.len(), head + end);
        assert_eq!(cut[head..], answer[head..head + end]);
        assert_eq!(cut[2] & 2, 2);
        let counts = [cut[7], cut[9], cut[11]].map(usize::from);
        let expected = [
            whole.min(2),
            whole.saturating_sub(2).min(1),
            whole.saturating_sub(3),
        ];
        assert_eq!(counts, expected, "{limit}");
    }
}

#[test]
fn addresses_rotate_if_the_block_says_so() {
    let (_, table) = table();
    let asked = query("www.example.org", A);
    let answer = reply(&asked, 0, [&addresses(3), &[], &[]]);
    let rotate = || Terms {
        rotate: true,
        ..terms()
    };
    assert!(table.store(&asked, &answer, rotate()));
    let rotation = [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]];
    for turn in rotation {
        assert_eq!(order(&asked, &ask(&table, &asked).unwrap()), turn);
    }
    let cut = table
        .lookup(&asked, Some(asked.len() + 20), CLIENT, ADDRESS)
        .unwrap();
    assert_eq!(order(&asked, &cut), [1]);
}

#[test]
fn other_answers_keep_their_order() {
    let (_, table) = table();
    let asked = query("www.example.org", A);
    let rows = [
        (
            "types",
            vec![address(0), record(&[0xC0, 12], AAAA, &[0; 16])],
        ),
        ("owners", vec![address(0), record(&[0xC0, 16], A, &[0; 4])]),
        ("lengths", vec![address(0), record(&[0xC0, 12], A, &[0; 5])]),
        ("one", vec![address(0)]),
        (
            "text",
            vec![
                record(&[0xC0, 12], 16, &[0; 4]),
                record(&[0xC0, 12], 16, &[1; 4]),
            ],
        ),
    ];
    for (what, records) in rows {
        let answer = reply(&asked, 0, [&records, &[], &[]]);
        let rotate = Terms {
            rotate: true,
            ..terms()
        };
        assert!(table.store(&asked, &answer, rotate), "{what}");
        for _ in 0..2 {
            assert_eq!(ask(&table, &asked).unwrap(), answer, "{what}");
        }
    }
}

#[test]
fn serials_are_those_of_now() {
    let (_, table) = table();
    let names = cluster_names();
    let asked = query("www.example.org", AAAA);
    let soa = record(&build::pointer(16), SOA, &soa_rdata("example.org", 1));
    let answer = reply(&asked, 0, [&[], &[soa.clone(), soa], &[]]);
    assert!(!table.store(&asked, &answer, terms()), "whose serial?");
    let with_names = Terms {
        names: Some(Arc::clone(&names)),
        ..terms()
    };
    assert!(table.store(&asked, &answer, with_names));
    for serial in [7, 8, u32::MAX] {
        names.set_serial(serial);
        let soa = record(&build::pointer(16), SOA, &soa_rdata("example.org", serial));
        let expected = reply(&asked, 0, [&[], &[soa.clone(), soa], &[]]);
        assert_eq!(ask(&table, &asked).unwrap(), expected);
    }
}

#[test]
fn a_moved_version_ends_an_entry() {
    let (versions, table) = table();
    let asked = query("www.example.org", A);
    let answer = reply(&asked, 0, [&addresses(1), &[], &[]]);
    let before = terms_with(&versions, &[3, 9]);
    let late = terms_with(&versions, &[3, 9]);
    assert!(table.store(&asked, &answer, before));
    assert!(ask(&table, &asked).is_some());
    versions.bump(9);
    assert!(ask(&table, &asked).is_none());
    assert!(
        !table.store(&asked, &answer, late),
        "computed before the event"
    );
    assert!(ask(&table, &asked).is_none());
    assert!(table.store(&asked, &answer, terms_with(&versions, &[3, 9])));
    assert!(ask(&table, &asked).is_some());
    let seen = table.statistics();
    assert_eq!((seen.stored, seen.refused), (2, 1));
    assert_eq!(
        (seen.totals.hits, seen.totals.stale, seen.totals.misses),
        (2, 2, 2)
    );
    assert_eq!(seen.entries, 1);
    table.clear();
    assert!(ask(&table, &asked).is_none());
    assert_eq!(
        (table.statistics().entries, table.statistics().octets),
        (0, 0)
    );
}

#[test]
fn refusals() {
    let (versions, table) = table();
    let asked = query("www.example.org", A);
    let good = reply(&asked, 0, [&addresses(1), &[], &[address(9)]]);
    let with = |at: usize, octet: u8| {
        let mut reply = good.clone();
        reply[at] = octet;
        reply
    };
    let end = asked.len();
    let plain_opt = opt(1232, false, &[]);
    let additional = |records: &[Vec<u8>]| reply(&asked, 0, [&addresses(1), &[], records]);
    let rows: Vec<(&str, Vec<u8>)> = vec![
        ("empty", vec![]),
        ("query", asked.clone()),
        ("opcode", with(2, 0xA0)),
        ("TC", with(2, 0x86)),
        ("REFUSED", with(3, 5)),
        ("two questions", with(5, 2)),
        ("another case", with(13, b'W')),
        ("another type", with(end - 3, 2)),
        ("one record too few", with(7, 0)),
        ("one record too many", with(7, 2)),
        ("cut", good[..good.len() - 1].to_vec()),
        ("trailing octet", [&good[..], &[0]].concat()),
        (
            "owner points at itself",
            with(end + 1, u8::try_from(end).unwrap()),
        ),
        ("owner points into the header", with(end + 1, 11)),
        ("bad label", with(end, 0x80)),
        (
            "OPT before the last",
            additional(&[plain_opt.clone(), address(1)]),
        ),
        (
            "two OPT",
            additional(&[plain_opt.clone(), plain_opt.clone()]),
        ),
        (
            "extended RCODE",
            additional(&[[&[0, 0, 41, 2, 0, 1][..], &plain_opt[6..]].concat()]),
        ),
        (
            "OPT in the answer",
            reply(&asked, 0, [std::slice::from_ref(&plain_opt), &[], &[]]),
        ),
        (
            "broken SOA",
            reply(&asked, 0, [&[], &[record(&[0xC0, 12], SOA, &[0; 21])], &[]]),
        ),
        (
            "too long",
            reply(&asked, 0, [&[], &[], &[record(&[0], 16, &[0; 16_384])]]),
        ),
    ];
    let count = rows.len() as u64;
    for (what, answer) in rows {
        let names = Some(cluster_names());
        assert!(
            !table.store(&asked, &answer, Terms { names, ..terms() }),
            "{what}"
        );
    }
    assert!(
        !table.store(&asked[1..], &good, terms()),
        "a query that is not plain"
    );
    let many = terms_with(&versions, &[0; 9]);
    assert!(!table.store(&asked, &good, many), "nine dependencies");
    assert_eq!(table.statistics().refused, count + 2);
    assert!(table.store(&asked, &good, terms_with(&versions, &[0; 8])));
    assert!(table.store(&asked, &additional(&[address(1), plain_opt]), terms()));
    assert_eq!(ask(&table, &asked).unwrap(), additional(&[address(1)]));
    assert!(table.store(&asked, &with(3, 3), terms()), "NXDOMAIN");
}

#[test]
fn marks_of_cache() {
    let (_, table) = table();
    let asked = query("www.example.org", A);
    let answer = reply(&asked, 0, [&addresses(1), &[], &[]]);
    let now = hsdns_native::system::monotonic();
    let second = 1_000_000_000;
    let outcome = |at: u64| {
        let client = Client { now: at, ..CLIENT };
        table.lookup(&asked, Some(512), client, ADDRESS).unwrap();
        let rows = table.take_counts();
        assert_eq!(rows.len(), 1);
        (rows[0].2[53], rows[0].2[54])
    };
    let marked = |mark_ttl| Terms {
        mark_ttl,
        ..terms()
    };
    assert!(table.store(&asked, &answer, marked(-1)));
    assert_eq!(outcome(now), (0, 0));
    assert!(table.store(&asked, &answer, marked(0)));
    assert_eq!(outcome(now), (0, 1));
    assert!(table.store(&asked, &answer, marked(30)));
    assert_eq!(outcome(now + 29 * second), (1, 0), "storing marks");
    assert_eq!(outcome(now + 100 * second), (0, 1), "the mark has ended");
    assert_eq!(
        outcome(now + 129 * second),
        (1, 0),
        "the miss marked it anew"
    );
    assert!(table.store(&asked, &answer, marked(5)));
    assert_eq!(outcome(now + 129 * second), (1, 0), "the mark went over");
    assert_eq!(outcome(now + 131 * second), (0, 1));
}

#[test]
fn what_is_logged_over_tcp() {
    let (versions, table) = table();
    let asked = query("www.example.org", A);
    let answer = reply(&asked, 0, [&addresses(3), &[], &[]]);
    let with = |log| Terms {
        log,
        rotate: true,
        mark_ttl: 0,
        ..terms_with(&versions, &[1])
    };
    let lookup = |query| table.lookup(query, Some(65_535), CLIENT, ADDRESS);
    assert!(table.store(&asked, &answer, with(true)));
    let [over_tcp, over_udp] = [lookup(&asked), ask(&table, &asked)].map(Option::unwrap);
    assert_eq!(order(&asked, &over_tcp), [0, 1, 2]);
    assert_eq!(
        order(&asked, &over_udp),
        [1, 2, 0],
        "both take rotation from one row"
    );
    let names = cluster_names();
    let number = table.add_negative_zone(negative_zone("cluster.local", &names, &[]).logged(true));
    let absent = query("nope.svc.cluster.local", A);
    let sample = nxdomain(&absent, "cluster.local");
    assert_eq!(
        table.set_template(number, &absent, &sample, 200),
        Some(true)
    );
    let denied = lookup(&absent).unwrap();
    assert!(ask(&table, &absent).is_some());
    let totals = table.statistics().totals;
    assert_eq!(
        (totals.hits, totals.negative_hits, totals.misses),
        (2, 2, 0)
    );
    let records = table.log().take(usize::MAX);
    let rows = [
        (&asked, &over_tcp, terms().size, 3),
        (&absent, &denied, 200, 0),
    ];
    assert_eq!(records.len(), rows.len(), "datagrams are a batch's to log");
    for (record, (query, sent, size, answers)) in records.iter().zip(rows) {
        assert_eq!((record.query(), record.address()), (&query[..], ADDRESS));
        assert!(record.is_tcp);
        assert_eq!(record.flags.to_be_bytes(), sent[2..4]);
        let summary = ReplySummary {
            log: true,
            size,
            answers,
        };
        assert_eq!(record.summary, summary);
    }

    assert!(
        table.store(&asked, &answer, with(false)),
        "the last one decides"
    );
    assert!(lookup(&asked).is_some());
    assert!(table.store(&asked, &answer, with(true)));
    versions.bump(1);
    assert!(lookup(&asked).is_none());
    assert!(
        table.log().take(1).is_empty(),
        "neither the silent nor the stale"
    );
    assert_eq!(table.statistics().totals.stale, 1);
}

#[test]
fn memory_is_bounded_and_a_flood_displaces_nothing() {
    let versions = Arc::new(Versions::new());
    let capacity = 200_000;
    let table = Arc::new(AnswerTable::new(versions, capacity));
    let store_name = |text: &str| {
        let asked = query(text, A);
        let answer = reply(&asked, 0, [&addresses(2), &[], &[]]);
        assert!(table.store(&asked, &answer, terms()));
    };
    let hot: Vec<_> = (0..100)
        .map(|index| format!("hot{index}.example.org"))
        .collect();
    hot.iter().for_each(|text| store_name(text));
    let mut missed = 0;
    for round in 0..20_000 {
        store_name(&format!("flood{round}.example.org"));
        let text = &hot[round % hot.len()];
        if ask(&table, &query(text, A)).is_none() {
            missed += 1;
            store_name(text);
        }
        assert!(table.statistics().octets <= capacity as u64);
    }
    assert!(missed <= 200, "{missed}");
    let seen = table.statistics();
    assert!(seen.evicted >= 20_000 - seen.entries);
    assert!(seen.octets > capacity as u64 * 9 / 10);
}

#[test]
fn what_is_larger_than_the_table_is_refused() {
    let table = Arc::new(AnswerTable::new(Arc::new(Versions::new()), 1000));
    let asked = query("www.example.org", A);
    assert!(!table.store(
        &asked,
        &reply(&asked, 0, [&addresses(200), &[], &[]]),
        terms()
    ));
    assert!(table.store(
        &asked,
        &reply(&asked, 0, [&addresses(1), &[], &[]]),
        terms()
    ));
}

#[test]
fn extended_errors_follow_the_echoed_options_and_are_the_first_to_go() {
    let (_, table) = table();
    let plain = query("www.example.org", A);
    let cookie = [&[0, 10, 0, 8][..], b"CLIENT01"].concat();
    let error = [&[0, 15, 0, 6][..], b"\0\0text"].concat();
    let stored = with_opt(plain.clone(), 1232, false, &[]);
    let answer = reply(&plain, 0, [&addresses(20), &[], &[]]);
    let with_error = Terms {
        errors: error.clone().into(),
        ..terms()
    };
    for asked in [&stored, &plain] {
        assert!(table.store(asked, &answer, with_error.clone()));
    }
    assert_eq!(ask(&table, &plain).unwrap(), answer, "without EDNS");
    let asked = with_opt(plain.clone(), 1232, true, &cookie);
    assert!(table.store(&asked, &answer, with_error));
    let whole = ask(&table, &asked).unwrap();
    let options = [&cookie[..], &error].concat();
    assert_eq!(
        whole[whole.len() - 11 - options.len()..],
        opt(1232, true, &options)
    );
    assert_eq!(whole[2] & 2, 0, "no TC");
    let shorter = table
        .lookup(&asked, Some(whole.len() - 1), CLIENT, ADDRESS)
        .unwrap();
    assert_eq!(shorter.len(), whole.len() - error.len(), "all records");
    assert_eq!(shorter[6..12], whole[6..12], "counts");
    assert_eq!(shorter[2] & 2, 2, "TC");
    let many = Terms {
        errors: vec![0; MAX_ERRORS_LEN + 1].into(),
        ..terms()
    };
    assert!(!table.store(&asked, &answer, many), "too many");
}

#[test]
fn a_negative_zone_can_leave_queries_with_edns_to_the_chain() {
    let (_, table) = table();
    let names = cluster_names();
    let zone = negative_zone("cluster.local", &names, &[]).without_edns(true);
    let number = table.add_negative_zone(zone);
    let absent = query("nope.svc.cluster.local", A);
    let sample = nxdomain(&absent, "cluster.local");
    assert_eq!(
        table.set_template(number, &absent, &sample, 200),
        Some(true)
    );
    assert!(ask(&table, &absent).is_some());
    assert!(ask(&table, &with_opt(absent, 1232, false, &[])).is_none());
}
