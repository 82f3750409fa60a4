//! The ClusterIPs and ports of a Service, packed.
//!
//! Rule: only what nearly all Services are is packed here: ClusterIPs in their canonical form or "None", and nothing
//!       outside the cluster.  The rest is left to hsdns/cluster/pack.py, with its sentences.

use super::slice::{Port, append_address, port};
use super::wire::{Fields, Malformed, last};

/// A Service of the usual kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Whether it has no ClusterIP on purpose.
    pub is_headless: bool,
    /// Its ClusterIPs, of 4 or 16 octets each.
    pub addresses: Vec<Vec<u8>>,
    /// Its ports.
    pub ports: Vec<Port>,
    /// Whether it has a selector.
    pub has_selector: bool,
}

/// Pack a Service; None if it is of another kind.
///
/// # Errors
/// If the message is malformed.
pub fn pack(message: &[u8]) -> Result<Option<Packed>, Malformed> {
    let status = last(message, 3)?.unwrap_or_default();
    let balancer = last(status, 1)?.unwrap_or_default();
    if last(balancer, 1)?.is_some() {
        return Ok(None);
    }
    let spec = last(message, 2)?.unwrap_or_default();
    let (mut found, mut single, mut several) = (Packed::default(), &b""[..], Vec::new());
    for field in Fields::of(spec) {
        match field? {
            (1, value) => {
                let Some(port) = port(value.octets()?)? else {
                    return Ok(None);
                };
                // The API server has a number for each; msgspec's default is 0.
                found.ports.push((port.0, port.1, port.2.or(Some(0))));
            }
            (2, _) => found.has_selector = true,
            (3, value) => single = value.octets()?,
            (4, value) if value.octets()? == b"ExternalName" => return Ok(None),
            (5, _) => return Ok(None), // an external IP
            (18, value) => several.push(value.octets()?),
            _ => (),
        }
    }
    if several.is_empty() {
        several.push(single);
    }
    found.is_headless = several[0] == b"None";
    if found.is_headless || several == [b""] {
        return Ok(Some(found));
    }
    for text in several {
        let mut address = Vec::new();
        if !append_address(text, &mut address) {
            return Ok(None);
        }
        found.addresses.push(address);
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, octets: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, octets.len() as u8], octets].concat()
    }

    #[test]
    fn usual_services_are_packed() {
        let port = [field(1, b"http"), vec![3 << 3, 80]].concat();
        let spec = [field(1, &port), field(3, b"10.96.0.1"), field(2, b"")].concat();
        let wanted = Packed {
            is_headless: false,
            addresses: vec![vec![10, 96, 0, 1]],
            ports: vec![(Some("http".to_owned()), None, Some(80))],
            has_selector: true,
        };
        assert_eq!(pack(&field(2, &spec)), Ok(Some(wanted)));
        let headless = pack(&field(2, &field(3, b"None"))).unwrap().unwrap();
        assert!(headless.is_headless && headless.addresses.is_empty());
        for spec in [
            field(3, b"10.96.0.01"),
            field(4, b"ExternalName"),
            field(5, b"192.0.2.1"),
        ] {
            assert_eq!(pack(&field(2, &spec)), Ok(None));
        }
        let status = field(3, &field(1, &field(1, &field(1, b"192.0.2.1"))));
        assert_eq!(pack(&status), Ok(None));
    }
}
