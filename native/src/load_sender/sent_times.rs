//! When the queries of a system call left: the twin of SentTimes in hsdns/load/send/udp.py.
//!
//! Rule 1: the kernel stamps one query of some calls when it leaves. From these follows how long after the begin of a
//!         call its first query usually leaves (the median), and how long each takes; in a call with a stamp, all of its
//!         queries are moved so that the stamp is right.
//! Rule 2: until there is a stamp, each query takes as long as in the quicker recent calls: a quarter of them was
//!         quicker. One that takes longer was interrupted, most likely by the server that its first query woke. A query
//!         leaves after three quarters of its time: on loopback, the last quarter delivers it and wakes the server.

/// Each call changes what is usual by such a part.
const PARTS: i64 = 64;

/// The times of the last call, in nanoseconds.
#[derive(Default)]
pub struct SentTimes {
    /// Of a query, by the times of the calls.
    each: i64,
    /// From the begin of a call to the stamp of its first query, and from one query to the next, by the stamps.
    first: Option<i64>,
    step: Option<i64>,
    moved: i64,
    before: i64,
    after: i64,
}

impl SentTimes {
    /// A call that sent so many queries has ended; `left` is the index of one, and when it left.
    pub fn ended(&mut self, before: i64, after: i64, count: usize, left: Option<(usize, i64)>) {
        let each = (after - before) / (count as i64).max(1);
        let part = self.each / PARTS;
        if self.each == 0 {
            self.each = each;
        } else {
            self.each += if each > self.each { part } else { -3 * part };
        }
        (self.before, self.after, self.moved) = (before, after, 0);
        if let Some((index, at)) = left.filter(|each| before <= each.1 && each.1 <= after) {
            let passed = at - before;
            if let (Some(first), 1..) = (self.first, index) {
                self.step = Some(nearer(self.step, (passed - first) / index as i64));
            } else if index == 0 {
                self.first = Some(nearer(self.first, passed));
            }
            self.moved = at - self.usual(index);
        }
    }

    /// When a query of the last call left.
    #[must_use]
    pub fn of(&self, index: usize) -> i64 {
        (self.usual(index) + self.moved).clamp(self.before, self.after)
    }

    fn usual(&self, index: usize) -> i64 {
        let index = index as i64;
        self.before
            + match self.first {
                Some(first) => first + self.step.unwrap_or(self.each) * index,
                None => self.each * (4 * index + 3) / 4,
            }
    }
}

/// A median that has moved towards another value.
fn nearer(median: Option<i64>, found: i64) -> i64 {
    let Some(median) = median else {
        return found.max(1);
    };
    let part = (median / PARTS).max(1);
    (median + part * (found - median).signum()).max(1)
}
