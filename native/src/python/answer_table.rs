//! AnswerTable for Python.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyMapping};

use super::cluster_names::ClusterNames;
use super::named_tuple::NamedTuple;
use super::tap::Tap;
use super::versions::{Index, Versions};
use super::{Items, nanoseconds};
use crate::batch::is_ipv6;
use crate::entry::Terms;
use crate::key::{MAX_UDP_LEN, MIN_UDP_LEN};
use crate::negative_zone::NegativeZone;
use crate::numerous_names::Counted;
use crate::table::{self, Client, Framed};
use crate::timing::Timing;
use crate::versions::Dependency;

pub(super) static TABLE_STATISTICS: NamedTuple = NamedTuple::new(
    "AnswerTableStatistics",
    &[
        "entries",
        "octets",
        "hits",
        "misses",
        "negative_hits",
        "stored",
        "refused",
        "stale",
        "evicted",
        "not_plain",
        "forwarded",
    ],
);
pub(super) static PEEKED: NamedTuple =
    NamedTuple::new("Peeked", &["is_denial", "stored", "expires"]);
pub(super) static LOG_RECORD: NamedTuple = NamedTuple::new(
    "LogRecord",
    &[
        "query", "address", "flags", "size", "answers", "seconds", "is_tcp",
    ],
);

/// The terms of a reply from hsdns/fastpath/entry.py, without what only the reply itself has.
pub(super) struct NamedTerms(pub(super) Terms);

impl<'py> FromPyObject<'_, 'py> for NamedTerms {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        type Fields<'py> = (u32, bool, Option<Bound<'py, ClusterNames>>, i32, bool, u16);
        let (group, rotate, names, mark_ttl, log, max_payload) = object.extract::<Fields<'py>>()?;
        refuse_payload(max_payload)?;
        Ok(Self(Terms {
            dependencies: Box::default(),
            group,
            size: 0,
            rotate,
            names: names.map(|names| Arc::clone(&names.get().inner)),
            mark_ttl,
            log,
            max_payload,
            timing: None,
            errors: Box::default(),
        }))
    }
}

/// Raise ValueError for a size above that of an IPv4 datagram or below what every client accepts.
fn refuse_payload(max_payload: u16) -> PyResult<()> {
    let is_limit = (MIN_UDP_LEN..=MAX_UDP_LEN).contains(&usize::from(max_payload));
    if !is_limit && max_payload != u16::MAX {
        return Err(PyValueError::new_err(format!(
            "max_payload is {MIN_UDP_LEN} to {MAX_UDP_LEN}, or {} where none is lowered, not {max_payload}",
            u16::MAX
        )));
    }
    Ok(())
}

/// Whether the replies of a negative zone count as misses of `cache`; raise ValueError for a `mark_ttl` of an entry.
fn counts_as_miss(mark_ttl: i32) -> PyResult<bool> {
    match mark_ttl {
        -1..=0 => Ok(mark_ttl == 0),
        _ => Err(PyValueError::new_err(format!(
            "mark_ttl of a negative zone is 0 or -1, not {mark_ttl}"
        ))),
    }
}

fn no_negative_zone() -> PyErr {
    PyIndexError::new_err("the table has no such negative zone")
}

/// From the octets of a query to the octets of its reply.
#[pyclass(frozen, module = "hsdns.fastpath._native")]
pub(super) struct AnswerTable {
    pub(super) inner: Arc<table::AnswerTable>,
}

#[pymethods]
impl AnswerTable {
    #[new]
    #[pyo3(signature = (versions, capacity, tap = None, source = 0))]
    fn new(versions: &Versions, capacity: usize, tap: Option<&Tap>, source: u32) -> Self {
        let inner = table::AnswerTable::new(Arc::clone(&versions.inner), capacity);
        let tap = tap.map(|tap| Arc::clone(&tap.inner));
        Self {
            inner: Arc::new(inner.with_tap(tap, source)),
        }
    }

    /// Store the reply to a query; False if it cannot be stored.
    #[pyo3(signature = (query, reply, dependencies, terms, *, size, timed = None, errors = None, renewed = false))]
    #[allow(clippy::too_many_arguments)] // the contract with the Python twin
    fn store(
        &self,
        query: &[u8],
        reply: &[u8],
        dependencies: Items<(Index, u64)>,
        terms: NamedTerms,
        size: u32,
        timed: Option<(f64, u32, f64)>,
        errors: Option<&[u8]>,
        renewed: bool,
    ) -> PyResult<bool> {
        let dependencies = dependencies.0.into_iter().map(|(index, value)| Dependency {
            index: index.0,
            value,
        });
        let terms = Terms {
            dependencies: dependencies.collect(),
            size,
            timing: timed.map(|(stored, ttl, expires)| Timing {
                stored: nanoseconds(stored),
                ttl,
                expires: nanoseconds(expires),
            }),
            errors: errors.unwrap_or_default().into(),
            ..terms.0
        };
        Ok(if renewed {
            self.inner.renew(query, reply, terms)
        } else {
            self.inner.store(query, reply, terms)
        })
    }

    /// Return whether a query is for the name of an existing Service, or of one of its endpoints.
    fn is_listed(&self, query: &[u8]) -> bool {
        self.inner.is_listed(query)
    }

    /// Return the recent use count of a query's entry, None if there is no entry.
    fn uses(&self, query: &[u8]) -> Option<u8> {
        self.inner.uses(query)
    }

    /// Add a negative zone; return its number.
    #[pyo3(signature = (zone, names, exclusions, groups, mark_ttl, log = false, max_payload = 65_535, no_edns = false))]
    #[allow(clippy::too_many_arguments)] // the contract with the Python twin
    fn add_negative_zone(
        &self,
        zone: &[u8],
        names: &ClusterNames,
        exclusions: Items<PyBackedBytes>,
        groups: &Bound<'_, PyMapping>,
        mark_ttl: i32,
        log: bool,
        max_payload: u16,
        no_edns: bool,
    ) -> PyResult<usize> {
        refuse_payload(max_payload)?;
        let is_miss = counts_as_miss(mark_ttl)?;
        let mut by_type = HashMap::new();
        for item in groups.items()? {
            let (qtype, group) = item.extract::<(u16, u32)>()?;
            by_type.insert(qtype, group);
        }
        let exclusions = exclusions.0.iter().map(|excluded| Box::from(&excluded[..]));
        let names = Arc::clone(&names.inner);
        let negative_zone = NegativeZone::new(zone, names, exclusions, by_type, is_miss);
        let negative_zone = negative_zone
            .logged(log)
            .with_max_payload(max_payload)
            .without_edns(no_edns);
        Ok(self.inner.add_negative_zone(negative_zone))
    }

    /// Make a template from a reply; False if it cannot be one.
    fn set_template(
        &self,
        negative_zone: usize,
        query: &[u8],
        reply: &[u8],
        size: u32,
    ) -> PyResult<bool> {
        self.inner
            .set_template(negative_zone, query, reply, size as usize)
            .ok_or_else(no_negative_zone)
    }

    /// Take the form of a reply about a name without number, for all of them; False if that is not possible.
    fn set_form(
        &self,
        negative_zone: usize,
        query: &[u8],
        reply: &[u8],
        size: u32,
        group: u32,
        mark_ttl: i32,
    ) -> PyResult<bool> {
        let cache = counts_as_miss(mark_ttl)?.then_some(false);
        self.inner
            .set_form(
                negative_zone,
                query,
                reply,
                size as usize,
                Counted { group, cache },
            )
            .ok_or_else(no_negative_zone)
    }

    /// Answer a query over TCP, or, without a limit, one over UDP that was a miss before it waited.
    #[pyo3(signature = (query, *, client, limit, now))]
    fn lookup<'py>(
        &self,
        py: Python<'py>,
        query: &[u8],
        client: &[u8],
        limit: Option<usize>,
        now: f64,
    ) -> Option<Bound<'py, PyBytes>> {
        let address = client;
        let client = Client {
            is_ipv6: is_ipv6(address),
            is_tcp: limit.is_some(),
            now: nanoseconds(now),
        };
        let reply = self.inner.lookup(query, limit, client, address)?;
        Some(PyBytes::new(py, &reply))
    }

    /// Answer the messages of a stream from a place on, up to a miss; hsdns/fastpath/table.py names the results.
    #[allow(clippy::too_many_arguments)] // the contract with the Python twin
    fn answer_framed<'py>(
        &self,
        py: Python<'py>,
        data: &[u8],
        at: usize,
        client: &[u8],
        most: usize,
        limit: usize,
        now: f64,
    ) -> (Bound<'py, PyBytes>, usize, usize, bool) {
        let address = client;
        let client = Client {
            is_ipv6: is_ipv6(address),
            is_tcp: true,
            now: nanoseconds(now),
        };
        let mut out = Vec::with_capacity(2 * MIN_UDP_LEN);
        let waiting = data.get(at..).unwrap_or_default();
        let framed = Framed { most, limit };
        let done = self
            .inner
            .answer_framed(waiting, framed, client, address, &mut out);
        (
            PyBytes::new(py, &out),
            at + done.octets,
            done.messages,
            done.is_miss,
        )
    }

    /// Return the result that lookup() would have, without counting or changing anything.
    #[pyo3(signature = (query, *, now))]
    fn peek<'py>(
        &self,
        py: Python<'py>,
        query: &[u8],
        now: f64,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(found) = self.inner.peek(query, nanoseconds(now)) else {
            return Ok(None);
        };
        let [stored, expires] = [
            found.timing.map(|timing| timing.stored),
            found.timing.map(|timing| timing.expires),
        ]
        .map(|time| time.map(|time| time as f64 / 1e9));
        let class = PEEKED.class(py)?;
        Ok(Some(class.call1((found.is_denial, stored, expires))?))
    }

    /// Limit the octets of entries, beginning with the next one that is stored.
    fn set_capacity(&self, octets: usize) {
        self.inner.set_capacity(octets);
    }

    /// Drop all entries.
    fn clear(&self) {
        self.inner.clear();
    }

    /// Take the counts since the last call.
    fn take_counts(&self) -> Vec<(u32, bool, Vec<u64>)> {
        let rows = self.inner.take_counts().into_iter();
        rows.map(|(group, is_tcp, cells)| (group, is_tcp, cells.to_vec()))
            .collect()
    }

    /// Remove and return the oldest records of the log ring, at most this many.
    fn take_log<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyList>> {
        let taken = PyList::empty(py);
        let class = LOG_RECORD.class(py)?;
        for record in self.inner.log().take(most) {
            let [query, address] =
                [record.query(), record.address()].map(|part| PyBytes::new(py, part));
            let summary = record.summary;
            let seconds = record.elapsed as f64 / 1e9;
            taken.append(class.call1((
                query,
                address,
                record.flags,
                summary.size,
                summary.answers,
                seconds,
                record.is_tcp,
            ))?)?;
        }
        Ok(taken)
    }

    /// Empty the log ring, and return the number of its records.
    fn discard_log(&self, py: Python<'_>) -> usize {
        py.detach(|| self.inner.log().discard())
    }

    /// The number of hits that were not logged because the log ring was full.
    #[getter]
    fn log_drops(&self) -> u64 {
        self.inner.log().dropped()
    }

    /// The contents of the table, and its counts so far.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let now = self.inner.statistics();
        TABLE_STATISTICS.class(py)?.call1((
            now.entries,
            now.octets,
            now.totals.hits,
            now.totals.misses,
            now.totals.negative_hits,
            now.stored,
            now.refused,
            now.totals.stale,
            now.evicted,
            now.totals.not_plain,
            now.forwarded,
        ))
    }
}
