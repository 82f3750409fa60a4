//! Batch, Worker and MissQueue for Python.

use std::sync::{Arc, Mutex, TryLockError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList};

use super::Items;
use super::answer_table::AnswerTable;
use super::named_tuple::NamedTuple;
use crate::batch::{self, Meter};
use crate::outlet::send_replies;
use crate::system::{Message, Packet, Sender};
use crate::{queue, worker};

pub(super) static MISS: NamedTuple = NamedTuple::new("Miss", &["query", "address", "control"]);
pub(super) static BATCH_STATISTICS: NamedTuple = NamedTuple::new(
    "BatchStatistics",
    &["received", "sent", "batches", "send_errors"],
);
pub(super) static WORKER_STATISTICS: NamedTuple = NamedTuple::new(
    "WorkerStatistics",
    &[
        "received",
        "sent",
        "batches",
        "send_errors",
        "receive_errors",
        "panics",
    ],
);

type Reply = (PyBackedBytes, PyBackedBytes, PyBackedBytes);

fn message(reply: &Reply) -> Message<'_> {
    Message {
        reply: &reply.0,
        address: &reply.1,
        control: &reply.2,
    }
}

/// Serves one UDP socket from the thread that calls it.
#[pyclass(frozen, module = "hsdns.fastpath._native")]
pub(super) struct Batch {
    fd: i32,
    meter: Arc<Meter>,
    inner: Mutex<batch::Batch>,
    sender: Mutex<Sender>,
}

#[pymethods]
impl Batch {
    #[new]
    fn new(fd: i32, wildcard: bool) -> Self {
        let meter = Arc::<Meter>::default();
        let inner = batch::Batch::new(fd, wildcard, Arc::clone(&meter));
        Self {
            fd,
            meter,
            inner: Mutex::new(inner),
            sender: Mutex::default(),
        }
    }

    /// Receive a batch, answer the hits of the table, return the misses.
    fn serve<'py>(
        &self,
        py: Python<'py>,
        table: Option<&AnswerTable>,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut batch = match self.inner.try_lock() {
            Ok(batch) => batch,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(PyRuntimeError::new_err("another thread serves this socket"));
            }
        };
        match batch.serve(table.map(|table| &*table.inner), false) {
            Err(error) if batch::is_final(&error) => return Err(error.into()),
            _ => {} // other errors leave no misses
        }
        let missed = PyList::empty(py);
        let class = MISS.class(py)?;
        for packet in batch.missed() {
            let parts = [packet.query, packet.address, packet.control];
            let [query, address, control] = parts.map(|part| PyBytes::new(py, part));
            missed.append(class.call1((query, address, control))?)?;
        }
        Ok(missed)
    }

    /// Send replies to misses.
    fn send(&self, replies: Items<Reply>) {
        let mut sender = crate::lock::lock(&self.sender);
        send_replies(
            &self.meter,
            &mut sender,
            self.fd,
            replies.0.len(),
            |index| message(&replies.0[index]),
        );
    }

    /// The number of datagrams received and sent so far.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let now = self.meter.statistics();
        let counts = (now.received, now.sent, now.batches, now.send_errors);
        BATCH_STATISTICS.class(py)?.call1(counts)
    }
}

/// Serves one UDP socket from the thread that calls run().
#[pyclass(frozen, module = "hsdns.fastpath._native")]
pub(super) struct Worker {
    inner: worker::Worker,
}

#[pymethods]
impl Worker {
    #[new]
    #[pyo3(signature = (fd, wildcard, queue, index, first = None))]
    fn new(
        fd: i32,
        wildcard: bool,
        queue: &MissQueue,
        index: usize,
        first: Option<&MissQueue>,
    ) -> Self {
        let queue = Arc::clone(&queue.inner);
        let first = first.map(|first| Arc::clone(&first.inner));
        Self {
            inner: worker::Worker::new(fd, wildcard, queue, index).with_first(first),
        }
    }

    /// Use another table, or none.
    fn exchange(&self, table: Option<&AnswerTable>) {
        self.inner
            .exchange(table.map(|table| Arc::clone(&table.inner)));
    }

    /// Serve until stop() is called, without the GIL.
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.inner.run())?)
    }

    /// Make run() return within 0.2 s.
    fn stop(&self) {
        self.inner.stop();
    }

    /// Send replies to misses.
    fn send(&self, replies: Items<Reply>) {
        self.inner
            .send(replies.0.len(), |index| message(&replies.0[index]));
    }

    /// Send no more.
    fn close(&self) {
        self.inner.close();
    }

    /// The number of its queries that forwarders have.
    #[getter]
    fn pending(&self) -> usize {
        self.inner.pending()
    }

    /// The number of datagrams received and sent so far.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let now = self.inner.statistics();
        WORKER_STATISTICS.class(py)?.call1((
            now.received,
            now.sent,
            now.batches,
            now.send_errors,
            now.receive_errors,
            now.panics,
        ))
    }
}

/// Misses of the workers.
#[pyclass(frozen, module = "hsdns.fastpath._native")]
pub(super) struct MissQueue {
    inner: Arc<queue::MissQueue>,
}

#[pymethods]
impl MissQueue {
    #[new]
    #[pyo3(signature = (capacity = 16_384))]
    fn new(capacity: usize) -> PyResult<Self> {
        Ok(Self {
            inner: Arc::new(queue::MissQueue::new(capacity)?),
        })
    }

    /// The file descriptor that is readable while the queue is not empty.
    fn fileno(&self) -> i32 {
        self.inner.fileno()
    }

    /// Change the capacity; drops the newest misses of the clients with the most, down to one each.
    fn set_capacity(&self, capacity: usize) {
        self.inner.set_capacity(capacity);
    }

    /// Add misses of one worker.
    fn offer(&self, worker: usize, misses: Items<Reply>) {
        let packets = misses.0.iter().map(|(query, address, control)| Packet {
            query,
            address,
            control,
            is_cut: false,
        });
        self.inner.offer(worker, packets);
    }

    /// Remove and return the next misses, at most this many.
    fn take<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyList>> {
        let taken = PyList::empty(py);
        for waiting in self.inner.take(most) {
            let [query, address, control] = [waiting.query(), waiting.address(), waiting.control()]
                .map(|part| PyBytes::new(py, part));
            taken.append((waiting.worker, query, address, control))?;
        }
        Ok(taken)
    }

    /// Serve the client of the last miss first again, unless it has no more or another client has joined since.
    fn give_turn_back(&self) {
        self.inner.give_turn_back();
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    /// The number of dropped misses.
    #[getter]
    fn dropped(&self) -> u64 {
        self.inner.dropped()
    }
}
