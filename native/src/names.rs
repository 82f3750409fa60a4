//! The namespaces and Services of a cluster, by which a name is found absent.
//!
//! Rule 1: absence means NXDOMAIN only while `open` is set, that is once everything was listed.
//! Rule 2: a Service's key is the wire form of its labels, `len name len namespace`, as in a lower-cased QNAME: a
//!         look-up copies nothing.
//! Rule 3: keys are hashed with SipHash and a random seed, for clients choose what is looked up.

use std::collections::HashSet;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::lock::{read, write};

/// The names of one store; shared by every table that answers from it.
#[derive(Default)]
pub struct ClusterNames {
    open: AtomicBool,
    serial: AtomicU32,
    listed: RwLock<Listed>,
}

#[derive(Default)]
struct Listed {
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
        write(&self.listed).services.insert(key(&[name, namespace]));
    }

    /// Remove a Service.
    pub fn remove_service(&self, namespace: &[u8], name: &[u8]) {
        write(&self.listed)
            .services
            .remove(&key(&[name, namespace]));
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

    /// As `has_namespace`, for the label in wire form.
    #[must_use]
    pub fn has_namespace_wire(&self, label: &[u8]) -> bool {
        read(&self.listed).namespaces.contains(label)
    }

    /// As `has_service`, for the labels of Service and namespace in wire form.
    #[must_use]
    pub fn has_service_wire(&self, labels: &[u8]) -> bool {
        read(&self.listed).services.contains(labels)
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
