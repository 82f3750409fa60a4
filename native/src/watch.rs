//! What an API server sends as protobuf: the frames of a watch, the page of a list, a Status.
//!
//! ```text
//! --> Frames              octets of a response, in chunks of any size -> the events in them
//!     --> wire.rs         the fields of a message
//!     --> json.rs         the fields that DNS needs (schema.rs) as JSON, which msgspec decodes like that of the server
//!     --> slice.rs        the endpoints of an EndpointSlice, packed
//!     --> service.rs      the ClusterIPs and ports of a Service, packed
//! <-- python/watch.rs     the events as tuples
//! ```
//!
//! Rule 1: an event that is no object of its kind, but has a name, has the reason with it; what is no event ends the
//!         response.
//! Rule 2: what is kept of a response is bounded: a frame of more than `limit` octets is skipped, and one of more than
//!         `MOST` is no frame.
//! Source: k8s.io/apimachinery pkg/runtime/serializer/protobuf, pkg/util/framer; meta/v1 WatchEvent.

pub mod json;
pub mod schema;
pub mod service;
pub mod slice;
pub mod time;
pub mod wire;

use json::{check_message, pair, write_message};
use schema::{ENDPOINT_SLICE, Field, SERVICE, STATUS, fields_of};
use slice::Packed;
use wire::{Fields, Malformed, last};

/// What begins an object: it is inside a runtime.Unknown.
pub const MAGIC: &[u8; 4] = b"k8s\0";
/// Octets of the longest frame: a list of the largest objects, see MAX_PAGE_LEN of hsdns/apiserver/reflector.py.
pub const MOST: usize = 64 << 20;
const PREFIX_LEN: usize = 4;
const END_OF_STATE: &[u8] = b"k8s.io/initial-events-end";
const SERVICE_NAME: &[u8] = b"kubernetes.io/service-name";
const IMPORT_NAME: &[u8] = b"multicluster.kubernetes.io/service-name";
const SOURCE_CLUSTER: &[u8] = b"multicluster.kubernetes.io/source-cluster";
const CHANGE_TIME: &[u8] = b"endpoints.kubernetes.io/last-change-trigger-time";

/// What an event is about.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    /// A bookmark, and whether it ends the initial state.
    Bookmark(bool),
    /// A Status, as JSON.
    Status(Vec<u8>),
    /// An object, as JSON.
    Object(Vec<u8>),
    /// An EndpointSlice.
    Slice(Slice),
    /// A Service.
    Service(Service),
    /// Why the object is malformed.
    Fault(&'static str),
}

/// An EndpointSlice.
#[derive(Debug, PartialEq, Eq)]
pub struct Slice {
    /// Its endpoints, if it is of the usual kind.
    pub packed: Option<Packed>,
    /// What the store reads of its metadata.
    pub meta: SliceMeta,
    /// Its octets, which are no malformed message.
    pub octets: Box<[u8]>,
}

impl Slice {
    /// The JSON of the whole object.
    #[must_use]
    pub fn json(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(self.octets.len());
        let written = write_message(&self.octets, ENDPOINT_SLICE, &mut json);
        debug_assert!(written.is_ok(), "it was checked");
        json
    }
}

/// A Service.
#[derive(Debug, PartialEq, Eq)]
pub struct Service {
    /// What DNS needs of it, if it is of the usual kind.
    pub packed: Option<service::Packed>,
    /// Its octets, which are no malformed message.
    pub octets: Box<[u8]>,
}

impl Service {
    /// The JSON of the whole object.
    #[must_use]
    pub fn json(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(self.octets.len());
        let written = write_message(&self.octets, SERVICE, &mut json);
        debug_assert!(written.is_ok(), "it was checked");
        json
    }
}

/// Labels and annotations of an EndpointSlice that the store reads.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SliceMeta {
    /// The Service that it belongs to.
    pub service: Option<String>,
    /// The ServiceImport that it belongs to.
    pub import: Option<String>,
    /// The cluster of that.
    pub source: Option<String>,
    /// When what it says has changed.
    pub change: Option<String>,
}

/// A watch event.
#[derive(Debug, PartialEq, Eq)]
pub struct Event {
    /// ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
    pub kind: &'static str,
    /// The namespace of the object.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its resourceVersion.
    pub version: String,
    /// The rest.
    pub content: Content,
}

/// A page of a list.
#[derive(Debug)]
pub struct Page {
    /// The resourceVersion of the list.
    pub version: String,
    /// The continue token of the next page.
    pub following: String,
    /// Its objects, as additions.
    pub events: Vec<Event>,
}

/// Splits the octets of a watch into frames.
pub struct Frames {
    kind: String,
    limit: usize,
    rest: Vec<u8>,
    to_skip: usize,
    /// How many frames were longer than the limit.
    pub skipped: usize,
}

impl Frames {
    /// Frames with objects of a kind, of at most `limit` octets.
    #[must_use]
    pub fn new(kind: &str, limit: usize) -> Self {
        Self {
            kind: kind.to_owned(),
            limit,
            rest: Vec::new(),
            to_skip: 0,
            skipped: 0,
        }
    }

    /// Take octets; return the events that they complete, and why what follows is no event.
    pub fn feed(&mut self, data: &[u8]) -> (Vec<Event>, Option<Malformed>) {
        let mut events = Vec::new();
        if self.rest.is_empty() {
            let (taken, fault) = self.split(data, &mut events);
            self.rest.extend_from_slice(&data[taken..]);
            return (events, fault);
        }
        let mut held = std::mem::take(&mut self.rest);
        held.extend_from_slice(data);
        let (taken, fault) = self.split(&held, &mut events);
        held.drain(..taken);
        self.rest = held;
        (events, fault)
    }

    /// Add the events of the whole frames; return how many octets need not be kept.
    fn split(&mut self, data: &[u8], events: &mut Vec<Event>) -> (usize, Option<Malformed>) {
        let mut at = 0;
        loop {
            let skipped = self.to_skip.min(data.len() - at);
            self.to_skip -= skipped;
            at += skipped;
            let Some((prefix, body)) = data[at..].split_first_chunk::<PREFIX_LEN>() else {
                return (at, None);
            };
            let len = u32::from_be_bytes(*prefix) as usize;
            if len > MOST {
                return (data.len(), Some(Malformed("a frame of impossible length")));
            }
            if len > self.limit {
                self.skipped += 1;
                self.to_skip = len;
                at += PREFIX_LEN;
                continue;
            }
            let Some(frame) = body.get(..len) else {
                return (at, None);
            };
            at += PREFIX_LEN + len;
            match read_event(frame, &self.kind) {
                Ok(event) => events.push(event),
                Err(error) => return (data.len(), Some(error)),
            }
        }
    }
}

/// Read a watch event.
///
/// # Errors
/// If it is none.
pub fn read_event(frame: &[u8], kind: &str) -> Result<Event, Malformed> {
    let name = last(frame, 1)?.unwrap_or_default();
    let object = last(frame, 2)?.unwrap_or_default(); // a RawExtension
    let (of_kind, object) = open_envelope(last(object, 1)?.unwrap_or_default())?;
    let event = match name {
        b"ADDED" => "ADDED",
        b"MODIFIED" => "MODIFIED",
        b"DELETED" => "DELETED",
        b"BOOKMARK" => return read_bookmark(object),
        b"ERROR" => {
            return Ok(Event {
                kind: "ERROR",
                namespace: String::new(),
                name: String::new(),
                version: String::new(),
                content: Content::Status(status_json(of_kind, object)?),
            });
        }
        _ => return Err(Malformed("an event of an unknown type")),
    };
    if of_kind != kind.as_bytes() {
        return Err(Malformed("an object of another kind"));
    }
    read_object(event, object, kind)
}

/// Read a page of a list.
///
/// # Errors
/// If it is none.
pub fn read_page(body: &[u8], kind: &str) -> Result<Page, Malformed> {
    let (of_kind, list) = open_envelope(body)?;
    if of_kind.strip_suffix(b"List") != Some(kind.as_bytes()) {
        return Err(Malformed("a list of another kind"));
    }
    let meta = last(list, 1)?.unwrap_or_default();
    let mut events = Vec::new();
    for field in Fields::of(list) {
        if let (2, value) = field? {
            events.push(read_object("ADDED", value.octets()?, kind)?);
        }
    }
    Ok(Page {
        version: text(last(meta, 2)?),
        following: text(last(meta, 3)?),
        events,
    })
}

/// The JSON of a Status.
///
/// # Errors
/// If it is none.
pub fn read_status(body: &[u8]) -> Result<Vec<u8>, Malformed> {
    let (kind, status) = open_envelope(body)?;
    status_json(kind, status)
}

/// The kind and the octets of an object in a runtime.Unknown.
fn open_envelope(octets: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let Some(unknown) = octets.strip_prefix(MAGIC) else {
        return Err(Malformed("an object without the mark of Kubernetes"));
    };
    let types = last(unknown, 1)?.unwrap_or_default();
    let kind = last(types, 2)?.unwrap_or_default();
    Ok((kind, last(unknown, 2)?.unwrap_or_default()))
}

fn status_json(kind: &[u8], status: &[u8]) -> Result<Vec<u8>, Malformed> {
    if kind != b"Status" {
        return Err(Malformed("an error that is not a Status"));
    }
    let mut fields = Vec::new();
    write_message(status, STATUS, &mut fields)?;
    let comma = if fields.len() > 2 { "," } else { "" };
    let mut out = format!("{{\"kind\":\"Status\"{comma}").into_bytes();
    out.extend_from_slice(&fields[1..]);
    Ok(out)
}

fn read_bookmark(object: &[u8]) -> Result<Event, Malformed> {
    let meta = last(object, 1)?.unwrap_or_default();
    let mut ends = false;
    for field in Fields::of(meta) {
        if let (12, value) = field? {
            ends |= pair(value.octets()?)? == (END_OF_STATE, b"true");
        }
    }
    Ok(Event {
        kind: "BOOKMARK",
        namespace: String::new(),
        name: String::new(),
        version: text(last(meta, 6)?),
        content: Content::Bookmark(ends),
    })
}

/// Read an object; one that has a name, but is malformed otherwise, is a fault.
fn read_object(event: &'static str, object: &[u8], kind: &str) -> Result<Event, Malformed> {
    let fields = fields_of(kind).ok_or(Malformed("an object of a kind that is not read"))?;
    let meta = last(object, 1)?.unwrap_or_default();
    let name = text(last(meta, 1)?);
    if name.is_empty() {
        return Err(Malformed("an object without a name"));
    }
    let content = read_content(object, meta, kind, fields);
    Ok(Event {
        kind: event,
        namespace: text(last(meta, 3)?),
        name,
        version: text(last(meta, 6)?),
        content: content.unwrap_or_else(|error| Content::Fault(error.0)),
    })
}

fn read_content(
    object: &[u8],
    meta: &[u8],
    kind: &str,
    fields: &[Field],
) -> Result<Content, Malformed> {
    if kind == "Service" {
        check_message(object, fields)?;
        return Ok(Content::Service(Service {
            packed: service::pack(object)?,
            octets: object.into(),
        }));
    }
    if kind != "EndpointSlice" {
        let mut json = Vec::with_capacity(object.len());
        write_message(object, fields, &mut json)?;
        return Ok(Content::Object(json));
    }
    check_message(object, fields)?;
    let mut found = SliceMeta::default();
    for field in Fields::of(meta) {
        let (number @ (11 | 12), value) = field? else {
            continue;
        };
        let (key, value) = pair(value.octets()?)?;
        let place = match (number, key) {
            (11, SERVICE_NAME) => &mut found.service,
            (11, IMPORT_NAME) => &mut found.import,
            (11, SOURCE_CLUSTER) => &mut found.source,
            (12, CHANGE_TIME) => &mut found.change,
            _ => continue,
        };
        *place = Some(text(Some(value)));
    }
    Ok(Content::Slice(Slice {
        packed: slice::pack(object)?,
        meta: found,
        octets: object.into(),
    }))
}

fn text(octets: Option<&[u8]>) -> String {
    String::from_utf8_lossy(octets.unwrap_or_default()).into_owned()
}
