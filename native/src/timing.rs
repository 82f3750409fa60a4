//! The times of a timed reply: one that `cache` has stored, and whose TTL decreases.
//!
//! Rule 1: the TTL and its end are those of hsdns/plugins/cache/store.py at the same time, so that the table's reply
//!         equals that of the chain.

/// Nanoseconds in a second.
pub const NANOSECONDS: u64 = 1_000_000_000;

/// When `cache` has stored a reply, its TTL then, and when it expires; nanoseconds of the monotonic clock. A TTL of 0
/// means that the TTLs of the records do not change.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// When it was stored.
    pub stored: u64,
    /// The TTL that it had then, in seconds.
    pub ttl: u32,
    /// When it expires.
    pub expires: u64,
}

impl Timing {
    /// The remaining seconds, None if the reply has expired; 0 if TTLs do not change.
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
