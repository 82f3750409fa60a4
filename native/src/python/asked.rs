//! What a question about a Service asks for, and what the values of a store (hsdns/cluster/value.py) have for it.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyString, PyTuple};

use super::Items;
use super::labels::split_labels;
use super::slices::{ADDRESSES, LABELS, PORTS, WIDTH};
use crate::key::Query;
use crate::records::MAX_STORED_LEN;
use crate::service_reply::{is_reverse, undashed};
use crate::watch::slice::dashed_label;

/// The most records of a reply that is not too long.
pub(super) const MOST: usize = MAX_STORED_LEN / 16;

/// The parts of a question about a Service or one of its endpoints (hsdns/cluster/schema.py).
pub(super) struct Asked<'a> {
    pub(super) namespace: &'a [u8],
    pub(super) name: &'a [u8],
    endpoint: Option<&'a [u8]>,
    port: &'a [u8],
    protocol: &'a [u8],
    /// The name of the Service.
    pub(super) service: &'a [u8],
}

impl<'a> Asked<'a> {
    pub(super) fn read(query: &Query<'a>, zone: &[u8]) -> Option<Self> {
        let (qname, count) = (query.qname(), query.labels_left_of(zone)?);
        if !(3..=5).contains(&count) || is_reverse(qname) {
            return None;
        }
        let label = |index| &qname[query.label(index)][1..];
        let plain = |index| label(index).strip_prefix(b"_").unwrap_or(label(index));
        (label(count - 1) == b"svc").then(|| Self {
            namespace: label(count - 2),
            name: label(count - 3),
            endpoint: (count == 4).then(|| label(0)),
            port: if count == 5 { plain(0) } else { b"" },
            protocol: if count == 5 { plain(1) } else { b"" },
            service: query.suffix(count - 3),
        })
    }

    /// Whether the records depend on slices; None if the Service is left to Python.
    pub(super) fn needs_slices(&self, value: &Bound<'_, PyAny>) -> PyResult<Option<bool>> {
        let is_of_slices = |kind| kind == Kind::Headless || self.endpoint.is_some();
        Ok(Kind::of(value)?.map(is_of_slices))
    }

    /// The numbers of the ports that match.
    fn numbers(&self, ports: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
        let mut found = Vec::new();
        for port in ports.cast::<PyTuple>()? {
            let (name, protocol, number) = port.extract::<(Bytes<'_>, Bytes<'_>, i64)>()?;
            if (self.port.is_empty() || self.port == name.as_bytes())
                && (self.protocol.is_empty() || self.protocol == protocol.as_bytes())
            {
                found.push(number);
            }
        }
        Ok(found)
    }

    /// The pairs of an address and a port that match; without `all`, each address once for each part.  None if they are
    /// left to Python.
    pub(super) fn entries(
        &self,
        value: &Bound<'_, PyAny>,
        all: bool,
    ) -> PyResult<Option<Vec<Entry>>> {
        let mut found = Vec::new();
        if self.endpoint.is_none() && Kind::of(value)? == Some(Kind::ClusterIp) {
            let addresses = value
                .getattr(intern!(value.py(), "cluster_ips"))?
                .extract::<Items<PyBackedBytes>>()?
                .0;
            for port in self.numbers(&value.getattr(intern!(value.py(), "ports"))?)? {
                for address in &addresses {
                    let address = address.to_vec();
                    found.push(Entry {
                        address,
                        label: None,
                        port,
                    });
                }
            }
            return Ok(Some(found));
        }
        let candidate = self.endpoint.and_then(undashed);
        for part in value
            .getattr(intern!(value.py(), "slices"))?
            .cast::<PyTuple>()?
        {
            let part = part.cast_into::<PyTuple>()?;
            let mut ports = self.numbers(&part.get_item(PORTS)?)?;
            if !all {
                ports.truncate(1);
            }
            let part = Part::of(&part)?;
            if part.width == 0 {
                return Ok(None); // names in place of addresses
            }
            if ports.is_empty() {
                continue;
            }
            if found.len() + part.len() * ports.len() > MOST && self.endpoint.is_none() {
                return Ok(None);
            }
            for (at, own) in part.own_labels().enumerate() {
                let address = part.address(at);
                let label = match self.endpoint {
                    Some(endpoint) if own == endpoint => Some(endpoint.to_vec()),
                    Some(endpoint) if own.is_empty() && candidate.as_deref() == Some(address) => {
                        Some(endpoint.to_vec())
                    }
                    Some(_) => continue,
                    None if all => label_of(own, address),
                    None => None,
                };
                for &port in &ports {
                    let (address, label) = (address.to_vec(), label.clone());
                    found.push(Entry {
                        address,
                        label,
                        port,
                    });
                }
            }
        }
        Ok(Some(found))
    }
}

pub(super) type Bytes<'py> = Bound<'py, PyBytes>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    ClusterIp,
    Headless,
}

impl Kind {
    fn of(value: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let kind = value.getattr(intern!(value.py(), "kind"))?;
        let Ok(kind) = kind.cast::<PyString>() else {
            return Ok(None);
        };
        Ok(match kind.to_cow()?.as_ref() {
            "cluster_ip" => Some(Self::ClusterIp),
            "headless" => Some(Self::Headless),
            _ => None,
        })
    }
}

/// An address with a port, and the label of its endpoint.
pub(super) struct Entry {
    pub(super) address: Vec<u8>,
    pub(super) label: Option<Vec<u8>>,
    pub(super) port: i64,
}

/// A PackedSlice.
pub(super) struct Part<'py> {
    pub(super) width: usize,
    addresses: Bytes<'py>,
    labels: Option<Bytes<'py>>,
}

/// The label of an address, which is the dashed one if it has no own.
pub(super) fn label_of(own: &[u8], address: &[u8]) -> Option<Vec<u8>> {
    if own.is_empty() {
        return dashed_label(address).map(|label| label[1..].to_vec());
    }
    Some(own.to_vec())
}

impl<'py> Part<'py> {
    pub(super) fn of(part: &Bound<'py, PyTuple>) -> PyResult<Self> {
        Ok(Self {
            width: part.get_item(WIDTH)?.extract()?,
            addresses: part.get_item(ADDRESSES)?.cast_into()?,
            labels: part.get_item(LABELS)?.extract()?,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.addresses.as_bytes().len() / self.width.max(1)
    }

    pub(super) fn address(&self, at: usize) -> &[u8] {
        &self.addresses.as_bytes()[at * self.width..][..self.width]
    }

    /// The label that each address was given, empty if it has its dashed one.
    fn own_labels(&self) -> impl Iterator<Item = &[u8]> {
        let labels = self.labels.as_ref().map(|labels| labels.as_bytes());
        let count = if labels.is_some() { 0 } else { self.len() };
        let dashed = std::iter::repeat_n(&b""[..], count);
        split_labels(labels.unwrap_or_default()).chain(dashed)
    }

    /// The labels of an address.
    pub(super) fn labels_of<'a>(
        &'a self,
        address: &'a [u8],
    ) -> impl Iterator<Item = Option<Vec<u8>>> + 'a {
        let labels = self.own_labels().enumerate();
        let own = labels.filter(move |&(at, _)| self.address(at) == address);
        own.map(move |(_, own)| label_of(own, address))
    }
}
