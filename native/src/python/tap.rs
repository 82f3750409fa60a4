//! Tap for Python.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::named_tuple::NamedTuple;
use super::nanoseconds;
use crate::tap;

pub(super) static TAP_RECORD: NamedTuple = NamedTuple::new(
    "TapRecord",
    &[
        "query", "address", "source", "flags", "size", "seconds", "at", "is_tcp", "is_hit",
    ],
);

/// The last queries, or a fair sample of them.
#[pyclass(frozen, module = "hsdns.fastpath._native")]
pub(super) struct Tap {
    pub(super) inner: Arc<tap::Tap>,
}

#[pymethods]
impl Tap {
    #[new]
    fn new() -> Self {
        Self {
            inner: Arc::default(),
        }
    }

    /// The mode.
    #[getter]
    fn mode(&self) -> u8 {
        self.inner.mode() as u8
    }

    #[setter]
    fn set_mode(&self, mode: u8) -> PyResult<()> {
        let mode = tap::Mode::of(mode)
            .ok_or_else(|| PyValueError::new_err(format!("a tap has no mode {mode}")))?;
        self.inner.set_mode(mode);
        Ok(())
    }

    /// Add a query that the chain has answered.
    #[pyo3(signature = (query, address, *, source, flags, size, seconds, at, is_tcp))]
    #[allow(clippy::too_many_arguments)] // the contract with the Python twin
    fn push(
        &self,
        query: &[u8],
        address: &[u8],
        source: u32,
        flags: Option<u16>,
        size: usize,
        seconds: f64,
        at: f64,
        is_tcp: bool,
    ) {
        self.inner.push([tap::Answered {
            query,
            address,
            source,
            is_tcp,
            is_hit: false,
            flags,
            size,
            elapsed: nanoseconds(seconds),
            at: nanoseconds(at),
        }]);
    }

    /// Remove and return the contents, with the number of all queries since the last call.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<(u64, Bound<'py, PyList>)> {
        let taken = PyList::empty(py);
        let class = TAP_RECORD.class(py)?;
        let (seen, records) = self.inner.take(|record| {
            let [query, address] =
                [record.query(), record.address()].map(|part| PyBytes::new(py, part));
            class.call1((
                query,
                address,
                record.source,
                record.flags,
                record.size,
                record.elapsed as f64 / 1e9,
                record.at as f64 / 1e9,
                record.is_tcp,
                record.is_hit,
            ))
        });
        for record in records {
            taken.append(record?)?;
        }
        Ok((seen, taken))
    }
}
