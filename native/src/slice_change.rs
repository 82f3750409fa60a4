//! What the replacement of an EndpointSlice's parts changes: labels below its Service, and addresses that PTR finds.
//!
//! Rule: the same as `change_in_python()` of hsdns/cluster/pack.py.  An address without a label has its dashed form
//!       as label; a port is listed as PORT PROTOCOL, two labels in one, a topology zone as its labels, `pin` and `_zone`.

use crate::watch::slice::dashed_label;

const MAX_LABEL_LEN: usize = 63; // RFC 1035

/// The labels and addresses of one state of a slice.
#[derive(Debug, Default)]
pub struct Listed<'a> {
    dashed: Vec<&'a [u8]>,
    labels: Vec<&'a [u8]>,
    ports: Vec<(&'a [u8], &'a [u8])>,
    topology_zones: Vec<&'a [u8]>,
    reversible: Vec<&'a [u8]>,
}

/// What a replacement changes; labels are in wire form.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Change<'a> {
    /// Labels that come.
    pub gained: Vec<Vec<u8>>,
    /// Labels that go.
    pub lost: Vec<Vec<u8>>,
    /// Addresses that go.
    pub gone: Vec<&'a [u8]>,
    /// Addresses that come.
    pub come: Vec<&'a [u8]>,
}

impl<'a> Listed<'a> {
    /// Add an address that PTR finds.
    pub fn add_address(&mut self, address: &'a [u8]) {
        self.reversible.push(address);
    }

    /// Add an address that has no label.
    pub fn add_dashed(&mut self, address: &'a [u8]) {
        self.dashed.push(address);
    }

    /// Add the label of an address or a target.
    pub fn add_label(&mut self, label: &'a [u8]) {
        if !label.is_empty() {
            self.labels.push(label);
        }
    }

    /// Add a port; one without a name or a protocol cannot be asked for.
    pub fn add_port(&mut self, name: &'a [u8], protocol: &'a [u8]) {
        if [name, protocol]
            .iter()
            .all(|each| (1..=MAX_LABEL_LEN).contains(&each.len()))
        {
            self.ports.push((name, protocol));
        }
    }

    /// Add a topology zone; one with a label that DNS has not cannot be asked for.
    pub fn add_topology_zone(&mut self, zone: &'a [u8]) {
        let mut labels = zone.split(|&octet| octet == b'.');
        if labels.all(|each| (1..=MAX_LABEL_LEN).contains(&each.len())) {
            self.topology_zones.push(zone);
        }
    }

    fn in_order(&mut self) {
        sort(&mut self.dashed);
        sort(&mut self.labels);
        sort(&mut self.ports);
        sort(&mut self.topology_zones);
        sort(&mut self.reversible);
    }

    /// What changes if this one is replaced.
    #[must_use]
    pub fn replaced_by(mut self, mut new: Self) -> Change<'a> {
        self.in_order();
        new.in_order();
        Change {
            gained: new.labels_without(&self),
            lost: self.labels_without(&new),
            gone: without(&self.reversible, &new.reversible),
            come: without(&new.reversible, &self.reversible),
        }
    }

    fn labels_without(&self, other: &Self) -> Vec<Vec<u8>> {
        let dashed = without(&self.dashed, &other.dashed);
        let labels = without(&self.labels, &other.labels);
        let ports = without(&self.ports, &other.ports);
        let zones = without(&self.topology_zones, &other.topology_zones);
        dashed
            .into_iter()
            .filter_map(dashed_label)
            .chain(labels.into_iter().map(|label| wire(&[label])))
            .chain(
                ports
                    .into_iter()
                    .map(|(port, protocol)| wire(&[port, protocol])),
            )
            .chain(zones.into_iter().map(|zone| {
                let labels = zone.split(|&octet| octet == b'.');
                wire(&labels.chain([&b"pin"[..], b"_zone"]).collect::<Vec<_>>())
            }))
            .collect()
    }
}

fn sort<T: Ord>(found: &mut Vec<T>) {
    found.sort_unstable();
    found.dedup();
}

/// What one has and the other has not; both are in order.
fn without<T: Ord + Copy>(one: &[T], other: &[T]) -> Vec<T> {
    let mut rest = other.iter().peekable();
    one.iter()
        .filter(|each| {
            while rest.next_if(|next| next < each).is_some() {}
            rest.next_if_eq(each).is_none()
        })
        .copied()
        .collect()
}

fn wire(labels: &[&[u8]]) -> Vec<u8> {
    let mut found = Vec::with_capacity(labels.iter().map(|each| each.len() + 1).sum());
    for label in labels {
        found.push(label.len() as u8); // 63 at most
        found.extend_from_slice(label);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed<'a>(addresses: &[&'a [u8]], labels: &[&'a [u8]]) -> Listed<'a> {
        let mut found = Listed::default();
        for address in addresses {
            found.add_address(address);
            found.add_dashed(address);
        }
        labels.iter().for_each(|label| found.add_label(label));
        found
    }

    #[test]
    fn only_differences_are_changes() {
        let (a, b, c) = (&[10, 0, 0, 1][..], &[10, 0, 0, 2][..], &[10, 0, 0, 3][..]);
        let mut new = listed(&[c, b, c], &[b"web-1", b"web-0", b"web-1"]);
        new.add_port(b"http", b"tcp");
        new.add_port(b"", b"tcp");
        for zone in [&b"a.b"[..], b"", b"a.b", b"c"] {
            new.add_topology_zone(zone);
        }
        let change = listed(&[a, b], &[b"web-0"]).replaced_by(new);
        assert_eq!(change.gone, [a]);
        assert_eq!(change.come, [c]);
        assert_eq!(change.lost, [b"\x0810-0-0-1"]);
        let gained: [&[u8]; 5] = [
            b"\x0810-0-0-3",
            b"\x05web-1",
            b"\x04http\x03tcp",
            b"\x01a\x01b\x03pin\x05_zone",
            b"\x01c\x03pin\x05_zone",
        ];
        assert_eq!(change.gained, gained);
    }
}
