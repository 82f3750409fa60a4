//! Slices of threads, as far as this kernel has them.

use std::thread;

use hsdns_native::system::slice;

#[test]
fn only_the_thread_that_asks_has_a_shorter_slice() {
    let before = slice::length();
    let asking = thread::spawn(|| (slice::shorten(), slice::length()));
    let (taken, after) = asking.join().unwrap();
    match before {
        // Not where this test runs by another policy, and Linux before 6.12 has no slices of threads.
        Some(1..) if taken => assert_eq!(after, Some(slice::SHORTEST)),
        _ => assert_eq!(after, before),
    }
    assert_eq!(slice::length(), before);
}
