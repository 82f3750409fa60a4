//! The sockets, the pipe and the clock of a load test.
//!
//! Rule 1: sockets are connected, so that the kernel drops what does not come from the target; what it reports of an
//!         earlier query (a closed port) is no error of the next one.
//! Rule 2: while nothing is waited for, only sockets that expect replies are read, if they are few; all are polled at
//!         least every POLL_EVERY.
//! Rule 3: the pipe is never waited for, and a turn writes no more than PIECE octets, which takes some microseconds.

use std::io;
use std::os::fd::RawFd;

use super::{Datagrams, World};
use crate::system::{BATCH_LEN, Polled, QueryBatch, Receiver, monotonic, write};

const PIECE: usize = 8192;
const MOST_ERRORS: usize = 3;
const FEW: usize = 2;
/// Nanoseconds.
const POLL_EVERY: i64 = 1_000_000;

/// File descriptors that their owner keeps open.
pub struct Sockets {
    sockets: Vec<RawFd>,
    /// How many replies each socket expects; those that never came are in it.
    expected: Vec<usize>,
    polled: Polled,
    polled_at: i64,
    pipe: RawFd,
    receiver: Receiver,
    batch: QueryBatch,
    written: usize,
    is_over: bool,
}

impl Sockets {
    /// Send from connected `sockets`, write messages to `pipe`, and end when `stop` is readable; none of them blocks.
    #[must_use]
    pub fn new(sockets: Vec<RawFd>, stop: RawFd, pipe: RawFd) -> Self {
        Self {
            expected: vec![0; sockets.len()],
            polled_at: 0,
            polled: Polled::new(sockets.iter().copied().chain([stop])),
            sockets,
            pipe,
            receiver: Receiver::new(false),
            batch: QueryBatch::default(),
            written: 0,
            is_over: false,
        }
    }

    /// Write what is left, waiting for the pipe.
    ///
    /// # Errors
    /// The kernel's, such as that nobody reads any more.
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
            let expecting = self.expected.iter().enumerate();
            ready.extend(expecting.filter_map(|(socket, &count)| (count > 0).then_some(socket)));
            if ready.len() <= FEW {
                return !self.is_over;
            }
            ready.clear();
        }
        self.polled.wait(nanoseconds);
        self.polled_at = self.clock();
        ready.extend(self.polled.ready());
        let stop = self.sockets.len();
        !self.is_over && ready.last() != Some(&stop)
    }

    fn send(&mut self, socket: usize, datagrams: &Datagrams, refused: &mut Vec<usize>) {
        let fd = self.sockets[socket];
        let (mut at, mut errors) = (0, 0);
        while at < datagrams.len() {
            match self.batch.send(fd, datagrams.iter().skip(at)) {
                Ok(count) => {
                    at += count;
                    self.expected[socket] += count;
                    errors = 0;
                }
                Err(error) => match error.raw_os_error() {
                    // An earlier query's; reporting it, the kernel forgets it.
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
        self.expected[socket] = self.expected[socket].saturating_sub(count);
        (count, count == BATCH_LEN)
    }

    fn datagram(&self, index: usize) -> &[u8] {
        self.receiver.packet(index).query
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
        // Moving what is left costs time, so that it is done seldom.
        if self.written == messages.len() {
            messages.clear();
            self.written = 0;
        } else if self.written > messages.len() / 2 {
            messages.drain(..self.written);
            self.written = 0;
        }
    }
}
