//! The existing names of a cluster: namespaces, Services, and labels below these.
//!
//! Rule 1: an unlisted name is NXDOMAIN only while `open` is set, that is after everything was listed.
//! Rule 2: a Service's key is the wire form of its labels, `len name len namespace`, as in a lower-cased QNAME: a
//!         lookup copies nothing.
//! Rule 3: keys are hashed with SipHash and a random seed, because clients choose the names that are looked up.
//! Rule 4: for the labels below a Service only hashes are stored, sorted, one for each time that a label was added.  If
//!         two are equal, a query for a name that does not exist goes to the chain; a name that exists is never denied.
//! Rule 5: a lookup holds the lock once, so that it sees one state.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::lock::{read, write};

/// Names with three or more labels below a Service exist only below this label, if it is listed.
pub const TOPOLOGY: &[u8] = b"\x05_zone";

/// The names of one store; shared by every table that answers from it.
#[derive(Default)]
pub struct ClusterNames {
    open: AtomicBool,
    serial: AtomicU32,
    hasher: RandomState,
    listed: RwLock<Listed>,
}

/// The labels of a name to the left of a Service, each in wire form.
#[derive(Clone, Copy, Debug)]
pub enum Below<'a> {
    /// None: the Service itself.
    Nothing,
    /// The label of an endpoint.
    Endpoint(&'a [u8]),
    /// A port and a protocol; the first underscore of each does not count.
    Port(&'a [u8], &'a [u8]),
    /// Three or more, with the one directly below the Service.
    Deeper(&'a [u8]),
}

#[derive(Default)]
struct Listed {
    namespaces: HashSet<Box<[u8]>>,
    /// With the hashes of the labels below each, sorted.
    services: HashMap<Box<[u8]>, Box<[u64]>>,
}

impl ClusterNames {
    /// Return whether an unlisted name is NXDOMAIN.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Set whether an unlisted name is NXDOMAIN.
    pub fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Release);
    }

    /// The current SOA serial.
    #[must_use]
    pub fn serial(&self) -> u32 {
        self.serial.load(Ordering::Acquire)
    }

    /// Set the SOA serial.
    pub fn set_serial(&self, serial: u32) {
        self.serial.store(serial, Ordering::Release);
    }

    /// Add a namespace; labels are in lower case.
    pub fn add_namespace(&self, label: &[u8]) {
        write(&self.listed).namespaces.insert(key(&[label]));
    }

    /// Remove a namespace.
    pub fn remove_namespace(&self, label: &[u8]) {
        write(&self.listed).namespaces.remove(&key(&[label]));
    }

    /// Add a Service.
    pub fn add_service(&self, namespace: &[u8], name: &[u8]) {
        let mut listed = write(&self.listed);
        listed.services.entry(key(&[name, namespace])).or_default();
    }

    /// Remove a Service, with the labels below it.
    pub fn remove_service(&self, namespace: &[u8], name: &[u8]) {
        write(&self.listed)
            .services
            .remove(&key(&[name, namespace]));
    }

    /// Add labels below a Service, in wire form; without effect if it is not listed.  `PORT PROTOCOL`, without
    /// underscores, are two labels in one.
    pub fn add_labels<'a>(
        &self,
        namespace: &[u8],
        name: &[u8],
        labels: impl Iterator<Item = &'a [u8]>,
    ) {
        let added = self.sorted(labels);
        self.change(namespace, name, |hashes| {
            let mut merged = [hashes, &added].concat();
            merged.sort(); // two runs: it merges them
            merged
        });
    }

    /// Remove labels once each; a label that was added more often stays.
    pub fn remove_labels<'a>(
        &self,
        namespace: &[u8],
        name: &[u8],
        labels: impl Iterator<Item = &'a [u8]>,
    ) {
        let mut removed = self.sorted(labels).into_iter().peekable();
        self.change(namespace, name, |hashes| {
            let mut rest = Vec::with_capacity(hashes.len());
            for &hash in hashes {
                while removed.next_if(|&gone| gone < hash).is_some() {}
                if removed.next_if_eq(&hash).is_none() {
                    rest.push(hash);
                }
            }
            rest
        });
    }

    /// Return whether a name to the left of a namespace may exist: its Service is listed, and the labels below.
    #[must_use]
    pub fn may_exist(&self, service: &[u8], below: Below<'_>) -> bool {
        let listed = read(&self.listed);
        let Some(hashes) = listed.services.get(service) else {
            return false;
        };
        let has = |labels: &[u8]| hashes.binary_search(&self.hasher.hash_one(labels)).is_ok();
        match below {
            Below::Nothing => true,
            Below::Endpoint(label) => has(label),
            Below::Deeper(label) => label == TOPOLOGY && has(label),
            Below::Port(port, protocol) => {
                let (port, protocol) = (without_underscore(port), without_underscore(protocol));
                // Without a name it stands for any port or protocol.
                port.is_empty() || protocol.is_empty() || has(&key(&[port, protocol]))
            }
        }
    }

    /// Return whether a Service has names of topology zones, but none of these labels below it, which are one.
    #[must_use]
    pub fn lacks_topology_zone(&self, service: &[u8], labels: &[u8]) -> bool {
        let listed = read(&self.listed);
        let has =
            |hashes: &[u64], labels| hashes.binary_search(&self.hasher.hash_one(labels)).is_ok();
        let hashes = listed.services.get(service);
        hashes.is_some_and(|hashes| has(hashes, TOPOLOGY) && !has(hashes, labels))
    }

    fn sorted<'a>(&self, labels: impl Iterator<Item = &'a [u8]>) -> Vec<u64> {
        let mut hashes: Vec<_> = labels.map(|each| self.hasher.hash_one(each)).collect();
        hashes.sort_unstable();
        hashes
    }

    fn change(&self, namespace: &[u8], name: &[u8], new: impl FnOnce(&[u64]) -> Vec<u64>) {
        let mut listed = write(&self.listed);
        if let Some(hashes) = listed.services.get_mut(&key(&[name, namespace])) {
            *hashes = new(hashes).into_boxed_slice();
        }
    }

    /// Return whether there is such a namespace.
    #[must_use]
    pub fn has_namespace(&self, label: &[u8]) -> bool {
        self.has_namespace_wire(&key(&[label]))
    }

    /// As `has_namespace`, for the label in wire form.
    #[must_use]
    pub fn has_namespace_wire(&self, label: &[u8]) -> bool {
        read(&self.listed).namespaces.contains(label)
    }

    /// How many labels are listed below a Service, each as often as it was added.
    #[must_use]
    pub fn label_count(&self, namespace: &[u8], name: &[u8]) -> usize {
        let listed = read(&self.listed);
        let hashes = listed.services.get(&key(&[name, namespace]));
        hashes.map_or(0, |hashes| hashes.len())
    }

    /// How many Services there are.
    #[must_use]
    pub fn len(&self) -> usize {
        read(&self.listed).services.len()
    }

    /// Tell whether there is no Service.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A label, given in wire form, without its length and its first underscore.
fn without_underscore(label: &[u8]) -> &[u8] {
    let text = &label[1..];
    text.strip_prefix(b"_").unwrap_or(text)
}

/// Labels in wire form.  A label too long for DNS gets a key that no QNAME has.
fn key(labels: &[&[u8]]) -> Box<[u8]> {
    let mut key = Vec::with_capacity(labels.iter().map(|label| 1 + label.len()).sum());
    for label in labels {
        key.push(u8::try_from(label.len()).unwrap_or(u8::MAX));
        key.extend_from_slice(label);
    }
    key.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_and_go() {
        let names = ClusterNames::default();
        names.add_namespace(b"default");
        names.add_service(b"default", b"web");
        names.add_service(b"default", b"web");
        assert_eq!(names.len(), 1);
        assert!(names.has_namespace_wire(b"\x07default"));
        let has = |service| names.may_exist(service, Below::Nothing);
        assert!(has(b"\x03web\x07default") && !has(b"\x07default\x03web"));
        names.remove_service(b"default", b"web");
        names.remove_namespace(b"default");
        assert!(!has(b"\x03web\x07default") && !names.has_namespace(b"default"));
        assert!(names.is_empty());
    }

    #[test]
    fn labels_below_a_service() {
        let names = ClusterNames::default();
        let has = |below| names.may_exist(b"\x03web\x07default", below);
        let pod = Below::Endpoint(b"\x05pod-0");
        names.add_labels(b"default", b"web", [&b"\x05pod-0"[..]].into_iter());
        assert!(!has(Below::Nothing) && !has(pod));
        names.add_service(b"default", b"web");
        assert!(has(Below::Nothing) && !has(pod));
        let labels = [
            &b"\x05pod-0"[..],
            b"\x04http\x03tcp",
            b"\x05pod-0",
            b"\x05_zone",
        ];
        names.add_labels(b"default", b"web", labels.into_iter());
        names.add_service(b"default", b"web");
        assert!(has(pod) && !has(Below::Endpoint(b"\x05pod-1")));
        for (port, protocol, found) in [
            (&b"\x05_http"[..], &b"\x04_tcp"[..], true),
            (b"\x04http", b"\x04_tcp", true),
            (b"\x06__http", b"\x04_tcp", false),
            (b"\x05_http", b"\x04_udp", false),
            (b"\x01_", b"\x04_udp", true),
            (b"\x05_nope", b"\x01_", true),
        ] {
            assert_eq!(
                has(Below::Port(port, protocol)),
                found,
                "{port:?} {protocol:?}"
            );
        }
        assert!(has(Below::Deeper(b"\x05_zone")) && !has(Below::Deeper(b"\x05pod-0")));
        names.remove_labels(b"default", b"web", labels[..1].iter().copied());
        assert!(has(pod), "it was added twice");
        names.remove_labels(b"default", b"web", labels.into_iter());
        assert!(!has(pod) && !has(Below::Deeper(b"\x05_zone")) && has(Below::Nothing));
    }

    #[test]
    fn absence_means_nothing_at_first() {
        let names = ClusterNames::default();
        assert!(!names.is_open());
        names.set_open(true);
        names.set_serial(u32::MAX);
        assert!(names.is_open());
        assert_eq!(names.serial(), u32::MAX);
    }
}
