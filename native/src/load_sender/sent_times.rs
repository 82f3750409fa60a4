//! When the queries of a system call left: the twin of SentTimes in hsdns/load/send/loop.py.
//!
//! Rule 1: each takes as long as in the quickest recent call. A call that takes longer was interrupted, most likely by the
//!         server that its first query woke, so this is not distributed over its queries.

/// A call that is slower changes the time of a query by this part of the difference.
const SLOWLY: i64 = 64;

/// The times of the last call, in nanoseconds.
#[derive(Default)]
pub struct SentTimes {
    each: i64,
    before: i64,
    after: i64,
}

impl SentTimes {
    /// A call that sent so many queries has ended.
    pub fn ended(&mut self, before: i64, after: i64, count: usize) {
        let each = (after - before) / (count as i64).max(1);
        if self.each == 0 || each < self.each {
            self.each = each;
        } else {
            self.each += (each - self.each) / SLOWLY;
        }
        (self.before, self.after) = (before, after);
    }

    /// When a query of the last call left.
    #[must_use]
    pub fn of(&self, index: usize) -> i64 {
        let middle = self.each * (2 * index as i64 + 1) / 2;
        self.after.min(self.before + middle)
    }
}
