//! The schedule of a load test, in pieces that another thread makes ahead of time.
//!
//! Rule 1: the sender takes the lock once for each piece, and while it waits for one.
//! Rule 2: the feeding thread waits while there are AHEAD queries, and is told when no more are wanted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::lock::lock;

/// The maximum of waiting queries, not counting one piece: 24 MB.
pub const AHEAD: usize = 1 << 21;
const PAUSE: Duration = Duration::from_millis(5);

/// A piece of the schedule.
#[derive(Default)]
pub struct Piece {
    /// When each query is due, in nanoseconds from the start, in ascending order.
    pub times: Vec<i64>,
    /// The number of each query's question.
    pub questions: Vec<u32>,
}

/// When the next query is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// In nanoseconds from the start.
    Due(i64),
    /// Not made yet.
    NotYet,
    /// There is none.
    Over,
}

#[derive(Default)]
struct State {
    pieces: VecDeque<Piece>,
    queries: usize,
    is_whole: bool,
    is_over: bool,
}

/// The pieces between the feeding thread and the sender.
#[derive(Default)]
pub struct Feed {
    state: Mutex<State>,
}

impl Feed {
    /// Add a piece, after waiting for room; false if no more are wanted.
    pub fn add(&self, piece: Piece) -> bool {
        loop {
            {
                let mut state = lock(&self.state);
                if state.is_over {
                    return false;
                }
                if state.queries < AHEAD {
                    state.queries += piece.times.len();
                    state.pieces.push_back(piece);
                    return true;
                }
            }
            thread::sleep(PAUSE);
        }
    }

    /// Mark the end of the schedule.
    pub fn end(&self) {
        lock(&self.state).is_whole = true;
    }

    /// Refuse further pieces.
    pub fn close(&self) {
        lock(&self.state).is_over = true;
    }
}

/// The sender's side of the schedule.
pub struct Schedule {
    feed: Arc<Feed>,
    piece: Piece,
    at: usize,
}

impl Schedule {
    /// The pieces that are shared with the feeding thread.
    #[must_use]
    pub fn new(feed: Arc<Feed>) -> Self {
        Self {
            feed,
            piece: Piece::default(),
            at: 0,
        }
    }

    /// When the next query is due.
    pub fn due(&mut self) -> Next {
        loop {
            if let Some(&due) = self.piece.times.get(self.at) {
                return Next::Due(due);
            }
            let mut state = lock(&self.feed.state);
            match state.pieces.pop_front() {
                Some(piece) => {
                    state.queries -= piece.times.len();
                    drop(state);
                    self.piece = piece;
                    self.at = 0;
                }
                None if state.is_whole => return Next::Over,
                None => return Next::NotYet,
            }
        }
    }

    /// Take the next query; return the number of its question.
    pub fn take(&mut self) -> u32 {
        let question = self.piece.questions.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        question
    }

    /// Refuse further pieces.
    pub fn close(&self) {
        self.feed.close();
    }
}
