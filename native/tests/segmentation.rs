//! Which replies of a batch leave as one message.

use hsdns_native::segmentation::{MAX_SEGMENT_LEN, Segmentation};
use hsdns_native::system::{BATCH_LEN, Message};

/// A reply: its client's port, its length, and the address that was asked.
type Reply = (u16, usize, u8);
/// A title, the replies, the indexes of each message's replies.
type Row = (&'static str, &'static [Reply], &'static [&'static [usize]]);

fn messages(longest: usize, replies: &[Reply]) -> Vec<(Vec<usize>, u16)> {
    let parts: Vec<_> = replies
        .iter()
        .map(|&(port, len, asked)| (port.to_be_bytes(), vec![0; len], [asked]))
        .map(|([high, low], reply, control)| ([2, 0, high, low, 127, 0, 0, 1], reply, control))
        .collect();
    let mut segmentation = Segmentation::default();
    for _ in 0..2 {
        segmentation.distribute(parts.len(), longest, |index| {
            let (address, reply, control) = &parts[index];
            Message {
                reply,
                address,
                control,
            }
        });
    }
    segmentation
        .iter()
        .map(|segments| {
            let indexes = segmentation.replies(segments).collect();
            (indexes, segments.segment_len())
        })
        .collect()
}

#[test]
fn equally_long_replies_to_one_client_are_one_message() {
    // 4242 and 4242 + 128 * 32 share a place.
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
        let found = messages(MAX_SEGMENT_LEN, replies);
        let indexes: Vec<_> = found.iter().map(|(indexes, _)| indexes).collect();
        assert_eq!(indexes, *wanted, "{what}");
        for (indexes, segment_len) in &found {
            assert_eq!(replies[indexes[0]].1, usize::from(*segment_len), "{what}");
        }
    }
}

#[test]
fn without_segmentation_each_reply_is_a_message() {
    assert_eq!(
        messages(0, &[(7, 90, 1), (7, 90, 1)]),
        [(vec![0], 90), (vec![1], 90)]
    );
}

#[test]
fn a_message_is_no_longer_than_a_packet() {
    let found = messages(MAX_SEGMENT_LEN, &[(7, MAX_SEGMENT_LEN, 1); BATCH_LEN]);
    let lens: Vec<_> = found.iter().map(|(indexes, _)| indexes.len()).collect();
    assert_eq!(lens, [52, 12]);
}
