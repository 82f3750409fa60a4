//! The different replies that were told the counting process, as in hsdns/load/outcome.py.

use std::collections::HashMap;

const MOST_REPLIES: usize = 100_000;

/// Numbers by the content of replies, at most MOST_REPLIES: those that have come in this period or the one before.
#[derive(Default)]
pub struct RecentReplies {
    new: HashMap<Box<[u8]>, u32>,
    old: HashMap<Box<[u8]>, u32>,
}

impl RecentReplies {
    /// The number of a reply.
    pub fn get(&mut self, content: &[u8]) -> Option<u32> {
        if let Some(&number) = self.new.get(content) {
            return Some(number);
        }
        let (content, number) = self.old.remove_entry(content)?;
        self.new.insert(content, number);
        Some(number)
    }

    /// Store the number of a reply that `get` does not know; return the numbers of those dropped for it.
    pub fn add(&mut self, content: &[u8], number: u32) -> Vec<u32> {
        let count = self.new.len();
        let has_room = 2 * count < MOST_REPLIES && count + self.old.len() < MOST_REPLIES;
        let mut dropped = Vec::new();
        if !has_room {
            let new = std::mem::take(&mut self.new);
            dropped.extend(std::mem::replace(&mut self.old, new).into_values());
        }
        self.new.insert(content.into(), number);
        dropped
    }
}
