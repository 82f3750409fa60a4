//! Replies of one batch that go to one client and are equally long: the kernel takes them as one message and cuts it
//! into datagrams (UDP_SEGMENT), so that the way through its layers is paid once for all of them.
//!
//! Rule 1: all datagrams of a train are as long as the first, but the last one may be shorter.
//! Rule 2: replies to one client stay in order; those to several clients may pass each other.
//! Rule 3: what is looked at to find a train does not grow with the batch.  Two clients that share a place break each
//!         other's trains, which costs time, never a reply.
//! Source: udp(7), UDP_SEGMENT, since Linux 4.18.

use crate::system::{BATCH_LEN, Message};

/// The longest datagram of a train: with its headers it fits into 1,280 octets, the least MTU of IPv6, so that hardly
/// any path refuses it.
pub const MAX_DATAGRAM_LEN: usize = 1232;
/// A train has to fit into one IP packet: so the kernel counts before it cuts.
const MAX_TRAIN_LEN: usize = 65_000;
const PLACES: usize = 128;

/// Replies that leave as one message.
#[derive(Clone, Copy, Debug)]
pub struct Train {
    first: u8,
    last: u8,
    is_full: bool,
    datagram_len: usize,
    len: usize,
}

impl Train {
    fn new(index: u8, reply_len: usize, longest: usize) -> Self {
        Self {
            first: index,
            last: index,
            is_full: reply_len == 0 || reply_len > longest,
            datagram_len: reply_len,
            len: reply_len,
        }
    }

    /// The index of its first reply.
    #[must_use]
    pub fn first(&self) -> usize {
        usize::from(self.first)
    }

    /// Octets of all its datagrams but the last one.
    #[must_use]
    pub fn datagram_len(&self) -> u16 {
        u16::try_from(self.datagram_len).unwrap_or(0)
    }

    fn takes(&self, reply_len: usize) -> bool {
        !self.is_full && reply_len <= self.datagram_len && self.len + reply_len <= MAX_TRAIN_LEN
    }

    fn add(&mut self, index: u8, reply_len: usize) {
        self.last = index;
        self.len += reply_len;
        self.is_full = reply_len < self.datagram_len;
    }
}

/// The trains of a batch, in the order of their first replies.
pub struct Trains {
    trains: Vec<Train>,
    /// By a reply's index: that of the next one of its train.
    following: [Option<u8>; BATCH_LEN],
    /// By a client's place: its newest train.
    newest: [Option<u8>; PLACES],
}

impl Default for Trains {
    fn default() -> Self {
        Self {
            trains: Vec::with_capacity(BATCH_LEN),
            following: [None; BATCH_LEN],
            newest: [None; PLACES],
        }
    }
}

impl Trains {
    /// Make trains of so many replies, `BATCH_LEN` at most; one that is over `longest` octets goes alone.
    pub fn make<'a>(
        &mut self,
        count: usize,
        longest: usize,
        message: impl Fn(usize) -> Message<'a>,
    ) {
        self.trains.clear();
        self.following = [None; BATCH_LEN];
        self.newest = [None; PLACES];
        for (index, at) in (0..count).zip(0u8..) {
            let new = message(index);
            let newest = &mut self.newest[place(new.address)];
            let train = newest
                .and_then(|newest| self.trains.get_mut(usize::from(newest)))
                .filter(|train| train.takes(new.reply.len()))
                .filter(|train| message(train.first()).has_way_of(&new));
            if let Some(train) = train {
                self.following[usize::from(train.last)] = Some(at);
                train.add(at, new.reply.len());
            } else {
                *newest = u8::try_from(self.trains.len()).ok();
                self.trains.push(Train::new(at, new.reply.len(), longest));
            }
        }
    }

    /// All trains.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Train> {
        self.trains.iter()
    }

    /// The indexes of a train's replies.
    pub fn replies(&self, train: &Train) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(train.first), |&at| self.following[usize::from(at)])
            .map(usize::from)
    }
}

/// Where a client's newest train is looked for: its port and, of IPv4, the end of its address tell most clients apart.
fn place(address: &[u8]) -> usize {
    let octet = |at: usize| usize::from(address.get(at).copied().unwrap_or(0));
    (octet(3) ^ octet(2).rotate_left(3) ^ octet(7)) % PLACES
}
