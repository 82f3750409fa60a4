//! LoadSender and LoadCounts for Python.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList};

use super::Items;
use crate::load_sender::counts::Counts;
use crate::load_sender::feed::{Feed, Piece};
use crate::load_sender::in_flight::Waiting;
use crate::load_sender::sockets::Sockets;
use crate::load_sender::{Datagrams, LoadSender as Inner, Settings, World};

/// Sends the queries of a load test from the thread that calls `run()`.
#[pyclass(frozen, module = "hsdns.fastpath._native")]
pub(super) struct LoadSender {
    inner: Mutex<Inner>,
    feed: Arc<Feed>,
    queries: usize,
    sockets: usize,
}

#[pymethods]
impl LoadSender {
    #[new]
    #[allow(clippy::too_many_arguments)] // the contract with Python
    #[pyo3(signature = (queries, *, kinds, first_ids, timeout, replies, window = 0, most = 0, late_after = i64::MAX))]
    fn new(
        queries: Items<PyBackedBytes>,
        kinds: Items<u32>,
        first_ids: Items<u16>,
        timeout: i64,
        replies: bool,
        window: usize,
        most: usize,
        late_after: i64,
    ) -> PyResult<Self> {
        let (Items(queries), Items(kinds), Items(first_ids)) = (queries, kinds, first_ids);
        if first_ids.is_empty() {
            return Err(PyValueError::new_err("there is no socket"));
        }
        if !kinds.is_empty() && kinds.len() != queries.len() {
            return Err(PyValueError::new_err("each query has a kind, or none has"));
        }
        let feed = Arc::<Feed>::default();
        let (count, sockets) = (queries.len(), first_ids.len());
        let settings = Settings {
            queries: queries.iter().map(|query| Box::from(&query[..])).collect(),
            kinds,
            first_ids,
            timeout,
            window,
            replies,
            most,
            late_after,
        };
        Ok(Self {
            inner: Mutex::new(Inner::new(settings, Arc::clone(&feed))),
            feed,
            queries: count,
            sockets,
        })
    }

    /// Add a part of the schedule: packed times and numbers of questions.
    fn feed(&self, py: Python<'_>, times: &[u8], questions: &[u8]) -> PyResult<bool> {
        let piece = Piece {
            times: words(times, i64::from_ne_bytes),
            questions: words(questions, u32::from_ne_bytes),
        };
        if piece.times.len() != piece.questions.len() {
            return Err(PyValueError::new_err("each time has one question"));
        }
        if piece
            .questions
            .iter()
            .any(|&each| each as usize >= self.queries)
        {
            return Err(PyValueError::new_err("there is no such question"));
        }
        Ok(py.detach(|| self.feed.add(piece)))
    }

    /// Mark the end of the schedule.
    fn end_feed(&self) {
        self.feed.end();
    }

    /// Send from connected sockets, without the GIL.
    fn run(
        &self,
        py: Python<'_>,
        fds: Items<i32>,
        stop: i32,
        pipe: i32,
        begin: i64,
    ) -> PyResult<()> {
        if fds.0.len() != self.sockets {
            return Err(PyValueError::new_err("each socket has a first ID"));
        }
        self.with(py, |inner| {
            let mut sockets = Sockets::new(fds.0, stop, pipe)?;
            inner.run(begin, &mut sockets);
            Ok(sockets.finish(inner.messages())?)
        })
    }

    /// Send to a world in Python.
    fn run_in(&self, py: Python<'_>, world: Py<PyAny>, begin: i64) -> PyResult<()> {
        self.with(py, |inner| {
            let mut scripted = Scripted {
                world,
                received: Vec::new(),
                error: None,
            };
            inner.run(begin, &mut scripted);
            scripted.emit(inner.messages());
            scripted.error.map_or(Ok(()), Err)
        })
    }
}

impl LoadSender {
    fn with(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&mut Inner) -> PyResult<()> + Send,
    ) -> PyResult<()> {
        let feed = Arc::clone(&self.feed);
        py.detach(|| {
            let result = match self.inner.try_lock() {
                Ok(mut inner) => run(&mut inner),
                Err(TryLockError::Poisoned(poisoned)) => run(&mut poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {
                    return Err(PyRuntimeError::new_err("it runs already"));
                }
            };
            feed.close();
            result
        })
    }
}

/// Counts outcomes for the sender in Python.
#[pyclass(frozen, module = "hsdns.fastpath._native")]
pub(super) struct LoadCounts {
    kinds: Vec<u32>,
    begin: i64,
    counts: Mutex<Counts>,
}

#[pymethods]
impl LoadCounts {
    #[new]
    fn new(kinds: Items<u32>, begin: i64) -> Self {
        Self {
            kinds: kinds.0,
            begin,
            counts: Mutex::default(),
        }
    }

    /// Count the outcome of a query.
    fn add(
        &self,
        question: u32,
        flags: u32,
        planned: i64,
        sent: i64,
        received: i64,
    ) -> PyResult<()> {
        let Some(&kind) = self.kinds.get(question as usize) else {
            return Err(PyValueError::new_err("there is no such question"));
        };
        let waiting = Waiting {
            question,
            planned,
            sent,
            marks: 0,
        };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let planned = planned - self.begin;
        counts.add(kind, planned, &waiting, received, flags);
        Ok(())
    }

    /// The content of a message with the counts since the last one.
    fn take<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let mut octets = Vec::new();
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.take(&mut octets);
        PyBytes::new(py, &octets)
    }
}

fn words<const LEN: usize, W>(octets: &[u8], read: impl Fn([u8; LEN]) -> W) -> Vec<W> {
    let words = octets.chunks_exact(LEN);
    words
        .filter_map(|word| word.try_into().ok().map(&read))
        .collect()
}

/// A clock and sockets in Python; an exception in them ends the run.
struct Scripted {
    world: Py<PyAny>,
    received: Vec<(PyBackedBytes, i64)>,
    error: Option<PyErr>,
}

impl Scripted {
    fn call<'py, R>(
        &mut self,
        py: Python<'py>,
        call: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<R>,
    ) -> Option<R> {
        match call(self.world.bind(py)) {
            Ok(found) => Some(found),
            Err(error) => {
                self.error.get_or_insert(error);
                None
            }
        }
    }
}

impl World for Scripted {
    fn clock(&mut self) -> i64 {
        let now: Option<i64> =
            Python::attach(|py| self.call(py, |world| world.call_method0("clock")?.extract()));
        now.unwrap_or(0)
    }

    fn wait(&mut self, nanoseconds: i64, ready: &mut Vec<usize>) -> bool {
        let found: Option<Option<Items<usize>>> = Python::attach(|py| {
            self.call(py, |world| {
                world.call_method1("wait", (nanoseconds,))?.extract()
            })
        });
        let Some(found) = found.flatten() else {
            return false;
        };
        ready.extend(found.0);
        self.error.is_none()
    }

    fn send(&mut self, socket: usize, datagrams: &Datagrams, refused: &mut Vec<usize>) {
        let found: Option<Items<usize>> = Python::attach(|py| {
            self.call(py, |world| {
                let octets = datagrams.iter().map(|each| PyBytes::new(py, each));
                let octets = PyList::new(py, octets)?;
                world.call_method1("send", (socket, octets))?.extract()
            })
        });
        refused.extend(found.map_or(Vec::new(), |found| found.0));
    }

    fn left(&mut self) -> Option<(usize, i64)> {
        let found =
            Python::attach(|py| self.call(py, |world| world.call_method0("left")?.extract()));
        found.flatten()
    }

    fn receive(&mut self, socket: usize) -> (usize, bool) {
        let found: Option<Items<(PyBackedBytes, i64)>> = Python::attach(|py| {
            self.call(py, |world| {
                world.call_method1("receive", (socket,))?.extract()
            })
        });
        self.received = found.map_or(Vec::new(), |found| found.0);
        (self.received.len(), false)
    }

    fn datagram(&self, index: usize) -> (&[u8], i64) {
        let (octets, received) = &self.received[index];
        (octets, *received)
    }

    fn dropped(&mut self) -> u32 {
        let found =
            Python::attach(|py| self.call(py, |world| world.call_method0("dropped")?.extract()));
        found.unwrap_or(0)
    }

    fn emit(&mut self, messages: &mut Vec<u8>) {
        Python::attach(|py| {
            self.call(py, |world| {
                world.call_method1("emit", (PyBytes::new(py, messages),))?;
                Ok(())
            })
        });
        messages.clear();
    }
}
