//! Batches, workers and their queue over real sockets on loopback.

mod build;

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use build::{
    A, address, ask, cluster_names, negative_zone, nxdomain, query, reply, table, terms, with_opt,
};
use hsdns_native::batch::{Batch, Meter, ReplyControl, is_ipv6};
use hsdns_native::entry::Terms;
use hsdns_native::log::ReplySummary;
use hsdns_native::queue::MissQueue;
use hsdns_native::system::{CONTROL_LEN, Message, QUERY_LEN, Sender};
use hsdns_native::table::AnswerTable;
use hsdns_native::worker::Worker;

const PATIENCE: Duration = Duration::from_secs(10); // only a failing test waits so long

fn server() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

fn client_of(server: &UdpSocket) -> UdpSocket {
    let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    client.connect(server.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

fn receive(client: &UdpSocket) -> Vec<u8> {
    let mut octets = vec![0; 65_536];
    let len = client.recv(&mut octets).unwrap();
    octets.truncate(len);
    octets
}

fn filled_table() -> (Arc<AnswerTable>, Vec<u8>, Vec<u8>) {
    let (_, table) = table();
    let asked = query("www.example.org", A);
    let answer = reply(&asked, 0, [&[address(1)], &[], &[]]);
    assert!(table.store(&asked, &answer, terms()));
    (table, asked, answer)
}

#[test]
fn a_batch_answers_what_the_table_knows() {
    let (table, asked, answer) = filled_table();
    let socket = server();
    let meter = Arc::<Meter>::default();
    let mut batch = Batch::new(socket.as_raw_fd(), false, Arc::clone(&meter));
    batch.serve(Some(&table), false).unwrap();
    assert_eq!(batch.missed().len(), 0, "nothing was there");

    let client = client_of(&socket);
    let unknown = query("unknown.example.org", A);
    let long = vec![7; QUERY_LEN + 100];
    for wire in [&asked, &unknown, &asked, &long, &vec![]] {
        client.send(wire).unwrap();
    }
    batch.serve(Some(&table), false).unwrap();
    let missed: Vec<_> = batch.missed().map(|packet| packet.query.to_vec()).collect();
    assert_eq!(missed, [unknown, long[..QUERY_LEN].to_vec(), vec![]]);
    assert_eq!(
        batch
            .missed()
            .map(|packet| packet.is_cut)
            .collect::<Vec<_>>(),
        [false, true, false]
    );
    for _ in 0..2 {
        assert_eq!(receive(&client), answer);
    }
    client.send(&asked).unwrap();
    batch.serve(None, false).unwrap();
    assert_eq!(batch.missed().len(), 1, "there is no table");
    let seen = meter.statistics();
    assert_eq!((seen.received, seen.sent, seen.batches), (6, 2, 2));
    let totals = table.statistics().totals;
    assert_eq!((totals.hits, totals.misses, totals.not_plain), (2, 1, 2));
    assert_eq!(table.take_counts()[0].2[0], 2, "by IPv4");
}

#[test]
fn logged_hits_stand_in_the_log_as_they_were_sent() {
    let (table, quiet, _) = filled_table();
    let logged = Terms {
        log: true,
        size: 700,
        ..terms()
    };
    let addresses: Vec<_> = (0..40).map(address).collect();
    let plain = query("many.example.org", A);
    let with_edns = with_opt(plain.clone(), 1232, true, &[0, 10, 0, 1, 7]);
    for asked in [&plain, &with_edns] {
        let answer = reply(asked, 0, [&addresses, &[], &[]]);
        assert!(table.store(asked, &answer, logged.clone()));
    }
    let names = cluster_names();
    let number = table.add_negative_zone(negative_zone("cluster.local", &names, &[]).logged(true));
    let sample = query("nope.svc.cluster.local", A);
    let answer = nxdomain(&sample, "cluster.local");
    let size = 100 + build::question_len(&sample);
    assert_eq!(
        table.set_template(number, &sample, &answer, size),
        Some(true)
    );

    let mut mixed = query("mANY.example.oRG", A);
    mixed[2..4].copy_from_slice(&[0, 0x20]); // AD is not copied
    let absent = query("x.y.Svc.cluster.local", A);
    let socket = server();
    let client = client_of(&socket);
    let mut batch = Batch::new(socket.as_raw_fd(), false, Arc::default());
    let unknown = query("unknown.example.org", A);
    for wire in [&plain, &quiet, &mixed, &unknown, &with_edns, &absent] {
        client.send(wire).unwrap();
    }
    batch.serve(Some(&table), false).unwrap();
    assert_eq!(batch.missed().len(), 1);
    let sent: Vec<_> = (0..5).map(|_| receive(&client)).collect();
    let records = table.log().take(usize::MAX);
    let many = logged_as(700, 40);
    let none = logged_as(
        100 + u32::try_from(build::question_len(&absent)).unwrap(),
        0,
    );
    let rows = [
        (&plain, 0x8700, many, &sent[0]), // 40 addresses do not fit 512 octets
        (&mixed, 0x8600, many, &sent[2]),
        (&with_edns, 0x8500, many, &sent[3]),
        (&absent, 0x8503, none, &sent[4]),
    ];
    assert_eq!(records.len(), rows.len());
    let elapsed = records[0].elapsed;
    for (record, (query, flags, summary, reply)) in records.iter().zip(rows) {
        assert_eq!(record.query(), *query);
        assert_eq!(
            record.address(),
            &sockaddr(client.local_addr().unwrap())[..]
        );
        assert_eq!(
            (record.flags, record.summary),
            (flags, summary),
            "{query:?}"
        );
        assert!(!record.is_tcp);
        assert_eq!(flags.to_be_bytes(), reply[2..4]);
        assert_eq!(record.elapsed, elapsed, "one clock a batch");
    }
    let counted: u64 = table.take_counts().iter().map(|row| row.2[52]).sum();
    assert_eq!(counted, 5 * elapsed);

    client.send(&quiet).unwrap();
    batch.serve(Some(&table), false).unwrap();
    assert!(table.log().take(1).is_empty());
    assert_eq!(table.log().dropped(), 0);
}

fn logged_as(size: u32, answers: u16) -> ReplySummary {
    ReplySummary {
        log: true,
        size,
        answers,
    }
}

#[test]
fn a_batch_takes_64_datagrams() {
    let (table, asked, _) = filled_table();
    let socket = server();
    let client = client_of(&socket);
    for _ in 0..70 {
        client.send(&asked).unwrap();
    }
    let meter = Arc::<Meter>::default();
    let mut batch = Batch::new(socket.as_raw_fd(), false, Arc::clone(&meter));
    for received in [64, 70, 70] {
        batch.serve(Some(&table), false).unwrap();
        assert_eq!(meter.statistics().received, received);
    }
    assert_eq!(meter.statistics().sent, 70);
}

#[test]
fn a_reply_that_cannot_be_sent_is_counted() {
    let socket = server();
    let client = client_of(&socket);
    let to = sockaddr(client.local_addr().unwrap());
    let queue = Arc::new(MissQueue::new(1).unwrap());
    let worker = Worker::new(socket.as_raw_fd(), false, queue, 0);
    let huge = vec![0; 70_000];
    let replies: [(&[u8], &[u8]); 4] = [(&huge, &to), (b"a", &to), (b"b", &to[..1]), (b"c", &to)];
    worker.send(replies.len(), |index| Message {
        reply: replies[index].0,
        address: replies[index].1,
        control: &[],
    });
    assert_eq!(
        (receive(&client), receive(&client)),
        (b"a".into(), b"c".into())
    );
    let seen = worker.statistics();
    assert_eq!(seen.sent, 2);
    assert_eq!(seen.send_errors.values().sum::<u64>(), 2);
    assert!(seen.send_errors.contains_key(&libc::EMSGSIZE));
}

#[test]
fn a_worker_serves_until_it_is_stopped() {
    let (table, asked, answer) = filled_table();
    let socket = server();
    let queue = Arc::new(MissQueue::new(2).unwrap());
    let worker = Worker::new(socket.as_raw_fd(), false, Arc::clone(&queue), 5);
    let client = client_of(&socket);
    thread::scope(|scope| {
        let running = scope.spawn(|| worker.run());
        client.send(b"before the table").unwrap();
        let first = take_one(&queue);
        assert_eq!((first.worker, first.query()), (5, &b"before the table"[..]));
        worker.exchange(Some(Arc::clone(&table)));
        // A batch that has begun ends without the table; the next one has it.
        client.send(&asked).unwrap();
        let mut replies = 0;
        while replies == 0 {
            if is_readable(&queue) {
                take_one(&queue);
                client.send(&asked).unwrap();
            }
            client.set_nonblocking(true).unwrap();
            match client.recv(&mut [0; 512]) {
                Ok(len) => {
                    assert_eq!(len, answer.len());
                    replies += 1;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        client.set_nonblocking(false).unwrap();
        worker.send(1, |_| Message {
            reply: b"late",
            address: first.address(),
            control: first.control(),
        });
        while receive(&client) != b"late" {}
        worker.stop();
        running.join().unwrap().unwrap();
    });
    assert_eq!(worker.statistics().panics, 0);
    worker.run().unwrap(); // returns at once
}

#[test]
fn a_worker_without_a_socket_says_so() {
    let queue = Arc::new(MissQueue::new(1).unwrap());
    let not_a_socket = std::fs::File::open("/dev/null").unwrap();
    let worker = Worker::new(not_a_socket.as_raw_fd(), false, queue, 0);
    let error = worker.run().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
}

#[test]
fn a_full_queue_drops_and_counts() {
    let socket = server();
    let client = client_of(&socket);
    let queue = MissQueue::new(2).unwrap();
    let mut batch = Batch::new(socket.as_raw_fd(), false, Arc::default());
    assert!(!is_readable(&queue));
    for wire in [b"1", b"2", b"3"] {
        client.send(wire).unwrap();
    }
    batch.serve(None, false).unwrap();
    queue.offer(0, batch.missed());
    assert_eq!(queue.dropped(), 1);
    assert!(is_readable(&queue));
    assert_eq!(queue.take(1)[0].query(), b"1");
    assert!(is_readable(&queue));
    assert_eq!(queue.take(9)[0].query(), b"2");
    assert!(!is_readable(&queue));
    assert!(queue.take(9).is_empty());

    client.send(&[0; 1025]).unwrap(); // more octets than two misses may have
    client.send(&[0; 1024]).unwrap();
    batch.serve(None, false).unwrap();
    queue.offer(0, batch.missed());
    assert_eq!(queue.dropped(), 2);
    assert_eq!(queue.take(9)[0].query().len(), 1024);
}

#[test]
fn addresses_of_both_families() {
    for (text, expected) in [
        ("127.0.0.1:53", false),
        ("[::1]:53", true),
        ("[::ffff:127.0.0.1]:53", false),
    ] {
        assert_eq!(
            is_ipv6(&sockaddr(text.parse().unwrap())),
            expected,
            "{text}"
        );
    }
    assert!(!is_ipv6(&[]));
}

#[test]
fn control_messages_of_replies() {
    let message = |level: i32, kind: i32, data: &[u8]| {
        let mut octets = (16 + data.len()).to_ne_bytes().to_vec();
        octets.extend_from_slice(&level.to_ne_bytes());
        octets.extend_from_slice(&kind.to_ne_bytes());
        octets.extend_from_slice(data);
        octets.resize(octets.len().next_multiple_of(8), 0);
        octets
    };
    let other = message(libc::SOL_SOCKET, libc::SO_TIMESTAMP, &[1; 16]);
    let v4 = |interface: u8, asked: u8| {
        let data = [interface, 0, 0, 0, 127, 0, 0, 2, 127, 0, 0, asked];
        message(
            libc::IPPROTO_IP,
            libc::IP_PKTINFO,
            &if asked == 0 {
                [&data[..8], &[0; 4]].concat()
            } else {
                data.to_vec()
            },
        )
    };
    let v6 = |first: u8, interface: u8| {
        let mut data = [0; 20];
        data[..2].copy_from_slice(&[first, 0x80]);
        data[16] = interface;
        message(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &data)
    };
    let sent = |mut message: Vec<u8>| {
        message.truncate(usize::from(message[0])); // its length, without padding
        message
    };
    let rows = [
        ("none", vec![], vec![]),
        ("another", other.clone(), vec![]),
        ("IPv4", v4(3, 2), sent(v4(0, 0))),
        ("behind another", [other, v4(3, 2)].concat(), sent(v4(0, 0))),
        ("IPv6", v6(0x20, 3), sent(v6(0x20, 0))),
        ("link-local", v6(0xFE, 3), sent(v6(0xFE, 3))),
        ("cut", v4(3, 2)[..20].to_vec(), vec![]),
        ("length 0", vec![0; 40], vec![]),
    ];
    for (what, received, expected) in rows {
        assert_eq!(ReplyControl::new(&received).octets(), expected, "{what}");
    }
}

/// Readers see, while a writer replaces an entry again and again, one of two complete replies, and never one that is
/// older than the last event.
#[test]
fn readers_see_complete_entries_and_no_old_ones() {
    let (versions, table) = table();
    let asked = query("www.example.org", A);
    let sets = [0, 100].map(|first| {
        let addresses: Vec<_> = (first..first + 10).map(address).collect();
        reply(&asked, 0, [&addresses, &[], &[]])
    });
    let current = std::sync::atomic::AtomicUsize::new(0);
    let done = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::SeqCst;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut seen = HashSet::new();
                while !done.load(order) {
                    let before = current.load(order);
                    let Some(found) = ask(&table, &asked) else {
                        continue;
                    };
                    let after = current.load(order);
                    let set = sets.iter().position(|set| *set == found).unwrap();
                    seen.insert(set);
                    // The last event that was acknowledged before the question, or a later one.
                    assert!(before != after || before % 2 == set);
                }
            });
        }
        for event in 0..5000 {
            let late = build::terms_with(&versions, &[1]);
            versions.bump(1);
            current.store(event, order);
            assert!(!table.store(&asked, &sets[(event + 1) % 2], late));
            let terms = build::terms_with(&versions, &[1]);
            assert!(table.store(&asked, &sets[event % 2], terms));
        }
        done.store(true, order);
    });
}

fn take_one(queue: &MissQueue) -> hsdns_native::queue::Waiting {
    loop {
        if let Some(waiting) = queue.take(1).pop() {
            return waiting;
        }
        thread::yield_now();
    }
}

fn is_readable(queue: &MissQueue) -> bool {
    let proc = format!("/proc/self/fdinfo/{}", queue.fileno());
    let text = std::fs::read_to_string(proc).unwrap();
    let line = text.lines().find(|line| line.starts_with("eventfd-count:"));
    line.unwrap().split_whitespace().last() != Some("0")
}

/// A socket address as the kernel has it.
fn sockaddr(address: SocketAddr) -> Vec<u8> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let mut octets = u16::try_from(family).unwrap().to_ne_bytes().to_vec();
    octets.extend_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            octets.extend_from_slice(&v4.ip().octets());
            octets.extend_from_slice(&[0; 8]);
        }
        SocketAddr::V6(v6) => {
            octets.extend_from_slice(&[0; 4]);
            octets.extend_from_slice(&v6.ip().octets());
            octets.extend_from_slice(&[0; 4]);
        }
    }
    octets
}

#[test]
fn names_of_services_wait_in_a_queue_of_their_own() {
    let (_, table) = table();
    let names = cluster_names();
    table.add_negative_zone(negative_zone("cluster.local", &names, &[]));
    let queues = [(); 2].map(|()| Arc::new(MissQueue::new(16).unwrap()));
    let [first, others] = [&queues[0], &queues[1]].map(Arc::clone);
    let socket = server();
    let worker = Worker::new(socket.as_raw_fd(), false, others, 0).with_first(Some(first));
    let worker = Arc::new(worker);
    worker.exchange(Some(Arc::clone(&table)));
    let runner = Arc::clone(&worker);
    let thread = thread::spawn(move || runner.run());
    let client = client_of(&socket);
    let asked = [
        "web.default.svc.cluster.local",
        "1-2-3-4.default.pod.cluster.local",
        "www.example.org",
    ];
    for name in asked {
        client.send(&query(name, A)).unwrap();
    }
    while queues[0].len() + queues[1].len() < 3 {
        thread::yield_now();
    }
    worker.stop();
    thread.join().unwrap().unwrap();
    let [first, others] = queues.map(|queue| queue.take(9));
    let queries = |taken: &[hsdns_native::queue::Waiting]| -> Vec<Vec<u8>> {
        taken.iter().map(|each| each.query().to_vec()).collect()
    };
    assert_eq!(queries(&first), [query(asked[0], A)]);
    assert_eq!(queries(&others), [query(asked[1], A), query(asked[2], A)]);
}

#[test]
fn segments_have_room_for_all_control_messages_that_a_query_comes_with() {
    let socket = server();
    let client = client_of(&socket);
    let SocketAddr::V4(local) = client.local_addr().unwrap() else {
        panic!("bound to an IPv4 address");
    };
    let port = local.port().to_be_bytes();
    let mut address = [0; 16];
    address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    address[2..4].copy_from_slice(&port);
    address[4..8].copy_from_slice(&local.ip().octets());
    let control = [0; 2 * CONTROL_LEN];
    for len in (0..=control.len()).step_by(8) {
        let (mut sender, mut lost) = (Sender::default(), 0);
        let message = |_| Message {
            reply: b"reply",
            address: &address,
            control: &control[..len],
        };
        let sent = sender.send(socket.as_raw_fd(), 20, message, |_, count| lost += count);
        assert_eq!(sent + lost, 20, "{len}"); // the kernel may refuse what is none
    }
    assert_eq!(receive(&client), b"reply");
}
