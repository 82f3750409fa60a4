//! Replies about Services, endpoints and their addresses, made from the values of a store (hsdns/cluster/value.py), and
//! stored in an answer table.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use super::Items;
use super::answer_table::{AnswerTable, NamedTerms};
use super::asked::{Asked, Bytes, MOST, Part};
use super::slices::{NAME, REVERSIBLE, counter};
use super::versions::Versions;
use crate::entry::Terms;
use crate::key::{HEADER_LEN, Query, Reader, u16_at};
use crate::service_reply::{A, AAAA, PTR, SRV, Writer, address_of, address_type, name_of};
use crate::table::MAX_DEPENDENCIES;
use crate::versions::{self, Dependency};

const NO_PORT: i64 = -1; // as in hsdns/cluster/value.py

/// After so many, a form is left to Python.
const MOST_FAILURES: u8 = 8;

/// What the names of a zone have in common for a type and the flags of a query.
struct Form {
    ttl: u32,
    /// RDATA of the zone's SOA record, for replies without an answer.
    soa: Vec<u8>,
    /// All but the dependencies and the size.
    terms: Terms,
    note: Py<PyAny>,
}

/// Zone, type and flags, and whether there is no answer.
type FormKey = (usize, u16, u8, bool);
type Forms = HashMap<FormKey, Known>;

/// A form, and how often another reply was made than the chain's: an event may come in between.
#[derive(Default)]
struct Known {
    form: Option<Form>,
    failures: u8,
}

/// The key of an entry, the counters that it depends on, and the form's note.
type Stored<'py> = (Bound<'py, PyBytes>, Bound<'py, PyTuple>, Py<PyAny>);

/// Makes the replies that need only the values of a store.
#[pyclass(frozen, module = "hsdns.fastpath._native")]
pub(super) struct ServiceReplies {
    values: Py<PyDict>,
    namespaces: Py<PyDict>,
    cluster_ips: Py<PyDict>,
    endpoint_ips: Py<PyDict>,
    versions: Arc<versions::Versions>,
    zones: Vec<PyBackedBytes>,
    /// `svc.` and the zone of the names in PTR records.
    services: Vec<u8>,
    forms: Mutex<Forms>,
}

#[pymethods]
impl ServiceReplies {
    #[new]
    fn new(
        values: Py<PyDict>,
        namespaces: Py<PyDict>,
        cluster_ips: Py<PyDict>,
        endpoint_ips: Py<PyDict>,
        versions: &Versions,
        zones: Items<PyBackedBytes>,
        primary_zone: &[u8],
    ) -> Self {
        Self {
            values,
            namespaces,
            cluster_ips,
            endpoint_ips,
            versions: Arc::clone(&versions.inner),
            zones: zones.0,
            services: [b"\x03svc", primary_zone].concat(),
            forms: Mutex::default(),
        }
    }

    /// Return whether only the form of the reply to a query is not known.
    fn lacks(&self, py: Python<'_>, query: &[u8]) -> PyResult<bool> {
        let mut reader = Reader::default();
        let Some((query, zone)) = self.read(&mut reader, query) else {
            return Ok(false);
        };
        let Some(found) = self.find(py, &query, zone)? else {
            return Ok(false);
        };
        let key = form_key(zone, &query, found.is_empty());
        let forms = self.lock(py);
        let known = forms.get(&key);
        Ok(known.is_none_or(|known| known.form.is_none() && known.failures < MOST_FAILURES))
    }

    /// Add the form of a reply; False if another reply would be made.
    #[allow(clippy::too_many_arguments)] // the contract with Python
    fn add_form(
        &self,
        py: Python<'_>,
        query: &[u8],
        reply: &[u8],
        ttl: u32,
        soa: &[u8],
        note: Py<PyAny>,
        terms: NamedTerms,
    ) -> PyResult<bool> {
        let mut reader = Reader::default();
        let Some((query, zone)) = self.read(&mut reader, query) else {
            return Ok(false);
        };
        let Some(found) = self.find(py, &query, zone)? else {
            return Ok(false);
        };
        let form = Form {
            ttl,
            soa: soa.to_vec(),
            terms: terms.0,
            note,
        };
        let is_same = found.is_empty() != form.soa.is_empty()
            && found
                .write(&query, self.zones[zone].len(), &form)
                .is_some_and(|(made, _)| is_same(&made, reply, query.edns.is_some()));
        let mut forms = self.lock(py);
        let known = forms
            .entry(form_key(zone, &query, found.is_empty()))
            .or_default();
        if is_same {
            known.form = Some(form);
        } else {
            known.failures = known.failures.saturating_add(1);
        }
        Ok(is_same)
    }

    /// Make the reply to a query and store it; None if it is left to Python, which has all rules.
    fn store<'py>(
        &self,
        py: Python<'py>,
        query: &[u8],
        table: &AnswerTable,
    ) -> PyResult<Option<Stored<'py>>> {
        let (wire, mut reader) = (query, Reader::default());
        let Some((query, zone)) = self.read(&mut reader, wire) else {
            return Ok(None);
        };
        let Some(found) = self.find(py, &query, zone)? else {
            return Ok(None);
        };
        let forms = self.lock(py);
        let known = forms.get(&form_key(zone, &query, found.is_empty()));
        let Some(form) = known.and_then(|known| known.form.as_ref()) else {
            return Ok(None);
        };
        let Some((reply, size)) = found.write(&query, self.zones[zone].len(), form) else {
            return Ok(None);
        };
        let terms = Terms {
            dependencies: found.dependencies.as_slice().into(),
            size: u32::try_from(size).unwrap_or(u32::MAX),
            ..form.terms.clone()
        };
        if !table.inner.renew(wire, &reply, terms) {
            return Ok(None);
        }
        let counters = found.dependencies.iter().map(|each| each.index);
        Ok(Some((
            PyBytes::new(py, query.key()),
            PyTuple::new(py, counters)?,
            form.note.clone_ref(py),
        )))
    }
}

impl ServiceReplies {
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Forms> {
        self.forms
            .lock_py_attached(py)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A plain query with its zone; none of the zones is below another one.
    fn read<'a>(&self, reader: &'a mut Reader, query: &'a [u8]) -> Option<(Query<'a>, usize)> {
        let query = reader.read(query)?;
        let is_above = |zone: &PyBackedBytes| query.labels_left_of(zone).is_some();
        Some((query, self.zones.iter().position(is_above)?))
    }

    fn find(&self, py: Python<'_>, query: &Query<'_>, zone: usize) -> PyResult<Option<Found>> {
        let mut found = Found::default();
        let is_found = match query.qtype() {
            A | AAAA | SRV => self.find_service(py, query, zone, &mut found)?,
            PTR => self.find_address(py, query, &mut found)?,
            _ => None,
        };
        let is_found = is_found.is_some() && found.dependencies.len() <= MAX_DEPENDENCIES;
        Ok(is_found.then_some(found))
    }

    /// Find the records of a Service or an endpoint (hsdns/cluster/lookup.py, schema.py); None if it is left to Python.
    fn find_service(
        &self,
        py: Python<'_>,
        query: &Query<'_>,
        zone: usize,
        found: &mut Found,
    ) -> PyResult<Option<()>> {
        let Some(asked) = Asked::read(query, &self.zones[zone]) else {
            return Ok(None);
        };
        let namespace = PyBytes::new(py, asked.namespace);
        let name = PyBytes::new(py, asked.name);
        self.depend(
            found,
            (PyBytes::new(py, b"namespace"), &namespace)
                .into_pyobject(py)?
                .as_any(),
        )?;
        let key = (&namespace, &name).into_pyobject(py)?;
        let values = self.values.bind(py);
        if !self.namespaces.bind(py).contains(&namespace)? {
            return Ok(None);
        }
        let Some(needs_slices) = values
            .get_item(&key)?
            .map_or(Ok(None), |value| asked.needs_slices(&value))?
        else {
            return Ok(None);
        };
        if needs_slices {
            self.depend(found, &key)?;
        } else {
            self.depend(
                found,
                (PyBytes::new(py, b"spec"), &namespace, &name)
                    .into_pyobject(py)?
                    .as_any(),
            )?;
        }
        // Read again now that its counter has been.
        let Some(value) = values.get_item(&key)? else {
            return Ok(None);
        };
        if asked.needs_slices(&value)? != Some(needs_slices) {
            return Ok(None);
        }
        let qtype = query.qtype();
        let Some(entries) = asked.entries(&value, qtype == SRV)? else {
            return Ok(None);
        };
        if entries.is_empty() || entries.len() > MOST {
            return Ok(None);
        }
        if qtype == SRV {
            found.records = Records::Services(
                entries
                    .into_iter()
                    .map(|each| Target {
                        name: match &each.label {
                            Some(label) => name_of(&[label], asked.service),
                            None => Some(asked.service.to_vec()),
                        },
                        port: each.port,
                        address: each.address,
                    })
                    .collect(),
            );
        } else {
            let addresses = entries.into_iter().map(|each| each.address);
            let of_type = addresses.filter(|each| address_type(each) == qtype);
            found.records = Records::Addresses(without_repetitions(of_type));
        }
        Ok(Some(()))
    }

    /// Find the names of an address (`pointers` of hsdns/cluster/lookup.py); None if it is left to Python.
    fn find_address(
        &self,
        py: Python<'_>,
        query: &Query<'_>,
        found: &mut Found,
    ) -> PyResult<Option<()>> {
        let Some(octets) = address_of(query) else {
            return Ok(None);
        };
        let address = PyBytes::new(py, &octets);
        self.depend(found, &address)?;
        if let Some(owner) = self.cluster_ips.bind(py).get_item(&address)? {
            let Ok(owner) = owner.cast_into::<PyTuple>() else {
                return Ok(None); // several share it
            };
            let (namespace, name) = owner.extract::<(PyBackedBytes, PyBackedBytes)>()?;
            let names = name_of(&[&name, &namespace], &self.services).into_iter();
            found.records = Records::Names(names.collect());
            return Ok((!found.is_empty()).then_some(()));
        }
        let owners = match self.endpoint_ips.bind(py).get_item(&address)? {
            None => return Ok(None),
            Some(owners) => match owners.cast_into::<PyList>() {
                Ok(several) => several.iter().collect(),
                Err(one) => vec![one.into_inner()],
            },
        };
        let mut names = Vec::new();
        for owner in owners {
            let (namespace, name, slice) =
                owner.extract::<(Bytes<'_>, Bytes<'_>, Bound<'_, PyString>)>()?;
            let key = (&namespace, &name).into_pyobject(py)?;
            self.depend(found, &key)?;
            let Some(value) = self.values.bind(py).get_item(&key)? else {
                continue; // an event is removing both
            };
            for part in value
                .getattr(intern!(value.py(), "slices"))?
                .cast::<PyTuple>()?
            {
                let part = part.cast_into::<PyTuple>()?;
                if !part.get_item(NAME)?.eq(&slice)? || !part.get_item(REVERSIBLE)?.is_truthy()? {
                    continue;
                }
                let part = Part::of(&part)?;
                for label in part.labels_of(&octets) {
                    let Some(label) = label else {
                        return Ok(None);
                    };
                    names.extend(name_of(
                        &[&label, name.as_bytes(), namespace.as_bytes()],
                        &self.services,
                    ));
                }
            }
        }
        found.records = Records::Names(without_repetitions(names));
        Ok((!found.is_empty()).then_some(()))
    }

    /// Add a counter to what a reply depends on; before what it counts is read.
    fn depend(&self, found: &mut Found, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let index = counter(key)?;
        if found.dependencies.iter().all(|each| each.index != index) {
            let value = self.versions.read(index);
            found.dependencies.push(Dependency { index, value });
        }
        Ok(())
    }
}

/// Each one once, in order.
fn without_repetitions(all: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut seen = HashSet::new();
    all.into_iter()
        .filter(|each| seen.insert(each.clone()))
        .collect()
}

/// Whether a reply is that of the chain, which ends with an OPT record if the query has one.
fn is_same(made: &[u8], reply: &[u8], has_opt: bool) -> bool {
    reply.len() >= made.len()
        && made[..10] == reply[..10]
        && u16_at(made, 10) + u16::from(has_opt) == u16_at(reply, 10)
        && made[HEADER_LEN..] == reply[HEADER_LEN..made.len()]
        && (has_opt || made.len() == reply.len())
}

fn form_key(zone: usize, query: &Query<'_>, is_empty: bool) -> FormKey {
    let flags = query.key().last().copied().unwrap_or_default();
    (zone, query.qtype(), flags, is_empty)
}

/// What a store has for a question, and the counters that this depends on.
#[derive(Default)]
struct Found {
    dependencies: Vec<Dependency>,
    records: Records,
}

enum Records {
    Addresses(Vec<Vec<u8>>),
    Services(Vec<Target>),
    Names(Vec<Vec<u8>>),
}

impl Default for Records {
    fn default() -> Self {
        Self::Addresses(Vec::new())
    }
}

/// A name, port and address of SRV records.
struct Target {
    name: Option<Vec<u8>>,
    port: i64,
    address: Vec<u8>,
}

impl Found {
    fn is_empty(&self) -> bool {
        match &self.records {
            Records::Addresses(addresses) => addresses.is_empty(),
            Records::Services(targets) => targets.is_empty(),
            Records::Names(names) => names.is_empty(),
        }
    }

    /// Write the reply; None if it is too long, or is left to Python.
    fn write(&self, query: &Query<'_>, zone_len: usize, form: &Form) -> Option<(Vec<u8>, usize)> {
        let mut writer = Writer::new(query);
        match &self.records {
            Records::Addresses(addresses) if addresses.is_empty() => {
                writer.soa(form.ttl, zone_len, &form.soa)?;
            }
            Records::Addresses(addresses) => {
                for address in addresses {
                    writer.address(form.ttl, address);
                }
            }
            Records::Services(targets) => write_targets(&mut writer, targets, form.ttl)?,
            Records::Names(names) => {
                for name in names {
                    writer.pointer(form.ttl, name);
                }
            }
        }
        writer.finish()
    }
}

/// Each name with a port once, then each address of a name once; the weight counts all pairs (hsdns/cluster/schema.py).
fn write_targets(writer: &mut Writer<'_>, targets: &[Target], ttl: u32) -> Option<()> {
    let weight = u16::try_from((100 / targets.len().max(1)).max(1)).ok()?;
    let named = || {
        targets
            .iter()
            .filter(|each| each.port != NO_PORT)
            .filter_map(|each| Some((each.name.as_deref()?, each)))
    };
    let mut seen = HashSet::new();
    for (name, target) in named() {
        if seen.insert((name, target.port)) {
            writer.srv(ttl, weight, target.port as u16, name); // the lower 16 bits
        }
    }
    if seen.is_empty() {
        return None;
    }
    let mut seen = HashSet::new();
    for (name, target) in named() {
        if seen.insert((name, &target.address)) {
            writer.target_address(ttl, name, &target.address);
        }
    }
    Some(())
}
