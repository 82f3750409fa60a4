//! The different replies that were told the counting process, as in hsdns/load/recent_replies.py.

use std::collections::HashMap;

/// How many a sender stores.
pub const MOST_REPLIES: usize = 100_000;

/// Numbers by the content of replies, at most `most`: those that have come in this period or the one before.
pub struct RecentReplies {
    most: usize,
    new: HashMap<Box<[u8]>, u32>,
    old: HashMap<Box<[u8]>, u32>,
}

impl RecentReplies {
    /// For at most so many replies.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most,
            new: HashMap::new(),
            old: HashMap::new(),
        }
    }

    /// The number of a reply.
    pub fn get(&mut self, content: &[u8]) -> Option<u32> {
        if let Some(&number) = self.new.get(content) {
            return Some(number);
        }
        let (content, number) = self.old.remove_entry(content)?;
        self.new.insert(content, number);
        Some(number)
    }

    /// Drop replies if there is no room for another one; return their numbers.  To be called before `put`.
    pub fn make_room(&mut self) -> Vec<u32> {
        let count = self.new.len();
        if 2 * count < self.most && count + self.old.len() < self.most {
            return Vec::new();
        }
        let new = std::mem::take(&mut self.new);
        std::mem::replace(&mut self.old, new)
            .into_values()
            .collect()
    }

    /// Store the number of a reply.
    pub fn put(&mut self, content: &[u8], number: u32) {
        self.new.insert(content.into(), number);
    }
}
