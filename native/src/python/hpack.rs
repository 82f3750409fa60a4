//! HeaderDecoder for Python.

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::hpack::{Decoder, Fault};

type Octets<'py> = Bound<'py, PyBytes>;

/// Decodes the header blocks of one direction of an HTTP/2 connection.
#[pyclass(module = "hsdns.fastpath._native")]
pub(super) struct HeaderDecoder {
    inner: Decoder,
}

#[pymethods]
impl HeaderDecoder {
    #[new]
    fn new(limit: usize) -> Self {
        let inner = Decoder::new(limit);
        Self { inner }
    }

    /// How often a block has changed the table.
    #[getter]
    fn changes(&self) -> u64 {
        self.inner.changes()
    }

    /// The names and values of a whole block.
    fn decode<'py>(
        &mut self,
        py: Python<'py>,
        block: &[u8],
    ) -> PyResult<Vec<(Octets<'py>, Octets<'py>)>> {
        let fields = self.inner.decode(block).map_err(|fault| match fault {
            Fault::TooLong => PyOverflowError::new_err("its fields are too long"),
            Fault::Malformed(what) => PyValueError::new_err(what),
        })?;
        let octets = |octets: &[u8]| PyBytes::new(py, octets);
        Ok(fields
            .iter()
            .map(|(name, value)| (octets(name), octets(value)))
            .collect())
    }
}
