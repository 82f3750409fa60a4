//! UDP segmentation (UDP_SEGMENT, "GSO"): replies of one batch to one client with equal lengths are passed to the
//! kernel as one message, which it splits into datagrams, so that the cost of its network layers is paid only once.
//!
//! Rule 1: all segments of a message are as long as the first, but the last one may be shorter.
//! Rule 2: replies to one client stay in order; those to several clients may overtake each other.
//! Rule 3: the cost of finding a client's message does not grow with the batch.  Two clients with the same table index
//!         end each other's messages, which costs time, but loses no reply.
//! Rule 4: a reply with more control messages than a query comes with, which no receiver makes, has no other in its
//!         message.
//! Source: udp(7), UDP_SEGMENT, since Linux 4.18.

use crate::system::{BATCH_LEN, CONTROL_LEN, Message};

/// The longest segment: with its headers it fits into 1,280 octets, the minimum MTU of IPv6, so that hardly any path
/// refuses it.
pub const MAX_SEGMENT_LEN: usize = 1232;
/// A message must fit into one IP packet, although the kernel splits it.
const MAX_MESSAGE_LEN: usize = 65_000;
const PLACES: usize = 128;

/// The replies that are sent as one message, as its segments.
#[derive(Clone, Copy, Debug)]
pub struct Segments {
    first: u8,
    last: u8,
    is_full: bool,
    segment_len: usize,
    len: usize,
}

impl Segments {
    fn new(index: u8, reply_len: usize, longest: usize) -> Self {
        Self {
            first: index,
            last: index,
            is_full: reply_len == 0 || reply_len > longest,
            segment_len: reply_len,
            len: reply_len,
        }
    }

    /// The index of its first reply.
    #[must_use]
    pub fn first(&self) -> usize {
        usize::from(self.first)
    }

    /// The length of all its segments but the last one.
    #[must_use]
    pub fn segment_len(&self) -> u16 {
        u16::try_from(self.segment_len).unwrap_or(0)
    }

    fn takes(&self, reply_len: usize) -> bool {
        !self.is_full && reply_len <= self.segment_len && self.len + reply_len <= MAX_MESSAGE_LEN
    }

    fn add(&mut self, index: u8, reply_len: usize) {
        self.last = index;
        self.len += reply_len;
        self.is_full = reply_len < self.segment_len;
    }
}

/// The messages of a batch, in the order of their first replies.
pub struct Segmentation {
    messages: Vec<Segments>,
    /// By a reply's index: the index of the next reply in its message.
    following: [Option<u8>; BATCH_LEN],
    /// By a client's table index: its newest message.
    newest: [Option<u8>; PLACES],
}

impl Default for Segmentation {
    fn default() -> Self {
        Self {
            messages: Vec::with_capacity(BATCH_LEN),
            following: [None; BATCH_LEN],
            newest: [None; PLACES],
        }
    }
}

impl Segmentation {
    /// Distribute this many replies, at most `BATCH_LEN`, to messages; one of more than `longest` octets gets a message
    /// of its own.
    pub fn distribute<'a>(
        &mut self,
        count: usize,
        longest: usize,
        message: impl Fn(usize) -> Message<'a>,
    ) {
        self.messages.clear();
        self.following = [None; BATCH_LEN];
        self.newest = [None; PLACES];
        for (index, at) in (0..count).zip(0u8..) {
            let new = message(index);
            let newest = &mut self.newest[place(new.address)];
            let segments = newest
                .and_then(|newest| self.messages.get_mut(usize::from(newest)))
                .filter(|segments| segments.takes(new.reply.len()))
                .filter(|segments| message(segments.first()).has_way_of(&new));
            if let Some(segments) = segments {
                self.following[usize::from(segments.last)] = Some(at);
                segments.add(at, new.reply.len());
            } else {
                *newest = u8::try_from(self.messages.len()).ok();
                let longest = if new.control.len() > CONTROL_LEN {
                    0
                } else {
                    longest
                };
                self.messages
                    .push(Segments::new(at, new.reply.len(), longest));
            }
        }
    }

    /// All messages.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Segments> {
        self.messages.iter()
    }

    /// The indexes of a message's replies.
    pub fn replies(&self, segments: &Segments) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(segments.first), |&at| self.following[usize::from(at)])
            .map(usize::from)
    }
}

/// The table index of a client's newest message: its port and, for IPv4, the end of its address differ between most
/// clients.
fn place(address: &[u8]) -> usize {
    let octet = |at: usize| usize::from(address.get(at).copied().unwrap_or(0));
    (octet(3) ^ octet(2).rotate_left(3) ^ octet(7)) % PLACES
}
