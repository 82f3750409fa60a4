//! What an event about an EndpointSlice changes, for the stores of hsdns/cluster: their own tuples and dicts.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use super::Versions;
use crate::slice_change::Listed;
use crate::versions::SIZE;

// The fields of PackedSlice in hsdns/cluster/value.py.
const WIDTH: usize = 2;
const ADDRESSES: usize = 3;
const LABELS: usize = 4;
const PORTS: usize = 5;
const REVERSIBLE: usize = 7;

type Octets<'py> = Bound<'py, PyBytes>;
type Changes<'py> = (
    Bound<'py, PyList>,
    Bound<'py, PyList>,
    Bound<'py, PyList>,
    Bound<'py, PyList>,
);

/// A PackedSlice.
struct Part<'py> {
    width: usize,
    addresses: Octets<'py>,
    labels: Option<Vec<Option<Octets<'py>>>>,
    ports: Vec<(Octets<'py>, Octets<'py>)>,
    is_reversible: bool,
}

impl<'py> Part<'py> {
    fn of(part: &Bound<'py, PyAny>) -> PyResult<Self> {
        let part = part.cast::<PyTuple>()?;
        let ports = part.get_item(PORTS)?;
        Ok(Self {
            width: part.get_item(WIDTH)?.extract()?,
            addresses: part.get_item(ADDRESSES)?.cast_into()?,
            labels: part.get_item(LABELS)?.extract()?,
            ports: ports
                .cast::<PyTuple>()?
                .iter()
                .map(|port| {
                    let port = port.cast::<PyTuple>()?;
                    let (name, protocol) = (port.get_item(0)?, port.get_item(1)?);
                    Ok((name.cast_into()?, protocol.cast_into()?))
                })
                .collect::<PyResult<_>>()?,
            is_reversible: part.get_item(REVERSIBLE)?.is_truthy()?,
        })
    }

    fn list<'a>(&'a self, found: &mut Listed<'a>) {
        for (name, protocol) in &self.ports {
            found.add_port(name.as_bytes(), protocol.as_bytes());
        }
        let mut addresses = self.addresses.as_bytes().chunks_exact(self.width.max(1));
        if self.is_reversible {
            addresses.clone().for_each(|each| found.add_address(each));
        }
        let Some(labels) = &self.labels else {
            return addresses.for_each(|each| found.add_dashed(each));
        };
        for label in labels {
            match (label, addresses.next()) {
                (Some(label), _) => found.add_label(label.as_bytes()),
                (None, Some(address)) => found.add_dashed(address),
                (None, None) => (), // a target, which has no dashed form
            }
        }
    }
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
    let mut listed = (Listed::default(), Listed::default());
    old.iter().for_each(|part| part.list(&mut listed.0));
    new.iter().for_each(|part| part.list(&mut listed.1));
    let change = listed.0.replaced_by(listed.1);
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
    counters: &Versions,
) -> PyResult<()> {
    let mut moved = Vec::new();
    for address in gone.try_iter()? {
        let address = address?;
        remove(index, &address, owner)?;
        moved.push(address.hash()?);
    }
    for address in come.try_iter()? {
        let address = address?;
        add(index, &address, owner)?;
        moved.push(address.hash()?);
    }
    for hash in moved {
        counters.inner.bump(hash.rem_euclid(SIZE as isize) as u16);
    }
    Ok(())
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
