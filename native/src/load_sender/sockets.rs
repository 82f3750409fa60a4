//! The sockets, the pipe and the clock of a load test.
//!
//! Rule 1: sockets are connected, so that the kernel drops datagrams from other addresses; an error that it reports of
//!         an earlier query (a closed port) is no error of the next one.
//! Rule 2: sleeping costs as much as several queries (a timer, two switches, and the server that must be woken), so a wait
//!         lasts at least SHORTEST, and what becomes due meanwhile leaves together. A sleep ends as much earlier as sleeps
//!         usually take too long; the rest is spent reading the clock, but not in a short wait, which would cost more than
//!         the queries.
//! Rule 3: the kernel says when a reply arrived, so nobody hurries to read it: replies are read every READ_EVERY, many in a
//!         call. It also stamps a query every STAMP_EVERY as it leaves (sent_times.rs): a stamp costs as much as a query.
//! Rule 4: the pipe is never waited for, and an iteration writes no more than PIECE octets, which takes some
//!         microseconds.

use std::io;
use std::os::fd::RawFd;
use std::thread;
use std::time::Duration;

use super::{Datagrams, World};
use crate::system::{
    BATCH_LEN, Polled, QueryBatch, Receiver, WallClock, dropped, monotonic, sent_stamp, stamp,
    stamp_in, write,
};

const PIECE: usize = 8192;
const MOST_ERRORS: usize = 3;
/// Nanoseconds; in the meantime a socket of ordinary size, which has room for 277 replies, gets fewer.
const READ_EVERY: i64 = 500_000;
/// Nanoseconds.
const STAMP_EVERY: i64 = 100_000;
/// Nanoseconds.
const SHORTEST: i64 = 35_000;
/// Nanoseconds by which sleeps may end earlier than asked for, and by which this changes after each.
const MOST_EARLY: i64 = 40_000;
const STEP: i64 = 250;

/// File descriptors that their owner keeps open.
pub struct Sockets {
    sockets: Vec<RawFd>,
    polled: Polled,
    read_at: i64,
    early: i64,
    pipe: RawFd,
    receiver: Receiver,
    wall_clocks: Vec<WallClock>,
    offset: Option<i64>,
    dropped: Vec<u32>,
    batch: QueryBatch,
    stamped: Stamped,
    written: usize,
    is_over: bool,
}

/// The query of the last call that the kernel was to stamp.
#[derive(Default)]
struct Stamped {
    last: Option<(usize, usize)>,
    before: i64,
    next: i64,
    turn: usize,
    /// Whether the kernel stamps nothing.
    is_off: bool,
}

impl Stamped {
    /// A call of some queries from a socket begins; return the index of the one to stamp, each in turn.
    fn begin(&mut self, now: i64, socket: usize, count: usize) -> Option<usize> {
        self.last = None;
        if now >= self.next && !self.is_off {
            (self.before, self.next) = (now, now + STAMP_EVERY);
            self.turn += 1;
            self.last = Some((socket, self.turn % count));
        }
        self.last.map(|each| each.1)
    }
}

impl Sockets {
    /// Send from connected `sockets`, write messages to `pipe`, and end when `stop` is readable; none of them blocks.
    ///
    /// # Errors
    /// The kernel's, if the sockets cannot be waited for.
    pub fn new(sockets: Vec<RawFd>, stop: RawFd, pipe: RawFd) -> io::Result<Self> {
        let mut stamped = Stamped::default();
        for &each in &sockets {
            stamped.is_off |= !stamp(each);
        }
        let mut wall_clock = WallClock::default();
        wall_clock.offset();
        Ok(Self {
            dropped: sockets.iter().map(|&each| dropped(each)).collect(),
            wall_clocks: vec![wall_clock; sockets.len()],
            offset: None,
            read_at: 0,
            early: 0,
            polled: Polled::new(sockets.iter().copied().chain([stop]))?,
            sockets,
            pipe,
            receiver: Receiver::new(true),
            batch: QueryBatch::default(),
            stamped,
            written: 0,
            is_over: false,
        })
    }

    /// Wait for these nanoseconds, but SHORTEST at least if there are any; return the time.
    fn sleep(&mut self, nanoseconds: i64) -> i64 {
        let begin = self.clock();
        if nanoseconds <= 0 {
            return begin;
        }
        let end = begin + nanoseconds.max(SHORTEST);
        let asked = end - begin - self.early;
        thread::sleep(Duration::from_nanos(asked.unsigned_abs()));
        let mut now = self.clock();
        let step = if now - begin > asked + self.early {
            STEP
        } else {
            -STEP
        };
        self.early = (self.early + step).clamp(0, MOST_EARLY);
        while now < end && nanoseconds > SHORTEST {
            std::hint::spin_loop();
            now = self.clock();
        }
        now
    }

    /// Write the rest, waiting for the pipe.
    ///
    /// # Errors
    /// The kernel's, for example if the reader has closed the pipe.
    pub fn finish(&mut self, messages: &[u8]) -> io::Result<()> {
        crate::system::set_blocking(self.pipe, true)?;
        let mut rest = messages.get(self.written..).unwrap_or_default();
        while !rest.is_empty() {
            match write(self.pipe, rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl World for Sockets {
    fn clock(&mut self) -> i64 {
        i64::try_from(monotonic()).unwrap_or(i64::MAX)
    }

    fn wait(&mut self, nanoseconds: i64, ready: &mut Vec<usize>) -> bool {
        if nanoseconds > READ_EVERY {
            self.polled.wait(nanoseconds - READ_EVERY / 2);
            self.read_at = self.clock();
        } else {
            let now = self.sleep(nanoseconds);
            if now - self.read_at < READ_EVERY {
                return !self.is_over;
            }
            self.read_at = now;
            self.polled.wait(0);
        }
        let stop = self.sockets.len();
        for place in self.polled.ready() {
            if place == stop {
                return false;
            }
            ready.push(place);
        }
        !self.is_over
    }

    fn send(&mut self, socket: usize, datagrams: &Datagrams, refused: &mut Vec<usize>) {
        let fd = self.sockets[socket];
        let (mut at, mut errors) = (0, 0);
        let now = self.clock();
        let stamped = self.stamped.begin(now, socket, datagrams.len().max(1));
        while at < datagrams.len() {
            let stamped = stamped.and_then(|index| index.checked_sub(at));
            match self.batch.send(fd, datagrams.iter().skip(at), stamped) {
                Ok(count) => {
                    at += count;
                    errors = 0;
                }
                Err(error) => match error.raw_os_error() {
                    // The error is that of an earlier query; the kernel clears it when it reports it.
                    Some(libc::ECONNREFUSED | libc::EINTR) if errors < MOST_ERRORS => errors += 1,
                    Some(libc::EAGAIN | libc::ENOBUFS) => {
                        refused.extend(at..datagrams.len());
                        return;
                    }
                    _ => {
                        refused.push(at);
                        at += 1;
                        errors = 0;
                    }
                },
            }
        }
    }

    fn left(&mut self) -> Option<(usize, i64)> {
        let (socket, index) = self.stamped.last?;
        let offset = self.wall_clocks[socket].offset()?;
        loop {
            // One of an earlier call may have come late.
            let at = sent_stamp(self.sockets[socket])? - offset;
            if at >= self.stamped.before {
                return Some((index, at));
            }
        }
    }

    fn receive(&mut self, socket: usize) -> (usize, bool) {
        let count = self
            .receiver
            .receive(self.sockets[socket], false)
            .unwrap_or(0);
        if count > 0 {
            self.offset = self.wall_clocks[socket].offset();
        } else {
            // A stamp that came late makes the socket readable.
            while sent_stamp(self.sockets[socket]).is_some() {}
        }
        (count, count == BATCH_LEN)
    }

    fn datagram(&self, index: usize) -> (&[u8], i64) {
        let packet = self.receiver.packet(index);
        let times = (stamp_in(packet.control), self.offset);
        let received = match times {
            (Some(stamp), Some(offset)) => stamp - offset,
            _ => 0,
        };
        (packet.query, received)
    }

    fn dropped(&mut self) -> u32 {
        let mut found = 0;
        for (&socket, before) in self.sockets.iter().zip(&mut self.dropped) {
            let now = dropped(socket);
            found += now.wrapping_sub(*before);
            *before = now;
        }
        found
    }

    fn emit(&mut self, messages: &mut Vec<u8>) {
        if self.written == messages.len() {
            return;
        }
        let end = messages.len().min(self.written + PIECE);
        match write(self.pipe, &messages[self.written..end]) {
            Ok(count) => self.written += count,
            Err(error) => self.is_over |= error.raw_os_error() == Some(libc::EPIPE),
        }
        // Moving the rest costs time, so it is done rarely.
        if self.written == messages.len() {
            messages.clear();
            self.written = 0;
        } else if self.written > messages.len() / 2 {
            messages.drain(..self.written);
            self.written = 0;
        }
    }
}
