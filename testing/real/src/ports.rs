//! Ports that no other server of these tests takes, also in other processes and while the server of
//! a port is stopped.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::RealError;

/// Ports below the range that Linux uses for outgoing connections, so the port of a stopped server
/// stays free until its restart.
const PORTS: Range<u16> = 20_000..32_768;

/// The number of ports of a block. A process that listens on the first port of a block has the
/// others.
const BLOCK: u16 = 64;

/// The unused ports of the last block of this process.
static UNUSED: Mutex<Range<u16>> = Mutex::new(0..0);

/// The listeners on the first ports of the blocks of this process, which has them until its end.
static BLOCKS: Mutex<Vec<TcpListener>> = Mutex::new(Vec::new());

/// Returns a free port that no other process of these tests gets, and this process no second time.
///
/// # Errors
/// [`RealError::NoPort`] if other processes have all ports between 20,000 and 32,767.
pub fn free_port() -> Result<u16, RealError> {
    let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        match unused.next() {
            Some(port) if listener(port).is_some() => return Ok(port),
            Some(_) => {}
            None => *unused = new_block()?,
        }
    }
}

/// Returns the ports of a block, without the first.
fn new_block() -> Result<Range<u16>, RealError> {
    let count = (PORTS.end - PORTS.start) / BLOCK;
    let begin = fastrand::u16(..count);
    for offset in 0..count {
        let first = PORTS.start + (begin + offset) % count * BLOCK;
        if let Some(listener) = listener(first) {
            BLOCKS.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
            return Ok(first + 1..first + BLOCK);
        }
    }
    Err(RealError::NoPort)
}

fn listener(port: u16) -> Option<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn ports_are_free_and_never_given_twice() {
        let mut seen = HashSet::new();
        for _ in 0..3 * BLOCK {
            let port = free_port().unwrap();
            assert!(PORTS.contains(&port), "{port}");
            // A process that another test starts may hold our sockets until it runs its program.
            let patience = Instant::now() + Duration::from_secs(30);
            while listener(port).is_none() {
                assert!(Instant::now() < patience, "{port}");
                std::thread::yield_now();
            }
            assert!(seen.insert(port), "{port}");
        }
        let firsts = BLOCKS.lock().unwrap();
        assert!(firsts.iter().all(|first| !seen.contains(&first.local_addr().unwrap().port())));
    }
}
