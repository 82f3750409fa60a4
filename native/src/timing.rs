//! The time of a timed reply: one that `cache` has stored, whose TTL is counted down.
//!
//! Rule 1: the TTL and its end are those of hsdns/plugins/cache/store.py at the same time, so that a reply of the table
//!         is the one that the chain would send.

/// In a second.
pub const NANOSECONDS: u64 = 1_000_000_000;

/// When a reply was stored by `cache`, its TTL then, and from when on it is no hit; nanoseconds of the monotonic clock.
/// A TTL of 0 stands for records whose TTLs stay as they are.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// When it was stored.
    pub stored: u64,
    /// The TTL that it had then, in seconds.
    pub ttl: u32,
    /// From when on it is no hit.
    pub expires: u64,
}

impl Timing {
    /// The seconds that are left, None if the reply has expired; 0 where TTLs stay.
    #[must_use]
    pub fn left(&self, now: u64) -> Option<u32> {
        if now >= self.expires {
            return None;
        }
        let age = now.saturating_sub(self.stored) / NANOSECONDS;
        let left = self
            .ttl
            .saturating_sub(u32::try_from(age).unwrap_or(u32::MAX));
        (left > 0 || self.ttl == 0).then_some(left)
    }
}
