//! The fuzzer's corpus and mutations of it, the same each time: what CI can run without a fuzzer.

mod exercise;

use std::fs;
use std::path::Path;

use exercise::Harness;

const MUTATIONS: u64 = 400; // of each file
const RENEWED_AFTER: u64 = 2000; // inputs, so that what one stores does not hide the effect of others

/// Deterministic numbers (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ mixed >> 31) % bound.max(1) as u64).unwrap()
    }

    fn octet(&mut self) -> u8 {
        const TELLING: [u8; 12] = [0, 1, 2, 3, 6, 41, 63, 64, 0x80, 0xC0, 0xC1, 0xFF];
        if self.below(3) == 0 {
            u8::try_from(self.below(256)).unwrap()
        } else {
            TELLING[self.below(TELLING.len())]
        }
    }

    fn mutate(&mut self, octets: &mut Vec<u8>, others: &[Vec<u8>]) {
        for _ in 0..=self.below(4) {
            let at = self.below(octets.len() + 1);
            match self.below(5) {
                0 => octets.truncate(at),
                1 => octets.insert(at, self.octet()),
                2 => {
                    let other = &others[self.below(others.len())];
                    octets.truncate(at);
                    octets.extend_from_slice(&other[self.below(other.len() + 1)..]);
                }
                _ if at < octets.len() => octets[at] = self.octet(),
                _ => octets.push(self.octet()),
            }
        }
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/query");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn no_octets_do_harm() {
    let corpus = corpus();
    assert!(corpus.len() > 40, "the corpus is there");
    let mut harness = Harness::new();
    let mut chance = Chance(0);
    let mut taken = 0;
    for octets in &corpus {
        harness.take(octets);
        for _ in 0..MUTATIONS {
            let mut octets = octets.clone();
            chance.mutate(&mut octets, &corpus);
            harness.take(&octets);
            taken += 1;
            if taken % RENEWED_AFTER == 0 {
                harness = Harness::new();
            }
        }
    }
}
