//! The messages of the sender to the counting process, as in hsdns/load/outcome.py.
//!
//! Rule 1: each distinct reply is sent once, with a number that outcomes refer to (recent_replies.rs).
//! Rule 2: outcomes that are counted here are sent as counts, and individually only if replies are wanted.

use super::counts::{Counts, MICROSECOND, What, slot_of};
use super::in_flight::{Unmatched, Waiting};
use super::recent_replies::RecentReplies;

/// In place of the time at which a reply arrived.
pub const LOST: i64 = 0;
/// In place of the time at which a reply arrived.
pub const NOT_SENT: i64 = -1;
/// In the flags of an outcome: the query was sent late.
pub const LATE: u32 = 1 << 16;
/// In the flags of an outcome: the query left at its time or later, as the system call was held up.
pub const UNSURE: u32 = 1 << 17;

const OUTCOMES: u8 = b'o';
const ANSWERS: u8 = b'a';
const COUNTS: u8 = b'c';
const REPLY: u8 = b'r';
const FORGET: u8 = b'f';

/// The messages that are not yet written to the pipe.
pub struct Messages {
    kinds: Vec<u32>,
    wants_replies: bool,
    begin: i64,
    counts: Counts,
    outcomes: Vec<u8>,
    replies: RecentReplies,
    reply_count: u32,
    octets: Vec<u8>,
}

impl Messages {
    /// With the kinds of the questions, outcomes are counted; without, they are sent individually.
    #[must_use]
    pub fn new(kinds: Vec<u32>, wants_replies: bool) -> Self {
        Self {
            kinds,
            wants_replies,
            begin: 0,
            counts: Counts::default(),
            outcomes: Vec::new(),
            replies: RecentReplies::default(),
            reply_count: 0,
            octets: Vec::new(),
        }
    }

    /// The start time of the schedule.
    pub fn begin(&mut self, begin: i64) {
        self.begin = begin;
    }

    /// The number of a reply without its ID, 0 if replies are not wanted; a new reply is added to the messages.
    pub fn number(&mut self, question: u32, content: &[u8]) -> u32 {
        if !self.wants_replies {
            return 0;
        }
        if let Some(number) = self.replies.get(content) {
            return number;
        }
        self.reply_count += 1;
        let dropped = self.replies.add(content, self.reply_count);
        if !dropped.is_empty() {
            self.report();
            self.frame(FORGET, 4 * dropped.len());
            for number in dropped {
                self.octets.extend_from_slice(&number.to_be_bytes());
            }
        }
        self.frame(REPLY, 8 + content.len());
        self.octets
            .extend_from_slice(&self.reply_count.to_be_bytes());
        self.octets.extend_from_slice(&question.to_be_bytes());
        self.octets.extend_from_slice(content);
        self.reply_count
    }

    /// Record an outcome.
    pub fn add(&mut self, waiting: &Waiting, received: i64, flags: u16, reply: u32) {
        let flags = u32::from(flags) | waiting.marks;
        if let Some(&kind) = self.kinds.get(waiting.question as usize) {
            let planned = waiting.planned - self.begin;
            self.counts.add(kind, planned, waiting, received, flags);
            if !self.wants_replies || received <= LOST {
                return;
            }
        }
        for number in [waiting.question, flags, reply] {
            self.outcomes.extend_from_slice(&number.to_ne_bytes());
        }
        for time in [waiting.planned, waiting.sent, received] {
            self.outcomes.extend_from_slice(&time.to_ne_bytes());
        }
    }

    /// Record a reply that no query waits for; by reason.
    pub fn unmatched(&mut self, why: Unmatched, now: i64) {
        self.counts
            .note(What::Unmatched, now - self.begin, why as u32, 1);
    }

    /// Record a reply without a time of the kernel.
    pub fn unstamped(&mut self, now: i64) {
        self.counts.note(What::Unstamped, now - self.begin, 0, 1);
    }

    /// Record the system call that sent so many queries.
    pub fn sent_within(&mut self, before: i64, after: i64, count: usize) {
        let (at, slot) = (after - self.begin, slot_of((after - before) / MICROSECOND));
        self.counts.note(What::SentWithin, at, slot, count as u32);
    }

    /// Record datagrams that the sockets had no room for.
    pub fn dropped(&mut self, count: u32, now: i64) {
        if count > 0 {
            self.counts.note(What::Dropped, now - self.begin, 0, count);
        }
    }

    /// Add the recorded outcomes to the messages.
    pub fn report(&mut self) {
        if !self.counts.is_empty() {
            self.frame(COUNTS, self.counts.len());
            self.counts.take(&mut self.octets);
        }
        if !self.outcomes.is_empty() {
            let kind = if self.kinds.is_empty() {
                OUTCOMES
            } else {
                ANSWERS
            };
            self.frame(kind, self.outcomes.len());
            self.octets.append(&mut self.outcomes);
        }
    }

    /// The messages to be written.
    pub fn octets(&mut self) -> &mut Vec<u8> {
        &mut self.octets
    }

    /// Begin a message.
    fn frame(&mut self, kind: u8, length: usize) {
        self.octets.push(kind);
        self.octets
            .extend_from_slice(&(length as u32).to_ne_bytes());
    }
}
