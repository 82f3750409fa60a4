//! sendmmsg for connected sockets, poll for many of them, and write.
//!
//! Rule 1: what the kernel reads or writes is borrowed for the length of the call.

use std::io;
use std::os::fd::RawFd;
use std::ptr;

use libc::{c_int, iovec, mmsghdr, pollfd};

use super::BATCH_LEN;

const FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
const SECOND: i64 = 1_000_000_000;

/// Sends datagrams to the peer of a connected socket.
pub struct QueryBatch {
    iovecs: [iovec; BATCH_LEN],
    headers: [mmsghdr; BATCH_LEN],
}

// SAFETY: the pointers are only used within send(), which fills them anew.
unsafe impl Send for QueryBatch {}

impl Default for QueryBatch {
    fn default() -> Self {
        // SAFETY: all-zero octets are valid vectors and headers, without anything.
        unsafe {
            Self {
                iovecs: std::mem::zeroed(),
                headers: std::mem::zeroed(),
            }
        }
    }
}

impl QueryBatch {
    /// Send the first datagrams, `BATCH_LEN` at most, without waiting; return how many were sent, at least one.
    ///
    /// # Errors
    /// The kernel's, about the first one.
    pub fn send<'a>(
        &mut self,
        fd: RawFd,
        datagrams: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<usize> {
        let mut count = 0;
        for (octets, vector) in datagrams.zip(&mut self.iovecs) {
            vector.iov_base = octets.as_ptr().cast_mut().cast();
            vector.iov_len = octets.len();
            count += 1;
        }
        for (vector, header) in self.iovecs[..count].iter_mut().zip(&mut self.headers) {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        if count == 0 {
            return Ok(0);
        }
        // SAFETY: so many headers lead to what the caller lends; the kernel only reads there.
        let sent = unsafe { libc::sendmmsg(fd, self.headers.as_mut_ptr(), count as _, FLAGS as _) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// File descriptors that are waited for.
pub struct Polled {
    fds: Vec<pollfd>,
}

impl Polled {
    /// Descriptors that their owner keeps open.
    #[must_use]
    pub fn new(fds: impl Iterator<Item = RawFd>) -> Self {
        let pollfd = |fd| pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        Self {
            fds: fds.map(pollfd).collect(),
        }
    }

    /// Wait at most so many nanoseconds until one is readable, closed or has an error.
    pub fn wait(&mut self, nanoseconds: i64) {
        let nanoseconds = nanoseconds.max(0);
        let timeout = libc::timespec {
            tv_sec: (nanoseconds / SECOND) as _,
            tv_nsec: (nanoseconds % SECOND) as _,
        };
        let (fds, count) = (self.fds.as_mut_ptr(), self.fds.len());
        // SAFETY: there are so many descriptors, and all live through the call.
        let ready = unsafe { libc::ppoll(fds, count as _, &raw const timeout, ptr::null()) };
        if ready < 0 {
            for each in &mut self.fds {
                each.revents = 0;
            }
        }
    }

    /// The places of those that are.
    pub fn ready(&self) -> impl Iterator<Item = usize> {
        let places = self.fds.iter().enumerate();
        places.filter_map(|(place, each)| (each.revents != 0).then_some(place))
    }
}

/// Write to a file descriptor; return how many octets.
///
/// # Errors
/// The kernel's.
pub fn write(fd: RawFd, octets: &[u8]) -> io::Result<usize> {
    // SAFETY: so many octets can be read.
    let written = unsafe { libc::write(fd, octets.as_ptr().cast(), octets.len()) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}
