//! Any octets as a query, a reply and a template; what must hold is in tests/exercise/mod.rs.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/exercise/mod.rs"]
mod exercise;

use exercise::Harness;

const RENEWED_AFTER: u32 = 1000; // inputs, so that a find depends on few others

thread_local! {
    static HARNESS: RefCell<(u32, Harness)> = RefCell::new((0, Harness::new()));
}

fuzz_target!(|octets: &[u8]| {
    HARNESS.with_borrow_mut(|(count, harness)| {
        if *count == RENEWED_AFTER {
            (*count, *harness) = (0, Harness::new());
        }
        *count += 1;
        harness.take(octets);
    });
});
