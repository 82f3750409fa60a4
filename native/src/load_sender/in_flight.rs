//! The queries that wait for their replies: the twin of hsdns/load/send/udp.py.
//!
//! Rule 1: RUN queries are sent from one socket, then as many from the next; IDs are used in order, beginning with the
//!         socket's first ID.  So the number of a query gives its socket and ID, and these give which of the last
//!         queries it was.
//! Rule 2: the last `window` queries have a place each, however many sockets there are.  A query whose place is needed
//!         again counts as lost.
//! Rule 3: queries expire in the order in which they were sent, so no search is needed.

use std::collections::VecDeque;

/// Queries that are sent from one socket, one after another.
pub const RUN: usize = 16;
const IDS: usize = 1 << 16;
const NONE: u64 = u64::MAX;

/// A query that waits; times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The number of its question.
    pub question: u32,
    /// When it was due.
    pub planned: i64,
    /// When it was sent.
    pub sent: i64,
    /// LATE and UNSURE of messages.rs.
    pub marks: u32,
}

/// Why a message is no reply to a query that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmatched {
    /// No recent query has its ID.
    NoQuery = 0,
    /// The query was answered or given up before.
    Ended = 1,
    /// It has another question than the query.
    OtherQuestion = 2,
    /// QR is 0.
    NoReply = 3,
}

#[derive(Clone, Copy)]
struct Place {
    waiting: Waiting,
    /// The number of the query that waits here, or NONE.
    number: u64,
}

/// Queries by socket and ID.
pub struct InFlight {
    first_ids: Vec<u16>,
    timeout: i64,
    places: Vec<Place>,
    order: VecDeque<(u64, i64)>,
    /// The number of the next query.
    next: u64,
    count: usize,
}

impl InFlight {
    /// Make places for as many sockets as there are first IDs; `timeout` in nanoseconds, `window` how many queries may
    /// wait at once, 0 for as many as there are IDs.
    #[must_use]
    pub fn new(first_ids: Vec<u16>, timeout: i64, window: usize) -> Self {
        let nobody = Place {
            waiting: Waiting {
                question: 0,
                planned: 0,
                sent: 0,
                marks: 0,
            },
            number: NONE,
        };
        let ids = first_ids.len() * IDS;
        let window = if window == 0 { ids } else { window.min(ids) };
        // Both are written once here, so that the kernel need not provide memory during the run, which takes time.
        let places = vec![nobody; window];
        let mut order = VecDeque::from(vec![(NONE, 0); window.div_ceil(2)]);
        order.clear();
        Self {
            places,
            first_ids,
            timeout,
            order,
            next: 0,
            count: 0,
        }
    }

    /// Socket and ID of the next query.
    pub fn place(&mut self) -> (usize, u16) {
        let number = (self.next % self.ids()) as usize;
        self.next += 1;
        let sockets = self.first_ids.len();
        let (run, within) = (number / RUN, number % RUN);
        let socket = run % sockets;
        let query_id = (run / sockets * RUN + within) as u16; // below IDS
        (socket, query_id.wrapping_add(self.first_ids[socket]))
    }

    /// Record a sent query; return the one that still waited in its place, to which no reply can be assigned any more.
    pub fn begin(&mut self, socket: usize, query_id: u16, waiting: Waiting) -> Option<Waiting> {
        let number = self.number(socket, query_id)?;
        let at = self.at(number);
        let before = std::mem::replace(&mut self.places[at], Place { waiting, number });
        self.order.push_back((number, waiting.sent));
        if before.number == NONE {
            self.count += 1;
            None
        } else {
            Some(before.waiting)
        }
    }

    /// Take the query of a reply; `misfit` says why it is none to the question with a number.
    ///
    /// # Errors
    /// Why no query was taken.
    pub fn answered(
        &mut self,
        socket: usize,
        query_id: u16,
        misfit: impl FnOnce(u32) -> Option<Unmatched>,
    ) -> Result<Waiting, Unmatched> {
        let number = self.number(socket, query_id).ok_or(Unmatched::NoQuery)?;
        let (at, window) = (self.at(number), self.places.len() as u64);
        let place = &mut self.places[at];
        if place.number == number {
            if let Some(why) = misfit(place.waiting.question) {
                return Err(why);
            }
            place.number = NONE;
            self.count -= 1;
            return Ok(place.waiting);
        }
        Err(if self.next - number <= window {
            Unmatched::Ended
        } else {
            Unmatched::NoQuery
        })
    }

    /// Take the queries that were sent `timeout` ago and have no reply.
    pub fn lost(&mut self, now: i64, found: &mut Vec<Waiting>) {
        let before = now - self.timeout;
        while let Some(&(number, _)) = self.order.front().filter(|each| each.1 <= before) {
            self.order.pop_front();
            let at = self.at(number);
            let place = &mut self.places[at];
            if place.number == number {
                place.number = NONE;
                self.count -= 1;
                found.push(place.waiting);
            }
        }
    }

    /// How many queries wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no query waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn ids(&self) -> u64 {
        (self.first_ids.len() * IDS) as u64
    }

    fn at(&self, number: u64) -> usize {
        (number % self.places.len() as u64) as usize
    }

    /// The number of the last query that was sent with an ID from a socket, if there was one.
    fn number(&self, socket: usize, query_id: u16) -> Option<u64> {
        let offset = usize::from(query_id.wrapping_sub(self.first_ids[socket]));
        let run = offset / RUN * self.first_ids.len() + socket;
        let within_all = (run * RUN + offset % RUN) as u64;
        let (last, ids) = (self.next.checked_sub(1)?, self.ids());
        last.checked_sub((last % ids + ids - within_all) % ids)
    }
}
