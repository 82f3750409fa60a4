//! The sockets, the pipe and the clock of a load test.
//!
//! Rule 1: sockets are connected, so that the kernel drops datagrams from other addresses; an error that it reports of
//!         an earlier query (a closed port) is no error of the next one.
//! Rule 2: between waits, only sockets that expect replies are read, if they are few; all are polled at least every
//!         POLL_EVERY.
//! Rule 3: the kernel says when a reply arrived, so that neither a slow process nor a batch adds to its latency. When a
//!         query left follows from the times before and after the system call, which is told as a span: each query of it
//!         takes as long as in the quickest recent call, because a call that took longer was interrupted.
//! Rule 4: the pipe is never waited for, and an iteration writes no more than PIECE octets, which takes some
//!         microseconds.

use std::io;
use std::os::fd::RawFd;

use super::{Datagrams, World};
use crate::system::{
    BATCH_LEN, Polled, QueryBatch, Receiver, WallClock, dropped, monotonic, stamp, stamp_in, write,
};

const PIECE: usize = 8192;
const MOST_ERRORS: usize = 3;
const FEW: usize = 2;
/// Nanoseconds.
const POLL_EVERY: i64 = 1_000_000;

/// The number of replies that each socket expects, including those that never arrived.
struct Expected {
    counts: Vec<usize>,
    /// The sockets that expect replies, in any order, and the position of each.
    sockets: Vec<usize>,
    places: Vec<usize>,
}

impl Expected {
    fn new(sockets: usize) -> Self {
        Self {
            counts: vec![0; sockets],
            sockets: Vec::with_capacity(sockets),
            places: vec![0; sockets],
        }
    }

    fn more(&mut self, socket: usize, count: usize) {
        if self.counts[socket] == 0 && count > 0 {
            self.places[socket] = self.sockets.len();
            self.sockets.push(socket);
        }
        self.counts[socket] += count;
    }

    fn fewer(&mut self, socket: usize, count: usize) {
        let before = self.counts[socket];
        self.counts[socket] = before.saturating_sub(count);
        if before > 0 && before <= count {
            let place = self.places[socket];
            self.sockets.swap_remove(place);
            if let Some(&moved) = self.sockets.get(place) {
                self.places[moved] = place;
            }
        }
    }
}

/// File descriptors that their owner keeps open.
pub struct Sockets {
    sockets: Vec<RawFd>,
    expected: Expected,
    polled: Polled,
    polled_at: i64,
    pipe: RawFd,
    receiver: Receiver,
    wall_clocks: Vec<WallClock>,
    offset: Option<i64>,
    dropped: Vec<u32>,
    batch: QueryBatch,
    written: usize,
    is_over: bool,
}

impl Sockets {
    /// Send from connected `sockets`, write messages to `pipe`, and end when `stop` is readable; none of them blocks.
    ///
    /// # Errors
    /// The kernel's, if the sockets cannot be waited for.
    pub fn new(sockets: Vec<RawFd>, stop: RawFd, pipe: RawFd) -> io::Result<Self> {
        for &each in &sockets {
            stamp(each);
        }
        let mut wall_clock = WallClock::default();
        wall_clock.offset();
        Ok(Self {
            expected: Expected::new(sockets.len()),
            dropped: sockets.iter().map(|&each| dropped(each)).collect(),
            wall_clocks: vec![wall_clock; sockets.len()],
            offset: None,
            polled_at: 0,
            polled: Polled::new(sockets.iter().copied().chain([stop]))?,
            sockets,
            pipe,
            receiver: Receiver::new(true),
            batch: QueryBatch::default(),
            written: 0,
            is_over: false,
        })
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
        if nanoseconds == 0 && self.clock() - self.polled_at < POLL_EVERY {
            let expecting = &self.expected.sockets;
            if expecting.len() <= FEW {
                ready.extend_from_slice(expecting);
                return !self.is_over;
            }
        }
        self.polled.wait(nanoseconds);
        self.polled_at = self.clock();
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
        while at < datagrams.len() {
            match self.batch.send(fd, datagrams.iter().skip(at)) {
                Ok(count) => {
                    at += count;
                    self.expected.more(socket, count);
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

    fn receive(&mut self, socket: usize) -> (usize, bool) {
        let count = self
            .receiver
            .receive(self.sockets[socket], false)
            .unwrap_or(0);
        if count > 0 {
            self.offset = self.wall_clocks[socket].offset();
        }
        self.expected.fewer(socket, count);
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
