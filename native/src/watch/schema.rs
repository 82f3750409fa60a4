//! The fields of Kubernetes objects that DNS needs: their numbers in protobuf and their names in JSON.
//!
//! Rule 1: what Go's `omitempty` leaves out of JSON is `Text`, `Number` or `Truth`: protobuf has these fields even if
//!         they are empty.  Fields that are pointers in Go (`Kept...`) are in both whenever they are set.
//! Source: generated.proto and types.go of k8s.io/api core/v1 and discovery/v1, and of k8s.io/apimachinery meta/v1.

/// A field of a message.
pub struct Field {
    /// Its number in protobuf.
    pub number: u64,
    /// Its name in JSON.
    pub name: &'static str,
    /// How it is read and written.
    pub form: Form,
}

/// The form of a field.
pub enum Form {
    /// A string, left out if empty.
    Text,
    /// A string.
    KeptText,
    /// An int32, left out if 0.
    Number,
    /// An int32.
    KeptNumber,
    /// A truth value, left out if false.
    Truth,
    /// A truth value.
    KeptTruth,
    /// meta/v1 Time.
    Time,
    /// IntOrString.
    NumberOrText,
    /// A map from strings to strings.
    Map,
    /// Strings.
    Texts,
    /// A message.
    Message(&'static [Field]),
    /// Messages.
    Messages(&'static [Field]),
}

use Form::{
    KeptNumber, KeptText, KeptTruth, Map, Message, Messages, Number, NumberOrText, Text, Texts,
    Time, Truth,
};

const fn field(number: u64, name: &'static str, form: Form) -> Field {
    Field { number, name, form }
}

const META: &[Field] = &[
    field(1, "name", Text),
    field(3, "namespace", Text),
    field(5, "uid", Text),
    field(6, "resourceVersion", Text),
    field(9, "deletionTimestamp", Time),
    field(11, "labels", Map),
    field(12, "annotations", Map),
];

/// core/v1 Service.
pub const SERVICE: &[Field] = &[
    field(1, "metadata", Message(META)),
    field(
        2,
        "spec",
        Message(&[
            field(
                1,
                "ports",
                Messages(&[
                    field(1, "name", Text),
                    field(2, "protocol", Text),
                    field(3, "port", KeptNumber),
                    field(4, "targetPort", NumberOrText),
                ]),
            ),
            field(2, "selector", Map),
            field(3, "clusterIP", Text),
            field(18, "clusterIPs", Texts),
            field(4, "type", Text),
            field(5, "externalIPs", Texts),
            field(10, "externalName", Text),
            field(13, "publishNotReadyAddresses", Truth),
            field(17, "ipFamilyPolicy", KeptText),
            field(19, "ipFamilies", Texts),
        ]),
    ),
    field(
        3,
        "status",
        Message(&[field(
            1,
            "loadBalancer",
            Message(&[field(
                1,
                "ingress",
                Messages(&[field(1, "ip", Text), field(2, "hostname", Text)]),
            )]),
        )]),
    ),
];

/// discovery/v1 EndpointSlice.
pub const ENDPOINT_SLICE: &[Field] = &[
    field(1, "metadata", Message(META)),
    field(4, "addressType", Text),
    field(
        2,
        "endpoints",
        Messages(&[
            field(1, "addresses", Texts),
            field(
                2,
                "conditions",
                Message(&[
                    field(1, "ready", KeptTruth),
                    field(2, "serving", KeptTruth),
                    field(3, "terminating", KeptTruth),
                ]),
            ),
            field(3, "hostname", KeptText),
            field(
                4,
                "targetRef",
                Message(&[
                    field(1, "kind", Text),
                    field(2, "namespace", Text),
                    field(3, "name", Text),
                ]),
            ),
            field(7, "zone", KeptText),
        ]),
    ),
    field(
        3,
        "ports",
        Messages(&[
            field(1, "name", KeptText),
            field(2, "protocol", KeptText),
            field(3, "port", KeptNumber),
        ]),
    ),
];

const POD: &[Field] = &[
    field(1, "metadata", Message(META)),
    field(
        2,
        "spec",
        Message(&[field(16, "hostname", Text), field(17, "subdomain", Text)]),
    ),
    field(
        3,
        "status",
        Message(&[
            field(1, "phase", Text),
            field(
                2,
                "conditions",
                Messages(&[
                    field(1, "type", Text),
                    field(2, "status", Text),
                    field(5, "reason", Text),
                ]),
            ),
            field(6, "podIP", Text),
        ]),
    ),
];

/// meta/v1 Status; `kind` is in the envelope.
pub const STATUS: &[Field] = &[
    field(3, "message", Text),
    field(4, "reason", Text),
    field(
        5,
        "details",
        Message(&[
            field(4, "causes", Messages(&[field(1, "reason", Text)])),
            field(5, "retryAfterSeconds", Number),
        ]),
    ),
    field(6, "code", Number),
];

/// The fields of an object by its kind; None for a kind that is not read.
#[must_use]
pub fn fields_of(kind: &str) -> Option<&'static [Field]> {
    match kind {
        "Service" => Some(SERVICE),
        "EndpointSlice" => Some(ENDPOINT_SLICE),
        "Namespace" => Some(&SERVICE[..1]),
        "Pod" => Some(POD),
        _ => None,
    }
}
