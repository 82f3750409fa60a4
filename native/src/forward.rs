//! Asks upstreams on behalf of the workers, stores their replies in the answer table and sends them: the way of an
//! ordinary miss of `forward` and `cache` without Python.  Its reference is the chain (hsdns/upstream/multiplexer.py has
//! the same rules about sockets and forged replies); whatever is not ordinary goes there, as if nobody had tried it.
//!
//! Rule 1: a query is taken if its route has its name and type, it wants recursion, has neither DO nor an option but a
//!         cookie, and fewer queries wait than `max_concurrent` and MAX_WAITING allow; a client may have as many as there
//!         are free places.  A query without a reply after `timeout` is handed to the chain.
//! Rule 2: each query has a random ID that no other outstanding one has at its socket, of which there are MAX_PORTS in
//!         use.  A socket is replaced after MAX_SENT queries or MAX_AGE, and closed after its last reply.
//! Rule 3: of the queries for one name and type, one is outstanding.  Those that are identical but for case and cookies
//!         share it, others go to the chain, which has one socket less for it.
//! Rule 4: a datagram with another ID or question than an outstanding query is ignored, and counted unless it is late.
//!         From MAX_FORGED in a second on, what they are about is left to the chain, which asks over TCP, for SUSPICION.
//! Rule 5: an upstream that the chain knows to be down is not asked, nor one whose last MAX_UNUSUAL replies all went to
//!         the chain, for a while: each is asked for twice.
//! Rule 6: one thread receives for all workers.  The lock is held neither for a system call nor while a reply is made.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use crate::batch::is_ipv6;
use crate::entry::Terms;
use crate::hit_counts::{BatchCounts, Durations, Hit};
use crate::key::{AD, CD, HEADER_LEN, OPT, Query, RD, Reader, u16_at};
use crate::lock::{lock, read};
use crate::outlet::Outlet;
use crate::queue::{Client, Waiting, client_of};
use crate::records::NXDOMAIN;
use crate::system::{
    Event, Message, Packet, Polled, Receiver, SignalsBlocked, monotonic, random,
    set_receive_buffer, slice,
};
use crate::table::AnswerTable;
use crate::tap::Answered;
use crate::timing::{NANOSECONDS, Timing};
use reply::{Bounds, Made};

pub mod reply;

const MAX_PORTS: usize = 4;
const MAX_SENT: usize = 1024;
const MAX_AGE: u64 = 30 * NANOSECONDS;
const MAX_WAITING: usize = 4096;
const MAX_FORGED: usize = 16;
const SUSPICION: u64 = 60 * NANOSECONDS;
const MAX_SUSPECTS: usize = 1024;
const MAX_UNUSUAL: u64 = 16;
const REST: u64 = 10 * NANOSECONDS;
const IDLE: u64 = NANOSECONDS;
const RECEIVE_BUFFER_LEN: i32 = 1024 * 1024;
const COOKIE: u16 = 10;

/// In which order upstreams are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Any.
    Random,
    /// Each in turn.
    RoundRobin,
    /// The first one.
    Sequential,
}

/// What the Corefile says; times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The choice of the upstream.
    pub policy: Policy,
    /// The address to send from.
    pub source: Option<IpAddr>,
    /// After which an unused socket is closed.
    pub expire: u64,
    /// The age of a socket that is not used any more; 0 for MAX_AGE.
    pub max_age: u64,
    /// The number of sockets for each upstream; 0 for MAX_PORTS.
    pub max_ports: usize,
    /// After which a query is handed to the chain.
    pub timeout: u64,
    /// `max_concurrent`; 0 for no limit.
    pub most: usize,
}

/// The names of a server block that it forwards, and how `cache` stores the replies.
pub struct Route {
    /// Who asks for them.
    pub forwarder: Arc<Forwarder>,
    /// The names are at or below it, in lower case.
    pub zone: Box<[u8]>,
    /// But not at or below any of these.
    pub exclusions: Vec<Box<[u8]>>,
    /// The rows of counters for each type: of answers, of NODATA and of NXDOMAIN.
    pub groups: HashMap<u16, [u32; 3]>,
    /// Of the half `success`.
    pub success: Bounds,
    /// Of the half `denial`.
    pub denial: Bounds,
    /// Whether addresses rotate.
    pub rotates: bool,
}

impl Route {
    /// Whether it has a query.
    #[must_use]
    pub fn has(&self, query: &Query<'_>) -> bool {
        self.groups.contains_key(&query.qtype())
            && query.labels_left_of(&self.zone).is_some()
            && !(self.exclusions.iter()).any(|zone| query.labels_left_of(zone).is_some())
    }
}

/// The counts of an upstream since they were last taken.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Queries over a socket that was open.
    pub reused: u64,
    /// Queries that opened one.
    pub opened: u64,
    /// Datagrams that were no reply to any query.
    pub forged: u64,
    /// Of exchanges: with NOERROR, with NXDOMAIN.
    pub durations: [Durations; 2],
}

struct Upstream {
    address: SocketAddr,
    is_down: AtomicBool,
    /// Its last replies that went to the chain, without another one in between.
    unusual: AtomicU64,
    rests_until: AtomicU64,
    counts: Mutex<Counts>,
}

/// The queries to the upstreams of one `forward`.
pub struct Forwarder {
    upstreams: Vec<Upstream>,
    settings: Settings,
    /// The queries of the chain that wait.
    taken: AtomicUsize,
    is_paused: AtomicBool,
    wake: Event,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ports: Vec<Port>,
    /// Whether the thread has to look at `ports` again.
    is_changed: bool,
    is_running: bool,
    is_over: bool,
    serial: u64,
    turn: usize,
    /// The port and the ID of what is outstanding for a question.
    places: HashMap<Box<[u8]>, (u64, u16)>,
    /// When an exchange is given up: port, ID and serial, the first one first.
    due: VecDeque<(u64, u64, u16, u64)>,
    clients: HashMap<Client, usize>,
    waiting: usize,
    forged: VecDeque<u64>,
    suspects: VecDeque<(Box<[u8]>, u64)>,
    entropy: Vec<u8>,
}

/// A socket with the queries that have been sent from it.
struct Port {
    serial: u64,
    upstream: usize,
    socket: Arc<UdpSocket>,
    opened: u64,
    used: u64,
    sent: usize,
    outstanding: HashMap<u16, Exchange>,
    /// IDs of queries that have ended.
    past: HashSet<u16>,
    is_retired: bool,
}

/// A query without a reply yet.
struct Exchange {
    serial: u64,
    upstream: usize,
    sent_at: u64,
    message: Vec<u8>,
    askers: Vec<Asker>,
}

/// A client that waits, with what its reply needs.
struct Asker {
    outlet: Arc<Outlet>,
    table: Arc<AnswerTable>,
    route: Arc<Route>,
    waiting: Waiting,
    received: u64,
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.outlet.note_pending(false);
    }
}

impl Asker {
    fn hand_over(self) {
        self.outlet.hand_over(&self.waiting);
    }
}

/// A reply to send.
struct Sending {
    asker: Asker,
    reply: Range<usize>,
    elapsed: u64,
}

/// What the thread works with.
struct Work {
    receiver: Receiver,
    reader: Reader,
    ended: Vec<(usize, Exchange)>,
    replies: Vec<u8>,
    sending: Vec<Sending>,
}

impl Forwarder {
    /// Make one; its sockets are opened, and its thread is started, by the first query.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new(upstreams: &[SocketAddr], settings: Settings) -> io::Result<Self> {
        let upstreams = upstreams.iter().map(|&address| Upstream {
            address,
            is_down: AtomicBool::new(false),
            unusual: AtomicU64::new(0),
            rests_until: AtomicU64::new(0),
            counts: Mutex::default(),
        });
        Ok(Self {
            upstreams: upstreams.collect(),
            settings,
            taken: AtomicUsize::new(0),
            is_paused: AtomicBool::new(false),
            wake: Event::new()?,
            state: Mutex::default(),
        })
    }

    /// Say whether an upstream is down.
    pub fn set_down(&self, upstream: usize, is_down: bool) {
        if let Some(upstream) = self.upstreams.get(upstream) {
            upstream.is_down.store(is_down, Ordering::Relaxed);
        }
    }

    /// Take no queries meanwhile.
    pub fn set_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// Say how many queries of the chain wait for the same upstreams.
    pub fn set_taken(&self, count: usize) {
        self.taken.store(count, Ordering::Relaxed);
    }

    /// The number of clients that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        lock(&self.state).waiting
    }

    /// Whether a question, in lower case, is to be asked over TCP.
    #[must_use]
    pub fn is_suspect(&self, question: &[u8]) -> bool {
        lock(&self.state).is_suspect(question, monotonic())
    }

    /// Leave a question to the chain for SUSPICION, because of forged replies.
    pub fn suspect(&self, question: &[u8]) {
        let ended = lock(&self.state).suspect(question, monotonic());
        hand_over(ended);
    }

    /// Take the counts of each upstream since the last call.
    pub fn take_counts(&self) -> Vec<Counts> {
        let upstreams = self.upstreams.iter();
        upstreams
            .map(|each| std::mem::take(&mut *lock(&each.counts)))
            .collect()
    }

    /// Take no more queries; hand those that wait to the chain.
    pub fn stop(&self) {
        let ended = {
            let mut state = lock(&self.state);
            state.is_over = true;
            state.end_all()
        };
        hand_over(ended);
        self.wake.set();
    }

    /// Take a query that is a miss, and has a route, unless it is one for the chain; return whether it was taken.
    pub fn take(
        self: &Arc<Self>,
        query: &Query<'_>,
        route: &Arc<Route>,
        table: &Arc<AnswerTable>,
        outlet: &Arc<Outlet>,
        packet: &Packet<'_>,
        now: u64,
    ) -> bool {
        let Some(mut message) = message_of(query) else {
            return false;
        };
        let (upstream, socket, id, is_new) = {
            let mut state = lock(&self.state);
            let client = client_of(packet.address);
            if !self.admits(&state, client) || state.is_suspect(question_of(&message), now) {
                return false;
            }
            let asker = || {
                outlet.note_pending(true);
                Asker {
                    outlet: Arc::clone(outlet),
                    table: Arc::clone(table),
                    route: Arc::clone(route),
                    waiting: Waiting::new(outlet.index, packet),
                    received: now,
                }
            };
            if let Some(&place) = state.places.get(question_of(&message)) {
                let Some(exchange) = state.exchange(place) else {
                    return false;
                };
                if exchange.message[2..] != message[2..] {
                    return false;
                }
                exchange.askers.push(asker());
                let upstream = exchange.upstream;
                state.add(client);
                lock(&self.upstreams[upstream].counts).reused += 1;
                return true;
            }
            let Some((index, is_new)) = self.choose(&mut state, now) else {
                return false;
            };
            let Some(id) = state.new_id(index) else {
                return false;
            };
            message[..2].copy_from_slice(&id.to_be_bytes());
            state.serial += 1;
            let serial = state.serial;
            let port = &mut state.ports[index];
            let exchange = Exchange {
                serial,
                upstream: port.upstream,
                sent_at: now,
                message: message.clone(),
                askers: vec![asker()],
            };
            port.outstanding.insert(id, exchange);
            port.sent += 1;
            port.used = now;
            port.is_retired |= port.sent >= MAX_SENT;
            let (place, upstream) = (port.serial, port.upstream);
            let socket = Arc::clone(&port.socket);
            state
                .places
                .insert(question_of(&message).into(), (place, id));
            state
                .due
                .push_back((now + self.settings.timeout, place, id, serial));
            state.add(client);
            if is_new && !state.is_running {
                let forwarder = Arc::clone(self);
                let thread = thread::Builder::new().name("forward".into());
                state.is_running = thread.spawn(move || forwarder.run()).is_ok();
            }
            (upstream, socket, (place, id), is_new)
        };
        let mut counts = lock(&self.upstreams[upstream].counts);
        *(if is_new {
            &mut counts.opened
        } else {
            &mut counts.reused
        }) += 1;
        drop(counts);
        if is_new {
            self.wake.set();
        }
        match socket.send(&message) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => self.fail(id.0),
            _ => {} // lost, if the kernel has no room, as it may be anywhere in the network
        }
        true
    }

    fn admits(&self, state: &State, client: Client) -> bool {
        let all = state.waiting + self.taken.load(Ordering::Relaxed);
        let own = state.clients.get(&client).copied().unwrap_or(0);
        !(state.is_over || self.is_paused.load(Ordering::Relaxed))
            && (self.settings.most == 0 || all < self.settings.most)
            && own < MAX_WAITING.saturating_sub(state.waiting)
    }

    /// Choose an upstream and a socket of it, or open one; return its index, and whether it is new.
    fn choose(&self, state: &mut State, now: u64) -> Option<(usize, bool)> {
        let count = self.upstreams.len();
        let upstream = match self.settings.policy {
            _ if count == 1 => 0,
            Policy::Sequential => 0,
            Policy::Random => usize::from(state.number()?) % count,
            Policy::RoundRobin => {
                state.turn += 1;
                state.turn % count
            }
        };
        let found = &self.upstreams[upstream];
        if found.is_down.load(Ordering::Relaxed) || now < found.rests_until.load(Ordering::Relaxed)
        {
            return None;
        }
        let limit = |limit: u64| {
            if limit == 0 {
                MAX_AGE
            } else {
                limit.min(MAX_AGE)
            }
        };
        let max_age = limit(self.settings.max_age);
        state.retire(now, max_age, self.settings.expire);
        let ports: Vec<usize> = (0..state.ports.len())
            .filter(|&index| {
                let port = &state.ports[index];
                port.upstream == upstream && !port.is_retired
            })
            .collect();
        let max_ports = match self.settings.max_ports {
            0 => MAX_PORTS,
            ports => ports.min(MAX_PORTS),
        };
        if !ports.is_empty() {
            let index = ports[usize::from(state.number()?) % ports.len()];
            if state.ports[index].outstanding.is_empty() || ports.len() >= max_ports {
                return Some((index, false));
            }
        }
        let socket = open(found.address, self.settings.source).ok()?;
        state.serial += 1;
        state.is_changed = true;
        state.ports.push(Port {
            serial: state.serial,
            upstream,
            socket: Arc::new(socket),
            opened: now,
            used: now,
            sent: 0,
            outstanding: HashMap::new(),
            past: HashSet::new(),
            is_retired: false,
        });
        Some((state.ports.len() - 1, true))
    }

    /// Hand what is outstanding at a socket to the chain: the kernel reported an error that may concern any of it.
    fn fail(&self, port: u64) {
        let ended = lock(&self.state).end_port(port);
        hand_over(ended);
    }

    fn run(self: Arc<Self>) {
        let _quiet = SignalsBlocked::new();
        slice::shorten();
        let mut work = Work {
            receiver: Receiver::new(false),
            reader: Reader::default(),
            ended: Vec::new(),
            replies: Vec::new(),
            sending: Vec::new(),
        };
        let mut sockets = Vec::new();
        let mut polled = None;
        loop {
            let wait = {
                let mut state = lock(&self.state);
                if state.is_over {
                    return;
                }
                if state.close_ports(monotonic(), self.settings.expire) || polled.is_none() {
                    let ports = state.ports.iter();
                    sockets = ports
                        .map(|port| (port.serial, Arc::clone(&port.socket)))
                        .collect();
                    let fds = sockets.iter().map(|(_, socket)| socket.as_raw_fd());
                    polled = Polled::new(std::iter::once(self.wake.fileno()).chain(fds)).ok();
                }
                state.wait(monotonic())
            };
            let Some(polled) = &mut polled else {
                thread::sleep(std::time::Duration::from_millis(1)); // no descriptor is left
                continue;
            };
            polled.wait(wait);
            for place in polled.ready() {
                match place {
                    0 => self.wake.clear(),
                    _ => {
                        let (serial, socket) = &sockets[place - 1];
                        // A panic costs the replies of this batch only.
                        let turn = AssertUnwindSafe(|| self.receive(*serial, socket, &mut work));
                        let _ = catch_unwind(turn);
                        work.ended.clear();
                        work.sending.clear();
                    }
                }
            }
            let ended = lock(&self.state).expire(monotonic());
            hand_over(ended);
        }
    }

    fn receive(&self, port: u64, socket: &UdpSocket, work: &mut Work) {
        let received = match work.receiver.receive(socket.as_raw_fd(), false) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => return self.fail(port),
        };
        let now = monotonic();
        let mut suspected = Vec::new();
        {
            let mut state: MutexGuard<'_, State> = lock(&self.state);
            for index in 0..received {
                let datagram = work.receiver.packet(index).query;
                match state.accept(port, datagram) {
                    Accepted::Ended(exchange) => work.ended.push((index, exchange)),
                    Accepted::Late => {}
                    Accepted::Forged(upstream) => {
                        lock(&self.upstreams[upstream].counts).forged += 1;
                        suspected.extend(state.note_forged(port, datagram, now));
                    }
                }
            }
        }
        hand_over(suspected);
        work.replies.clear();
        for (index, exchange) in work.ended.drain(..) {
            let packet = work.receiver.packet(index);
            let upstream = &self.upstreams[exchange.upstream];
            let mut is_usual = false;
            for asker in exchange.askers {
                let start = work.replies.len();
                if packet.is_cut
                    || !asker.answer(packet.query, now, &mut work.reader, &mut work.replies)
                {
                    asker.hand_over();
                    continue;
                }
                is_usual = true;
                work.sending.push(Sending {
                    elapsed: now.saturating_sub(asker.received),
                    reply: start..work.replies.len(),
                    asker,
                });
            }
            upstream.note(is_usual, now);
            if is_usual {
                let is_denial = u16_at(packet.query, 2) & 15 == NXDOMAIN;
                let seconds = now.saturating_sub(exchange.sent_at);
                lock(&upstream.counts).durations[usize::from(is_denial)].add(seconds);
            }
        }
        send(&work.replies, &work.sending);
    }
}

impl Upstream {
    fn note(&self, is_usual: bool, now: u64) {
        if is_usual {
            self.unusual.store(0, Ordering::Relaxed);
        } else if self.unusual.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_UNUSUAL {
            self.unusual.store(0, Ordering::Relaxed);
            self.rests_until.store(now + REST, Ordering::Relaxed);
        }
    }
}

impl Asker {
    /// Append the reply, and store and count it; False if the chain has to answer.
    fn answer(&self, datagram: &[u8], now: u64, reader: &mut Reader, out: &mut Vec<u8>) -> bool {
        let Some(query) = reader.read(self.waiting.query()) else {
            return false;
        };
        let route = &self.route;
        let limit = query.udp_limit();
        if datagram.len() > limit {
            return false;
        }
        let made = reply::make(&query, datagram, route.rotates, route.success, route.denial);
        let (Some(made), Some(groups)) = (made, route.groups.get(&query.qtype())) else {
            return false;
        };
        let is_nxdomain = u16_at(&made.wire, 2) & 15 == NXDOMAIN;
        let group = groups[usize::from(made.is_denial) + usize::from(is_nxdomain)];
        let terms = terms(group, &made, route.rotates, now);
        if !self
            .table
            .store_first(&query, &made.wire, terms, limit, out)
        {
            return false;
        }
        let mut counts = BatchCounts::default();
        counts.count(&Hit {
            group,
            is_ipv6: is_ipv6(self.waiting.address()),
            dnssec_ok: false,
            request_size: query.wire.len(),
            reply_size: u64::from(made.size),
            cache: Some(false),
        });
        self.table
            .count(&mut counts, false, now.saturating_sub(self.received));
        true
    }
}

fn terms(group: u32, made: &Made, rotate: bool, now: u64) -> Terms {
    Terms {
        dependencies: Box::default(),
        group,
        size: made.size,
        rotate,
        names: None,
        mark_ttl: -1,
        log: false,
        max_payload: u16::MAX,
        timing: Some(Timing {
            stored: now,
            ttl: made.ttl,
            expires: now + u64::from(made.ttl) * NANOSECONDS,
        }),
        errors: Box::default(),
    }
}

/// Send replies, those of one worker together, and show them to the tap.
fn send(replies: &[u8], sending: &[Sending]) {
    for some in sending.chunk_by(|one, other| Arc::ptr_eq(&one.asker.outlet, &other.asker.outlet)) {
        some[0].asker.outlet.send(some.len(), |index| Message {
            reply: &replies[some[index].reply.clone()],
            address: some[index].asker.waiting.address(),
            control: some[index].asker.waiting.control(),
        });
    }
    for Sending {
        asker,
        reply,
        elapsed,
    } in sending
    {
        if let Some((tap, source)) = asker.table.open_tap() {
            tap.push([Answered {
                query: asker.waiting.query(),
                address: asker.waiting.address(),
                source,
                is_tcp: false,
                is_hit: false,
                flags: Some(u16_at(replies, reply.start + 2)),
                size: reply.len(),
                elapsed: *elapsed,
                at: asker.received + elapsed,
            }]);
        }
    }
}

fn hand_over(ended: Vec<Exchange>) {
    let askers = ended.into_iter().flat_map(|exchange| exchange.askers);
    askers.for_each(Asker::hand_over);
}

/// A datagram that has been received.
enum Accepted {
    /// It is the reply to this query.
    Ended(Exchange),
    /// It is, or may be, a reply to an earlier one.
    Late,
    /// It is none, and came from this upstream.
    Forged(usize),
}

impl State {
    fn number(&mut self) -> Option<u16> {
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
    fn new_id(&mut self, port: usize) -> Option<u16> {
        loop {
            let id = self.number()?;
            if !self.ports[port].outstanding.contains_key(&id) {
                return Some(id);
            }
        }
    }

    fn port(&mut self, serial: u64) -> Option<&mut Port> {
        self.ports.iter_mut().find(|port| port.serial == serial)
    }

    fn exchange(&mut self, (port, id): (u64, u16)) -> Option<&mut Exchange> {
        self.port(port)?.outstanding.get_mut(&id)
    }

    fn add(&mut self, client: Client) {
        self.waiting += 1;
        *self.clients.entry(client).or_default() += 1;
    }

    /// Expect no reply to a query any more.
    fn end(&mut self, port: u64, id: u16) -> Option<Exchange> {
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

    fn end_port(&mut self, serial: u64) -> Vec<Exchange> {
        let ids: Vec<u16> = match self.port(serial) {
            Some(port) => port.outstanding.keys().copied().collect(),
            None => Vec::new(),
        };
        ids.into_iter()
            .filter_map(|id| self.end(serial, id))
            .collect()
    }

    fn end_all(&mut self) -> Vec<Exchange> {
        let serials: Vec<u64> = self.ports.iter().map(|port| port.serial).collect();
        serials
            .into_iter()
            .flat_map(|serial| self.end_port(serial))
            .collect()
    }

    fn expire(&mut self, now: u64) -> Vec<Exchange> {
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
    fn retire(&mut self, now: u64, max_age: u64, expire: u64) {
        for port in &mut self.ports {
            let is_idle = port.outstanding.is_empty() && now.saturating_sub(port.used) > expire;
            port.is_retired |= now.saturating_sub(port.opened) > max_age || is_idle;
            self.is_changed |= port.is_retired && port.outstanding.is_empty();
        }
    }

    /// Close what is not needed; return whether the sockets have changed since the last call.
    fn close_ports(&mut self, now: u64, expire: u64) -> bool {
        self.retire(now, u64::MAX, expire);
        let is_changed = std::mem::take(&mut self.is_changed);
        if is_changed {
            self.ports
                .retain(|port| !port.is_retired || !port.outstanding.is_empty());
        }
        is_changed
    }

    /// Nanoseconds until there is something to do, without a datagram.
    fn wait(&self, now: u64) -> i64 {
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

    fn accept(&mut self, serial: u64, datagram: &[u8]) -> Accepted {
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
    fn note_forged(&mut self, port: u64, datagram: &[u8], now: u64) -> Vec<Exchange> {
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

    fn suspect(&mut self, question: &[u8], now: u64) -> Vec<Exchange> {
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

    fn is_suspect(&self, question: &[u8], now: u64) -> bool {
        let mut suspects = self.suspects.iter();
        suspects.any(|(each, until)| **each == *question && now < *until)
    }
}

/// The query for the upstream, with an ID of 0; None if it is one for the chain.
fn message_of(query: &Query<'_>) -> Option<Vec<u8>> {
    if query.flags & RD == 0 || query.dnssec_ok() {
        return None;
    }
    let mut options = query.edns.map_or(&[][..], |edns| edns.options);
    while let [high, low, len_high, len_low, rest @ ..] = options {
        if u16::from_be_bytes([*high, *low]) != COOKIE {
            return None;
        }
        options = rest.get(usize::from(u16::from_be_bytes([*len_high, *len_low]))..)?;
    }
    let mut message = Vec::with_capacity(HEADER_LEN + query.question().len() + 11);
    // AD: the upstream tells whether the data are authentic (RFC 6840 section 5.7).
    let flags = query.flags & (RD | CD) | AD;
    message.extend_from_slice(&[0, 0]);
    message.extend_from_slice(&flags.to_be_bytes());
    message.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, u8::from(query.edns.is_some())]);
    message.extend_from_slice(query.qname());
    message.extend_from_slice(&query.qtype().to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    if let Some(edns) = query.edns {
        message.push(0);
        message.extend_from_slice(&OPT.to_be_bytes());
        message.extend_from_slice(&edns.payload_size.to_be_bytes());
        message.extend_from_slice(&[0; 6]);
    }
    Some(message)
}

/// The question of a message that message_of() made.
fn question_of(message: &[u8]) -> &[u8] {
    let opt_len = if message[11] == 0 { 0 } else { 11 };
    &message[HEADER_LEN..message.len() - opt_len]
}

/// The first question of any datagram, in lower case.
fn asked(datagram: &[u8]) -> Option<Vec<u8>> {
    let mut at = HEADER_LEN;
    while *datagram.get(at)? > 0 {
        at += 1 + usize::from(datagram[at]);
    }
    let mut question = datagram.get(HEADER_LEN..at + 5)?.to_vec();
    question[..at - HEADER_LEN].make_ascii_lowercase();
    Some(question)
}

/// Whether a datagram is a reply to a question in lower case, or one to no question.
fn answers(datagram: &[u8], question: &[u8]) -> bool {
    if datagram.len() < HEADER_LEN || datagram[2] & 0x80 == 0 || datagram[4] > 0 {
        return false;
    }
    if datagram[5] != 1 {
        return datagram[5] == 0;
    }
    let (name, tail) = question.split_at(question.len() - 4);
    let found = datagram.get(HEADER_LEN..HEADER_LEN + question.len());
    found.is_some_and(|found| {
        found[..name.len()].eq_ignore_ascii_case(name) && found[name.len()..] == *tail
    })
}

/// Open a connected socket; the kernel chooses its port, and drops datagrams from other addresses.
fn open(upstream: SocketAddr, source: Option<IpAddr>) -> io::Result<UdpSocket> {
    let any = match upstream {
        SocketAddr::V4(_) => IpAddr::from([0; 4]),
        SocketAddr::V6(_) => IpAddr::from([0; 16]),
    };
    let socket = UdpSocket::bind((source.unwrap_or(any), 0))?;
    socket.connect(upstream)?;
    socket.set_nonblocking(true)?;
    set_receive_buffer(socket.as_raw_fd(), RECEIVE_BUFFER_LEN);
    while socket.recv(&mut [0]).is_ok() {} // from anybody, before it was connected
    Ok(socket)
}

/// Let the routes of a table take the queries of a packet; return whether one did.
pub fn take(
    table: &Arc<AnswerTable>,
    outlet: &Arc<Outlet>,
    packet: &Packet<'_>,
    reader: &mut Reader,
    now: u64,
) -> bool {
    let Some(query) = reader.read(packet.query).filter(|_| !packet.is_cut) else {
        return false;
    };
    let routes = read(&table.routes);
    let route = routes.iter().find(|route| route.has(&query));
    route.is_some_and(|route| {
        route
            .forwarder
            .take(&query, route, table, outlet, packet, now)
    })
}
