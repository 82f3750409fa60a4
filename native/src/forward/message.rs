//! What is sent to an upstream, and whether a datagram answers it.

use crate::key::{AD, CD, HEADER_LEN, OPT, Query, RD, name_len};

const COOKIE: u16 = 10;

/// The query for the upstream, with an ID of 0; None if it is one for the chain.
pub(super) fn message_of(query: &Query<'_>) -> Option<Vec<u8>> {
    if query.flags & RD == 0 || query.dnssec_ok() {
        return None;
    }
    let mut options = query.edns.map_or(&[][..], |edns| edns.options);
    while let [high, low, len_high, len_low, rest @ ..] = options {
        if u16::from_be_bytes([*high, *low]) != COOKIE {
            return None;
        }
        options = rest.get(usize::from(u16::from_be_bytes([*len_high, *len_low]))..)?;
    }
    let mut message = Vec::with_capacity(HEADER_LEN + query.question().len() + 11);
    // AD: the upstream tells whether the data are authentic (RFC 6840 section 5.7).
    let flags = query.flags & (RD | CD) | AD;
    message.extend_from_slice(&[0, 0]);
    message.extend_from_slice(&flags.to_be_bytes());
    message.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, u8::from(query.edns.is_some())]);
    message.extend_from_slice(query.qname());
    message.extend_from_slice(&query.qtype().to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    if let Some(edns) = query.edns {
        message.push(0);
        message.extend_from_slice(&OPT.to_be_bytes());
        message.extend_from_slice(&edns.payload_size.to_be_bytes());
        message.extend_from_slice(&[0; 6]);
    }
    Some(message)
}

/// The question of a message that message_of() made.
pub(super) fn question_of(message: &[u8]) -> &[u8] {
    let opt_len = if message[11] == 0 { 0 } else { 11 };
    &message[HEADER_LEN..message.len() - opt_len]
}

/// The first question of any datagram, in lower case.
pub(super) fn asked(datagram: &[u8]) -> Option<Vec<u8>> {
    let name_len = name_len(datagram.get(HEADER_LEN..)?);
    let mut question = datagram
        .get(HEADER_LEN..HEADER_LEN + name_len + 4)?
        .to_vec();
    question[..name_len - 1].make_ascii_lowercase();
    Some(question)
}

/// Whether a datagram is a reply to a question in lower case, or one to no question.
pub(super) fn answers(datagram: &[u8], question: &[u8]) -> bool {
    if datagram.len() < HEADER_LEN || datagram[2] & 0x80 == 0 || datagram[4] > 0 {
        return false;
    }
    if datagram[5] != 1 {
        return datagram[5] == 0;
    }
    let (name, tail) = question.split_at(question.len() - 4);
    let found = datagram.get(HEADER_LEN..HEADER_LEN + question.len());
    found.is_some_and(|found| {
        found[..name.len()].eq_ignore_ascii_case(name) && found[name.len()..] == *tail
    })
}
