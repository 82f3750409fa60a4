//! When queries may leave: the twin of Pace in hsdns/load/schedule.py, which has the rules.

use super::messages::{LATE, UNSURE};

/// The rate of catching up is 6/5 of the planned one.
const CATCH_UP: i64 = 6;
/// Nanoseconds by which a schedule that waits for room may be behind before it is postponed, so that queries leave
/// together.
const POSTPONED_AFTER: i64 = 10_000_000;

/// Nanoseconds of a system call from which it is not known when a query left.
const UNSURE_AFTER: i64 = 100_000;

/// The progress of a schedule; times in nanoseconds.
pub struct Pace {
    late_after: i64,
    is_postponed: bool,
    begin: i64,
    /// When the last query was due, counted from the begin, and how far the schedule was behind then.
    before: i64,
    behind: i64,
}

impl Pace {
    /// A schedule that is behind by more than `late_after` is caught up with slowly, or moved.
    #[must_use]
    pub fn new(late_after: i64, is_postponed: bool) -> Self {
        Self {
            late_after,
            is_postponed,
            begin: 0,
            before: 0,
            behind: 0,
        }
    }

    /// The start time of the schedule.
    pub fn begin(&mut self, begin: i64) {
        self.begin = begin;
    }

    /// When the next query may leave that is due at a time after the begin.
    #[must_use]
    pub fn at(&self, due: i64) -> i64 {
        self.begin + due + self.behind(due)
    }

    /// Let the query that is due leave now.
    pub fn begin_turn(&mut self, due: i64, now: i64) {
        if self.is_postponed {
            self.begin = self.begin.max(now - due - POSTPONED_AFTER);
        } else if now - self.at(due) > self.late_after {
            self.behind = now - self.late_after - self.begin - due;
            self.before = due;
        }
    }

    /// The marks of a query that was sent at a time, by a system call that ended `after`.
    #[must_use]
    pub fn marks(&self, planned: i64, sent: i64, after: i64) -> u32 {
        let is_late = after - planned > self.late_after;
        let is_unsure = after - sent > UNSURE_AFTER;
        (if is_late { LATE } else { 0 }) | (if is_unsure { UNSURE } else { 0 })
    }

    /// Go on to the query after this one; return when it was due.
    pub fn take(&mut self, due: i64) -> i64 {
        self.behind = self.behind(due);
        self.before = due;
        self.begin + due
    }

    fn behind(&self, due: i64) -> i64 {
        if self.behind == 0 {
            return 0;
        }
        (self.behind - (due - self.before) / CATCH_UP).max(0)
    }
}
