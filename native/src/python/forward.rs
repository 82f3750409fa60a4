//! Forwarder for Python.

use std::collections::HashMap;
use std::net::{AddrParseError, SocketAddr};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use super::answer_table::AnswerTable;
use super::{Items, nanoseconds};
use crate::forward::reply::Bounds;
use crate::forward::{self, Policy, Route, Settings};

type Counts = (u64, u64, u64, Vec<u64>, Vec<u64>);

fn refused(error: AddrParseError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The queries to the upstreams of one `forward`.
#[pyclass(frozen, module = "hsdns.fastpath._native")]
pub(super) struct Forwarder {
    inner: Arc<forward::Forwarder>,
}

#[pymethods]
impl Forwarder {
    #[new]
    #[pyo3(signature = (upstreams, policy, *, source, expire, max_age, max_ports, timeout, most))]
    #[allow(clippy::too_many_arguments)] // keywords
    fn new(
        upstreams: Items<(String, u16)>,
        policy: &str,
        source: Option<&str>,
        expire: f64,
        max_age: f64,
        max_ports: usize,
        timeout: f64,
        most: usize,
    ) -> PyResult<Self> {
        let policy = match policy {
            "random" => Policy::Random,
            "round_robin" => Policy::RoundRobin,
            "sequential" => Policy::Sequential,
            _ => return Err(PyValueError::new_err(format!("no policy {policy}"))),
        };
        let upstreams = upstreams.0.into_iter().map(|(address, port)| {
            let address = address.parse().map_err(refused)?;
            Ok(SocketAddr::new(address, port))
        });
        let source = source.map(str::parse).transpose();
        let settings = Settings {
            policy,
            source: source.map_err(refused)?,
            expire: nanoseconds(expire),
            max_age: nanoseconds(max_age),
            max_ports,
            timeout: nanoseconds(timeout),
            most,
        };
        let upstreams = upstreams.collect::<PyResult<Vec<_>>>()?;
        Ok(Self {
            inner: Arc::new(forward::Forwarder::new(&upstreams, settings)?),
        })
    }

    /// Say whether an upstream is down.
    fn set_down(&self, upstream: usize, is_down: bool) {
        self.inner.set_down(upstream, is_down);
    }

    /// Take no queries meanwhile.
    fn set_paused(&self, is_paused: bool) {
        self.inner.set_paused(is_paused);
    }

    /// Say how many queries of the chain wait for the same upstreams.
    fn set_taken(&self, count: usize) {
        self.inner.set_taken(count);
    }

    /// The number of clients that wait.
    #[getter]
    fn waiting(&self) -> usize {
        self.inner.waiting()
    }

    /// Whether a question, in lower case, is to be asked over TCP.
    fn is_suspect(&self, question: &[u8]) -> bool {
        self.inner.is_suspect(question)
    }

    /// Leave a question to the chain for a minute, because of forged replies.
    fn suspect(&self, question: &[u8]) {
        self.inner.suspect(question);
    }

    /// Take the counts of each upstream since the last call.
    fn take_counts(&self) -> Vec<Counts> {
        let counts = self.inner.take_counts().into_iter();
        counts
            .map(|each| {
                let [noerror, nxdomain] = each.durations.map(|each| each.0.to_vec());
                (each.reused, each.opened, each.forged, noerror, nxdomain)
            })
            .collect()
    }

    /// Let a table's misses for the names of a zone, but for those at or below others, come here.
    #[pyo3(signature = (table, zone, exclusions, groups, *, success, denial, rotates))]
    #[allow(clippy::too_many_arguments)] // keywords
    fn serve(
        &self,
        table: &AnswerTable,
        zone: &[u8],
        exclusions: Items<PyBackedBytes>,
        groups: HashMap<u16, [u32; 3]>,
        success: (u32, u32),
        denial: (u32, u32),
        rotates: bool,
    ) {
        let [success, denial] = [success, denial].map(|(floor, most)| Bounds { floor, most });
        table.inner.add_route(Route {
            forwarder: Arc::clone(&self.inner),
            zone: zone.into(),
            exclusions: exclusions
                .0
                .iter()
                .map(|zone| Box::from(&zone[..]))
                .collect(),
            groups,
            success,
            denial,
            rotates,
        });
    }

    /// Take no more queries; hand those that wait to the chain.
    fn stop(&self) {
        self.inner.stop();
    }
}
