//! System calls that Rust's library lacks, behind safe functions: the only place with unsafe code.
//!
//! Rule 1: a file descriptor is borrowed, never closed here; its owner keeps it open for as long as it is used.

#![allow(unsafe_code)] // system calls take pointers

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use libc::c_int;

pub use queries::{Polled, QueryBatch, write};
pub use receiver::{CONTROL_LEN, Packet, QUERY_LEN, Receiver};
pub use sender::{Message, Sender};
pub use stamps::{WallClock, dropped, sent_stamp, stamp, stamp_in};

mod queries;
mod receiver;
mod sender;
pub mod slice;
mod stamps;

#[cfg(not(target_os = "linux"))]
compile_error!("recvmmsg and sendmmsg are Linux calls; elsewhere hsdns uses its Python twin");

/// The maximum of datagrams in a call; more gain nothing, because the time per datagram is the kernel's.
pub const BATCH_LEN: usize = 64;
const CMSG_HEADER_LEN: usize = size_of::<libc::cmsghdr>();
const WORD_LEN: usize = size_of::<usize>();
#[cfg(target_arch = "x86_64")]
const CACHE_LINE_LEN: usize = 64;
/// Ten addresses with their dependencies and key; the CPU itself prefetches the rest.
#[cfg(target_arch = "x86_64")]
const MOST_PREFETCHED: usize = 5 * CACHE_LINE_LEN;

/// Nanoseconds of the monotonic clock, the one of Python's time.monotonic().
#[must_use]
pub fn monotonic() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a timespec that lives through the call.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Load a value, or its start, into the CPU's cache.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start: *const i8 = ptr::from_ref(value).cast();
        // SAFETY: a prefetch reads nothing, whatever the address.
        unsafe {
            for at in (0..size_of_val(value).min(MOST_PREFETCHED)).step_by(CACHE_LINE_LEN) {
                _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(at));
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

//----- Signals, sockets, events ----------------------------------------------

/// Blocks signals for this thread while it exists, so that the interpreter's main thread gets them.
pub struct SignalsBlocked {
    before: libc::sigset_t,
}

impl SignalsBlocked {
    /// Block all signals for this thread.
    #[must_use]
    pub fn new() -> Self {
        // SAFETY: both sets live through the calls; a zeroed set is a valid one.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self { before }
        }
    }
}

impl Default for SignalsBlocked {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set was filled by new().
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
        }
    }
}

/// Set whether receive calls wait.
///
/// # Errors
/// The descriptor is closed.
pub fn set_blocking(fd: RawFd, blocking: bool) -> io::Result<()> {
    // SAFETY: these commands take no pointer.
    unsafe {
        let flags = checked(libc::fcntl(fd, libc::F_GETFL))?;
        let wanted = if blocking {
            flags & !libc::O_NONBLOCK
        } else {
            flags | libc::O_NONBLOCK
        };
        checked(libc::fcntl(fd, libc::F_SETFL, wanted))?;
    }
    Ok(())
}

/// Set how long receive calls wait at most.
///
/// # Errors
/// The descriptor is no socket.
pub fn set_receive_timeout(fd: RawFd, timeout: Duration) -> io::Result<()> {
    let value = libc::timeval {
        tv_sec: timeout.as_secs() as _,
        tv_usec: timeout.subsec_micros() as _,
    };
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &value)
}

/// Ask for a receive buffer of so many octets, which the kernel cuts to net.core.rmem_max.
pub fn set_receive_buffer(fd: RawFd, octets: c_int) {
    let _ = set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &octets);
}

/// Set an option of a socket to an integer or a structure of the kernel's.
fn set_option<T: Copy>(fd: RawFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let (start, len) = (ptr::from_ref(value).cast(), size_of::<T>());
    // SAFETY: the value lives through the call, which is told its size.
    unsafe {
        checked(libc::setsockopt(
            fd,
            level,
            name,
            start,
            len as libc::socklen_t,
        ))
    }?;
    Ok(())
}

/// Write a control message (cmsg(3)) into zeroed octets; return its length, without padding.
fn write_control(out: &mut [u8], level: c_int, kind: c_int, content: &[u8]) -> usize {
    let len = CMSG_HEADER_LEN + content.len();
    out[..WORD_LEN].copy_from_slice(&len.to_ne_bytes());
    out[CMSG_HEADER_LEN - 8..CMSG_HEADER_LEN - 4].copy_from_slice(&level.to_ne_bytes());
    out[CMSG_HEADER_LEN - 4..CMSG_HEADER_LEN].copy_from_slice(&kind.to_ne_bytes());
    out[CMSG_HEADER_LEN..len].copy_from_slice(content);
    len
}

/// Fill with random octets that nobody can predict; False if the kernel has none.
pub fn random(octets: &mut [u8]) -> bool {
    // SAFETY: so many octets can be written.
    let got = unsafe { libc::getrandom(octets.as_mut_ptr().cast(), octets.len(), 0) };
    usize::try_from(got) == Ok(octets.len())
}

/// A file descriptor that is readable while it is set.
pub struct Event {
    fd: OwnedFd,
}

impl Event {
    /// Make one that is not set.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes no pointer; nothing else owns the descriptor that it returns.
        unsafe {
            let fd = checked(libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC))?;
            Ok(Self {
                fd: OwnedFd::from_raw_fd(fd),
            })
        }
    }

    /// Its descriptor.
    #[must_use]
    pub fn fileno(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Make it readable.
    pub fn set(&self) {
        let one: u64 = 1;
        // SAFETY: eight octets can be read.
        unsafe { libc::write(self.fileno(), (&raw const one).cast(), size_of::<u64>()) };
    }

    /// Make it unreadable.
    pub fn clear(&self) {
        let mut count: u64 = 0;
        // SAFETY: eight octets can be written.
        unsafe { libc::read(self.fileno(), (&raw mut count).cast(), size_of::<u64>()) };
    }
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
