//! Sends the queries of a load test at their planned times and records their outcomes: the twin of
//! hsdns/load/send/loop.py and udp.py, which have the same rules.
//!
//! ```text
//! --> feed.rs         the schedule, in pieces that Python makes ahead of time
//!     --> load_sender.rs  sends due queries, reads arrived replies  (pace.rs; in_flight.rs: by socket and ID)
//!         --> messages.rs     outcomes, new replies and counts, in frames    (counts.rs)
//!     --> sockets.rs      the sockets, the pipe and the clock
//! ```
//!
//! Rule 1: a due query is sent in the next iteration, whatever has been answered so far; no query is skipped, and none
//!         waits for a reply.
//! Rule 2: a late query is still sent, and both times are recorded; catching up is paced.
//! Rule 3: of a reply only its ID, flags and question are read, so that no reply can do harm.  One with QR 0 or another
//!         question is none: the query goes on waiting, as that of a stub resolver does.
//! Rule 4: this file has no clock and no socket: `World` has them, and tests have a world of their own.
//! Rule 5: with `most`, rules 1 and 2 do not hold: no more queries than that wait at once, and the schedule is put off
//!         while it waits for room, so that the rate is not exceeded afterwards.

pub mod counts;
pub mod feed;
pub mod in_flight;
pub mod messages;
pub mod pace;
pub mod recent_replies;
pub mod sent_times;
pub mod sockets;

use std::sync::Arc;

use crate::key::name_len;
use feed::{Feed, Next, Schedule};
use in_flight::{InFlight, Unmatched, Waiting};
use messages::{LOST, Messages, NOT_SENT};
use pace::Pace;
use sent_times::SentTimes;

/// Queries sent in one iteration, the maximum of one system call.
pub const MOST: usize = 16;
/// Nanoseconds between two reports of outcomes.
const REPORT_EVERY: i64 = 20_000_000;
/// Nanoseconds between two reports of counts alone.
const COUNTS_EVERY: i64 = 100_000_000;
/// The longest wait in nanoseconds.
const LONGEST: i64 = 50_000_000;
/// Nanoseconds between two checks for a schedule that is not there yet.
const NOT_YET: i64 = 100_000;
/// Nanoseconds after a query is due that a schedule that waits for room waits, so that several leave together.
const GATHER: i64 = 1_000_000;
/// Octets before the question of a message.
const HEADER_LEN: usize = 12;
/// In the third octet of a message.
const QR: u8 = 0x80;
/// Octets of the type and the class of a question.
const TYPE_AND_CLASS: usize = 4;

/// The clock, the sockets and the counting process.
pub trait World {
    /// Nanoseconds of the monotonic clock.
    fn clock(&mut self) -> i64;
    /// Wait at most this many nanoseconds for a reply, and add the sockets with one to `ready`; false: the run is over.
    fn wait(&mut self, nanoseconds: i64, ready: &mut Vec<usize>) -> bool;
    /// Send the datagrams; add the indexes of those that could not be sent to `refused`.
    fn send(&mut self, socket: usize, datagrams: &Datagrams, refused: &mut Vec<usize>);
    /// The index of a datagram of the last call of send(), and when it left, if the kernel has stamped one.
    fn left(&mut self) -> Option<(usize, i64)>;
    /// Receive some datagrams, in place of the previous ones; return their number and whether there may be more.
    fn receive(&mut self, socket: usize) -> (usize, bool);
    /// One of the datagrams of the last call of receive(), and when it arrived; 0 if that is not known.
    fn datagram(&self, index: usize) -> (&[u8], i64);
    /// How many datagrams the sockets had no room for since the last call.
    fn dropped(&mut self) -> u32;
    /// Pass messages to the counting process, and remove the octets that it accepts.
    fn emit(&mut self, messages: &mut Vec<u8>);
}

/// Datagrams one after another in one buffer.
#[derive(Default)]
pub struct Datagrams {
    octets: Vec<u8>,
    ends: Vec<usize>,
}

impl Datagrams {
    fn clear(&mut self) {
        self.octets.clear();
        self.ends.clear();
    }

    fn push(&mut self, query_id: u16, query: &[u8]) {
        self.octets.extend_from_slice(&query_id.to_be_bytes());
        self.octets.extend_from_slice(query);
        self.ends.push(self.octets.len());
    }

    /// The number of datagrams.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let octets = &self.octets[start..end];
            start = end;
            octets
        })
    }
}

/// The parameters of a run.
pub struct Settings {
    /// Queries without their IDs.
    pub queries: Vec<Box<[u8]>>,
    /// The kind of each query; empty if nothing is counted here.
    pub kinds: Vec<u32>,
    /// The first ID of each socket.
    pub first_ids: Vec<u16>,
    /// The timeout of a query in nanoseconds.
    pub timeout: i64,
    /// How many queries may wait at once; 0: as many as there are IDs.
    pub window: usize,
    /// Whether the counting process wants replies.
    pub replies: bool,
    /// Queries that may wait for their replies at once; 0 for any number.
    pub most: usize,
    /// Nanoseconds after a query is due from which it is late.
    pub late_after: i64,
}

/// A query that is sent in this iteration.
struct Leaving {
    socket: usize,
    query_id: u16,
    question: u32,
    planned: i64,
}

/// Sends the queries of a schedule.
pub struct LoadSender {
    queries: Vec<Box<[u8]>>,
    schedule: Schedule,
    pace: Pace,
    sent_times: SentTimes,
    in_flight: InFlight,
    messages: Messages,
    leaving: Vec<Leaving>,
    datagrams: Datagrams,
    refused: Vec<usize>,
    lost: Vec<Waiting>,
    ready: Vec<usize>,
    report_every: i64,
    reported: i64,
    most: usize,
}

impl LoadSender {
    /// Make one that takes its schedule from `feed`.
    #[must_use]
    pub fn new(settings: Settings, feed: Arc<Feed>) -> Self {
        let only_counts = !settings.kinds.is_empty() && !settings.replies;
        Self {
            queries: settings.queries,
            schedule: Schedule::new(feed),
            in_flight: InFlight::new(settings.first_ids, settings.timeout, settings.window),
            sent_times: SentTimes::default(),
            pace: Pace::new(settings.late_after, settings.most > 0),
            messages: Messages::new(settings.kinds, settings.replies),
            leaving: Vec::with_capacity(MOST),
            datagrams: Datagrams::default(),
            refused: Vec::new(),
            lost: Vec::new(),
            ready: Vec::new(),
            report_every: if only_counts {
                COUNTS_EVERY
            } else {
                REPORT_EVERY
            },
            reported: 0,
            most: settings.most,
        }
    }

    /// Send all queries, and wait for the last replies; `begin` is the start time of the schedule.
    pub fn run(&mut self, begin: i64, world: &mut impl World) {
        self.reported = begin;
        self.pace.begin(begin);
        self.messages.begin(begin);
        loop {
            let now = world.clock();
            let left = match self.schedule.due() {
                Next::Due(due) if self.pace.at(due) <= now => {
                    self.pace.begin_turn(due, now);
                    if self.room() > 0 {
                        self.send(now, world);
                        0
                    } else {
                        LONGEST
                    }
                }
                Next::Due(due) if self.most > 0 => self.pace.at(due) - now + GATHER,
                Next::Due(due) => self.pace.at(due) - now,
                Next::NotYet => NOT_YET,
                Next::Over if self.in_flight.is_empty() => break,
                Next::Over => LONGEST,
            };
            self.ready.clear();
            if !world.wait(left.clamp(0, LONGEST), &mut self.ready) {
                break;
            }
            // Read before the replies are, so that none is given up that has arrived.
            let now = world.clock();
            for index in 0..self.ready.len() {
                self.receive(self.ready[index], world);
            }
            self.take_lost(now);
            if now - self.reported > self.report_every {
                self.report(now, world);
            }
            world.emit(self.messages.octets());
        }
        let now = world.clock();
        self.take_lost(now);
        self.report(now, world);
        self.schedule.close();
    }

    /// The octets that have not been passed on yet.
    pub fn messages(&mut self) -> &mut Vec<u8> {
        self.messages.octets()
    }

    /// How many more queries may wait.
    fn room(&self) -> usize {
        match self.most {
            0 => usize::MAX,
            most => most.saturating_sub(self.in_flight.len()),
        }
    }

    /// Send the due queries, at most `MOST`.
    fn send(&mut self, now: i64, world: &mut impl World) {
        let most = self.room().min(MOST);
        self.leaving.clear();
        while self.leaving.len() < most {
            match self.schedule.due() {
                Next::Due(due) if self.pace.at(due) <= now => {
                    let (socket, query_id) = self.in_flight.place();
                    self.leaving.push(Leaving {
                        socket,
                        query_id,
                        question: self.schedule.take(),
                        planned: self.pace.take(due),
                    });
                }
                _ => break,
            }
        }
        let mut at = 0;
        while at < self.leaving.len() {
            let socket = self.leaving[at].socket;
            let same = self.leaving[at..].iter();
            let end = at + same.take_while(|each| each.socket == socket).count();
            self.send_from(socket, at, end, world);
            at = end;
        }
    }

    /// Send queries from one socket.
    fn send_from(&mut self, socket: usize, at: usize, end: usize, world: &mut impl World) {
        self.datagrams.clear();
        for each in &self.leaving[at..end] {
            let query = self.queries.get(each.question as usize);
            self.datagrams
                .push(each.query_id, query.map_or(&[], |query| &query[..]));
        }
        self.refused.clear();
        let before = world.clock();
        world.send(socket, &self.datagrams, &mut self.refused);
        let after = world.clock();
        let left = world.left();
        self.sent_times.ended(before, after, end - at, left);
        self.messages.sent_within(before, after, end - at);
        for (index, each) in self.leaving[at..end].iter().enumerate() {
            let is_refused = self.refused.contains(&index);
            let sent = self.sent_times.of(index);
            let waiting = Waiting {
                question: each.question,
                planned: each.planned,
                sent,
                marks: if is_refused {
                    0
                } else {
                    self.pace.marks(each.planned, sent, after)
                },
            };
            if is_refused {
                self.messages.add(&waiting, NOT_SENT, 0, 0);
            } else if let Some(before) = self.in_flight.begin(socket, each.query_id, waiting) {
                self.messages.add(&before, LOST, 0, 0);
            }
        }
    }

    fn receive(&mut self, socket: usize, world: &mut impl World) {
        loop {
            let (count, is_more) = world.receive(socket);
            let now = world.clock();
            for index in 0..count {
                let (octets, stamp) = world.datagram(index);
                if octets.len() < HEADER_LEN {
                    self.messages.unmatched(Unmatched::NoQuery, now);
                    continue;
                }
                let query_id = u16::from_be_bytes([octets[0], octets[1]]);
                let queries = &self.queries;
                let misfit = |number: u32| {
                    let query = queries.get(number as usize).map_or(&[][..], |query| query);
                    misfit(query, octets)
                };
                let waiting = match self.in_flight.answered(socket, query_id, misfit) {
                    Ok(waiting) => waiting,
                    Err(why) => {
                        self.messages.unmatched(why, now);
                        continue;
                    }
                };
                let received = if stamp == 0 {
                    self.messages.unstamped(now);
                    now
                } else {
                    stamp.clamp(waiting.sent, now.max(waiting.sent))
                };
                let flags = u16::from_be_bytes([octets[2], octets[3]]);
                let reply = self.messages.number(waiting.question, &octets[2..]);
                self.messages.add(&waiting, received, flags, reply);
            }
            if !is_more {
                return;
            }
        }
    }

    fn take_lost(&mut self, now: i64) {
        self.lost.clear();
        self.in_flight.lost(now, &mut self.lost);
        for waiting in &self.lost {
            self.messages.add(waiting, LOST, 0, 0);
        }
    }

    fn report(&mut self, now: i64, world: &mut impl World) {
        self.messages.dropped(world.dropped(), now);
        self.messages.report();
        self.reported = now;
    }
}

/// Why a message is no reply to a query without its ID; names compare in any case.
fn misfit(query: &[u8], reply: &[u8]) -> Option<Unmatched> {
    if reply[2] & QR == 0 {
        return Some(Unmatched::NoReply);
    }
    let asked = query.get(HEADER_LEN - 2..).unwrap_or_default();
    let has_opt = query.get(HEADER_LEN - 3).is_some_and(|&count| count != 0);
    let end = if has_opt {
        asked.len().min(name_len(asked) + TYPE_AND_CLASS)
    } else {
        asked.len()
    };
    let own = &asked[..end];
    let name = end.saturating_sub(TYPE_AND_CLASS);
    let found = reply.get(HEADER_LEN..HEADER_LEN + end).unwrap_or_default();
    let is_same = found.len() == own.len()
        && (found == own
            || (found[name..] == own[name..] && found[..name].eq_ignore_ascii_case(&own[..name])));
    let is_one = reply[4..6] == [0, 1];
    (!is_same || !is_one).then_some(Unmatched::OtherQuestion)
}
