//! sendmmsg: replies in batches, those of equal length to one client as one message (segmentation.rs).
//!
//! Rule 1: memory that the kernel reads is borrowed for the length of the call.
//! Rule 2: if the kernel refuses a message, its replies are sent one by one.  If that works, segments of that length
//!         are not tried again on this socket: a device without checksum offload or a path with a small MTU refuses
//!         them (EIO, EINVAL, EMSGSIZE).
//! Rule 3: a kernel without UDP_SEGMENT is given no segments, because it would ignore the option and send one long
//!         datagram.

use std::io;
use std::mem::zeroed;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Mutex;

use libc::{c_int, iovec, mmsghdr, msghdr};

use super::{BATCH_LEN, CMSG_HEADER_LEN, CONTROL_LEN, WORD_LEN, set_option, write_control};
use crate::lock::lock;
use crate::segmentation::{MAX_SEGMENT_LEN, Segmentation};

/// In a smaller batch each reply is a message: there is nothing to save, and a packet capture on this machine, which
/// shows a message as one datagram, shows both replies to a resolver that queries A and AAAA.
const LEAST_TO_SEGMENT: usize = 16;
const FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its octets.
    pub reply: &'a [u8],
    /// The client's socket address.
    pub address: &'a [u8],
    /// Control messages.
    pub control: &'a [u8],
}

impl Message<'_> {
    /// Return whether another one has the same client and is sent from the same address.
    #[must_use]
    pub fn has_way_of(&self, other: &Message<'_>) -> bool {
        self.address == other.address && self.control == other.control
    }
}

/// Sends datagrams in batches.
#[derive(Default)]
pub struct Sender {
    iovecs: Vec<iovec>,
    headers: Vec<mmsghdr>,
    controls: Vec<SegmentControl>,
    segmentation: Segmentation,
    /// The longest segment in octets, 0 for no segmentation; None until the kernel was asked.
    longest: Option<usize>,
}

// SAFETY: the pointers are only used within send(), which fills them anew.
unsafe impl Send for Sender {}

impl Sender {
    /// Send this many messages without waiting; return how many were sent.  `lost` is called for others: errno, count.
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
            self.fill(fd, len, |index| message(start + index));
            sent += self.send_filled(fd, &mut lost);
        }
        self.headers.clear();
        self.iovecs.clear();
        self.controls.clear();
        sent
    }

    fn fill<'a>(&mut self, fd: RawFd, count: usize, message: impl Fn(usize) -> Message<'a>) {
        let longest = *self.longest.get_or_insert_with(|| longest_segment(fd));
        let longest = if count < LEAST_TO_SEGMENT { 0 } else { longest };
        self.segmentation.distribute(count, longest, &message);
        self.iovecs.clear();
        self.headers.clear();
        self.controls.clear();
        // The headers point to both, so that these may not move.
        self.iovecs.reserve(count);
        self.controls.reserve(count);
        for segments in self.segmentation.iter() {
            let start = self.iovecs.len();
            let replies = self.segmentation.replies(segments).map(&message);
            self.iovecs.extend(replies.map(|message| iovec {
                iov_base: message.reply.as_ptr().cast_mut().cast(),
                iov_len: message.reply.len(),
            }));
            let Message {
                address,
                mut control,
                ..
            } = message(segments.first());
            if self.iovecs.len() - start > 1 {
                self.controls
                    .push(SegmentControl::new(control, segments.segment_len()));
                control = self.controls.last().map_or(control, SegmentControl::octets);
            }
            // SAFETY: all-zero octets are a valid header without anything.
            let mut header: msghdr = unsafe { zeroed() };
            header.msg_name = address.as_ptr().cast_mut().cast();
            header.msg_namelen = address.len() as libc::socklen_t;
            header.msg_iovlen = (self.iovecs.len() - start) as _;
            set_control(&mut header, control);
            self.headers.push(mmsghdr {
                msg_hdr: header,
                msg_len: 0,
            });
        }
        let mut vector = self.iovecs.as_mut_ptr();
        for header in &mut self.headers {
            header.msg_hdr.msg_iov = vector;
            vector = vector.wrapping_add(replies_of(header));
        }
    }

    fn send_filled(&mut self, fd: RawFd, lost: &mut impl FnMut(i32, usize)) -> usize {
        let (mut at, mut sent) = (0, 0);
        while at < self.headers.len() {
            let rest = &mut self.headers[at..];
            // SAFETY: the headers lead to what send()'s caller lends until it returns; the kernel only reads there.
            let count =
                unsafe { libc::sendmmsg(fd, rest.as_mut_ptr(), rest.len() as _, FLAGS as _) };
            if let Ok(count @ 1..) = usize::try_from(count) {
                at += count;
                sent += rest[..count].iter().map(replies_of).sum::<usize>();
                continue;
            }
            match errno_now() {
                libc::EINTR => {}
                // The kernel has no room for the others either.
                errno @ (libc::EAGAIN | libc::ENOBUFS | libc::EBADF) => {
                    lost(errno, rest.iter().map(replies_of).sum());
                    break;
                }
                errno => {
                    sent += self.send_singly(fd, at, errno, lost);
                    at += 1;
                }
            }
        }
        sent
    }

    /// Send the replies of a message that the kernel refused one by one; return how many were sent.
    fn send_singly(
        &mut self,
        fd: RawFd,
        at: usize,
        errno: i32,
        lost: &mut impl FnMut(i32, usize),
    ) -> usize {
        let (before, header) = (&self.headers[..at], &self.headers[at]);
        let mut message = header.msg_hdr;
        if replies_of(header) == 1 {
            return usize::from(send_refused(fd, &message, errno, lost));
        }
        let segmented = before.iter().filter(|each| replies_of(each) > 1).count();
        set_control(&mut message, self.controls[segmented].without_segment());
        message.msg_iovlen = 1;
        let mut sent = 0;
        for _ in 0..replies_of(header) {
            // SAFETY: as in send_filled(); there are so many vectors, one after the other.
            let is_sent = unsafe { libc::sendmsg(fd, &raw const message, FLAGS) } >= 0;
            sent += usize::from(is_sent || send_refused(fd, &message, errno_now(), lost));
            message.msg_iov = message.msg_iov.wrapping_add(1);
        }
        if sent > 0 && matches!(errno, libc::EIO | libc::EINVAL | libc::EMSGSIZE) {
            let refused = self.segmentation.iter().nth(at);
            self.longest = refused.map(|segments| usize::from(segments.segment_len()) - 1);
        }
        sent
    }
}

/// The control messages of segments: those of the replies, all that a query may come with, then UDP_SEGMENT.
#[repr(align(8))]
struct SegmentControl {
    octets: [u8; CONTROL_LEN + CMSG_HEADER_LEN + WORD_LEN],
    before_len: usize,
    len: usize,
}

impl SegmentControl {
    fn new(before: &[u8], segment_len: u16) -> Self {
        let mut octets = [0; CONTROL_LEN + CMSG_HEADER_LEN + WORD_LEN];
        let start = before.len().next_multiple_of(WORD_LEN);
        octets[..before.len()].copy_from_slice(before);
        let content = segment_len.to_ne_bytes();
        let len = write_control(
            &mut octets[start..],
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            &content,
        );
        Self {
            octets,
            before_len: before.len(),
            len: start + len,
        }
    }

    fn octets(&self) -> &[u8] {
        &self.octets[..self.len]
    }

    fn without_segment(&self) -> &[u8] {
        &self.octets[..self.before_len]
    }
}

/// The number of replies in a message.
#[allow(clippy::unnecessary_cast)] // with musl msg_iovlen has 32 bits
fn replies_of(header: &mmsghdr) -> usize {
    header.msg_hdr.msg_iovlen as usize
}

fn set_control(header: &mut msghdr, control: &[u8]) {
    header.msg_control = match control {
        [] => ptr::null_mut(),
        control => control.as_ptr().cast_mut().cast(),
    };
    header.msg_controllen = control.len() as _;
}

/// The longest segment that the kernel accepts on this socket; 0 if it has no UDP_SEGMENT.
fn longest_segment(fd: RawFd) -> usize {
    let mut value: c_int = 0;
    let mut len = size_of_val(&value) as libc::socklen_t;
    let place = (&raw mut value).cast();
    // SAFETY: the value and its length live through the call.
    let found =
        unsafe { libc::getsockopt(fd, libc::SOL_UDP, libc::UDP_SEGMENT, place, &raw mut len) == 0 };
    if found { MAX_SEGMENT_LEN } else { 0 }
}

/// Send a reply that the kernel refused in fragments if it exceeds the path MTU, else call `lost`; return whether it
/// was sent.
fn send_refused(
    fd: RawFd,
    message: &msghdr,
    errno: i32,
    lost: &mut impl FnMut(i32, usize),
) -> bool {
    let is_sent = errno == libc::EMSGSIZE && send_in_fragments(fd, message);
    if !is_sent {
        lost(errno, 1);
    }
    is_sent
}

fn errno_now() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Held while a socket allows fragments; otherwise another thread that sends such a reply could forbid them too early.
static IN_FRAGMENTS: Mutex<()> = Mutex::new(());

/// Send a reply longer than the path MTU from a socket that forbids fragments (hsdns/fastpath/control.py); return
/// whether it was sent.  Replies that other threads send meanwhile are short enough to need no fragments.
fn send_in_fragments(fd: RawFd, message: &msghdr) -> bool {
    let _alone = lock(&IN_FRAGMENTS);
    set_mtu_discovery(fd, libc::IP_PMTUDISC_WANT);
    // SAFETY: the header leads to what send()'s caller lends until it returns; the kernel only reads there.
    let result = unsafe { libc::sendmsg(fd, message, FLAGS) };
    set_mtu_discovery(fd, libc::IP_PMTUDISC_DO);
    result >= 0
}

fn set_mtu_discovery(fd: RawFd, value: c_int) {
    let _ = set_option(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &value);
}
