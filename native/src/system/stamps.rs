//! When the kernel sent or received a datagram, and what a socket dropped: SO_TIMESTAMPING (the kernel's
//! Documentation/networking/timestamping.rst) and SO_MEMINFO (socket(7)).
//!
//! Rule 1: the kernel's stamps are wall clock time. The difference to the monotonic clock changes only when somebody sets
//!         the clock, as both are slewed alike; after such a step, the stamps of one reading are not used.

use std::os::fd::RawFd;

use libc::{c_int, socklen_t};

use super::{CMSG_HEADER_LEN, WORD_LEN, monotonic, read_clock, set_option, write_control};

const SECOND: i64 = 1_000_000_000;
/// Nanoseconds by which two readings of the difference may disagree.
const TOLERANCE: i64 = 1000;
/// Octets of the control messages that come with the stamp of a sent datagram: the stamp and IP_RECVERR.
const STAMP_WORDS: usize = 32;
/// Words of SO_MEMINFO, and the one with the dropped datagrams.
const MEMINFO_LEN: usize = 9;
const DROPS: usize = 8;
/// Stamps of software: of all that is received; of what is sent, without its octets, where StampRequest asks for them.
const WANTED: u32 = libc::SOF_TIMESTAMPING_RX_SOFTWARE
    | libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;

/// Let the kernel stamp the datagrams of a socket; return whether it does.
pub fn stamp(fd: RawFd) -> bool {
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &WANTED).is_ok()
}

/// A control message that lets the kernel stamp a datagram when it leaves.
#[repr(align(8))]
pub struct StampRequest([u8; CMSG_HEADER_LEN + WORD_LEN]);

impl StampRequest {
    /// Make it.
    #[must_use]
    pub fn new() -> Self {
        let mut octets = [0; CMSG_HEADER_LEN + WORD_LEN];
        let wanted = libc::SOF_TIMESTAMPING_TX_SOFTWARE.to_ne_bytes();
        write_control(
            &mut octets,
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            &wanted,
        );
        Self(octets)
    }

    /// Its octets.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        &self.0
    }
}

/// Take the next stamp of a sent datagram, in nanoseconds of the wall clock; None if there is none.
#[must_use]
pub fn sent_stamp(fd: RawFd) -> Option<i64> {
    let mut words = [0_u64; STAMP_WORDS];
    // SAFETY: all-zero octets are a valid header; the kernel writes into the words, which live through the call, and
    // says how many octets.
    let control = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_control = words.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&words) as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        if libc::recvmsg(fd, &raw mut header, flags) < 0 {
            return None;
        }
        let length = (header.msg_controllen as usize).min(size_of_val(&words));
        std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), length)
    };
    Some(stamp_in(control).unwrap_or(0))
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
    while let Some(head) = rest.get(..CMSG_HEADER_LEN) {
        let length = usize::from_ne_bytes(head[..size_of::<usize>()].try_into().ok()?);
        let content = rest.get(CMSG_HEADER_LEN..length)?;
        let is = |at: usize, value: c_int| head[at..at + 4] == value.to_ne_bytes();
        if is(CMSG_HEADER_LEN - 8, libc::SOL_SOCKET)
            && is(CMSG_HEADER_LEN - 4, libc::SCM_TIMESTAMPING)
        {
            // Three times of equal length; that of software is the first.
            let (seconds, more) = content.split_at_checked(content.len() / 6)?;
            return Some(word(seconds)? * SECOND + word(more.get(..seconds.len())?)?);
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
