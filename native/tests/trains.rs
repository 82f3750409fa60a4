//! Which replies of a batch leave as one message.

use hsdns_native::system::{BATCH_LEN, Message};
use hsdns_native::trains::{MAX_DATAGRAM_LEN, Trains};

/// A reply: its client's port, its length, and the address that was asked.
type Reply = (u16, usize, u8);
/// What is shown, the replies, the indexes of each train.
type Row = (&'static str, &'static [Reply], &'static [&'static [usize]]);

fn trains(longest: usize, replies: &[Reply]) -> Vec<(Vec<usize>, u16)> {
    let parts: Vec<_> = replies
        .iter()
        .map(|&(port, len, asked)| (port.to_be_bytes(), vec![0; len], [asked]))
        .map(|([high, low], reply, control)| ([2, 0, high, low, 127, 0, 0, 1], reply, control))
        .collect();
    let mut trains = Trains::default();
    for _ in 0..2 {
        trains.make(parts.len(), longest, |index| {
            let (address, reply, control) = &parts[index];
            Message {
                reply,
                address,
                control,
            }
        });
    }
    trains
        .iter()
        .map(|train| (trains.replies(train).collect(), train.datagram_len()))
        .collect()
}

#[test]
fn what_goes_to_one_client_in_one_length_goes_together() {
    // 4242 and 4242 + 128 * 32 look for their trains in one place.
    let rows: &[Row] = &[
        ("nothing", &[], &[]),
        ("one", &[(7, 90, 1)], &[&[0]]),
        (
            "equal",
            &[(7, 90, 1), (7, 90, 1), (7, 90, 1)],
            &[&[0, 1, 2]],
        ),
        (
            "two clients",
            &[(7, 90, 1), (8, 90, 1), (7, 90, 1), (8, 90, 1)],
            &[&[0, 2], &[1, 3]],
        ),
        (
            "a shorter one is the last",
            &[(7, 90, 1), (7, 80, 1), (7, 80, 1)],
            &[&[0, 1], &[2]],
        ),
        (
            "a longer one is the first",
            &[(7, 80, 1), (7, 90, 1), (7, 90, 1)],
            &[&[0], &[1, 2]],
        ),
        (
            "another address was asked",
            &[(7, 90, 1), (7, 90, 2), (7, 90, 2)],
            &[&[0], &[1, 2]],
        ),
        (
            "one place",
            &[(4242, 90, 1), (8338, 90, 1), (4242, 90, 1)],
            &[&[0], &[1], &[2]],
        ),
        ("too long", &[(7, 1233, 1), (7, 1233, 1)], &[&[0], &[1]]),
        (
            "a short one after that",
            &[(7, 1233, 1), (7, 90, 1), (7, 90, 1)],
            &[&[0], &[1, 2]],
        ),
        (
            "a long one between short ones",
            &[(7, 90, 1), (7, 1233, 1), (7, 90, 1), (7, 90, 1)],
            &[&[0], &[1], &[2, 3]],
        ),
        ("empty", &[(7, 0, 1), (7, 0, 1)], &[&[0], &[1]]),
        (
            "an empty one at the end",
            &[(7, 9, 1), (7, 0, 1), (7, 0, 1)],
            &[&[0, 1], &[2]],
        ),
    ];
    for (what, replies, wanted) in rows {
        let found = trains(MAX_DATAGRAM_LEN, replies);
        let indexes: Vec<_> = found.iter().map(|(indexes, _)| indexes).collect();
        assert_eq!(indexes, *wanted, "{what}");
        for (indexes, datagram_len) in &found {
            assert_eq!(replies[indexes[0]].1, usize::from(*datagram_len), "{what}");
        }
    }
}

#[test]
fn where_the_kernel_cuts_nothing_each_goes_alone() {
    assert_eq!(
        trains(0, &[(7, 90, 1), (7, 90, 1)]),
        [(vec![0], 90), (vec![1], 90)]
    );
}

#[test]
fn a_train_is_no_longer_than_a_packet() {
    let found = trains(MAX_DATAGRAM_LEN, &[(7, MAX_DATAGRAM_LEN, 1); BATCH_LEN]);
    let lens: Vec<_> = found.iter().map(|(indexes, _)| indexes.len()).collect();
    assert_eq!(lens, [52, 12]);
}
