//! Any octets as what an API server sends; what must hold is in tests/exercise/watch.rs.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/exercise/watch.rs"]
mod exercise;

fuzz_target!(|octets: &[u8]| exercise::take(octets));
