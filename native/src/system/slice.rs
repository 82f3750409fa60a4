//! How long the kernel lets this thread run before another one that waits: its slice.
//!
//! Rule 1: a thread with a shorter slice than the one that runs is let in as soon as it wakes (Linux 6.12 and later).
//!         It gets no more of the processor than the others over time.
//! Rule 2: only a thread of the normal policy is changed, and nothing else of it; where the kernel refuses or does not
//!         know this, nothing happens.
//!
//! Source: `sched_setattr`(2); Linux 6.12 kernel/sched/syscalls.c, `__setparam_fair`.

use libc::{SYS_sched_getattr, SYS_sched_setattr, c_long, sched_attr};

/// Nanoseconds: the shortest that the kernel takes.
pub const SHORTEST: u64 = 100_000;
const THIS_THREAD: c_long = 0;
const NO_FLAGS: c_long = 0;

/// Have this thread run soon after it wakes, also beside one that computes; return whether the kernel took that.
pub fn shorten() -> bool {
    let Some(mut attributes) = attributes() else {
        return false;
    };
    if i64::from(attributes.sched_policy) != i64::from(libc::SCHED_OTHER) {
        return false;
    }
    attributes.sched_runtime = SHORTEST;
    // SAFETY: the attributes live through the call, and say how long they are.
    unsafe {
        libc::syscall(
            SYS_sched_setattr,
            THIS_THREAD,
            &raw const attributes,
            NO_FLAGS,
        ) == 0
    }
}

/// Nanoseconds of this thread's slice; 0 where the kernel has none for each thread, None where it does not tell.
#[must_use]
pub fn length() -> Option<u64> {
    attributes().map(|found| found.sched_runtime)
}

fn attributes() -> Option<sched_attr> {
    const LEN: usize = size_of::<sched_attr>();
    // SAFETY: zeros are valid attributes; the kernel writes at most as many octets as it is told.
    unsafe {
        let mut found: sched_attr = std::mem::zeroed();
        let result = libc::syscall(
            SYS_sched_getattr,
            THIS_THREAD,
            &raw mut found,
            LEN as c_long,
            NO_FLAGS,
        );
        (result == 0).then_some(found)
    }
}
