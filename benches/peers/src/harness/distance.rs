//! A network in which every packet is on its way for the same time.
//!
//! `zk_curator_testing::FaultProxy` would hold up the packets behind a delayed one, and tokio's
//! clock goes in steps of 1 ms. This relay delays every packet on its own, keeps their order, and
//! delivers each within a tenth of a millisecond of its time. Its connections can be cut.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use zk_curator_client::internal::Locked;

const CHUNK: usize = 64 * 1024;
/// Of threads that read and pass on.
const STACK: usize = 256 * 1024;

/// Bytes on their way, or the end of a connection when there are none.
struct Packet {
    arrives: Instant,
    to: Arc<TcpStream>,
    bytes: Vec<u8>,
}

/// Listens on a port of 127.0.0.1 until it is dropped. Connections last until one end closes them
/// or they are cut.
pub(super) struct Distance {
    addr: SocketAddr,
    state: Arc<Locked<State>>,
}

#[derive(Default)]
struct State {
    has_ended: bool,
    is_cut: bool,
    /// The connections that were closed because of the cut.
    refused: u32,
    /// Both ends of each connection.
    streams: Vec<Weak<TcpStream>>,
}

impl Distance {
    /// Between clients and `server`, `one_way` in each direction.
    pub(super) fn to(server: SocketAddr, one_way: Duration) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (addr, state) = (listener.local_addr()?, Arc::<Locked<State>>::default());
        let (packets, under_way) = channel();
        thread::Builder::new().name("arrivals".to_owned()).spawn(move || deliver(&under_way))?;
        let shared = Arc::clone(&state);
        thread::Builder::new().name("connections".to_owned()).spawn(move || {
            for client in listener.incoming() {
                let mut state = shared.lock();
                if state.has_ended {
                    return;
                }
                if state.is_cut {
                    state.refused += 1;
                    continue;
                }
                // A connection that fails looks to its client like a server that is gone.
                if let Ok(ends) =
                    client.and_then(|client| connect(client, server, one_way, &packets))
                {
                    state.streams.retain(|stream| stream.strong_count() > 0);
                    state.streams.extend(ends);
                }
            }
        })?;
        Ok(Self { addr, state })
    }

    /// Ends all connections. New ones are closed immediately until [`heal`](Self::heal).
    pub(super) fn cut(&self) {
        let mut state = self.state.lock();
        state.is_cut = true;
        for stream in state.streams.drain(..).filter_map(|stream| stream.upgrade()) {
            // A connection that has already ended is no error.
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    pub(super) fn heal(&self) {
        self.state.lock().is_cut = false;
    }

    /// The connections that were tried while all were cut.
    pub(super) fn refused(&self) -> u32 {
        self.state.lock().refused
    }

    pub(super) const fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Distance {
    fn drop(&mut self) {
        self.state.lock().has_ended = true;
        // Wakes the listener.
        drop(TcpStream::connect(self.addr));
    }
}

/// Both ends of the connection.
fn connect(
    client: TcpStream,
    server: SocketAddr,
    one_way: Duration,
    packets: &Sender<Packet>,
) -> Result<[Weak<TcpStream>; 2]> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client, server) = (Arc::new(client), Arc::new(server));
    for (from, to) in [(&client, &server), (&server, &client)] {
        let (from, to, packets) = (Arc::clone(from), Arc::clone(to), packets.clone());
        thread::Builder::new().stack_size(STACK).spawn(move || {
            let mut chunk = vec![0; CHUNK];
            loop {
                let read = match (&*from).read(&mut chunk) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    read => read.unwrap_or(0),
                };
                let packet = Packet {
                    arrives: Instant::now() + one_way,
                    to: Arc::clone(&to),
                    bytes: chunk[..read].to_vec(),
                };
                if packets.send(packet).is_err() || read == 0 {
                    return;
                }
            }
        })?;
    }
    Ok([Arc::downgrade(&client), Arc::downgrade(&server)])
}

/// All packets take the same time: they arrive in the order in which they were sent.
#[expect(clippy::disallowed_methods, reason = "a thread delays packets")]
fn deliver(under_way: &Receiver<Packet>) {
    while let Ok(packet) = under_way.recv() {
        thread::sleep(packet.arrives.saturating_duration_since(Instant::now()));
        let mut to = &*packet.to;
        let delivered = if packet.bytes.is_empty() {
            to.shutdown(Shutdown::Write)
        } else {
            to.write_all(&packet.bytes)
        };
        if delivered.is_err() {
            // Anyone who reads there finds out.
            drop(to.shutdown(Shutdown::Both));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream to ourselves, from either end.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn a_packet_sets_out_while_another_is_on_its_way() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut near, far) = pair();
        let (packets, under_way) = channel();
        let hour = Duration::from_secs(3600);
        connect(far, server.local_addr().unwrap(), hour, &packets).unwrap();
        let set_out = Instant::now();
        near.write_all(b"one").unwrap();
        let first = under_way.recv().unwrap();
        near.write_all(b"two").unwrap();
        // The first one was not delivered.
        let second = under_way.recv().unwrap();
        assert_eq!((&first.bytes[..], &second.bytes[..]), (&b"one"[..], &b"two"[..]));
        assert!(first.arrives >= set_out + hour && second.arrives >= first.arrives);
    }

    #[test]
    fn bytes_arrive_in_order_and_not_before_their_time() {
        let echo = TcpListener::bind("127.0.0.1:0").unwrap();
        let one_way = Duration::from_millis(10);
        let distance = Distance::to(echo.local_addr().unwrap(), one_way).unwrap();
        let mut near = TcpStream::connect(distance.addr()).unwrap();
        let (mut far, _) = echo.accept().unwrap();
        let began = Instant::now();
        for byte in 0..50 {
            near.write_all(&[byte]).unwrap();
        }
        let mut there = [0; 50];
        far.read_exact(&mut there).unwrap();
        assert_eq!(there.to_vec(), (0..50).collect::<Vec<u8>>());
        assert!(began.elapsed() >= one_way);
        far.write_all(b"back").unwrap();
        let mut back = [0; 4];
        near.read_exact(&mut back).unwrap();
        assert!(began.elapsed() >= 2 * one_way);
        // The end of one direction arrives as well.
        near.shutdown(Shutdown::Write).unwrap();
        assert_eq!(far.read(&mut back).unwrap(), 0);
    }
    #[test]
    fn what_is_cut_ends_and_nothing_passes_until_it_is_healed() {
        let echo = TcpListener::bind("127.0.0.1:0").unwrap();
        let distance = Distance::to(echo.local_addr().unwrap(), Duration::ZERO).unwrap();
        let mut near = TcpStream::connect(distance.addr()).unwrap();
        let (mut far, _) = echo.accept().unwrap();
        near.write_all(b"a").unwrap();
        let mut byte = [0; 1];
        far.read_exact(&mut byte).unwrap();
        distance.cut();
        for end in [&mut near, &mut far] {
            assert!(matches!(end.read(&mut byte), Ok(0) | Err(_)));
        }
        assert_eq!(distance.refused(), 0);
        let mut refused = TcpStream::connect(distance.addr()).unwrap();
        assert!(matches!(refused.read(&mut byte), Ok(0) | Err(_)));
        assert_eq!(distance.refused(), 1);
        distance.heal();
        let mut near = TcpStream::connect(distance.addr()).unwrap();
        near.write_all(b"b").unwrap();
        echo.accept().unwrap().0.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"b");
    }
}
