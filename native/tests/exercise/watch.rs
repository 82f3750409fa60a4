//! Any octets as what an API server sends.

use hsdns_native::watch::{Content, Event, Frames, read_page, read_status};

const KINDS: [&str; 4] = ["Service", "EndpointSlice", "Namespace", "Pod"];
const LIMIT: usize = 4096; // octets of a frame

/// Read octets as frames, whole and in pieces, as a page and as a Status.
pub fn take(octets: &[u8]) {
    for kind in KINDS {
        let (whole, fault) = Frames::new(kind, LIMIT).feed(octets);
        let mut frames = Frames::new(kind, LIMIT);
        let mut pieces = Vec::new();
        for piece in octets.chunks(7) {
            let (events, fault) = frames.feed(piece);
            pieces.extend(events);
            if fault.is_some() {
                break;
            }
        }
        assert!(pieces == whole || fault.is_some() && whole.starts_with(&pieces));
        let page = read_page(octets, kind).map_or_else(|_| Vec::new(), |page| page.events);
        for event in whole.iter().chain(&page) {
            check(event);
        }
    }
    if let Ok(json) = read_status(octets) {
        assert!(std::str::from_utf8(&json).is_ok());
    }
}

fn check(event: &Event) {
    match &event.content {
        Content::Object(json) | Content::Status(json) => assert!(std::str::from_utf8(json).is_ok()),
        Content::Slice(slice) => {
            assert!(slice.json().ends_with(b"}"));
            if let Some(packed) = &slice.packed {
                assert_eq!(packed.addresses.len(), packed.width * packed.names.len());
                let is_usual = packed.has_usual_zones(&slice.octets);
                for names in &packed.names {
                    let zone = names.zone.filter(|_| is_usual).unwrap_or_default();
                    for place in [names.hostname, names.pod, zone] {
                        assert!(place.text(&slice.octets).is_none_or(|text| text.len() < 64));
                    }
                }
            }
        }
        Content::Service(service) => assert!(service.json().ends_with(b"}")),
        Content::Bookmark(_) | Content::Fault(_) => (),
    }
}
