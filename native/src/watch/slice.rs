//! The endpoints of an EndpointSlice, packed.
//!
//! Rule: only what nearly all slices are is packed here: IP addresses of one width in their canonical form, some of them
//!       ready, and hostnames that are labels.  The rest is left to hsdns/cluster/pack.py, with its sentences.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::wire::{Fields, Malformed};

const MAX_LABEL_LEN: usize = 63; // RFC 1035

/// A string within the octets of the slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    start: u32,
    len: u32,
}

impl Place {
    fn of(text: &[u8], whole: &[u8]) -> Self {
        if text.is_empty() {
            return Self::default();
        }
        let start = text.as_ptr().addr() - whole.as_ptr().addr();
        Self {
            start: start as u32, // a frame has 64 MiB at most
            len: text.len() as u32,
        }
    }

    /// The string; None if it is empty.
    #[must_use]
    pub fn text(self, whole: &[u8]) -> Option<&str> {
        let found = &whole[self.start as usize..][..self.len as usize];
        std::str::from_utf8(found)
            .ok()
            .filter(|text| !text.is_empty())
    }
}

/// What names an endpoint; each may be empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Its hostname.
    pub hostname: Place,
    /// The name of its pod.
    pub pod: Place,
    /// Its topology zone; None if it has none, which is not the same as an empty one.
    pub zone: Option<Place>,
}

/// A port: name, protocol and number, as far as they are set.
pub type Port = (Option<String>, Option<String>, Option<i32>);

/// The packed endpoints of a slice.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Octets an address: 4 or 16.
    pub width: usize,
    /// The addresses of ready endpoints, in order.
    pub addresses: Vec<u8>,
    /// What the endpoint of each address is named by.
    pub names: Vec<Names>,
    /// The ports.
    pub ports: Vec<Port>,
    /// The number of addresses of other endpoints.
    pub not_ready: usize,
}

impl Packed {
    /// Whether each topology zone has the form of a label in ASCII, or is empty.
    #[must_use]
    pub fn has_usual_zones(&self, whole: &[u8]) -> bool {
        self.names
            .iter()
            .filter_map(|names| names.zone?.text(whole))
            .all(|zone| zone.len() <= MAX_LABEL_LEN && zone.is_ascii())
    }
}

/// Pack the endpoints of a slice; None if they are of another kind.
///
/// # Errors
/// If the message is malformed.
pub fn pack(message: &[u8]) -> Result<Option<Packed>, Malformed> {
    let (mut found, mut is_usual) = (Packed::default(), true);
    for field in Fields::of(message) {
        match field? {
            (2, value) => is_usual &= add_endpoint(value.octets()?, message, &mut found)?,
            (3, value) => {
                let Some(port) = port(value.octets()?)? else {
                    return Ok(None);
                };
                found.ports.push(port);
            }
            _ => (),
        }
    }
    Ok(Some(found).filter(|found| is_usual && found.width > 0))
}

/// Add an endpoint; return false if it is of another kind.
fn add_endpoint(message: &[u8], whole: &[u8], found: &mut Packed) -> Result<bool, Malformed> {
    let (mut is_ready, mut hostname, mut pod, mut zone, mut count) =
        (true, &b""[..], &b""[..], None, 0);
    let before = (found.addresses.len(), found.width);
    let mut is_plain = true;
    for field in Fields::of(message) {
        match field? {
            (1, value) => {
                count += 1;
                is_plain &= add_address(value.octets()?, found);
            }
            (2, value) => {
                is_ready = true; // of several conditions the last ones count
                for condition in Fields::of(value.octets()?) {
                    if let (1, value) = condition? {
                        is_ready = value.integer()? != 0;
                    }
                }
            }
            (3, value) => hostname = value.octets()?,
            (4, value) => {
                pod = b"";
                for part in Fields::of(value.octets()?) {
                    if let (3, value) = part? {
                        pod = value.octets()?;
                    }
                }
            }
            (7, value) => zone = Some(value.octets()?),
            _ => (),
        }
    }
    if !is_ready {
        found.addresses.truncate(before.0);
        found.width = before.1;
        found.not_ready += count;
        return Ok(true);
    }
    if hostname.len() > MAX_LABEL_LEN
        || [hostname, pod, zone.unwrap_or_default()]
            .iter()
            .any(|each| std::str::from_utf8(each).is_err())
    {
        return Ok(false);
    }
    if pod.len() > MAX_LABEL_LEN {
        pod = b"";
    }
    let names = Names {
        hostname: Place::of(hostname, whole),
        pod: Place::of(pod, whole),
        zone: zone.map(|zone| Place::of(zone, whole)),
    };
    found.names.extend(std::iter::repeat_n(names, count));
    Ok(is_plain)
}

fn add_address(text: &[u8], found: &mut Packed) -> bool {
    let before = found.addresses.len();
    if !append_address(text, &mut found.addresses) {
        return false;
    }
    let width = found.addresses.len() - before;
    let is_same = found.width == 0 || found.width == width;
    found.width = width;
    is_same
}

/// Append the 4 or 16 octets of an address in its canonical form; return false for other text.
pub fn append_address(text: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        out.extend_from_slice(&address.octets());
        return true;
    }
    match text.parse::<Ipv6Addr>() {
        Ok(address)
            if !text.contains('.')
                && address.to_ipv4_mapped().is_none()
                && address.to_string() == text =>
        {
            out.extend_from_slice(&address.octets());
            true
        }
        _ => false,
    }
}

/// Read a port; None for text that is no UTF-8.
///
/// # Errors
/// If the message is malformed.
pub fn port(message: &[u8]) -> Result<Option<Port>, Malformed> {
    let mut found = (None, None, None);
    for field in Fields::of(message) {
        match field? {
            (number @ (1 | 2), value) => {
                let Ok(text) = std::str::from_utf8(value.octets()?) else {
                    return Ok(None);
                };
                *(if number == 1 {
                    &mut found.0
                } else {
                    &mut found.1
                }) = Some(text.to_owned());
            }
            (3, value) => found.2 = Some(value.integer()? as i32),
            _ => (),
        }
    }
    Ok(Some(found))
}

/// The label that stands for an address of 4 or 16 octets, in wire form; None for other octets.
#[must_use]
pub fn dashed_label(address: &[u8]) -> Option<Vec<u8>> {
    let mut text = if let Ok(octets) = <[u8; 4]>::try_from(address) {
        Ipv4Addr::from(octets).to_string().replace('.', "-")
    } else {
        let octets = <[u8; 16]>::try_from(address).ok()?;
        Ipv6Addr::from(octets).to_string().replace([':', '.'], "-")
    };
    if text.ends_with('-') {
        text.push('0'); // as CoreDNS does
    }
    text.insert(0, char::from(text.len() as u8)); // 39 at most
    Some(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_dashed_labels() {
        for (address, label) in [
            (&[10, 0, 0, 255][..], &b"\x0a10-0-0-255"[..]),
            (&[0; 16], b"\x03--0"),
            (
                &[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                b"\x07fd00--0",
            ),
        ] {
            assert_eq!(dashed_label(address).as_deref(), Some(label));
        }
        assert_eq!(dashed_label(b"abc"), None);
    }
}
