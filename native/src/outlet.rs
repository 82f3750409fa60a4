//! Where the replies to a worker's misses are sent, by the event loop and by forwarders, and where other misses wait.
//!
//! Rule 1: nothing is sent after close(): the number of the socket may belong to another one then.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::batch::{Meter, ReplyControl};
use crate::lock::lock;
use crate::queue::{MissQueue, Waiting};
use crate::system::{Message, Sender};

/// The way out of one worker.
pub struct Outlet {
    fd: RawFd,
    /// The number of the worker.
    pub index: usize,
    /// The misses for the event loop.
    pub queue: Arc<MissQueue>,
    /// The counters of the socket.
    pub meter: Arc<Meter>,
    /// None once it is closed.
    sender: Mutex<Option<Sender>>,
    pending: AtomicUsize,
}

impl Outlet {
    /// That of a socket, which its owner keeps open until close().
    #[must_use]
    pub fn new(fd: RawFd, queue: Arc<MissQueue>, index: usize) -> Self {
        Self {
            fd,
            index,
            queue,
            meter: Arc::default(),
            sender: Mutex::new(Some(Sender::default())),
            pending: AtomicUsize::new(0),
        }
    }

    /// Send replies.  `reply(index)` gives each, with the control messages of its query.
    pub fn send<'a>(&self, count: usize, reply: impl Fn(usize) -> Message<'a>) {
        if let Some(sender) = &mut *lock(&self.sender) {
            send_replies(&self.meter, sender, self.fd, count, reply);
        }
    }

    /// Send no more.
    pub fn close(&self) {
        *lock(&self.sender) = None;
    }

    /// Let the event loop answer.
    pub fn hand_over(&self, miss: &Waiting) {
        self.queue.offer(self.index, std::iter::once(miss.packet()));
    }

    /// Note that one more query waits for an upstream, or one less.
    pub fn note_pending(&self, more: bool) {
        if more {
            self.pending.fetch_add(1, Ordering::Relaxed);
        } else {
            self.pending.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The number of queries that wait for an upstream.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }
}

/// Send replies, with control messages made from those of their queries.
pub fn send_replies<'a>(
    meter: &Meter,
    sender: &mut Sender,
    fd: RawFd,
    count: usize,
    reply: impl Fn(usize) -> Message<'a>,
) {
    let controls: Vec<_> = (0..count)
        .map(|index| ReplyControl::new(reply(index).control))
        .collect();
    meter.send(sender, fd, count, |index| Message {
        control: controls[index].octets(),
        ..reply(index)
    });
}
