//! Which namespaces and Services a cluster has, as far as the absence of a name is concerned.
//!
//! Rule 1: absence means NXDOMAIN only while `open` is set, that is once everything has been listed.
//! Rule 2: a Service is known by the wire form of its labels, `len name len namespace`, which is how a lower-cased
//!         QNAME holds it: asking copies nothing.
//! Rule 3: keys are hashed with SipHash and a random seed, for strangers choose what is asked.

use std::collections::HashSet;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::lock::{read, write};

/// The names of one store; shared by every table that answers from it.
#[derive(Default)]
pub struct ClusterNames {
    open: AtomicBool,
    serial: AtomicU32,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    namespaces: HashSet<Box<[u8]>>,
    services: HashSet<Box<[u8]>>,
}

impl ClusterNames {
    /// Tell whether the absence of a name means NXDOMAIN.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Set whether absence means NXDOMAIN.
    pub fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Release);
    }

    /// The SOA serial now.
    #[must_use]
    pub fn serial(&self) -> u32 {
        self.serial.load(Ordering::Acquire)
    }

    /// Set the SOA serial.
    pub fn set_serial(&self, serial: u32) {
        self.serial.store(serial, Ordering::Release);
    }

    /// Note a namespace; `label` is in lower case, as in all of these.
    pub fn add_namespace(&self, label: &[u8]) {
        write(&self.known).namespaces.insert(key(&[label]));
    }

    /// Forget a namespace.
    pub fn remove_namespace(&self, label: &[u8]) {
        write(&self.known).namespaces.remove(&key(&[label]));
    }

    /// Note a Service.
    pub fn add_service(&self, namespace: &[u8], name: &[u8]) {
        write(&self.known).services.insert(key(&[name, namespace]));
    }

    /// Forget a Service.
    pub fn remove_service(&self, namespace: &[u8], name: &[u8]) {
        write(&self.known).services.remove(&key(&[name, namespace]));
    }

    /// Tell whether there is such a namespace.
    #[must_use]
    pub fn has_namespace(&self, label: &[u8]) -> bool {
        self.has_namespace_wire(&key(&[label]))
    }

    /// Tell whether there is such a Service.
    #[must_use]
    pub fn has_service(&self, namespace: &[u8], name: &[u8]) -> bool {
        self.has_service_wire(&key(&[name, namespace]))
    }

    /// As `has_namespace`, of the label as it stands in a QNAME.
    #[must_use]
    pub fn has_namespace_wire(&self, label: &[u8]) -> bool {
        read(&self.known).namespaces.contains(label)
    }

    /// As `has_service`, of the labels of Service and namespace as they stand in a QNAME.
    #[must_use]
    pub fn has_service_wire(&self, labels: &[u8]) -> bool {
        read(&self.known).services.contains(labels)
    }

    /// How many Services there are.
    #[must_use]
    pub fn len(&self) -> usize {
        read(&self.known).services.len()
    }

    /// Tell whether there is no Service.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Put labels into wire form.  A label too long for DNS gets a key that no QNAME equals.
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
        assert!(names.has_service_wire(b"\x03web\x07default"));
        assert!(names.has_service(b"default", b"web"));
        assert!(!names.has_service(b"web", b"default"));
        names.remove_service(b"default", b"web");
        names.remove_namespace(b"default");
        assert!(!names.has_service(b"default", b"web") && !names.has_namespace(b"default"));
        assert!(names.is_empty());
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
