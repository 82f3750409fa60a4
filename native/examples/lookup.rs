//! What a question costs the table, in nanoseconds: `cargo run --release --no-default-features --example lookup`.
//!
//! The figures are those of user space alone, warm and on one core; a datagram costs the kernel some thousands more.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use hsdns_native::entry::Terms;
use hsdns_native::hit_counts::BatchCounts;
use hsdns_native::key::Reader;
use hsdns_native::names::ClusterNames;
use hsdns_native::negative_zone::NegativeZone;
use hsdns_native::table::{AnswerTable, Client};
use hsdns_native::versions::{Dependency, Versions};

const QUESTIONS: usize = 1 << 16;
const BATCH_LEN: usize = 64;
const ROUNDS: usize = 7;
const CLIENT: Client = Client {
    is_ipv6: false,
    is_tcp: false,
    now: 0,
};

fn main() {
    for count in [1_000, 100_000] {
        let table = filled_table(count);
        for (what, questions) in mixes(count) {
            let mut best = f64::INFINITY;
            let mut answered = 0;
            for _ in 0..ROUNDS {
                let start = Instant::now();
                answered = ask_all(&table, &questions);
                best = best.min(start.elapsed().as_secs_f64());
            }
            let nanoseconds = best * 1e9 / questions.len() as f64;
            let share = answered * 100 / questions.len();
            println!("{count:>7} entries  {what:<22} {nanoseconds:>7.0} ns  {share:>3} % answered");
        }
        let seen = table.statistics();
        println!(
            "{count:>7} entries  {} octets each",
            seen.octets / seen.entries
        );
    }
}

/// Look up as a worker does: locked, timed and counted once a batch.
fn ask_all(table: &AnswerTable, questions: &[Vec<u8>]) -> usize {
    let mut readers: Vec<Reader> = (0..BATCH_LEN).map(|_| Reader::default()).collect();
    let mut counts = BatchCounts::default();
    let mut out = Vec::new();
    let mut answered = 0;
    for batch in questions.chunks(BATCH_LEN) {
        out.clear();
        let reading = table.open();
        let mut queries: Vec<_> = readers
            .iter_mut()
            .zip(batch)
            .filter_map(|(reader, question)| reader.read(question))
            .map(|query| (query, reading.locate(&query)))
            .collect();
        for (_, place) in &queries {
            reading.prefetch(*place);
        }
        for (query, place) in queries.drain(..) {
            let limit = query.udp_limit();
            let summary = reading.answer(&query, place, limit, CLIENT, &mut out, &mut counts);
            answered += usize::from(summary.is_some());
        }
        drop(reading);
        table.count(&mut counts, false, 1000);
        black_box(&out);
    }
    answered
}

fn filled_table(count: usize) -> Arc<AnswerTable> {
    let versions = Arc::new(Versions::new());
    let table = Arc::new(AnswerTable::new(Arc::clone(&versions), 1 << 30));
    for index in 0..count {
        let query = question(&host(index), 0, &[]);
        for query in [query.clone(), with_opt(query, &[])] {
            let dependencies = [index, index * 7].map(|index| Dependency {
                index: index as u16,
                value: versions.read(index as u16),
            });
            let terms = Terms {
                dependencies: Box::new(dependencies),
                group: 1,
                size: 150,
                rotate: true,
                names: None,
                mark_ttl: 0,
                log: false,
                max_payload: u16::MAX,
                timing: None,
                errors: Box::default(),
            };
            assert!(table.store(&query, &reply(&query), terms));
        }
    }
    let names = Arc::new(ClusterNames::default());
    names.add_namespace(b"default");
    names.set_open(true);
    for index in 0..count {
        names.add_service(b"default", format!("svc-{index}").as_bytes());
    }
    let zone = wire_name("cluster.local");
    let groups = HashMap::from([(1, 2)]);
    let negative_zone = table.add_negative_zone(NegativeZone::new(&zone, names, [], groups, true));
    let sample = question("no.cluster.local", 0, &[]);
    assert_eq!(
        table.set_template(negative_zone, &sample, &nxdomain(&sample, &zone), 150),
        Some(true)
    );
    table
}

fn mixes(count: usize) -> [(&'static str, Vec<Vec<u8>>); 6] {
    // A stride that has no factor in common with the counts: neighbours in time are none in memory.
    let pick = |index: usize| host(index * 7919 % count);
    let all = |make: &dyn Fn(usize) -> Vec<u8>| (0..QUESTIONS).map(make).collect::<Vec<_>>();
    let cookie = |index: usize| {
        let mut option = vec![0, 10, 0, 8];
        option.extend_from_slice(&(index as u64).to_be_bytes());
        option
    };
    [
        ("plain", all(&|index| question(&pick(index), index, &[]))),
        (
            "EDNS",
            all(&|index| with_opt(question(&pick(index), index, &[]), &[])),
        ),
        (
            "cookie, mixed case",
            all(&|index| {
                let mut query = with_opt(question(&pick(index), index, &[]), &cookie(index));
                query[13].make_ascii_uppercase();
                query
            }),
        ),
        (
            "no such Service",
            all(&|index| question(&format!("x{index}.default.svc.cluster.local"), index, &[])),
        ),
        (
            "search path",
            all(&|index| {
                question(
                    &format!("www.example-{index}.org.default.svc.cluster.local"),
                    index,
                    &[],
                )
            }),
        ),
        (
            "unknown",
            all(&|index| question(&format!("x{index}.example.org"), index, &[])),
        ),
    ]
}

fn host(index: usize) -> String {
    format!("svc-{index}.default.svc.cluster.local")
}

fn wire_name(text: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in text.split('.') {
        wire.push(label.len() as u8);
        wire.extend_from_slice(label.as_bytes());
    }
    wire.push(0);
    wire
}

fn question(name: &str, id: usize, options: &[u8]) -> Vec<u8> {
    let mut wire = (id as u16).to_be_bytes().to_vec();
    wire.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    wire.extend_from_slice(&wire_name(name));
    wire.extend_from_slice(&[0, 1, 0, 1]);
    wire.extend_from_slice(options);
    wire
}

fn with_opt(mut query: Vec<u8>, options: &[u8]) -> Vec<u8> {
    query[11] = 1;
    query.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, options.len() as u8]);
    query.extend_from_slice(options);
    query
}

/// Three addresses.
fn reply(query: &[u8]) -> Vec<u8> {
    let opt_len = if query[11] == 1 { 11 } else { 0 };
    let mut wire = query[..query.len() - opt_len].to_vec();
    wire[2] = 0x85;
    wire[7] = 3;
    wire[11] = 0;
    for last in 1..=3 {
        wire.extend_from_slice(&[0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 10, 0, 0, last]);
    }
    wire
}

fn nxdomain(query: &[u8], zone: &[u8]) -> Vec<u8> {
    let mut wire = query.to_vec();
    wire[2..4].copy_from_slice(&[0x85, 3]);
    wire[9] = 1;
    wire.extend_from_slice(&[0xC0, (query.len() - 4 - zone.len()) as u8, 0, 6, 0, 1]);
    wire.extend_from_slice(&[0, 0, 0, 5, 0, 22, 0, 0]);
    wire.extend_from_slice(&[0; 20]);
    wire
}
