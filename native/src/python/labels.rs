//! Labels as Python's bytes, of which equal ones are shared: namespaces and topology zones repeat all over a cluster.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyBytes;

const MAX_LABEL_LEN: usize = 63; // RFC 1035
const SHARED: usize = 4096; // a power of two

/// The label that last had each place; places are found by hash.
static LABELS: Mutex<Vec<Option<Py<PyBytes>>>> = Mutex::new(Vec::new());

/// Whether a string is a label: not empty, and no more than 63 octets, as pack_label() of hsdns/cluster/pack.py.
pub(super) fn is_label(text: &str) -> bool {
    (1..=MAX_LABEL_LEN).contains(&text.len())
}

/// The labels of a PackedSlice, each after its length, which is 0 for a dashed address.
pub(super) fn split_labels(mut joined: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&len, rest) = joined.split_first()?;
        let (label, rest) = rest.split_at_checked(usize::from(len))?;
        joined = rest;
        Some(label)
    })
}

/// A string as a lower-case label; None if it is none.
pub(super) fn label<'py>(py: Python<'py>, text: &str) -> Option<Bound<'py, PyBytes>> {
    if !is_label(text) {
        return None;
    }
    let mut lower = [0; MAX_LABEL_LEN];
    let lower = &mut lower[..text.len()];
    lower.copy_from_slice(text.as_bytes());
    lower.make_ascii_lowercase();
    let mut hasher = DefaultHasher::new();
    lower.hash(&mut hasher);
    let place = hasher.finish() as usize % SHARED;
    let Ok(mut labels) = LABELS.lock_py_attached(py) else {
        return Some(PyBytes::new(py, lower)); // a thread has panicked with it, which no line here does
    };
    if labels.is_empty() {
        labels.resize_with(SHARED, || None);
    }
    match &labels[place] {
        Some(known) if known.as_bytes(py) == lower => Some(known.bind(py).clone()),
        _ => {
            let made = PyBytes::new(py, lower);
            labels[place] = Some(made.clone().unbind());
            Some(made)
        }
    }
}
