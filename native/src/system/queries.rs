//! sendmmsg for connected sockets, with which the kernel stamps a datagram as it leaves, epoll for many of them, and write.
//!
//! Rule 1: memory that the kernel reads or writes is borrowed for the length of the call.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use libc::{c_int, epoll_event, iovec, mmsghdr, pollfd};

use super::BATCH_LEN;
use super::stamps::StampRequest;

const FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
const SECOND: i64 = 1_000_000_000;
/// The maximum of descriptors that one call reports.
const AT_ONCE: usize = 256;

/// Sends datagrams to the peer of a connected socket.
pub struct QueryBatch {
    iovecs: [iovec; BATCH_LEN],
    headers: [mmsghdr; BATCH_LEN],
    request: StampRequest,
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
                request: StampRequest::new(),
            }
        }
    }
}

impl QueryBatch {
    /// Send the first datagrams, `BATCH_LEN` at most, without waiting; return how many were sent, at least one.
    /// The kernel stamps the one with the index `stamped`, if there is such a one.
    ///
    /// # Errors
    /// The kernel's, about the first one.
    pub fn send<'a>(
        &mut self,
        fd: RawFd,
        datagrams: impl Iterator<Item = &'a [u8]>,
        stamped: Option<usize>,
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
        let request = self.request.octets();
        if let Some(header) = stamped.and_then(|index| self.headers.get_mut(index)) {
            header.msg_hdr.msg_control = request.as_ptr().cast_mut().cast();
            header.msg_hdr.msg_controllen = request.len() as _;
        }
        // SAFETY: this many headers point to memory that the caller lends; the kernel only reads there.
        let sent = unsafe { libc::sendmmsg(fd, self.headers.as_mut_ptr(), count as _, FLAGS as _) };
        if let Some(header) = stamped.and_then(|index| self.headers.get_mut(index)) {
            header.msg_hdr.msg_control = ptr::null_mut();
            header.msg_hdr.msg_controllen = 0;
        }
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// Any number of file descriptors to wait for.
pub struct Polled {
    epoll: OwnedFd,
    events: Vec<epoll_event>,
    ready: usize,
}

impl Polled {
    /// Descriptors that their owner keeps open.
    ///
    /// # Errors
    /// The kernel's, for example for files, which cannot be waited for.
    pub fn new(fds: impl Iterator<Item = RawFd>) -> io::Result<Self> {
        // SAFETY: what the kernel returns belongs to nobody else.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        for (place, fd) in fds.enumerate() {
            let mut event = epoll_event {
                events: libc::EPOLLIN as u32,
                u64: place as u64,
            };
            let add = libc::EPOLL_CTL_ADD;
            // SAFETY: the event lives through the call.
            if unsafe { libc::epoll_ctl(epoll.as_raw_fd(), add, fd, &raw mut event) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self {
            epoll,
            events: vec![epoll_event { events: 0, u64: 0 }; AT_ONCE],
            ready: 0,
        })
    }

    /// Wait at most this many nanoseconds until one is readable, closed or has an error.
    pub fn wait(&mut self, nanoseconds: i64) {
        let nanoseconds = nanoseconds.max(0);
        let timeout = libc::timespec {
            tv_sec: (nanoseconds / SECOND) as _,
            tv_nsec: (nanoseconds % SECOND) as _,
        };
        let epoll = self.epoll.as_raw_fd();
        let mut fd = pollfd {
            fd: epoll,
            events: libc::POLLIN,
            revents: 0,
        };
        self.ready = 0;
        // epoll_wait() takes milliseconds, and not every kernel has epoll_pwait2().
        // SAFETY: the descriptor and the time live through the call.
        if nanoseconds > 0
            && unsafe { libc::ppoll(&raw mut fd, 1, &raw const timeout, ptr::null()) } <= 0
        {
            return;
        }
        let (events, most) = (self.events.as_mut_ptr(), self.events.len() as c_int);
        // SAFETY: there is room for this many events.
        let ready = unsafe { libc::epoll_wait(epoll, events, most, 0) };
        self.ready = usize::try_from(ready).unwrap_or(0);
    }

    /// The positions of those that are, in any order; those beyond AT_ONCE are reported by the next call.
    pub fn ready(&self) -> impl Iterator<Item = usize> {
        self.events[..self.ready]
            .iter()
            .map(|each| each.u64 as usize)
    }
}

/// Write to a file descriptor; return the number of octets.
///
/// # Errors
/// The kernel's.
pub fn write(fd: RawFd, octets: &[u8]) -> io::Result<usize> {
    // SAFETY: this many octets can be read.
    let written = unsafe { libc::write(fd, octets.as_ptr().cast(), octets.len()) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}
