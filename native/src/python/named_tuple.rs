//! Named tuples for results with several fields.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// A class made by Python on first use.
pub(super) struct NamedTuple {
    pub(super) name: &'static str,
    fields: &'static [&'static str],
    class: PyOnceLock<Py<PyAny>>,
}

impl NamedTuple {
    pub(super) const fn new(name: &'static str, fields: &'static [&'static str]) -> Self {
        Self {
            name,
            fields,
            class: PyOnceLock::new(),
        }
    }

    pub(super) fn class<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let make = || -> PyResult<Py<PyAny>> {
            let keywords = PyDict::new(py);
            keywords.set_item("module", "hsdns.fastpath._native")?;
            let factory = py.import("collections")?.getattr("namedtuple")?;
            let class = factory.call((self.name, self.fields.to_vec()), Some(&keywords))?;
            Ok(class.unbind())
        };
        Ok(self.class.get_or_try_init(py, make)?.bind(py).clone())
    }
}
