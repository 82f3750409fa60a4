//! ClusterNames for Python.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use super::Items;
use crate::names;

/// The namespaces and Services of a cluster.
#[pyclass(frozen, module = "hsdns.fastpath._native")]
pub(super) struct ClusterNames {
    pub(super) inner: Arc<names::ClusterNames>,
}

#[pymethods]
impl ClusterNames {
    #[new]
    fn new() -> Self {
        Self {
            inner: Arc::default(),
        }
    }

    /// Whether an unlisted name is NXDOMAIN.
    #[getter]
    fn open(&self) -> bool {
        self.inner.is_open()
    }

    #[setter]
    fn set_open(&self, open: bool) {
        self.inner.set_open(open);
    }

    /// The current SOA serial.
    #[getter]
    fn serial(&self) -> u32 {
        self.inner.serial()
    }

    #[setter]
    fn set_serial(&self, serial: u32) {
        self.inner.set_serial(serial);
    }

    /// Add a namespace.
    fn add_namespace(&self, label: &[u8]) {
        self.inner.add_namespace(label);
    }

    /// Remove a namespace.
    fn remove_namespace(&self, label: &[u8]) {
        self.inner.remove_namespace(label);
    }

    /// Add a Service.
    fn add_service(&self, namespace: &[u8], name: &[u8]) {
        self.inner.add_service(namespace, name);
    }

    /// Remove a Service.
    fn remove_service(&self, namespace: &[u8], name: &[u8]) {
        self.inner.remove_service(namespace, name);
    }

    /// Add labels below a Service.
    fn add_labels(&self, namespace: &[u8], name: &[u8], labels: Items<PyBackedBytes>) {
        let labels = labels.0.iter().map(|label| &label[..]);
        self.inner.add_labels(namespace, name, labels);
    }

    /// Remove labels below a Service, once each.
    fn remove_labels(&self, namespace: &[u8], name: &[u8], labels: Items<PyBackedBytes>) {
        let labels = labels.0.iter().map(|label| &label[..]);
        self.inner.remove_labels(namespace, name, labels);
    }

    /// Return whether there is such a namespace.
    fn has_namespace(&self, label: &[u8]) -> bool {
        self.inner.has_namespace(label)
    }

    /// Return how many labels are listed below a Service, each as often as it was added.
    fn label_count(&self, namespace: &[u8], name: &[u8]) -> usize {
        self.inner.label_count(namespace, name)
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }
}
