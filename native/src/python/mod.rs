//! The classes of the extension module; hsdns/fastpath/_native.pyi documents their parameters and results.
//!
//! Rule 1: nothing is decided here; arguments and results are converted.
//! Rule 2: only Worker.run(), LoadSender (run() and feed(), which wait) and the parsers of many events of an API server
//!         release the GIL: everything else takes less time than acquiring it again might.

mod asked;
mod forward;
mod hpack;
mod labels;
mod load;
mod service_replies;
mod slices;
mod sockets;
mod watch;

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyIndexError, PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping};

use crate::batch::is_ipv6;
use crate::entry::Terms;
use crate::key::{MAX_UDP_LEN, MIN_UDP_LEN};
use crate::negative_zone::NegativeZone;
use crate::numerous_names::Counted;
use crate::system::slice;
use crate::table::Client;
use crate::timing::Timing;
use crate::versions::{Dependency, Holder, SIZE};
use crate::{names, table, tap, versions};

/// The module's contents.
#[pymodule(name = "_native")]
mod module {
    #[pymodule_export]
    use super::forward::Forwarder;
    #[pymodule_export]
    use super::hpack::HeaderDecoder;
    #[pymodule_export]
    use super::load::{LoadCounts, LoadSender};
    #[pymodule_export]
    use super::service_replies::ServiceReplies;
    #[pymodule_export]
    use super::slices::{SliceStore, move_addresses, slice_change};
    #[pymodule_export]
    use super::sockets::{Batch, MissQueue, Worker};
    #[pymodule_export]
    use super::watch::{
        ServiceReading, SliceReading, WatchFrames, read_page, read_status, read_time,
    };
    #[pymodule_export]
    use super::{AnswerTable, ClusterNames, Tap, Versions, shorten_slice};

    use super::{
        BATCH_STATISTICS, Bound, LOG_RECORD, MISS, PEEKED, PyModule, PyModuleMethods, PyResult,
        TABLE_STATISTICS, TAP_RECORD, WORKER_STATISTICS,
    };

    /// Add the named tuples.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        for tuple in [
            &MISS,
            &PEEKED,
            &LOG_RECORD,
            &TAP_RECORD,
            &TABLE_STATISTICS,
            &BATCH_STATISTICS,
            &WORKER_STATISTICS,
        ] {
            module.add(tuple.name, tuple.class(module.py())?)?;
        }
        Ok(())
    }
}

//----- Named tuples ----------------------------------------------------------

struct NamedTuple {
    name: &'static str,
    fields: &'static [&'static str],
    class: PyOnceLock<Py<PyAny>>,
}

impl NamedTuple {
    const fn new(name: &'static str, fields: &'static [&'static str]) -> Self {
        Self {
            name,
            fields,
            class: PyOnceLock::new(),
        }
    }

    fn class<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
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

static TABLE_STATISTICS: NamedTuple = NamedTuple::new(
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
static MISS: NamedTuple = NamedTuple::new("Miss", &["query", "address", "control"]);
static PEEKED: NamedTuple = NamedTuple::new("Peeked", &["is_denial", "stored", "expires"]);
static LOG_RECORD: NamedTuple = NamedTuple::new(
    "LogRecord",
    &[
        "query", "address", "flags", "size", "answers", "seconds", "is_tcp",
    ],
);
static TAP_RECORD: NamedTuple = NamedTuple::new(
    "TapRecord",
    &[
        "query", "address", "source", "flags", "size", "seconds", "at", "is_tcp", "is_hit",
    ],
);
static BATCH_STATISTICS: NamedTuple = NamedTuple::new(
    "BatchStatistics",
    &["received", "sent", "batches", "send_errors"],
);
static WORKER_STATISTICS: NamedTuple = NamedTuple::new(
    "WorkerStatistics",
    &[
        "received",
        "sent",
        "batches",
        "send_errors",
        "receive_errors",
        "panics",
    ],
);

/// Let this thread run soon after it wakes, beside one that computes; return whether the kernel accepted that.
#[pyfunction]
fn shorten_slice() -> bool {
    slice::shorten()
}

//----- Sequences -------------------------------------------------------------

/// The terms of a reply from hsdns/fastpath/entry.py, without what only the reply itself has.
struct NamedTerms(Terms);

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

/// The items of a sequence; those of pyo3's own Vec are as many as `__len__` says before there is any, which a failed
/// allocation ends with the process.
struct Items<T>(Vec<T>);

impl<'py, T: FromPyObjectOwned<'py>> FromPyObject<'_, 'py> for Items<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let mut items = Vec::new();
        for item in object.try_iter()? {
            let item = item?.extract::<T>().map_err(Into::into)?;
            let reserved = items.try_reserve(1);
            reserved.map_err(|_| PyMemoryError::new_err("there are too many items"))?;
            items.push(item);
        }
        Ok(Self(items))
    }
}

//----- Versions, names -------------------------------------------------------

/// The index of a counter, modulo `SIZE`: a hash of any size and sign.
struct Index(u16);

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
struct Versions {
    inner: Arc<versions::Versions>,
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

/// The namespaces and Services of a cluster.
#[pyclass(frozen, module = "hsdns.fastpath._native")]
struct ClusterNames {
    inner: Arc<names::ClusterNames>,
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

    /// Return whether there is such a Service.
    fn has_service(&self, namespace: &[u8], name: &[u8]) -> bool {
        self.inner.has_service(namespace, name)
    }

    /// Return how many labels are listed below a Service, each as often as it was added.
    fn label_count(&self, namespace: &[u8], name: &[u8]) -> usize {
        self.inner.label_count(namespace, name)
    }

    fn __len__(&self) -> usize {
        self.inner.len()
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

/// Seconds of the monotonic clock in nanoseconds; saturates.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

//----- Tap -------------------------------------------------------------------

/// The last queries, or a fair sample of them.
#[pyclass(frozen, module = "hsdns.fastpath._native")]
struct Tap {
    inner: Arc<tap::Tap>,
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

//----- AnswerTable -----------------------------------------------------------------

/// From the octets of a query to the octets of its reply.
#[pyclass(frozen, module = "hsdns.fastpath._native")]
struct AnswerTable {
    inner: Arc<table::AnswerTable>,
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
