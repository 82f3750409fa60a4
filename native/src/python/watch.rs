//! What an API server sends as protobuf, for Python.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use super::labels::{is_label, label};
use crate::watch::slice::{Packed, Port};
use crate::watch::wire::Malformed;
use crate::watch::{self, Content, Event, Frames, Service, Slice};

/// Octets from which the GIL is released: some dozen objects, which take longer than acquiring it again.
const MANY: usize = 32 * 1024;

/// Splits the octets of a watch into events.
#[pyclass(frozen, module = "hsdns.fastpath._native")]
pub(super) struct WatchFrames {
    inner: Mutex<Frames>,
}

#[pymethods]
impl WatchFrames {
    #[new]
    fn new(kind: &str, limit: usize) -> Self {
        Self {
            inner: Mutex::new(Frames::new(kind, limit)),
        }
    }

    /// Take octets; return the events that they complete, and why what follows is no event ("" if it may be).
    fn feed<'py>(
        &self,
        py: Python<'py>,
        data: &[u8],
    ) -> PyResult<(Bound<'py, PyList>, &'static str)> {
        let feed = || {
            self.inner
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .feed(data)
        };
        let (events, fault) = if data.len() < MANY {
            feed()
        } else {
            py.detach(feed)
        };
        Ok((list(py, events)?, fault.map_or("", |fault| fault.0)))
    }

    /// Return how many frames were too long since the last call.
    fn take_skipped(&self) -> usize {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut inner.skipped)
    }
}

type Texts<'a> = (Option<&'a str>, Option<&'a str>, Option<i32>);

/// Ports as tuples of name, protocol and number.
fn ports<'py>(py: Python<'py>, found: &[Port]) -> PyResult<Bound<'py, PyTuple>> {
    let texts = found
        .iter()
        .map(|(name, protocol, number)| (name.as_deref(), protocol.as_deref(), *number));
    PyTuple::new(py, texts.collect::<Vec<Texts<'_>>>())
}

/// A Service.
#[pyclass(frozen, module = "hsdns.fastpath._native")]
pub(super) struct ServiceReading {
    namespace: Py<PyString>,
    name: Py<PyString>,
    inner: Service,
}

#[pymethods]
impl ServiceReading {
    /// Return namespace and name as labels; None if one of them is none.
    #[getter]
    pub(super) fn key<'py>(&self, py: Python<'py>) -> PyResult<Option<Key<'py>>> {
        let namespace = label(py, self.namespace.bind(py).to_cow()?.as_ref());
        Ok(namespace.zip(label(py, self.name.bind(py).to_cow()?.as_ref())))
    }

    /// Return the JSON of the object.
    fn json<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.json())
    }

    /// Return whether it is headless, ClusterIPs, ports and whether it has a selector; None for an unusual Service.
    fn pack<'py>(&self, py: Python<'py>) -> PyResult<Option<Fields<'py>>> {
        self.fields(py)
    }
}

/// Whether it is headless, ClusterIPs, ports and whether it has a selector.
type Fields<'py> = (bool, Bound<'py, PyTuple>, Bound<'py, PyTuple>, bool);

impl ServiceReading {
    /// Its fields; None for an unusual Service.
    pub(super) fn fields<'py>(&self, py: Python<'py>) -> PyResult<Option<Fields<'py>>> {
        let Some(packed) = &self.inner.packed else {
            return Ok(None);
        };
        let addresses = packed.addresses.iter().map(|each| PyBytes::new(py, each));
        Ok(Some((
            packed.is_headless,
            PyTuple::new(py, addresses)?,
            ports(py, &packed.ports)?,
            packed.has_selector,
        )))
    }
}

/// An EndpointSlice.
#[pyclass(frozen, module = "hsdns.fastpath._native")]
pub(super) struct SliceReading {
    namespace: Py<PyString>,
    inner: Slice,
}

type Key<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

#[pymethods]
impl SliceReading {
    /// Return the labels and the annotation that the store reads: Service, ServiceImport, its cluster, time of change.
    #[getter]
    fn meta(&self) -> (Option<&str>, Option<&str>, Option<&str>, Option<&str>) {
        let meta = &self.inner.meta;
        (
            meta.service.as_deref(),
            meta.import.as_deref(),
            meta.source.as_deref(),
            meta.change.as_deref(),
        )
    }

    /// Return namespace and name of the Service that it names, as labels; None if it names none.
    #[getter]
    fn owner<'py>(&self, py: Python<'py>) -> PyResult<Option<Key<'py>>> {
        self.service(py)
    }

    /// Return when it was changed, as annotated.
    #[getter]
    pub(super) fn changed_at(&self) -> Option<&str> {
        self.inner.meta.change.as_deref()
    }

    /// Return the JSON of the object.
    fn json<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.json())
    }

    /// Return width, addresses, labels, ports, topology zones if they are wanted, and the number of addresses that are
    /// not ready; None for an unusual slice.
    fn pack<'py>(
        &self,
        py: Python<'py>,
        pod_names: bool,
        zonal: bool,
    ) -> PyResult<Option<Endpoints<'py>>> {
        self.endpoints(py, pod_names, zonal)
    }
}

/// Width, addresses, labels, ports, topology zones and the number of addresses that are not ready.
pub(super) type Endpoints<'py> = (
    usize,
    Bound<'py, PyBytes>,
    Option<Bound<'py, PyBytes>>,
    Bound<'py, PyTuple>,
    Option<Bound<'py, PyTuple>>,
    usize,
);

/// The topology zone of each address, of an address that occurs several times the last one; None if there is none.
fn topology_zones<'py>(
    py: Python<'py>,
    packed: &Packed,
    octets: &[u8],
) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let addresses = packed.addresses.chunks_exact(packed.width);
    let mut known: HashMap<&[u8], &str> = HashMap::new();
    for (address, names) in addresses.clone().zip(&packed.names) {
        if let Some(zone) = names.zone {
            known.insert(address, zone.text(octets).unwrap_or_default());
        }
    }
    if known.values().all(|zone| zone.is_empty()) {
        return Ok(None);
    }
    let none = PyBytes::new(py, b"");
    let zones = addresses.map(|address| {
        let zone = known.get(address).and_then(|zone| label(py, zone));
        zone.unwrap_or_else(|| none.clone())
    });
    PyTuple::new(py, zones.collect::<Vec<_>>()).map(Some)
}

impl SliceReading {
    /// Namespace and name of the Service that it names, as labels.
    pub(super) fn service<'py>(&self, py: Python<'py>) -> PyResult<Option<Key<'py>>> {
        let Some(service) = &self.inner.meta.service else {
            return Ok(None);
        };
        let namespace = label(py, self.namespace.bind(py).to_cow()?.as_ref());
        Ok(namespace.zip(label(py, service)))
    }

    /// Its endpoints; None for an unusual slice.
    pub(super) fn endpoints<'py>(
        &self,
        py: Python<'py>,
        pod_names: bool,
        zonal: bool,
    ) -> PyResult<Option<Endpoints<'py>>> {
        let Slice {
            packed: Some(packed),
            octets,
            ..
        } = &self.inner
        else {
            return Ok(None);
        };
        if zonal && !packed.has_usual_zones(octets) {
            return Ok(None);
        }
        let mut labels = Vec::new();
        for names in &packed.names {
            let name = match names.hostname.text(octets) {
                None if pod_names => names.pod.text(octets),
                found => found,
            };
            let name = name.filter(|name| is_label(name)).unwrap_or_default();
            labels.push(name.len() as u8);
            labels.extend(name.bytes().map(|octet| octet.to_ascii_lowercase()));
        }
        let has_any = labels.len() > packed.names.len();
        let labels = has_any.then(|| PyBytes::new(py, &labels));
        let zones = if zonal {
            topology_zones(py, packed, octets)?
        } else {
            None
        };
        Ok(Some((
            packed.width,
            PyBytes::new(py, &packed.addresses),
            labels,
            ports(py, &packed.ports)?,
            zones,
            packed.not_ready,
        )))
    }
}

/// Read a page of a list: its resourceVersion, the continue token of the next one, its objects as additions.
#[pyfunction]
pub(super) fn read_page<'py>(
    py: Python<'py>,
    body: &[u8],
    kind: &str,
) -> PyResult<(String, String, Bound<'py, PyList>)> {
    let page = py
        .detach(|| watch::read_page(body, kind))
        .map_err(as_error)?;
    Ok((page.version, page.following, list(py, page.events)?))
}

/// Return the JSON of a Status.
#[pyfunction]
pub(super) fn read_status<'py>(py: Python<'py>, body: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let json = watch::read_status(body).map_err(as_error)?;
    Ok(PyBytes::new(py, &json))
}

/// Return seconds since the epoch; None for a time that is left to Python.
#[pyfunction]
pub(super) fn read_time(text: &Bound<'_, PyString>) -> Option<f64> {
    watch::time::read_time(&text.to_cow().ok()?)
}

#[allow(clippy::needless_pass_by_value)] // the signature of map_err()
fn as_error(fault: Malformed) -> PyErr {
    PyValueError::new_err(fault.0)
}

fn list(py: Python<'_>, events: Vec<Event>) -> PyResult<Bound<'_, PyList>> {
    let found = PyList::empty(py);
    for event in events {
        found.append(tuple(py, event)?)?;
    }
    Ok(found)
}

/// An event: type, namespace and name, resourceVersion, content.
fn tuple(py: Python<'_>, event: Event) -> PyResult<Bound<'_, PyTuple>> {
    let namespace = PyString::intern(py, &event.namespace);
    let name = PyString::new(py, &event.name);
    let content = match event.content {
        Content::Bookmark(ends) => ends.into_pyobject(py)?.to_owned().into_any(),
        Content::Status(json) | Content::Object(json) => PyBytes::new(py, &json).into_any(),
        Content::Slice(inner) => {
            let namespace = namespace.clone().unbind();
            Bound::new(py, SliceReading { namespace, inner })?.into_any()
        }
        Content::Service(inner) => {
            let (namespace, name) = (namespace.clone().unbind(), name.clone().unbind());
            let read = ServiceReading {
                namespace,
                name,
                inner,
            };
            Bound::new(py, read)?.into_any()
        }
        Content::Fault(reason) => PyString::new(py, reason).into_any(),
    };
    (
        PyString::intern(py, event.kind),
        (namespace, name),
        event.version,
        content,
    )
        .into_pyobject(py)
}
