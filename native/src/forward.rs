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

use std::collections::{HashMap, HashSet};
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
use crate::key::{Query, Reader, u16_at};
use crate::lock::{lock, read};
use crate::outlet::Outlet;
use crate::queue::{Client, Waiting, client_of};
use crate::records::NXDOMAIN;
use crate::system::{
    Event, Message, Packet, Polled, Receiver, SignalsBlocked, monotonic, set_receive_buffer, slice,
};
use crate::table::AnswerTable;
use crate::tap::Answered;
use crate::timing::{NANOSECONDS, Timing};
use message::{message_of, question_of};
use reply::{Bounds, Made};
use state::{Accepted, Asker, Exchange, Port, State, hand_over};

mod message;
pub mod reply;
mod state;

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
