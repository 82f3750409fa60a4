//! Decides which queries are looked up, and under which key.  Its twin is hsdns/fastpath/key.py.
//!
//! A query is plain if all of the following holds; any other one is a miss and goes to the chain:
//!
//! Rule 1: it has 17 to 512 octets.
//! Rule 2: its opcode is QUERY, and of the flags only RD, CD and AD may be set; the decoder judges other queries.
//! Rule 3: it has one question, in class IN, with a name of 1 to 127 labels, without pointers, of at most 255 octets
//!         (RFC 1035 section 2.3.4), and no other record but at most one OPT.
//! Rule 4: the OPT has the root as owner, version 0, extended RCODE 0, no flag but DO, and at most 16 complete options
//!         that end with the message (RFC 6891 section 6.1.2).
//! Rule 5: nothing follows the last record.
//!
//! The key is the lower-cased QNAME, QTYPE, and one octet of flags:
//!
//! Rule 6: only ASCII letters are lower-cased (RFC 4343).  A label's length is below 64 and so is not a letter.
//! Rule 7: DO (1), CD (2) and the presence of an OPT (4) are in the key, because the chain may answer these queries
//!         differently.
//! Rule 8: ID, RD, AD, case, payload size and options (cookies, padding) are not in the key.  They are copied, used as
//!         a limit or ignored when the reply is written, so that clients that vary them still hit.  The class is always
//!         IN.  A payload size above `max_payload` of the entry or negative zone is lowered first.

use std::ops::Range;

/// Octets of a DNS header.
pub const HEADER_LEN: usize = 12;
/// The longest query that is looked up.
pub const MAX_PLAIN_LEN: usize = 512;
/// The longest name, its root label included.
pub const MAX_NAME_LEN: usize = 255;
/// Type of the pseudo-record of EDNS.
pub const OPT: u16 = 41;
/// Octets of an OPT record without options.
pub const OPT_FIXED_LEN: usize = 11;
/// Header flag: recursion desired.
pub const RD: u16 = 0x0100;
/// Header flag: checking disabled.
pub const CD: u16 = 0x0010;
/// Header flag: authoritative answer.
pub const AA: u16 = 0x0400;
/// Header flag: authentic data.
pub const AD: u16 = 0x0020;

const MIN_PLAIN_LEN: usize = 17;
const MAX_LABEL_LEN: usize = 63;
const MAX_LABELS: usize = 127;
const MAX_OPTIONS: usize = 16;
const CLASS_IN: u16 = 1;
const DO: u16 = 0x8000;
/// The reply size that every client accepts over UDP.
pub const MIN_UDP_LEN: usize = 512;
/// The largest payload of an IPv4 datagram.
pub const MAX_UDP_LEN: usize = 65_507;

const KEY_DO: u8 = 1;
const KEY_CD: u8 = 2;
const KEY_EDNS: u8 = 4;
const KEY_LEN: usize = MAX_NAME_LEN + 3;

/// The parts of a plain query.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The whole message.
    pub wire: &'a [u8],
    /// The header's second 16 bits.
    pub flags: u16,
    /// The contents of the OPT record, if there is one.
    pub edns: Option<Edns<'a>>,
    /// Lower-cased QNAME, QTYPE, flags.
    key: &'a [u8],
    /// The offset of each label in the QNAME.
    labels: &'a [u8],
}

/// The OPT record of a query.
#[derive(Clone, Copy, Debug)]
pub struct Edns<'a> {
    /// The octets that the client accepts over UDP.
    pub payload_size: u16,
    /// DNSSEC OK.
    pub dnssec_ok: bool,
    /// All options, well-formed.
    pub options: &'a [u8],
    /// The octets of echoed options.
    pub echoed_len: usize,
}

impl<'a> Query<'a> {
    /// The key of the table.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The key of the same query with an OPT record, or without.
    #[must_use]
    pub fn other_key(&self) -> Vec<u8> {
        let mut key = self.key.to_vec();
        if let Some(octet) = key.last_mut() {
            *octet ^= KEY_EDNS;
        }
        key
    }

    /// The QNAME in lower case, its root label included.
    #[must_use]
    pub fn qname(&self) -> &'a [u8] {
        &self.key[..self.key.len() - 3]
    }

    /// The QTYPE.
    #[must_use]
    pub fn qtype(&self) -> u16 {
        u16_at(self.key, self.key.len() - 3)
    }

    /// The question section as the client wrote it.
    #[must_use]
    pub fn question(&self) -> &'a [u8] {
        &self.wire[HEADER_LEN..HEADER_LEN + self.key.len() + 1]
    }

    /// The number of labels of the QNAME, without its root label.
    #[must_use]
    pub fn label_count(&self) -> usize {
        self.labels.len()
    }

    /// The offset of a label in the QNAME, at its length octet; the first is 0.
    #[must_use]
    pub fn label(&self, index: usize) -> Range<usize> {
        let start = usize::from(self.labels[index]);
        start..start + 1 + usize::from(self.key[start])
    }

    /// The QNAME from a label to its end; the root for the index after the last label.
    #[must_use]
    pub fn suffix(&self, index: usize) -> &'a [u8] {
        let qname = self.qname();
        let start = self.labels.get(index).copied().map(usize::from);
        &qname[start.unwrap_or(qname.len() - 1)..]
    }

    /// The number of labels that the QNAME has more than a zone; 0 at the apex, None if it is not at or below the zone.
    #[must_use]
    pub fn labels_left_of(&self, zone: &[u8]) -> Option<usize> {
        let qname = self.qname();
        let at = qname.len().checked_sub(zone.len())?;
        if qname[at..] != *zone {
            return None;
        }
        if zone.len() == 1 {
            return Some(self.labels.len());
        }
        self.labels.binary_search(&u8::try_from(at).ok()?).ok()
    }

    /// The octets of a reply that the client accepts over UDP (RFC 6891 section 6.2.3).
    #[must_use]
    pub fn udp_limit(&self) -> usize {
        self.edns.map_or(MIN_UDP_LEN, |edns| {
            usize::from(edns.payload_size).clamp(MIN_UDP_LEN, MAX_UDP_LEN)
        })
    }

    /// The payload size of its OPT record; 0 if it has none.
    #[must_use]
    pub fn payload_size(&self) -> u16 {
        self.edns.map_or(0, |edns| edns.payload_size)
    }

    /// The same query with a payload size of at most this many octets.
    #[must_use]
    pub fn lowered(&self, most: u16) -> Self {
        let lower = |edns: Edns<'a>| Edns {
            payload_size: edns.payload_size.min(most),
            ..edns
        };
        Self {
            edns: self.edns.map(lower),
            ..*self
        }
    }

    /// Return whether the client wants to know that the data are authentic (RFC 6840 section 5.7).
    #[must_use]
    pub fn asks_for_ad(&self) -> bool {
        self.flags & AD != 0 || self.dnssec_ok()
    }

    /// Return whether the client set DO.
    #[must_use]
    pub fn dnssec_ok(&self) -> bool {
        self.edns.is_some_and(|edns| edns.dnssec_ok)
    }
}

impl<'a> Edns<'a> {
    /// Call `echo` for each option that replies repeat (NSID, EXPIRE, COOKIE, KEEPALIVE, PADDING).
    pub fn for_each_echoed(&self, mut echo: impl FnMut(&'a [u8])) {
        let mut rest = self.options;
        while let Some((option, after)) = split_option(rest) {
            if is_echoed(u16_at(option, 0)) {
                echo(option);
            }
            rest = after;
        }
    }
}

/// Parses queries; holds the memory of a key, so that one parser serves many queries.
pub struct Reader {
    key: [u8; KEY_LEN],
    labels: [u8; MAX_LABELS],
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            key: [0; KEY_LEN],
            labels: [0; MAX_LABELS],
        }
    }
}

impl Reader {
    /// Parse a query; None if it is not plain.
    pub fn read<'a>(&'a mut self, wire: &'a [u8]) -> Option<Query<'a>> {
        if !(MIN_PLAIN_LEN..=MAX_PLAIN_LEN).contains(&wire.len()) {
            return None;
        }
        let flags = u16_at(wire, 2);
        if flags & !(RD | CD | AD) != 0 || wire[4..11] != [0, 1, 0, 0, 0, 0, 0] || wire[11] > 1 {
            return None;
        }
        let label_count = self.read_labels(&wire[HEADER_LEN..])?;
        let last = usize::from(*self.labels[..label_count].last()?);
        let qname_len = last + 2 + usize::from(wire[HEADER_LEN + last]);
        let at = HEADER_LEN + qname_len;
        if qname_len > MAX_NAME_LEN || at + 4 > wire.len() || u16_at(wire, at + 2) != CLASS_IN {
            return None;
        }
        let edns = match (wire[11], wire.len() - (at + 4)) {
            (0, 0) => None,
            (1, 1..) => Some(read_opt(&wire[at + 4..])?),
            _ => return None,
        };
        let octet = match edns {
            None => 0,
            Some(edns) => KEY_EDNS | if edns.dnssec_ok { KEY_DO } else { 0 },
        } | if flags & CD == 0 { 0 } else { KEY_CD };
        self.key[..qname_len].copy_from_slice(&wire[HEADER_LEN..at]);
        self.key[..qname_len].make_ascii_lowercase();
        self.key[qname_len..qname_len + 2].copy_from_slice(&wire[at..at + 2]);
        self.key[qname_len + 2] = octet;
        Some(Query {
            wire,
            flags,
            edns,
            key: &self.key[..qname_len + 3],
            labels: &self.labels[..label_count],
        })
    }

    /// Store the offsets of the labels of a name; return their number.
    fn read_labels(&mut self, name: &[u8]) -> Option<usize> {
        let (mut at, mut count) = (0, 0);
        loop {
            let length = usize::from(*name.get(at)?);
            if length == 0 {
                return Some(count);
            }
            if length > MAX_LABEL_LEN {
                return None;
            }
            *self.labels.get_mut(count)? = u8::try_from(at).ok()?;
            count += 1;
            at += 1 + length;
        }
    }
}

/// Parse the rest of a query, which must be an OPT record.
fn read_opt(record: &[u8]) -> Option<Edns<'_>> {
    if record.len() < OPT_FIXED_LEN
        || record[0] != 0
        || u16_at(record, 1) != OPT
        || record[5..7] != [0, 0]
        || u16_at(record, 7) & !DO != 0
        || usize::from(u16_at(record, 9)) != record.len() - OPT_FIXED_LEN
    {
        return None;
    }
    let options = &record[OPT_FIXED_LEN..];
    let (mut rest, mut count, mut echoed_len) = (options, 0, 0);
    while !rest.is_empty() {
        let (option, after) = split_option(rest)?;
        count += 1;
        if count > MAX_OPTIONS {
            return None;
        }
        if is_echoed(u16_at(option, 0)) {
            echoed_len += option.len();
        }
        rest = after;
    }
    Some(Edns {
        payload_size: u16_at(record, 3),
        dnssec_ok: u16_at(record, 7) & DO != 0,
        options,
        echoed_len,
    })
}

/// Split off the first option; None if it is incomplete.
fn split_option(options: &[u8]) -> Option<(&[u8], &[u8])> {
    if options.len() < 4 {
        return None;
    }
    options.split_at_checked(4 + usize::from(u16_at(options, 2)))
}

/// Return whether replies repeat this option; hsdns/wire/edns.py gives the reasons.
fn is_echoed(code: u16) -> bool {
    matches!(code, 3 | 9 | 10 | 11 | 12)
}

/// Octets of the uncompressed name at the begin, as far as it goes.
pub(crate) fn name_len(octets: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&length @ 1..) = octets.get(at) {
        at += 1 + usize::from(length);
    }
    at + 1
}

/// The 16 bits at an offset that is within the octets.
pub(crate) fn u16_at(octets: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([octets[at], octets[at + 1]])
}
