//! Header blocks: those of RFC 7541 appendix C, faults, and octets at random.

use hsdns_native::hpack::{Decoder, Fault, Field, TABLE_LEN};

fn octets(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

fn field(name: &str, value: &str) -> Field {
    (name.into(), value.into())
}

#[test]
fn requests_of_the_standard() {
    let mut decoder = Decoder::new(1000);
    let mut expected = vec![
        field(":method", "GET"),
        field(":scheme", "http"),
        field(":path", "/"),
        field(":authority", "www.example.com"),
    ];
    let first = octets("828684418cf1e3c2e5f23a6ba0ab90f4ff");
    assert_eq!(decoder.decode(&first), Ok(expected.clone()));
    expected.push(field("cache-control", "no-cache"));
    let second = octets("828684be5886a8eb10649cbf");
    assert_eq!(decoder.decode(&second), Ok(expected));
    assert_eq!(decoder.changes(), 2);
}

#[test]
fn the_table_forgets_what_has_no_room() {
    let mut decoder = Decoder::new(1000);
    assert!(decoder.decode(&octets("4001610162")).is_ok());
    assert!(decoder.decode(&octets("be")).is_ok());
    assert!(
        decoder.decode(&octets("3f00")).is_ok(),
        "a table of 31 octets"
    );
    assert!(decoder.decode(&octets("be")).is_err());
}

#[test]
fn faults() {
    for (hex, is_too_long) in [
        ("80", false),               // no field has the number 0
        ("be", false),               // nor is one in the table
        ("40", false),               // cut
        ("0003", false),             // cut
        ("00816101", false),         // padding that is not of ones
        ("0084ffffffff00", false),   // EOS
        ("3fe21f", false),           // a larger table than was offered
        ("8220", false),             // the size behind a field
        ("ffffffffffffff7f", false), // a number without end
        ("828282828282828282828282", true),
    ] {
        let found = Decoder::new(400).decode(&octets(hex));
        assert_eq!(found == Err(Fault::TooLong), is_too_long, "{hex}");
        assert!(found.is_err(), "{hex}");
    }
}

#[test]
fn octets_at_random_are_survived() {
    let mut number = 1u64;
    for _ in 0..20_000 {
        let mut decoder = Decoder::new(TABLE_LEN);
        for _ in 0..3 {
            let block: Vec<u8> = (0..number % 61)
                .map(|_| {
                    number = number
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (number >> 33) as u8
                })
                .collect();
            number = number.wrapping_add(1);
            if decoder.decode(&block).is_err() {
                break;
            }
        }
    }
}
