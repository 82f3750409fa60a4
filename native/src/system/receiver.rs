//! recvmmsg: a batch of datagrams, each with its client's address and its control messages.
//!
//! Rule 1: the kernel writes to one allocation that does not move, reached through one pointer; reads are bounded by
//!         the lengths that the kernel returned and by the buffers.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};

use libc::{c_void, iovec, mmsghdr};

use super::BATCH_LEN;

/// The received octets of a query: one more than the longest that is answered.
pub const QUERY_LEN: usize = 4097;
/// The distance between queries: whole cache lines, and not a power of two, or all would share the same sets of the
/// cache.
const STRIDE: usize = 65 * 64;
const ADDRESS_LEN: usize = 32; // a sockaddr_in6 has 28
const CONTROL_WORDS: usize = 16; // an IPV6_PKTINFO message has 40 octets
/// The most octets of control messages.
pub const CONTROL_LEN: usize = CONTROL_WORDS * size_of::<u64>();

#[repr(C)]
struct Buffers {
    octets: [[u8; STRIDE]; BATCH_LEN],
    addresses: [[u8; ADDRESS_LEN]; BATCH_LEN],
    controls: [[u64; CONTROL_WORDS]; BATCH_LEN],
    iovecs: [iovec; BATCH_LEN],
    headers: [mmsghdr; BATCH_LEN],
}

/// Receives datagrams in batches.
pub struct Receiver {
    buffers: NonNull<Buffers>,
    wants_control: bool,
    received: usize,
}

// SAFETY: the pointers lead to an allocation that this value owns alone.
unsafe impl Send for Receiver {}

/// A datagram as received from the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Its octets, the first `QUERY_LEN` at most.
    pub query: &'a [u8],
    /// The client's socket address.
    pub address: &'a [u8],
    /// Control messages.
    pub control: &'a [u8],
    /// Whether the datagram was longer.
    pub is_cut: bool,
}

impl Receiver {
    /// Make the buffers; with `wants_control` also for control messages.
    #[must_use]
    pub fn new(wants_control: bool) -> Self {
        let layout = Layout::new::<Buffers>();
        // SAFETY: the layout is not empty; all-zero octets are a valid Buffers, null pointers included.
        let Some(buffers) = NonNull::new(unsafe { alloc_zeroed(layout) }.cast::<Buffers>()) else {
            handle_alloc_error(layout)
        };
        let all = buffers.as_ptr();
        for index in 0..BATCH_LEN {
            // SAFETY: `index` is inside of all arrays, and nothing else refers to them yet.
            unsafe {
                let vector = &raw mut (*all).iovecs[index];
                (*vector).iov_base = (&raw mut (*all).octets[index]).cast::<c_void>();
                (*vector).iov_len = QUERY_LEN;
                let header = &raw mut (*all).headers[index].msg_hdr;
                (*header).msg_name = (&raw mut (*all).addresses[index]).cast::<c_void>();
                (*header).msg_iov = vector;
                (*header).msg_iovlen = 1;
                if wants_control {
                    (*header).msg_control = (&raw mut (*all).controls[index]).cast::<c_void>();
                }
            }
        }
        Self {
            buffers,
            wants_control,
            received: BATCH_LEN,
        }
    }

    /// Receive the waiting datagrams, and return their number; with `wait` wait for the first one.
    ///
    /// # Errors
    /// The kernel's error; the datagrams of the previous call are gone in any case.
    pub fn receive(&mut self, fd: RawFd, wait: bool) -> io::Result<usize> {
        let all = self.buffers.as_ptr();
        let control_len = if self.wants_control { CONTROL_LEN } else { 0 };
        for index in 0..self.received {
            // SAFETY: `index` is inside of the array; the kernel left its lengths there, all else stands.
            unsafe {
                let header = &raw mut (*all).headers[index].msg_hdr;
                (*header).msg_namelen = ADDRESS_LEN as libc::socklen_t;
                (*header).msg_controllen = control_len as _;
                (*header).msg_flags = 0;
            }
        }
        self.received = 0;
        let flags = if wait {
            libc::MSG_WAITFORONE
        } else {
            libc::MSG_DONTWAIT
        };
        // SAFETY: the headers lead to buffers of the lengths that they say, all alive and written by the kernel alone.
        let received = unsafe {
            let headers = (&raw mut (*all).headers).cast::<mmsghdr>();
            libc::recvmmsg(fd, headers, BATCH_LEN as _, flags as _, ptr::null_mut())
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        self.received = received.min(BATCH_LEN);
        Ok(self.received)
    }

    /// A datagram of the last call.
    ///
    /// # Panics
    /// If there were not so many.
    #[must_use]
    #[allow(clippy::unnecessary_cast)] // with musl msg_controllen has 32 bits
    pub fn packet(&self, index: usize) -> Packet<'_> {
        assert!(index < self.received, "no such datagram");
        // SAFETY: the kernel wrote this header and these buffers, and writes again only under `&mut self`.
        unsafe {
            let all = self.buffers.as_ref();
            let header = &all.headers[index];
            let address_len = (header.msg_hdr.msg_namelen as usize).min(ADDRESS_LEN);
            let control_len = header.msg_hdr.msg_controllen as usize;
            let words = &all.controls[index];
            let controls = std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words));
            let has_control =
                self.wants_control && header.msg_hdr.msg_flags & libc::MSG_CTRUNC == 0;
            Packet {
                query: &all.octets[index][..(header.msg_len as usize).min(QUERY_LEN)],
                address: &all.addresses[index][..address_len],
                control: if has_control {
                    &controls[..control_len.min(controls.len())]
                } else {
                    &[]
                },
                is_cut: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // SAFETY: allocated in new() with this layout, and no reference outlives `self`.
        unsafe {
            dealloc(self.buffers.as_ptr().cast::<u8>(), Layout::new::<Buffers>());
        }
    }
}
