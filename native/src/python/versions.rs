//! Versions for Python.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::versions::{self, Holder, SIZE};

/// The index of a counter, modulo `SIZE`: a hash of any size and sign.
pub(super) struct Index(pub(super) u16);

impl<'py> FromPyObject<'_, 'py> for Index {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let index = match object.extract::<i64>() {
            Ok(index) => index.rem_euclid(SIZE as i64),
            Err(_) => object.call_method1("__mod__", (SIZE,))?.extract::<i64>()?,
        };
        u16::try_from(index)
            .map(Self)
            .map_err(|_| PyValueError::new_err("an index is an integer"))
    }
}

/// HitCounts that events increment and entries depend on.
#[pyclass(frozen, module = "hsdns.fastpath._native")]
pub(super) struct Versions {
    pub(super) inner: Arc<versions::Versions>,
}

#[pymethods]
impl Versions {
    /// The number of counters.
    #[classattr]
    const SIZE: usize = SIZE;

    #[new]
    fn new() -> Self {
        Self {
            inner: Arc::default(),
        }
    }

    /// Invalidate the replies that depend on a counter: at once, or when this thread releases what it holds.
    fn bump(&self, index: Index) {
        self.inner.bump(index.0);
    }

    /// Hold the increments that this thread makes: entries stay valid until release(), when its replies are stored.
    fn hold(&self) {
        self.inner.hold();
    }

    /// The counters whose increments are held.
    fn held(&self) -> Vec<u16> {
        self.inner.held()
    }

    /// Make the increments that are held; `more` is for other counters, which do more.
    #[pyo3(signature = (*, more = false))]
    fn release(&self, more: bool) {
        let _ = more;
        self.inner.release();
    }

    /// Wait until the events of other threads are shown, for some seconds at most.
    fn settle(&self, py: Python<'_>, seconds: f64) {
        if self.inner.holder() == Holder::Another {
            let patience = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
            py.detach(|| self.inner.settle(patience));
        }
    }

    /// Return the value of a counter, with increments that are held.
    fn read(&self, index: Index) -> u64 {
        self.inner.read(index.0)
    }

    /// Let replies that depend on counters be valid until `end`, in monotonic seconds.
    fn renew_lease(&self, end: f64) {
        self.inner.renew_lease((end * 1e9) as u64); // saturates
    }
}
