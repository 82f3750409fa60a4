//! Which replies of an upstream are made for clients, how long they are stored, and which are left to the chain.

#[allow(dead_code)] // other tests need more of it
mod build;

use build::{A, address, name, pointer, query, record, reply, soa_rdata};
use hsdns_native::forward::reply::{Bounds, Made, make};
use hsdns_native::key::Reader;

const CNAME: u16 = 5;
const SOA: u16 = 6;
const MX: u16 = 15;
const SUCCESS: Bounds = Bounds { floor: 5, most: 30 };
const DENIAL: Bounds = Bounds { floor: 7, most: 9 };

fn made(answer: &[Vec<u8>], authority: &[Vec<u8>], rcode: u8, rotates: bool) -> Option<Made> {
    let asked = query("www.example.org", A);
    let wire = reply(&asked, rcode, [answer, authority, &[]]);
    make(
        &Reader::default().read(&asked)?,
        &wire,
        rotates,
        SUCCESS,
        DENIAL,
    )
}

fn alias(owner: &str, target: &str) -> Vec<u8> {
    record(&name(owner), CNAME, &name(target))
}

fn soa() -> Vec<u8> {
    record(&name("example.org"), SOA, &soa_rdata("example.org", 1))
}

#[test]
fn what_cache_stores_and_for_how_long() {
    let far = || record(&name("far.example"), A, &[10, 0, 0, 1]);
    let ttl = |made: Option<Made>| made.map(|made| (made.ttl, made.is_denial));
    let answer = [alias("www.example.org", "far.example"), far()];
    assert_eq!(ttl(made(&answer, &[], 0, true)), Some((5, false)));
    assert_eq!(
        ttl(made(&answer[..1], &[soa()], 0, true)),
        Some((7, true)),
        "no data"
    );
    assert_eq!(ttl(made(&[], &[soa()], 0, true)), Some((7, true)));
    assert_eq!(ttl(made(&[], &[soa()], 3, true)), Some((7, true)));
    let fork = [alias("www.example.org", "other.example")];
    let circle = [
        alias("www.example.org", "b.example"),
        alias("b.example", "www.example.org"),
    ];
    for (answer, authority, rcode) in [
        (&answer[..], &[][..], 3),
        (&answer[..1], &[], 0),
        (&[&fork[..], &answer].concat(), &[soa()], 0),
        (&circle, &[soa()], 0),
        (&[], &[], 0),
        (&[], &[], 3),
        (&answer, &[], 2),
        (&[record(&pointer(12), 99, &[1])], &[], 0),
        (&[record(&pointer(12), A, &[1])], &[], 0),
        (&[record(&pointer(4000), A, &[1; 4])], &[], 0),
    ] {
        assert_eq!(
            ttl(made(answer, authority, rcode, true)),
            None,
            "{answer:?}"
        );
    }
}

#[test]
fn what_loadbalance_would_reorder_is_left_to_the_chain() {
    let exchange = record(&pointer(12), MX, &[&[0, 1][..], &name("mx")].concat());
    let other = record(&name("a.example"), A, &[1; 4]);
    for (answer, is_made) in [
        (vec![address(1), address(2)], true),
        (vec![address(1), other], false),
        (vec![address(1), exchange.clone()], true),
        (vec![exchange.clone(), address(1)], false),
        (vec![address(1), exchange.clone(), exchange], false),
        (vec![address(1), alias("a", "b")], false),
    ] {
        assert_eq!(made(&answer, &[], 0, true).is_some(), is_made, "{answer:?}");
        assert!(made(&answer, &[], 0, false).is_some());
    }
}
