//! A thread around a batch: it waits in recvmmsg, and runs no Python.
//!
//! Rule 1: the socket outlives configurations: a datagram received after the table was replaced is answered from the
//!         new one.
//! Rule 2: a worker ends only with stop() or when its socket is closed.  A panic is counted, its batch is lost, and the
//!         loop continues, because without the worker a share of the port's traffic would be lost.
//! Rule 3: it checks for stop() at most every `PATIENCE`, because nothing else wakes a thread in recvmmsg without harm
//!         to the socket.

use std::io;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::batch::{Batch, Statistics, is_final};
use crate::lock::lock;
use crate::outlet::Outlet;
use crate::queue::MissQueue;
use crate::system::{Message, SignalsBlocked, set_blocking, set_receive_timeout, slice};
use crate::table::AnswerTable;

const PATIENCE: Duration = Duration::from_millis(200);
/// After an error that may last, such as lack of memory.
const PAUSE: Duration = Duration::from_millis(1);

/// One of the threads that serve a port, with a socket of its own.
pub struct Worker {
    fd: RawFd,
    wildcard: bool,
    outlet: Arc<Outlet>,
    /// For names of existing Services, which are not many; without it they wait with the others.
    first: Option<Arc<MissQueue>>,
    table: Mutex<Option<Arc<AnswerTable>>>,
    stopped: AtomicBool,
}

impl Worker {
    /// Make a worker for a socket, which its owner keeps open until run() has returned.
    #[must_use]
    pub fn new(fd: RawFd, wildcard: bool, queue: Arc<MissQueue>, index: usize) -> Self {
        Self {
            fd,
            wildcard,
            outlet: Arc::new(Outlet::new(fd, queue, index)),
            first: None,
            table: Mutex::new(None),
            stopped: AtomicBool::new(false),
        }
    }

    /// Let names of existing Services wait in a queue of their own.
    #[must_use]
    pub fn with_first(self, first: Option<Arc<MissQueue>>) -> Self {
        Self { first, ..self }
    }

    /// Use another table, or none; a batch received before is answered from the previous one.
    pub fn exchange(&self, table: Option<Arc<AnswerTable>>) {
        *lock(&self.table) = table;
    }

    /// Serve until stop() is called.
    ///
    /// # Errors
    /// The descriptor is no socket, or closed.
    pub fn run(&self) -> io::Result<()> {
        let _quiet = SignalsBlocked::new();
        slice::shorten(); // a query need not wait until the event loop's thread has had its own slice
        set_receive_timeout(self.fd, PATIENCE)?;
        set_blocking(self.fd, true)?;
        let mut batch = Batch::new(self.fd, self.wildcard, Arc::clone(&self.outlet.meter));
        while !self.stopped.load(Ordering::Acquire) {
            let turn = catch_unwind(AssertUnwindSafe(|| self.serve(&mut batch)));
            match turn {
                Ok(result) => result?,
                Err(_) => {
                    self.outlet.meter.count_panic();
                    batch.reset();
                }
            }
        }
        set_blocking(self.fd, false)
    }

    /// Make run() return within `PATIENCE`, now and whenever it is called again.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Send replies to misses.  `reply(index)` gives each, with the control messages of its query.
    pub fn send<'a>(&self, count: usize, reply: impl Fn(usize) -> Message<'a>) {
        self.outlet.send(count, reply);
    }

    /// Send no more: the socket is about to be closed.
    pub fn close(&self) {
        self.outlet.close();
    }

    /// The number of its queries that forwarders have.
    pub fn pending(&self) -> usize {
        self.outlet.pending()
    }

    /// The counters of its socket.
    pub fn statistics(&self) -> Statistics {
        self.outlet.meter.statistics()
    }

    fn serve(&self, batch: &mut Batch) -> io::Result<()> {
        match batch.receive(true) {
            Ok(received) => {
                // Read after the wait: the table may have been replaced meanwhile.
                let table = lock(&self.table).clone();
                batch.answer(table.as_deref(), received);
                if let Some(table) = table.filter(|table| table.forwards()) {
                    batch.forward(&table, &self.outlet);
                }
                let Outlet { index, queue, .. } = &*self.outlet;
                match &self.first {
                    Some(first) if batch.has_listed() => {
                        let [listed, others] = batch.missed_apart();
                        first.offer(*index, listed.into_iter());
                        queue.offer(*index, others.into_iter());
                    }
                    _ => queue.offer(*index, batch.missed()),
                }
            }
            Err(error) if is_final(&error) => return Err(error),
            Err(_) => thread::sleep(PAUSE),
        }
        Ok(())
    }
}
