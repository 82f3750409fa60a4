//! When the queries of a system call left: the twin of SentTimes in hsdns/load/send/udp.py.
//!
//! Rule 1: each takes as long as in the quicker recent calls: a quarter of them was quicker. One that takes longer was
//!         interrupted, most likely by the server that its first query woke, so its time is not distributed over its
//!         queries.
//! Rule 2: a query leaves after three quarters of its time: on loopback, the last quarter delivers it and wakes the server.

/// Each call changes the usual time of a query by such a part.
const PARTS: i64 = 64;

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
        let step = self.each / PARTS;
        if self.each == 0 {
            self.each = each;
        } else {
            self.each += if each > self.each { step } else { -3 * step };
        }
        (self.before, self.after) = (before, after);
    }

    /// When a query of the last call left.
    #[must_use]
    pub fn of(&self, index: usize) -> i64 {
        let passed = self.each * (4 * index as i64 + 3) / 4;
        self.after.min(self.before + passed)
    }
}
