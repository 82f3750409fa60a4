//! The sender of load tests against replies of any kind, and over real sockets.

use std::collections::VecDeque;
use std::io::Read;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hsdns_native::load_sender::feed::{AHEAD, Feed, Next, Piece, Schedule};
use hsdns_native::load_sender::sockets::Sockets;
use hsdns_native::load_sender::{Datagrams, LoadSender, Settings, World};
use hsdns_native::system::monotonic;

const OUTCOME_LEN: usize = 36;

fn piece(times: impl Iterator<Item = i64>, questions: u32) -> Piece {
    let times: Vec<i64> = times.collect();
    let questions = (0..times.len() as u32).map(|number| number % questions);
    Piece {
        questions: questions.collect(),
        times,
    }
}

fn sender(piece: Piece, first_ids: Vec<u16>, replies: bool) -> LoadSender {
    let feed = Arc::<Feed>::default();
    assert!(feed.add(piece));
    feed.end();
    let settings = Settings {
        queries: vec![Box::from([0_u8; 20]), Box::from([1_u8; 30])],
        kinds: Vec::new(),
        first_ids,
        timeout: 300_000_000,
        window: 0,
        replies,
        most: 0,
        late_after: i64::MAX,
    };
    LoadSender::new(settings, feed)
}

/// Kinds and contents of messages.
fn messages(mut octets: &[u8]) -> Vec<(u8, &[u8])> {
    let mut found = Vec::new();
    while let [kind, rest @ ..] = octets {
        let (length, rest) = rest.split_at(4);
        let length = u32::from_ne_bytes(length.try_into().unwrap()) as usize;
        found.push((*kind, &rest[..length]));
        octets = &rest[length..];
    }
    found
}

fn outcomes(octets: &[u8]) -> usize {
    let found = messages(octets).into_iter();
    let lengths = found.filter(|each| each.0 == b'o').map(|each| each.1.len());
    lengths.sum::<usize>() / OUTCOME_LEN
}

/// Answers each query with octets that begin like it and go on by chance, or do not.
struct Hostile {
    now: i64,
    chance: u64,
    replies: VecDeque<Vec<u8>>,
    received: Vec<Vec<u8>>,
    told: Vec<u8>,
}

impl Hostile {
    fn below(&mut self, bound: usize) -> usize {
        self.chance = self
            .chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.chance >> 33) as usize % bound
    }
}

impl World for Hostile {
    fn clock(&mut self) -> i64 {
        self.now
    }

    fn wait(&mut self, nanoseconds: i64, ready: &mut Vec<usize>) -> bool {
        self.now += nanoseconds.max(1000);
        ready.extend([0, 1]);
        true
    }

    fn send(&mut self, _: usize, datagrams: &Datagrams, refused: &mut Vec<usize>) {
        for (index, query) in datagrams.iter().enumerate() {
            let mut octets = query.to_vec();
            octets.truncate(self.below(16));
            let more = self.below(40);
            octets.extend((0..more).map(|_| self.below(256) as u8).collect::<Vec<_>>());
            self.replies.push_back(octets);
            if self.below(10) == 0 {
                refused.push(index);
            }
        }
    }

    fn left(&mut self) -> Option<(usize, i64)> {
        let at = self.below(1000) as i64;
        Some((self.below(3), self.now - at))
    }

    fn receive(&mut self, _: usize) -> (usize, bool) {
        let count = self.below(5).min(self.replies.len());
        self.received = self.replies.drain(..count).collect();
        (count, count == 4)
    }

    fn datagram(&self, index: usize) -> (&[u8], i64) {
        (&self.received[index], 0)
    }

    fn dropped(&mut self) -> u32 {
        0
    }

    fn emit(&mut self, messages: &mut Vec<u8>) {
        self.told.append(messages);
    }
}

#[test]
fn any_octets_are_no_harm_and_each_query_has_one_outcome() {
    for seed in 0..200 {
        let mut world = Hostile {
            now: 5,
            chance: seed,
            replies: VecDeque::new(),
            received: Vec::new(),
            told: Vec::new(),
        };
        let times = piece((0..500).map(|number| number * 20_000), 2);
        let mut sender = sender(times, vec![65_530, seed as u16], seed % 2 == 0);
        sender.run(0, &mut world);
        world.told.append(sender.messages());
        assert_eq!(outcomes(&world.told), 500);
    }
}

#[test]
fn a_schedule_in_pieces() {
    let feed = Arc::<Feed>::default();
    let mut schedule = Schedule::new(Arc::clone(&feed));
    assert_eq!(schedule.due(), Next::NotYet);
    assert!(feed.add(piece([1, 2].into_iter(), 2)));
    assert!(feed.add(piece(std::iter::repeat_n(3, AHEAD), 2)));
    let other = Arc::clone(&feed);
    let waiting = thread::spawn(move || other.add(piece([9].into_iter(), 2)));
    assert_eq!(schedule.due(), Next::Due(1));
    assert_eq!((schedule.take(), schedule.due()), (0, Next::Due(2)));
    assert_eq!((schedule.take(), schedule.due()), (1, Next::Due(3)));
    assert!(waiting.join().unwrap());
    for _ in 0..AHEAD {
        schedule.take();
    }
    assert_eq!(schedule.due(), Next::Due(9));
    schedule.take();
    assert_eq!(schedule.due(), Next::NotYet);
    feed.end();
    assert_eq!(schedule.due(), Next::Over);
    schedule.close();
    assert!(!feed.add(Piece::default()));
}

fn over_sockets(answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static, is_open: bool) -> usize {
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let target = server.local_addr().unwrap();
    server
        .set_read_timeout(Some(Duration::from_millis(400)))
        .unwrap();
    if !is_open {
        drop(server);
        return run_over_sockets(target);
    }
    let serving = thread::spawn(move || {
        let mut octets = [0; 600];
        while let Ok((length, client)) = server.recv_from(&mut octets) {
            server.send_to(&answer(&octets[..length]), client).unwrap();
        }
    });
    let found = run_over_sockets(target);
    serving.join().unwrap();
    found
}

fn run_over_sockets(target: std::net::SocketAddr) -> usize {
    let sockets: Vec<UdpSocket> = (0..3)
        .map(|_| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.connect(target).unwrap();
            socket
        })
        .collect();
    let (stop, _open) = UnixStream::pair().unwrap();
    let (mut reading, writing) = UnixStream::pair().unwrap();
    writing.set_nonblocking(true).unwrap();
    let fds = sockets.iter().map(AsRawFd::as_raw_fd).collect();
    let mut world = Sockets::new(fds, stop.as_raw_fd(), writing.as_raw_fd()).unwrap();
    let times = piece((0..200).map(|number| number * 100_000), 2);
    let mut sender = sender(times, vec![1, 2, 3], true);
    let begin = i64::try_from(monotonic()).unwrap();
    let taking = thread::spawn(move || {
        let mut octets = Vec::new();
        reading.read_to_end(&mut octets).unwrap();
        octets
    });
    sender.run(begin, &mut world);
    world.finish(sender.messages()).unwrap();
    drop(writing);
    outcomes(&taking.join().unwrap())
}

#[test]
fn replies_longer_than_what_is_read() {
    let long = |query: &[u8]| [query, &[7; 9000]].concat();
    assert_eq!(over_sockets(long, true), 200);
}

#[test]
fn empty_replies() {
    assert_eq!(over_sockets(|_| Vec::new(), true), 200);
}

#[test]
fn a_closed_port() {
    assert_eq!(over_sockets(<[u8]>::to_vec, false), 200);
}
