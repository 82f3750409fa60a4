//! Any octets as a query, a reply and a template; what must hold is in tests/exercise/mod.rs.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/exercise/mod.rs"]
mod exercise;

use exercise::Subject;

const RENEWED_AFTER: u32 = 1000; // inputs, so that a find depends on few others

thread_local! {
    static SUBJECT: RefCell<(u32, Subject)> = RefCell::new((0, Subject::new()));
}

fuzz_target!(|octets: &[u8]| {
    SUBJECT.with_borrow_mut(|(count, subject)| {
        if *count == RENEWED_AFTER {
            (*count, *subject) = (0, Subject::new());
        }
        *count += 1;
        subject.take(octets);
    });
});
