//! Writes a reply about a Service, an endpoint or an address, octet for octet as hsdns/wire/encode.py does.
//!
//! Rule 1: the owner of an answer is a pointer to the question; SRV targets are never compressed (RFC 2782), but the
//!         owners of their addresses point to them, or into the question where that is possible.
//! Rule 2: a name in RDATA never points into the question, whose case is the client's.
//! Rule 3: what is too long for the answer table is not written.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::key::{CD, HEADER_LEN, MAX_NAME_LEN, Query, RD};
use crate::records::MAX_STORED_LEN;
use crate::watch::slice::dashed_label;

/// Type of an IPv4 address.
pub const A: u16 = 1;
/// Type of the name of an address.
pub const PTR: u16 = 12;
/// Type of an IPv6 address.
pub const AAAA: u16 = 28;
/// Type of a host and a port of a service.
pub const SRV: u16 = 33;
const SOA: u16 = 6;
const CLASS_IN: u16 = 1;
const QR_AA: u16 = 0x8400;
const POINTER: u16 = 0xC000;
const FIXED_LEN: usize = 10; // type, class, TTL and length of the RDATA
const SRV_FIXED_LEN: usize = 6; // priority, weight, port
const IPV4: &[u8] = b"\x07in-addr\x04arpa\0";
const IPV6: &[u8] = b"\x03ip6\x04arpa\0";

/// The type of the records of an address, by its length.
#[must_use]
pub fn address_type(address: &[u8]) -> u16 {
    if address.len() == 4 { A } else { AAAA }
}

/// A name of labels before a suffix, None if it is too long.
#[must_use]
pub fn name_of(labels: &[&[u8]], suffix: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(MAX_NAME_LEN);
    for label in labels {
        name.push(u8::try_from(label.len()).ok()?);
        name.extend_from_slice(label);
    }
    name.extend_from_slice(suffix);
    (name.len() <= MAX_NAME_LEN).then_some(name)
}

/// Whether a name is below in-addr.arpa or ip6.arpa.
#[must_use]
pub fn is_reverse(qname: &[u8]) -> bool {
    [IPV4, IPV6].iter().any(|zone| qname.ends_with(zone))
}

/// The address of a complete reverse name (`address_of` of hsdns/cluster/address.py).
#[must_use]
pub fn address_of(query: &Query<'_>) -> Option<Vec<u8>> {
    let qname = query.qname();
    let label = |index| std::str::from_utf8(&qname[query.label(index)][1..]).ok();
    match query.label_count() {
        6 if qname.ends_with(IPV4) => (0..4)
            .rev()
            .map(|index| {
                let octet = label(index)?.parse::<u8>().ok()?;
                (octet.to_string() == label(index)?).then_some(octet)
            })
            .collect(),
        34 if qname.ends_with(IPV6) => {
            let digits = (0..32).rev().map(label).collect::<Option<Vec<_>>>()?;
            if digits.iter().any(|digit| digit.len() != 1) {
                return None;
            }
            let address = u128::from_str_radix(&digits.concat(), 16).ok()?;
            let address = Ipv6Addr::from(address);
            Some(match address.to_ipv4_mapped() {
                Some(mapped) => mapped.octets().to_vec(),
                None => address.octets().to_vec(),
            })
        }
        _ => None,
    }
}

/// The address whose dashed label this is.
#[must_use]
pub fn undashed(label: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(label).ok()?;
    let address = if let Ok(address) = text.replace('-', ".").parse::<Ipv4Addr>() {
        address.octets().to_vec()
    } else {
        let address = text.replace('-', ":").parse::<Ipv6Addr>();
        address.ok()?.octets().to_vec()
    };
    (dashed_label(&address)?[1..] == *label).then_some(address)
}

/// A reply in the making.
pub struct Writer<'a> {
    qname: &'a [u8],
    out: Vec<u8>,
    counts: [u16; 3],
    /// Octets without compression.
    size: usize,
    /// Those of names in RDATA.
    places: Places,
}

/// Where names are in a message, and their ends from each label on.
#[derive(Default)]
pub struct Places(HashMap<Vec<u8>, u16>);

impl Places {
    /// Where a name is.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<u16> {
        self.0.get(name).copied()
    }

    /// A name with what is written already replaced by a pointer.
    #[must_use]
    pub fn compressed(&self, name: &[u8]) -> Vec<u8> {
        compressed(name, |end| self.find(&name[end..]))
    }

    /// Note where the first `written` octets of a name are, which are not compressed.
    pub fn remember(&mut self, name: &[u8], place: usize, written: usize) {
        let mut at = 0;
        while name[at] > 0 && at < written {
            let Ok(place) = u16::try_from(place + at) else {
                return; // such a reply is too long
            };
            if place >= 0x4000 || self.0.contains_key(&name[at..]) {
                return;
            }
            self.0.insert(name[at..].to_vec(), place);
            at += 1 + usize::from(name[at]);
        }
    }
}

/// A name whose end is replaced by a pointer to the first place that `find` knows for an offset of a label.
pub fn compressed(name: &[u8], find: impl Fn(usize) -> Option<u16>) -> Vec<u8> {
    let mut at = 0;
    while name[at] > 0 {
        if let Some(place) = find(at) {
            return [&name[..at], &(POINTER | place).to_be_bytes()].concat();
        }
        at += 1 + usize::from(name[at]);
    }
    name.to_vec()
}

impl<'a> Writer<'a> {
    /// Begin the reply to a query.
    #[must_use]
    pub fn new(query: &Query<'a>) -> Self {
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(&query.wire[..2]);
        out.extend_from_slice(&(QR_AA | query.flags & (RD | CD)).to_be_bytes());
        out.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
        out.extend_from_slice(query.question());
        Self {
            qname: query.qname(),
            size: out.len(),
            out,
            counts: [0; 3],
            places: Places::default(),
        }
    }

    /// Add an address to the answer.
    pub fn address(&mut self, ttl: u32, address: &[u8]) {
        let head = POINTER | HEADER_LEN as u16;
        self.record(
            0,
            head,
            self.qname.len(),
            address_type(address),
            ttl,
            address,
        );
    }

    /// Add an SRV record to the answer.
    pub fn srv(&mut self, ttl: u32, weight: u16, port: u16, target: &[u8]) {
        let [w0, w1] = weight.to_be_bytes();
        let [p0, p1] = port.to_be_bytes();
        let rdata = [&[0, 0, w0, w1, p0, p1], target].concat();
        let head = POINTER | HEADER_LEN as u16;
        self.record(0, head, self.qname.len(), SRV, ttl, &rdata);
        self.places.remember(
            target,
            self.out.len() - rdata.len() + SRV_FIXED_LEN,
            usize::MAX,
        );
    }

    /// Add the address of an SRV record's target.
    pub fn target_address(&mut self, ttl: u32, target: &[u8], address: &[u8]) {
        let in_question = if self.qname.ends_with(target) {
            Some((HEADER_LEN + self.qname.len() - target.len()) as u16)
        } else {
            None
        };
        let place = in_question.or_else(|| self.places.find(target));
        let head = POINTER | place.unwrap_or_default(); // there always is one
        self.record(2, head, target.len(), address_type(address), ttl, address);
    }

    /// Add a PTR record to the answer.
    pub fn pointer(&mut self, ttl: u32, target: &[u8]) {
        let head = POINTER | HEADER_LEN as u16;
        let rdata = self.places.compressed(target);
        self.size += target.len() - rdata.len();
        self.record(0, head, self.qname.len(), PTR, ttl, &rdata);
        self.places
            .remember(target, self.out.len() - rdata.len(), usize::MAX);
    }

    /// Add the SOA record of a zone above the QNAME to the authority section; its RDATA are uncompressed.
    pub fn soa(&mut self, ttl: u32, zone_len: usize, rdata: &[u8]) -> Option<()> {
        let ends = |name: &[u8]| {
            let mut at = 0;
            while *name.get(at)? > 0 {
                at += 1 + usize::from(name[at]);
            }
            Some(at + 1)
        };
        let (mname, rest) = rdata.split_at_checked(ends(rdata)?)?;
        let (rname, numbers) = rest.split_at_checked(ends(rest)?)?;
        let head = POINTER | (HEADER_LEN + self.qname.len() - zone_len) as u16;
        self.places
            .remember(mname, self.out.len() + 2 + FIXED_LEN, usize::MAX);
        let written = [mname, &self.places.compressed(rname), numbers].concat();
        self.size += rdata.len() - written.len();
        self.record(1, head, zone_len, SOA, ttl, &written);
        Some(())
    }

    /// The reply, and its octets without compression; None if it is too long.
    #[must_use]
    pub fn finish(mut self) -> Option<(Vec<u8>, usize)> {
        for (section, count) in self.counts.into_iter().enumerate() {
            let at = 6 + 2 * section;
            self.out[at..at + 2].copy_from_slice(&count.to_be_bytes());
        }
        (self.out.len() <= MAX_STORED_LEN).then_some((self.out, self.size))
    }

    fn record(
        &mut self,
        section: usize,
        head: u16,
        owner_len: usize,
        rrtype: u16,
        ttl: u32,
        rdata: &[u8],
    ) {
        self.counts[section] = self.counts[section].saturating_add(1);
        self.size += owner_len + FIXED_LEN + rdata.len();
        self.out.extend_from_slice(&head.to_be_bytes());
        self.out.extend_from_slice(&rrtype.to_be_bytes());
        self.out.extend_from_slice(&CLASS_IN.to_be_bytes());
        self.out.extend_from_slice(&ttl.to_be_bytes());
        self.out
            .extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        self.out.extend_from_slice(rdata);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Reader;

    fn wire(labels: &[&[u8]], qtype: u16) -> Vec<u8> {
        let name = name_of(labels, b"\0").unwrap();
        let [high, low] = qtype.to_be_bytes();
        let end = [high, low, 0, 1];
        [&[0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0], &name[..], &end].concat()
    }

    #[test]
    fn a_dashed_label_is_of_one_address() {
        for (label, address) in [
            (&b"10-0-0-1"[..], Some(vec![10, 0, 0, 1])),
            (b"--0", Some(vec![0; 16])),
            (b"10-0-0-01", None),
            (b"10-0-0", None),
            (b"0-0-0-0-0-0-0-0", None), // not the canonical form
            (b"web-0", None),
            (b"\xff", None),
        ] {
            assert_eq!(undashed(label), address, "{label:?}");
        }
    }

    #[test]
    fn reverse_names_have_one_spelling() {
        let mapped: Vec<&[u8]> = b"100000a0ffff00000000000000000000"
            .chunks(1)
            .chain([&b"ip6"[..], b"arpa"])
            .collect();
        for (labels, address) in [
            (
                &[&b"4"[..], b"3", b"2", b"10", b"in-addr", b"arpa"][..],
                Some(vec![10, 2, 3, 4]),
            ),
            (&[b"04", b"3", b"2", b"10", b"in-addr", b"arpa"], None),
            (&[b"+4", b"3", b"2", b"10", b"in-addr", b"arpa"], None),
            (&[b"256", b"3", b"2", b"10", b"in-addr", b"arpa"], None),
            (&[b"3", b"2", b"10", b"in-addr", b"arpa"], None),
            (&mapped, Some(vec![10, 0, 0, 1])), // ::ffff:10.0.0.1
        ] {
            let (wire, mut reader) = (wire(labels, PTR), Reader::default());
            assert_eq!(
                address_of(&reader.read(&wire).unwrap()),
                address,
                "{labels:?}"
            );
        }
    }

    #[test]
    fn names_are_compressed_with_earlier_ones() {
        let (wire, mut reader) = (wire(&[b"1", b"x"], PTR), Reader::default());
        let query = reader.read(&wire).unwrap();
        let mut writer = Writer::new(&query);
        let start = wire.len();
        writer.pointer(5, b"\x01a\x01b\0");
        writer.pointer(5, b"\x01c\x01b\0");
        let (reply, size) = writer.finish().unwrap();
        assert_eq!(reply[2..12], [0x85, 0, 0, 1, 0, 2, 0, 0, 0, 0]);
        let first = start + 12; // its RDATA
        let second = &reply[first + 5..];
        assert_eq!(reply[first..first + 5], *b"\x01a\x01b\0");
        assert_eq!(second[10..14], [0, 4, 1, b'c']);
        assert_eq!(second[14..], [0xC0, u8::try_from(first + 2).unwrap()]);
        assert_eq!(size, start + 2 * (5 + 10 + 5));
    }

    #[test]
    fn what_is_too_long_is_not_made() {
        let (wire, mut reader) = (wire(&[b"x"], A), Reader::default());
        let query = reader.read(&wire).unwrap();
        for (count, is_made) in [(1022, true), (1024, false)] {
            let mut writer = Writer::new(&query);
            (0..count).for_each(|_| writer.address(5, &[10, 0, 0, 1]));
            assert_eq!(writer.finish().is_some(), is_made, "{count}");
        }
        assert_eq!(name_of(&[&[b'x'; 63][..]; 4], b"\0"), None);
    }
}
