//! The kernel's calls that Rust's library lacks, behind safe functions: the only file with unsafe code.
//!
//! Rule 1: a file descriptor is lent, never closed here; its owner keeps it open for as long as it is used.
//! Rule 2: what the kernel writes to is one allocation that does not move, reached through one pointer; how much of
//!         it is read is bounded by what the kernel said and by the room that there is.
//! Rule 3: what the kernel reads from is borrowed for the length of the call.

#![allow(unsafe_code)] // system calls take pointers

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::time::Duration;

use libc::{c_int, c_void, iovec, mmsghdr, msghdr};

#[cfg(not(target_os = "linux"))]
compile_error!("recvmmsg and sendmmsg are Linux calls; elsewhere hsdns uses its Python twin");

/// How many datagrams a call takes: more of them gain nothing, for the time per datagram is the kernel's.
pub const BATCH_LEN: usize = 64;
/// Octets that are kept of a query: one more than the longest that is answered.
pub const QUERY_LEN: usize = 4097;

/// Room for a query: whole cache lines, and not a power of two, or all would fall into the same sets of the cache.
const STRIDE: usize = 65 * 64;
#[cfg(target_arch = "x86_64")]
const CACHE_LINE_LEN: usize = 64;
/// Ten addresses with their versions and key; the processor itself looks after what is longer.
#[cfg(target_arch = "x86_64")]
const MOST_PREFETCHED: usize = 5 * CACHE_LINE_LEN;
const ADDRESS_LEN: usize = 32; // a sockaddr_in6 has 28
const CONTROL_WORDS: usize = 16; // an IPV6_PKTINFO message has 40 octets

/// Nanoseconds of the monotonic clock, the one of Python's time.monotonic().
#[must_use]
pub fn monotonic() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a timespec that lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Ask for the memory of a value, or of its start, so that it is near when it is read; nothing else happens.
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

//----- Receiver --------------------------------------------------------------

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

/// A datagram as the kernel gave it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Its octets, the first `QUERY_LEN` at most.
    pub query: &'a [u8],
    /// The client's sockaddr.
    pub address: &'a [u8],
    /// Control messages.
    pub control: &'a [u8],
    /// Whether there were more octets.
    pub is_cut: bool,
}

impl Receiver {
    /// Make the buffers; with `wants_control` for control messages, too.
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

    /// Receive what is there, return how many datagrams; with `wait` wait for the first one.
    ///
    /// # Errors
    /// The kernel's error; the datagrams of the call before are gone in any case.
    pub fn receive(&mut self, fd: RawFd, wait: bool) -> io::Result<usize> {
        let all = self.buffers.as_ptr();
        let control_len = if self.wants_control {
            CONTROL_WORDS * size_of::<u64>()
        } else {
            0
        };
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
    /// Where there were not so many.
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

//----- Sender ----------------------------------------------------------------

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its octets.
    pub reply: &'a [u8],
    /// The client's sockaddr.
    pub address: &'a [u8],
    /// Control messages.
    pub control: &'a [u8],
}

/// Sends datagrams in batches.
#[derive(Default)]
pub struct Sender {
    iovecs: Vec<iovec>,
    headers: Vec<mmsghdr>,
}

// SAFETY: the pointers are only looked at within send(), which fills them anew.
unsafe impl Send for Sender {}

impl Sender {
    /// Send so many messages without waiting; return how many went.  What does not go is lost and told: errno, count.
    pub fn send<'a>(
        &mut self,
        fd: RawFd,
        count: usize,
        message: impl Fn(usize) -> Message<'a>,
        mut lost: impl FnMut(i32, usize),
    ) -> usize {
        let mut sent = 0;
        for start in (0..count).step_by(BATCH_LEN) {
            let len = (count - start).min(BATCH_LEN);
            self.fill((start..start + len).map(&message));
            sent += self.send_filled(fd, &mut lost);
        }
        self.headers.clear();
        self.iovecs.clear();
        sent
    }

    fn fill<'a>(&mut self, messages: impl Iterator<Item = Message<'a>>) {
        self.iovecs.clear();
        self.headers.clear();
        for message in messages {
            self.iovecs.push(iovec {
                iov_base: message.reply.as_ptr().cast_mut().cast(),
                iov_len: message.reply.len(),
            });
            // SAFETY: all-zero octets are a valid header without anything.
            let mut header: msghdr = unsafe { std::mem::zeroed() };
            header.msg_name = message.address.as_ptr().cast_mut().cast();
            header.msg_namelen = message.address.len() as libc::socklen_t;
            header.msg_iovlen = 1;
            if !message.control.is_empty() {
                header.msg_control = message.control.as_ptr().cast_mut().cast();
                header.msg_controllen = message.control.len() as _;
            }
            self.headers.push(mmsghdr {
                msg_hdr: header,
                msg_len: 0,
            });
        }
        // The vector of iovecs moves no more.
        for (header, vector) in self.headers.iter_mut().zip(&mut self.iovecs) {
            header.msg_hdr.msg_iov = vector;
        }
    }

    fn send_filled(&mut self, fd: RawFd, lost: &mut impl FnMut(i32, usize)) -> usize {
        let (mut at, mut sent) = (0, 0);
        while at < self.headers.len() {
            let rest = &mut self.headers[at..];
            // SAFETY: the headers lead to what send()'s caller lends until it returns; the kernel only reads there.
            let went = unsafe {
                let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                libc::sendmmsg(fd, rest.as_mut_ptr(), rest.len() as _, flags as _)
            };
            if let Ok(went @ 1..) = usize::try_from(went) {
                at += went;
                sent += went;
                continue;
            }
            match io::Error::last_os_error().raw_os_error().unwrap_or(0) {
                libc::EINTR => {}
                // The kernel has no room: the others would not go either.
                errno @ (libc::EAGAIN | libc::ENOBUFS | libc::EBADF) => {
                    lost(errno, rest.len());
                    break;
                }
                libc::EMSGSIZE if send_in_fragments(fd, &rest[0].msg_hdr) => {
                    at += 1;
                    sent += 1;
                }
                errno => {
                    lost(errno, 1);
                    at += 1;
                }
            }
        }
        sent
    }
}

/// Send what is longer than the path's MTU from a socket that forbids fragments (server/listener.py); tell whether it
/// went.  Another thread's replies may be sent meanwhile: they are allowed fragments and need none.
fn send_in_fragments(fd: RawFd, message: &msghdr) -> bool {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    set_mtu_discovery(fd, libc::IP_PMTUDISC_WANT);
    // SAFETY: the header leads to what send()'s caller lends until it returns; the kernel only reads there.
    let went = unsafe { libc::sendmsg(fd, message, flags as _) };
    set_mtu_discovery(fd, libc::IP_PMTUDISC_DO);
    went >= 0
}

fn set_mtu_discovery(fd: RawFd, value: c_int) {
    // SAFETY: the value lives through the call, which is told its size.
    unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        );
    }
}

//----- Signals, sockets, events ----------------------------------------------

/// Keeps signals away from this thread while it lives, so that the interpreter's main thread gets them.
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

/// Let a receive call wait, or not.
///
/// # Errors
/// The descriptor is none.
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

/// Let a receive call wait so long at most.
///
/// # Errors
/// The descriptor is no socket.
pub fn set_receive_timeout(fd: RawFd, timeout: Duration) -> io::Result<()> {
    let value = libc::timeval {
        tv_sec: timeout.as_secs() as _,
        tv_usec: timeout.subsec_micros() as _,
    };
    // SAFETY: the value lives through the call, which is told its size.
    unsafe {
        checked(libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        ))?;
    }
    Ok(())
}

/// A descriptor that is readable while it is set.
pub struct Event {
    fd: OwnedFd,
}

impl Event {
    /// Make one that is not set.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes no pointer; a descriptor that it returns is ours alone.
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
        // SAFETY: eight octets are there to be read.
        unsafe { libc::write(self.fileno(), (&raw const one).cast(), size_of::<u64>()) };
    }

    /// Make it unreadable.
    pub fn clear(&self) {
        let mut count: u64 = 0;
        // SAFETY: eight octets are there to be written.
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
