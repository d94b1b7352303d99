//! A mutator for ordinary tests: it makes inputs from the seeds of a corpus, the same ones every
//! time. libFuzzer finds more, because it sees which code an input reaches; this mutator needs no
//! tools.

use std::fs;
use std::path::Path;

use fastrand::Rng;

/// The longest input, in bytes, as in `scripts/fuzz`.
const LONGEST: usize = 1024;

/// Calls `run` with every seed, and then with `rounds` inputs made from the seeds. `FUZZ_ROUNDS`
/// replaces `rounds`, and `FUZZ_FIRST` sets the number of the first input. The number of a failing
/// input is printed.
pub(crate) fn for_each_input(target: &str, rounds: u64, run: impl Fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let entries = fs::read_dir(&corpus).expect("a corpus");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let seeds: Vec<_> = files.iter().map(|file| fs::read(file).expect("a file")).collect();
    assert!(!seeds.is_empty(), "{} is empty", corpus.display());
    let run = |name: String, input: &[u8]| {
        let failed = Failed(name);
        run(input);
        std::mem::forget(failed);
    };
    for (file, seed) in files.iter().zip(&seeds) {
        run(file.display().to_string(), seed);
    }
    let setting =
        |name, default| std::env::var(name).map_or(default, |value| value.parse().expect(name));
    let first = setting("FUZZ_FIRST", 0);
    for number in first..first + setting("FUZZ_ROUNDS", rounds) {
        let name = format!("FUZZ_FIRST={number} FUZZ_ROUNDS=1");
        run(name, &input(&seeds, &mut Rng::with_seed(number)));
    }
}

/// The number of an input, printed when its run panics.
struct Failed(String);

impl Drop for Failed {
    fn drop(&mut self) {
        let line = format!("failed: {}\n", self.0);
        drop(std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()));
    }
}

fn input(seeds: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    /// Lengths, counts and codes at the limits of decoders.
    const NUMBERS: [i32; 12] =
        [0, 1, 2, 4, 127, 255, -1, -2, -101, 0x0010_0000, i32::MIN, i32::MAX];
    let mut bytes = seeds[rng.usize(..seeds.len())].clone();
    for _ in 0..1 << rng.u32(..5) {
        let at = rng.usize(..=bytes.len());
        let end = rng.usize(at..=bytes.len().min(at + 32));
        match rng.u8(..8) {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << rng.u32(..8),
            2 if at < bytes.len() => bytes[at] = rng.u8(..),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let repeated = bytes[at..end].repeat(rng.usize(1..4));
                bytes.splice(at..at, repeated);
            }
            5 => {
                let other = &seeds[rng.usize(..seeds.len())];
                let from = rng.usize(..=other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            6 => bytes.insert(at, rng.u8(..)),
            _ if at + 4 <= bytes.len() => {
                bytes[at..at + 4]
                    .copy_from_slice(&NUMBERS[rng.usize(..NUMBERS.len())].to_be_bytes());
            }
            _ => bytes.truncate(at),
        }
    }
    bytes.truncate(LONGEST);
    bytes
}
