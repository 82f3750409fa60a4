//! The slice of this thread: how long the kernel runs a thread before another one that waits.
//!
//! Rule 1: a thread with a shorter slice than the running one is scheduled as soon as it wakes (Linux 6.12 and later).
//!         Over time it gets no more of the CPU than others.
//! Rule 2: only a thread of the normal scheduling policy is changed, and only its slice; if the kernel refuses or does
//!         not support this, nothing happens.
//!
//! Source: `sched_setattr`(2); Linux 6.12 kernel/sched/syscalls.c, `__setparam_fair`.

use libc::{SYS_sched_getattr, SYS_sched_setattr, c_long, sched_attr};

/// Nanoseconds: the shortest that the kernel accepts.
pub const SHORTEST: u64 = 100_000;
const THIS_THREAD: c_long = 0;
const NO_FLAGS: c_long = 0;

/// Let this thread run soon after it wakes, also beside one that computes; return whether the kernel accepted that.
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

/// Nanoseconds of this thread's slice; 0 if the kernel has none for each thread, None if it does not report it.
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
