//! When the kernel received a datagram, and what a socket dropped: SO_TIMESTAMPNS and SO_MEMINFO (socket(7)).
//!
//! Rule 1: the kernel's stamps are wall clock time. The difference to the monotonic clock changes only when somebody sets
//!         the clock, as both are slewed alike; after such a step, the stamps of one reading are not used.

use std::os::fd::RawFd;

use libc::{c_int, socklen_t};

use super::{monotonic, read_clock};

const SECOND: i64 = 1_000_000_000;
/// Nanoseconds by which two readings of the difference may disagree.
const TOLERANCE: i64 = 1000;
const HEADER_LEN: usize = size_of::<libc::cmsghdr>();
/// Words of SO_MEMINFO, and the one with the dropped datagrams.
const MEMINFO_LEN: usize = 9;
const DROPS: usize = 8;

/// Let the kernel stamp the datagrams that a socket receives; without that, the stamps are missing.
pub fn stamp(fd: RawFd) {
    let one: c_int = 1;
    // SAFETY: the value lives through the call, which is told its size.
    unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const one).cast(),
            size_of_val(&one) as socklen_t,
        );
    }
}

/// The datagrams that a socket had no room for, modulo 2^32; 0 if the kernel does not tell.
#[must_use]
pub fn dropped(fd: RawFd) -> u32 {
    let mut words = [0_u32; MEMINFO_LEN];
    let mut length = size_of_val(&words) as socklen_t;
    // SAFETY: both values live through the call, which is told the size.
    unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &raw mut length,
        );
    }
    words[DROPS]
}

/// The difference between the wall clock and the monotonic one.
#[derive(Clone, Default)]
pub struct WallClock {
    offset: i64,
}

impl WallClock {
    /// Read it, in nanoseconds; None if it has changed since the last reading.
    pub fn offset(&mut self) -> Option<i64> {
        let before = signed(monotonic());
        let wall = signed(read_clock(libc::CLOCK_REALTIME));
        let after = signed(monotonic());
        let (low, high) = (wall - after, wall - before);
        if low - TOLERANCE <= self.offset && self.offset <= high + TOLERANCE {
            return Some(self.offset);
        }
        self.offset = low + (high - low) / 2;
        None
    }
}

/// The stamp among control messages, in nanoseconds of the wall clock.
#[must_use]
pub fn stamp_in(control: &[u8]) -> Option<i64> {
    let mut rest = control;
    while let Some(head) = rest.get(..HEADER_LEN) {
        let length = usize::from_ne_bytes(head[..size_of::<usize>()].try_into().ok()?);
        let content = rest.get(HEADER_LEN..length)?;
        let is = |at: usize, value: c_int| head[at..at + 4] == value.to_ne_bytes();
        if is(HEADER_LEN - 8, libc::SOL_SOCKET) && is(HEADER_LEN - 4, libc::SCM_TIMESTAMPNS) {
            let (seconds, more) = content.split_at_checked(content.len() / 2)?;
            return Some(word(seconds)? * SECOND + word(more)?);
        }
        rest = rest.get(length.next_multiple_of(size_of::<usize>())..)?;
    }
    None
}

/// A part of a timespec, which has 32 or 64 bits.
fn word(octets: &[u8]) -> Option<i64> {
    match octets.len() {
        8 => octets.try_into().ok().map(i64::from_ne_bytes),
        4 => octets
            .try_into()
            .ok()
            .map(|word| i32::from_ne_bytes(word).into()),
        _ => None,
    }
}

fn signed(nanoseconds: u64) -> i64 {
    i64::try_from(nanoseconds).unwrap_or(i64::MAX)
}
