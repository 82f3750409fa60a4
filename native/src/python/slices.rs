//! What an event about an EndpointSlice changes, for the stores of hsdns/cluster: their own tuples and dicts; and the
//! first state of a cluster, with its Services.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use super::Items;
use super::cluster_names::ClusterNames;
use super::labels::split_labels;
use super::versions::Versions;
use super::watch::{ServiceReading, SliceReading};
use crate::names;
use crate::slice_change::{Change, Listed};
use crate::versions::{self, SIZE};

// The fields of PackedSlice in hsdns/cluster/value.py.
pub(super) const NAME: usize = 0;
const VERSION: usize = 1;
pub(super) const WIDTH: usize = 2;
pub(super) const ADDRESSES: usize = 3;
pub(super) const LABELS: usize = 4;
pub(super) const PORTS: usize = 5;
pub(super) const REVERSIBLE: usize = 7;
const TOPOLOGY_ZONES: usize = 8;

type Octets<'py> = Bound<'py, PyBytes>;
type Changes<'py> = (
    Bound<'py, PyList>,
    Bound<'py, PyList>,
    Bound<'py, PyList>,
    Bound<'py, PyList>,
);

/// Name and protocol of each Port.
fn ports_of<'py>(ports: &Bound<'py, PyAny>) -> PyResult<Vec<(Octets<'py>, Octets<'py>)>> {
    let pair = |port: Bound<'py, PyAny>| {
        let port = port.cast::<PyTuple>()?;
        let (name, protocol) = (port.get_item(0)?, port.get_item(1)?);
        Ok((name.cast_into()?, protocol.cast_into()?))
    };
    ports.cast::<PyTuple>()?.iter().map(pair).collect()
}

/// A PackedSlice.
struct Part<'py> {
    width: usize,
    addresses: Octets<'py>,
    labels: Option<Octets<'py>>,
    ports: Vec<(Octets<'py>, Octets<'py>)>,
    is_reversible: bool,
    topology_zones: Option<Vec<Octets<'py>>>,
}

impl<'py> Part<'py> {
    fn of(part: &Bound<'py, PyAny>) -> PyResult<Self> {
        let part = part.cast::<PyTuple>()?;
        let ports = part.get_item(PORTS)?;
        Ok(Self {
            width: part.get_item(WIDTH)?.extract()?,
            addresses: part.get_item(ADDRESSES)?.cast_into()?,
            labels: part.get_item(LABELS)?.extract()?,
            ports: ports_of(&ports)?,
            is_reversible: part.get_item(REVERSIBLE)?.is_truthy()?,
            topology_zones: part
                .get_item(TOPOLOGY_ZONES)?
                .extract::<Option<Items<_>>>()?
                .map(|zones| zones.0),
        })
    }

    fn list<'a>(&'a self, found: &mut Listed<'a>) {
        for (name, protocol) in &self.ports {
            found.add_port(name.as_bytes(), protocol.as_bytes());
        }
        for zone in self.topology_zones.iter().flatten() {
            found.add_topology_zone(zone.as_bytes());
        }
        let mut addresses = self.addresses.as_bytes().chunks_exact(self.width.max(1));
        if self.is_reversible {
            addresses.clone().for_each(|each| found.add_address(each));
        }
        let Some(labels) = &self.labels else {
            return addresses.for_each(|each| found.add_dashed(each));
        };
        for label in split_labels(labels.as_bytes()) {
            match addresses.next() {
                Some(address) if label.is_empty() => found.add_dashed(address),
                _ => found.add_label(label), // that of a target may be empty, as it has no dashed form
            }
        }
    }
}

fn change_of<'a>(old: &'a [Part<'_>], new: &'a [Part<'_>]) -> Change<'a> {
    let mut listed = (Listed::default(), Listed::default());
    old.iter().for_each(|part| part.list(&mut listed.0));
    new.iter().for_each(|part| part.list(&mut listed.1));
    listed.0.replaced_by(listed.1)
}

/// Return the labels that come and go if parts replace others, and the addresses that go and come.
#[pyfunction]
pub(super) fn slice_change<'py>(
    py: Python<'py>,
    old: &Bound<'py, PyAny>,
    new: &Bound<'py, PyAny>,
) -> PyResult<Changes<'py>> {
    let read = |parts: &Bound<'py, PyAny>| -> PyResult<Vec<Part<'py>>> {
        parts.try_iter()?.map(|part| Part::of(&part?)).collect()
    };
    let (old, new) = (read(old)?, read(new)?);
    let change = change_of(&old, &new);
    Ok((
        PyList::new(py, change.gained.iter().map(|each| PyBytes::new(py, each)))?,
        PyList::new(py, change.lost.iter().map(|each| PyBytes::new(py, each)))?,
        PyList::new(py, change.gone.iter().map(|each| PyBytes::new(py, each)))?,
        PyList::new(py, change.come.iter().map(|each| PyBytes::new(py, each)))?,
    ))
}

/// Remove an owner of the addresses in `gone` from an index, add it to those in `come`, then bump the counters of all.
#[pyfunction]
pub(super) fn move_addresses(
    index: &Bound<'_, PyDict>,
    gone: &Bound<'_, PyAny>,
    come: &Bound<'_, PyAny>,
    owner: &Bound<'_, PyAny>,
    versions: &Versions,
) -> PyResult<()> {
    move_all(
        index,
        gone.try_iter()?,
        come.try_iter()?,
        owner,
        &versions.inner,
    )
}

fn move_all<'py>(
    index: &Bound<'py, PyDict>,
    gone: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
    come: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
    owner: &Bound<'py, PyAny>,
    counters: &versions::Versions,
) -> PyResult<()> {
    let mut moved = Vec::new();
    for address in gone {
        let address = address?;
        remove(index, &address, owner)?;
        moved.push(counter(&address)?);
    }
    for address in come {
        let address = address?;
        add(index, &address, owner)?;
        moved.push(counter(&address)?);
    }
    moved.into_iter().for_each(|index| counters.bump(index));
    Ok(())
}

/// The index of a counter by Python's hash, as in hsdns/cluster/freshness.py.
pub(super) fn counter(key: &Bound<'_, PyAny>) -> PyResult<u16> {
    Ok(key.hash()?.rem_euclid(SIZE as isize) as u16)
}

fn add(
    index: &Bound<'_, PyDict>,
    address: &Bound<'_, PyAny>,
    owner: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let Some(known) = index.get_item(address)? else {
        return index.set_item(address, owner);
    };
    let several = match known.cast::<PyList>() {
        Ok(known) if known.contains(owner)? => return Ok(()),
        Ok(known) => known.get_slice(0, known.len()),
        Err(_) if known.eq(owner)? => return Ok(()),
        Err(_) => PyList::new(index.py(), [&known])?,
    };
    several.append(owner)?;
    index.set_item(address, several)
}

fn remove(
    index: &Bound<'_, PyDict>,
    address: &Bound<'_, PyAny>,
    owner: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let Some(known) = index.get_item(address)? else {
        return Ok(());
    };
    let Ok(several) = known.cast::<PyList>() else {
        return if known.eq(owner)? {
            index.del_item(address)
        } else {
            Ok(())
        };
    };
    let rest = PyList::empty(index.py());
    for each in several {
        if !each.eq(owner)? {
            rest.append(each)?;
        }
    }
    match rest.len() {
        0 => index.del_item(address),
        1 => index.set_item(address, rest.get_item(0)?),
        _ => index.set_item(address, rest),
    }
}

/// What a store has of EndpointSlices, for changes that are made whole by compiled code.
#[pyclass(frozen, module = "hsdns.fastpath._native")]
pub(super) struct SliceStore {
    values: Py<PyDict>,
    owners: Py<PyDict>,
    index: Py<PyDict>,
    names: Arc<names::ClusterNames>,
    versions: Arc<versions::Versions>,
    make_value: Py<PyAny>,
    make_part: Py<PyAny>,
    make_ports: Py<PyAny>,
    pod_names: bool,
    zonal: bool,
    counts_not_ready: bool,
}

/// The Service of a slice, that of its state before, its parts before and its parts now, None if it is the same; and the
/// labels below the Service that are gone.
type Applied<'py> = (
    Bound<'py, PyTuple>,
    Option<Bound<'py, PyAny>>,
    Bound<'py, PyTuple>,
    Option<Bound<'py, PyTuple>>,
    Vec<Bound<'py, PyBytes>>,
);

#[pymethods]
impl SliceStore {
    #[new]
    #[allow(clippy::too_many_arguments)] // the parts of a store
    fn new(
        values: Py<PyDict>,
        owners: Py<PyDict>,
        index: Py<PyDict>,
        names: &ClusterNames,
        versions: &Versions,
        make_value: Py<PyAny>,
        make_part: Py<PyAny>,
        make_ports: Py<PyAny>,
        pod_names: bool,
        zonal: bool,
        counts_not_ready: bool,
    ) -> Self {
        Self {
            values,
            owners,
            index,
            names: Arc::clone(&names.inner),
            versions: Arc::clone(&versions.inner),
            make_value,
            make_part,
            make_ports,
            pod_names,
            zonal,
            counts_not_ready,
        }
    }

    /// Apply a slice that was added or changed; None if it is left to Python, which has all rules.
    fn apply<'py>(
        &self,
        key: &Bound<'py, PyTuple>,
        version: &Bound<'py, PyString>,
        reading: &SliceReading,
    ) -> PyResult<Option<Applied<'py>>> {
        Ok(self.put(key, version, reading)?.map(|put| put.0))
    }

    /// Apply what `events` begin with, of a cluster that nothing reads yet: slices and Services that were not known.
    /// Return how many, up to one that is left to Python; and the values and times of the slices with a time of change.
    fn apply_first<'py>(
        &self,
        events: &Bound<'py, PyAny>,
        cluster_ips: &Bound<'py, PyDict>,
    ) -> PyResult<(usize, Vec<(Value<'py>, String)>)> {
        let (mut count, mut timed) = (0, Vec::new());
        for event in events.try_iter()? {
            let event = event?;
            let Some(read) = Read::of(&event)? else {
                break;
            };
            let is_done = if let Ok(slice) = read.reading.cast::<SliceReading>() {
                if self.owners.bind(event.py()).contains(&read.key)? {
                    break;
                }
                let put = self.put(&read.key, &read.version, slice.get())?;
                let changed_at = slice.get().changed_at().map(str::to_owned);
                put.is_some_and(|(_, value)| {
                    timed.extend(value.zip(changed_at));
                    true
                })
            } else if let Ok(service) = read.reading.cast::<ServiceReading>() {
                self.add_service(&read.version, service.get(), cluster_ips)?
            } else {
                false
            };
            if !is_done {
                break;
            }
            count += 1;
        }
        Ok((count, timed))
    }
}

/// A ServiceValue.
type Value<'py> = Bound<'py, PyAny>;

/// A ReadSlice or a ReadService.
struct Read<'py> {
    key: Bound<'py, PyTuple>,
    version: Bound<'py, PyString>,
    reading: Bound<'py, PyAny>,
}

impl<'py> Read<'py> {
    /// That of an event; None if it has another object.
    fn of(event: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let Ok(event) = event.cast::<PyTuple>() else {
            return Ok(None);
        };
        let py = event.py();
        let Ok(found) = event.get_item(0) else {
            return Ok(None);
        };
        let Some(reading) = found.getattr_opt(intern!(py, "reading"))? else {
            return Ok(None);
        };
        Ok(Some(Self {
            key: found.getattr(intern!(py, "key"))?.cast_into()?,
            version: found
                .getattr(intern!(py, "resource_version"))?
                .cast_into()?,
            reading,
        }))
    }
}

impl SliceStore {
    /// Add a Service that is not known, as Services.apply() in hsdns/cluster/services.py; false if it is left to that.
    fn add_service(
        &self,
        version: &Bound<'_, PyString>,
        reading: &ServiceReading,
        cluster_ips: &Bound<'_, PyDict>,
    ) -> PyResult<bool> {
        let py = version.py();
        let values = self.values.bind(py);
        let Some((namespace, name)) = reading.key(py)? else {
            return Ok(false);
        };
        let key = (&namespace, &name).into_pyobject(py)?;
        let before = values.get_item(&key)?;
        let slices = match &before {
            Some(value) => {
                let is_known = value.getattr(intern!(py, "kind"))?.is_truthy()?
                    || value
                        .getattr(intern!(py, "resource_version"))?
                        .is_truthy()?;
                if is_known {
                    return Ok(false);
                }
                value.getattr(intern!(py, "slices"))?
            }
            None => PyTuple::empty(py).into_any(),
        };
        let Some((is_headless, addresses, ports, has_selector)) = reading.fields(py)? else {
            return Ok(false);
        };
        let ports = self.make_ports.bind(py).call1((ports,))?;
        let kind = if is_headless {
            intern!(py, "headless")
        } else {
            intern!(py, "cluster_ip")
        };
        let make_value = self.make_value.bind(py);
        let value = make_value.call1((
            kind,
            version,
            &addresses,
            &ports,
            None::<u8>,
            slices,
            has_selector,
        ))?;
        let (of, service) = (namespace.as_bytes(), name.as_bytes());
        if before.is_none() {
            self.names.add_service(of, service);
        }
        let ports = ports_of(&ports)?;
        let mut listed = Listed::default();
        for (port, protocol) in &ports {
            listed.add_port(port.as_bytes(), protocol.as_bytes());
        }
        let mut labels = Listed::default().replaced_by(listed).gained;
        if self.zonal && is_headless {
            labels.push(names::TOPOLOGY.to_vec());
        }
        if !labels.is_empty() {
            let labels = labels.iter().map(|label| &label[..]);
            self.names.add_labels(of, service, labels);
        }
        values.set_item(&key, value)?;
        self.versions.bump(counter(&key)?);
        let spec = (PyBytes::new(py, b"spec"), &namespace, &name).into_pyobject(py)?;
        self.versions.bump(counter(&spec)?);
        let come = addresses.iter().map(Ok);
        move_all(cluster_ips, std::iter::empty(), come, &key, &self.versions)?;
        Ok(true)
    }

    /// What apply() returns, and the value now, if it is another one.
    fn put<'py>(
        &self,
        key: &Bound<'py, PyTuple>,
        version: &Bound<'py, PyString>,
        reading: &SliceReading,
    ) -> PyResult<Option<(Applied<'py>, Option<Value<'py>>)>> {
        let py = key.py();
        let (values, owners) = (self.values.bind(py), self.owners.bind(py));
        let Some((namespace, service)) = reading.service(py)? else {
            return Ok(None);
        };
        let owner = (&namespace, &service).into_pyobject(py)?;
        let before = owners.get_item(key)?;
        if let Some(before) = &before {
            if !before.eq(&owner)? {
                return Ok(None);
            }
        }
        let value = values.get_item(&owner)?;
        let name = key.get_item(1)?;
        let (mut old, mut slices, mut place) = (Vec::new(), Vec::new(), None);
        if let Some(value) = &value {
            for part in value
                .getattr(intern!(value.py(), "slices"))?
                .cast::<PyTuple>()?
            {
                if part.cast::<PyTuple>()?.get_item(NAME)?.eq(&name)? {
                    place.get_or_insert(slices.len());
                    old.push(part);
                } else {
                    slices.push(part);
                }
            }
        }
        let is_same = match old.first() {
            Some(part) if before.is_some() && !version.is_empty()? => {
                part.cast::<PyTuple>()?.get_item(VERSION)?.eq(version)?
            }
            _ => false,
        };
        let had = PyTuple::new(py, &old)?;
        if is_same {
            return Ok(Some(((owner, before, had, None, Vec::new()), None)));
        }
        let Some((width, addresses, labels, ports, zones, not_ready)) =
            reading.endpoints(py, self.pod_names, self.zonal)?
        else {
            return Ok(None);
        };
        owners.set_item(key, &owner)?;
        let ports = self.make_ports.bind(py).call1((ports,))?;
        let not_ready = if self.counts_not_ready { not_ready } else { 0 };
        let part = self.make_part.bind(py).call1(((
            &name,
            version,
            width,
            addresses,
            labels,
            ports,
            (),
            true,
            zones,
            b"",
            not_ready,
        ),))?;
        let has = PyTuple::new(py, [&part])?;
        slices.insert(place.unwrap_or(slices.len()), part.clone());
        let slices = PyTuple::new(py, slices)?;
        let new = match &value {
            Some(value) => value.call_method1(intern!(py, "with_slices"), (slices,))?,
            None => self
                .make_value
                .bind(py)
                .call1((None::<u8>, "", (), (), None::<u8>, slices))?,
        };
        let (old, parts) = (
            old.iter().map(Part::of).collect::<PyResult<Vec<_>>>()?,
            [Part::of(&part)?],
        );
        let change = change_of(&old, &parts);
        // The order is that of Services._replace() and _replace_slice() in hsdns/cluster/services.py.
        let (of, service) = (namespace.as_bytes(), service.as_bytes());
        if value.is_none() {
            self.names.add_service(of, service);
        }
        if !change.gained.is_empty() {
            let gained = change.gained.iter().map(|each| &each[..]);
            self.names.add_labels(of, service, gained);
        }
        values.set_item(&owner, &new)?;
        self.versions.bump(counter(&owner)?);
        let octets = |each: &&[u8]| Ok(PyBytes::new(py, each).into_any());
        move_all(
            self.index.bind(py),
            change.gone.iter().map(octets),
            change.come.iter().map(octets),
            (&namespace, owner.get_item(1)?, name)
                .into_pyobject(py)?
                .as_any(),
            &self.versions,
        )?;
        let lost = change.lost.iter().map(|each| PyBytes::new(py, each));
        let applied = (owner, before, had, Some(has), lost.collect());
        Ok(Some((applied, Some(new))))
    }
}
