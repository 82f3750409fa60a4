//! What an API server sends, cut and changed at each octet; fuzz/fuzz_targets/watch.rs looks for more.

use std::fs;
use std::path::Path;

#[path = "exercise/watch.rs"]
mod exercise;

#[test]
fn any_octets_are_read() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/watch");
    let mut count = 0;
    for entry in fs::read_dir(corpus).expect("the corpus is in the tree") {
        let octets = fs::read(entry.expect("a file").path()).expect("a file");
        exercise::take(&octets);
        for at in 0..octets.len() {
            exercise::take(&octets[..at]);
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = octets.clone();
                changed[at] = value;
                exercise::take(&changed);
            }
        }
        count += 1;
    }
    assert!(count > 3);
}
