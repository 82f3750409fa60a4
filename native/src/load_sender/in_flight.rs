//! The queries that wait for their replies: the twin of hsdns/load/in_flight.py.
//!
//! Rule 1: RUN queries leave from one socket, then as many from the next; IDs are used in order, from the one that a
//!         socket begins with.  So the number of a query says its place.
//! Rule 2: queries are lost in the order in which they were sent, so nothing is searched.

use std::collections::VecDeque;

/// Queries that leave from one socket, one after another.
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
    order: VecDeque<(usize, u64, i64)>,
    next: usize,
    number: u64,
    count: usize,
}

impl InFlight {
    /// For as many sockets as there are first IDs; `timeout` in nanoseconds.
    #[must_use]
    pub fn new(first_ids: Vec<u16>, timeout: i64) -> Self {
        let nobody = Place {
            waiting: Waiting {
                question: 0,
                planned: 0,
                sent: 0,
            },
            number: NONE,
        };
        // Both are written once here, so that the kernel gives no memory meanwhile, which takes its time.
        let places = vec![nobody; first_ids.len() * IDS];
        let mut order = VecDeque::from(vec![(0, NONE, 0); places.len() / 2]);
        order.clear();
        Self {
            places,
            first_ids,
            timeout,
            order,
            next: 0,
            number: 0,
            count: 0,
        }
    }

    /// Socket and ID of the next query.
    pub fn place(&mut self) -> (usize, u16) {
        let number = self.next;
        self.next = (number + 1) % self.places.len();
        let sockets = self.first_ids.len();
        let (run, within) = (number / RUN, number % RUN);
        let socket = run % sockets;
        let query_id = (run / sockets * RUN + within) as u16; // below IDS
        (socket, query_id.wrapping_add(self.first_ids[socket]))
    }

    /// A query has been sent; return the one that still waited with this ID, which no reply can be told to now.
    pub fn begin(&mut self, socket: usize, query_id: u16, waiting: Waiting) -> Option<Waiting> {
        let place = socket * IDS + usize::from(query_id);
        self.number += 1;
        let now = Place {
            waiting,
            number: self.number,
        };
        let before = std::mem::replace(&mut self.places[place], now);
        self.order.push_back((place, self.number, waiting.sent));
        if before.number == NONE {
            self.count += 1;
            None
        } else {
            Some(before.waiting)
        }
    }

    /// Take the query of a reply; None if none waits for it.
    pub fn answered(&mut self, socket: usize, query_id: u16) -> Option<Waiting> {
        let place = &mut self.places[socket * IDS + usize::from(query_id)];
        if place.number == NONE {
            return None;
        }
        place.number = NONE;
        self.count -= 1;
        Some(place.waiting)
    }

    /// Take the queries that were sent `timeout` ago and have no reply.
    pub fn lost(&mut self, now: i64, found: &mut Vec<Waiting>) {
        let before = now - self.timeout;
        while let Some(&(place, number, _)) = self.order.front().filter(|each| each.2 <= before) {
            self.order.pop_front();
            let place = &mut self.places[place];
            if place.number == number {
                place.number = NONE;
                self.count -= 1;
                found.push(place.waiting);
            }
        }
    }

    /// Whether no query waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}
