//! The trace of a run, to the byte and to the nanosecond of simulated time.

use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) hash: u64,
    pub(crate) length: u64,
    /// The lines, if they are kept.
    pub(crate) log: Vec<String>,
    keep: bool,
    start: Instant,
}

impl Default for Trace {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Trace {
    pub(crate) fn new(keep: bool) -> Self {
        // FNV-1a.
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            length: 0,
            log: Vec::new(),
            keep,
            start: Instant::now(),
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.length += bytes.len() as u64;
    }

    fn time(&mut self) -> u128 {
        let nanos = self.start.elapsed().as_nanos();
        self.feed(&nanos.to_be_bytes());
        nanos
    }

    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        let (nanos, what) = (self.time(), what());
        self.feed(what.as_bytes());
        if self.keep {
            self.log.push(format!("{nanos} {what}"));
        }
    }

    /// Traces bytes on the wire of a connection.
    pub(crate) fn bytes(&mut self, connection: u64, direction: char, bytes: &[u8]) {
        let nanos = self.time();
        self.feed(&connection.to_be_bytes());
        self.feed(&[direction as u8]);
        self.feed(bytes);
        if self.keep {
            self.log.push(format!("{nanos} {connection}{direction} {}", bytes.escape_ascii()));
        }
    }
}
