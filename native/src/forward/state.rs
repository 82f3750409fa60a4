//! The queries of a forwarder that wait for their replies, at the sockets that they were sent from; no system calls but
//! those for random numbers.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::UdpSocket;
use std::sync::Arc;

use super::message::{answers, asked, question_of};
use super::{IDLE, MAX_FORGED, MAX_SUSPECTS, Route, SUSPICION};
use crate::key::u16_at;
use crate::outlet::Outlet;
use crate::queue::{Client, Waiting, client_of};
use crate::system::random;
use crate::table::AnswerTable;
use crate::timing::NANOSECONDS;

#[derive(Default)]
pub(super) struct State {
    pub(super) ports: Vec<Port>,
    /// Whether the thread has to look at `ports` again.
    pub(super) is_changed: bool,
    pub(super) is_running: bool,
    pub(super) is_over: bool,
    pub(super) serial: u64,
    pub(super) turn: usize,
    /// The port and the ID of what is outstanding for a question.
    pub(super) places: HashMap<Box<[u8]>, (u64, u16)>,
    /// When an exchange is given up: port, ID and serial, the first one first.
    pub(super) due: VecDeque<(u64, u64, u16, u64)>,
    pub(super) clients: HashMap<Client, usize>,
    pub(super) waiting: usize,
    pub(super) forged: VecDeque<u64>,
    pub(super) suspects: VecDeque<(Box<[u8]>, u64)>,
    pub(super) entropy: Vec<u8>,
}

/// A socket with the queries that have been sent from it.
pub(super) struct Port {
    pub(super) serial: u64,
    pub(super) upstream: usize,
    pub(super) socket: Arc<UdpSocket>,
    pub(super) opened: u64,
    pub(super) used: u64,
    pub(super) sent: usize,
    pub(super) outstanding: HashMap<u16, Exchange>,
    /// IDs of queries that have ended.
    pub(super) past: HashSet<u16>,
    pub(super) is_retired: bool,
}

/// A query without a reply yet.
pub(super) struct Exchange {
    pub(super) serial: u64,
    pub(super) upstream: usize,
    pub(super) sent_at: u64,
    pub(super) message: Vec<u8>,
    pub(super) askers: Vec<Asker>,
}

/// A client that waits, with what its reply needs.
pub(super) struct Asker {
    pub(super) outlet: Arc<Outlet>,
    pub(super) table: Arc<AnswerTable>,
    pub(super) route: Arc<Route>,
    pub(super) waiting: Waiting,
    pub(super) received: u64,
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.outlet.note_pending(false);
    }
}

impl Asker {
    pub(super) fn hand_over(self) {
        self.outlet.hand_over(&self.waiting);
    }
}

/// A datagram that has been received.
pub(super) enum Accepted {
    /// It is the reply to this query.
    Ended(Exchange),
    /// It is, or may be, a reply to an earlier one.
    Late,
    /// It is none, and came from this upstream.
    Forged(usize),
}

impl State {
    pub(super) fn number(&mut self) -> Option<u16> {
        if self.entropy.len() < 2 {
            self.entropy = vec![0; 4096]; // a call of the kernel for each number would cost more than the number
            if !random(&mut self.entropy) {
                self.entropy.clear();
            }
        }
        Some(u16::from_be_bytes([
            self.entropy.pop()?,
            self.entropy.pop()?,
        ]))
    }

    /// A random ID that is not in use at a port.
    pub(super) fn new_id(&mut self, port: usize) -> Option<u16> {
        loop {
            let id = self.number()?;
            if !self.ports[port].outstanding.contains_key(&id) {
                return Some(id);
            }
        }
    }

    pub(super) fn port(&mut self, serial: u64) -> Option<&mut Port> {
        self.ports.iter_mut().find(|port| port.serial == serial)
    }

    pub(super) fn exchange(&mut self, (port, id): (u64, u16)) -> Option<&mut Exchange> {
        self.port(port)?.outstanding.get_mut(&id)
    }

    pub(super) fn add(&mut self, client: Client) {
        self.waiting += 1;
        *self.clients.entry(client).or_default() += 1;
    }

    /// Expect no reply to a query any more.
    pub(super) fn end(&mut self, port: u64, id: u16) -> Option<Exchange> {
        let port = self.port(port)?;
        let exchange = port.outstanding.remove(&id)?;
        port.past.insert(id);
        self.is_changed |= port.is_retired && port.outstanding.is_empty();
        self.places.remove(question_of(&exchange.message));
        self.waiting -= exchange.askers.len();
        for asker in &exchange.askers {
            let client = client_of(asker.waiting.address());
            if let Some(count) = self.clients.get_mut(&client) {
                *count -= 1;
                if *count == 0 {
                    self.clients.remove(&client);
                }
            }
        }
        Some(exchange)
    }

    pub(super) fn end_port(&mut self, serial: u64) -> Vec<Exchange> {
        let ids: Vec<u16> = match self.port(serial) {
            Some(port) => port.outstanding.keys().copied().collect(),
            None => Vec::new(),
        };
        ids.into_iter()
            .filter_map(|id| self.end(serial, id))
            .collect()
    }

    pub(super) fn end_all(&mut self) -> Vec<Exchange> {
        let serials: Vec<u64> = self.ports.iter().map(|port| port.serial).collect();
        serials
            .into_iter()
            .flat_map(|serial| self.end_port(serial))
            .collect()
    }

    pub(super) fn expire(&mut self, now: u64) -> Vec<Exchange> {
        let mut ended = Vec::new();
        while let Some(&(due, port, id, serial)) = self.due.front() {
            let is_open = self
                .exchange((port, id))
                .is_some_and(|each| each.serial == serial);
            if is_open && due > now {
                break;
            }
            self.due.pop_front();
            if is_open {
                ended.extend(self.end(port, id));
            }
        }
        ended
    }

    /// Send no more from sockets that are too old or have been idle for too long.
    pub(super) fn retire(&mut self, now: u64, max_age: u64, expire: u64) {
        for port in &mut self.ports {
            let is_idle = port.outstanding.is_empty() && now.saturating_sub(port.used) > expire;
            port.is_retired |= now.saturating_sub(port.opened) > max_age || is_idle;
            self.is_changed |= port.is_retired && port.outstanding.is_empty();
        }
    }

    /// Close what is not needed; return whether the sockets have changed since the last call.
    pub(super) fn close_ports(&mut self, now: u64, expire: u64) -> bool {
        self.retire(now, u64::MAX, expire);
        let is_changed = std::mem::take(&mut self.is_changed);
        if is_changed {
            self.ports
                .retain(|port| !port.is_retired || !port.outstanding.is_empty());
        }
        is_changed
    }

    /// Nanoseconds until there is something to do, without a datagram.
    pub(super) fn wait(&self, now: u64) -> i64 {
        let idle = if self.ports.is_empty() {
            60 * IDLE
        } else {
            IDLE
        };
        let due = self
            .due
            .front()
            .map_or(u64::MAX, |&(due, ..)| due.saturating_sub(now));
        i64::try_from(due.min(idle)).unwrap_or(i64::MAX).max(1)
    }

    pub(super) fn accept(&mut self, serial: u64, datagram: &[u8]) -> Accepted {
        let Some(port) = self.port(serial) else {
            return Accepted::Late;
        };
        let upstream = port.upstream;
        let id = u16::from_be_bytes([
            datagram.first().copied().unwrap_or(0),
            datagram.get(1).copied().unwrap_or(0),
        ]);
        match port.outstanding.get(&id) {
            Some(exchange) if answers(datagram, question_of(&exchange.message)) => {
                self.end(serial, id).map_or(Accepted::Late, Accepted::Ended)
            }
            None if port.past.contains(&id) => Accepted::Late,
            _ => Accepted::Forged(upstream),
        }
    }

    /// Note a forged datagram; return the exchange that it makes suspect, if there have been many.
    pub(super) fn note_forged(&mut self, port: u64, datagram: &[u8], now: u64) -> Vec<Exchange> {
        self.forged.push_back(now);
        if self.forged.len() > MAX_FORGED {
            self.forged.pop_front();
        }
        let is_flood =
            self.forged.len() == MAX_FORGED && now.saturating_sub(self.forged[0]) < NANOSECONDS;
        if !is_flood {
            return Vec::new();
        }
        let id = datagram.get(..2).map(|id| u16_at(id, 0));
        let hit = id.and_then(|id| self.exchange((port, id)));
        let question = hit.map(|exchange| question_of(&exchange.message).to_vec());
        let question = question.or_else(|| asked(datagram));
        let is_waiting = |question: &Vec<u8>| self.places.contains_key(&question[..]);
        match question.filter(is_waiting) {
            Some(question) => self.suspect(&question, now),
            None => Vec::new(),
        }
    }

    pub(super) fn suspect(&mut self, question: &[u8], now: u64) -> Vec<Exchange> {
        self.suspects
            .retain(|(each, until)| **each != *question && now < *until);
        self.suspects.push_back((question.into(), now + SUSPICION));
        if self.suspects.len() > MAX_SUSPECTS {
            self.suspects.pop_front();
        }
        let place = self.places.get(question).copied();
        place
            .and_then(|(port, id)| self.end(port, id))
            .into_iter()
            .collect()
    }

    pub(super) fn is_suspect(&self, question: &[u8], now: u64) -> bool {
        let mut suspects = self.suspects.iter();
        suspects.any(|(each, until)| **each == *question && now < *until)
    }
}

pub(super) fn hand_over(ended: Vec<Exchange>) {
    let askers = ended.into_iter().flat_map(|exchange| exchange.askers);
    askers.for_each(Asker::hand_over);
}
