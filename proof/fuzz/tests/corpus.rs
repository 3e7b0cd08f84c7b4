//! Every target over its corpus and over seeded variations of it, in the build of all other tests, with its overflow
//! checks and assertions. The inputs are the same every time, so that a failure was brought by the change.

use fuzz::{TARGETS, Target};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::fs;
use std::path::{Path, PathBuf};

/// Longest input made here, in bytes: longer ones add time and no states.
const MAX_INPUT_BYTES: usize = 4096;

/// A seeded source of inputs.
struct Inputs {
    rng: TestRng,
    corpus: Vec<Vec<u8>>,
}

impl Inputs {
    fn new(target: &Target) -> Self {
        let mut files: Vec<PathBuf> = match fs::read_dir(corpus(target.name)) {
            Ok(entries) => entries.map(|entry| entry.expect("a readable corpus").path()).collect(),
            Err(_) => Vec::new(),
        };
        files.sort();
        let mut corpus: Vec<Vec<u8>> =
            files.iter().map(|path| fs::read(path).expect("a readable input")).collect();
        corpus.push(Vec::new());
        let mut seed = [0; 32];
        seed[..target.name.len()].copy_from_slice(target.name.as_bytes());
        Self { rng: TestRng::from_seed(RngAlgorithm::ChaCha, &seed), corpus }
    }

    fn below(&mut self, end: usize) -> usize {
        (self.rng.next_u64() % end.max(1) as u64) as usize
    }

    /// An input of the corpus with a few changes: a byte set, a bit turned, bytes inserted, removed, or taken from another.
    fn next(&mut self) -> Vec<u8> {
        let first = self.below(self.corpus.len());
        let mut input = self.corpus[first].clone();
        for _ in 0..=self.below(8) {
            let at = self.below(input.len() + 1);
            match self.below(6) {
                0 if at < input.len() => input[at] = [0, 1, 0x7F, 0x80, 0xFF][self.below(5)],
                1 if at < input.len() => input[at] ^= 1 << self.below(8),
                2 => {
                    let end = (at + self.below(16)).min(input.len());
                    input.drain(at..end);
                }
                3 => {
                    let other = self.below(self.corpus.len());
                    let tail = self.corpus[other].clone();
                    input.truncate(at);
                    input.extend_from_slice(&tail[self.below(tail.len())..]);
                }
                _ => {
                    let mut bytes = vec![0; self.below(64)];
                    self.rng.fill_bytes(&mut bytes);
                    input.splice(at..at, bytes);
                }
            }
        }
        input.truncate(MAX_INPUT_BYTES);
        input
    }
}

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name)
}

/// Prints an input if the target panics with it, so that it can become a file of the corpus.
struct Shown<'a>(&'a [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
            eprintln!("the input, in hexadecimal: {hex}");
        }
    }
}

fn try_all(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of this name");
    let mut inputs = Inputs::new(target);
    for input in inputs.corpus.clone() {
        let _shown = Shown(&input);
        (target.run)(&input);
    }
    for _ in 0..target.test_inputs {
        let input = inputs.next();
        let _shown = Shown(&input);
        (target.run)(&input);
    }
}

macro_rules! targets {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            try_all(stringify!($name));
        })*

        #[test]
        fn every_target_is_tried_here() {
            let tried = [$(stringify!($name)),*];
            assert_eq!(TARGETS.iter().map(|target| target.name).collect::<Vec<_>>(), tried);
        }
    };
}

targets!(
    cdb,
    contradiction,
    forward,
    media,
    nvme,
    nvme_queues,
    parameter_list,
    pdu,
    peer,
    replication,
    shelf_media,
    tcmu,
    token
);
