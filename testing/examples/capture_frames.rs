//! Records the frames between Apache ZooKeeper's client and server, for `proto/testdata/`.
//!
//! `scripts/capture-frames` runs it: `capture_frames <CaptureFrames.java>` compiles the program,
//! connects it to Apache ZooKeeper through a proxy, and prints one line for each frame.
#![expect(clippy::print_stdout, reason = "its output is a file")]

use std::collections::HashSet;
use std::error::Error;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use zk_curator_real::{RealZooKeeper, java};

/// The response to a request about a node of this name is the last frame of its connection.
const CUT: &[u8] = b"/cut";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let source = std::env::args_os().nth(1).ok_or("usage: capture_frames <CaptureFrames.java>")?;
    let program = java::Program::compile(&source).await?;
    let zookeeper = RealZooKeeper::start().await?;
    let version = zookeeper.four_letter_word("srvr").await?;
    let version = version.split([':', '-']).nth(1).unwrap_or_default().trim().to_owned();

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let proxy = listener.local_addr()?.to_string();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let accepting = tokio::spawn(accept(listener, zookeeper.addr(), lines.clone()));
    let output = program.spawn([&proxy, &zookeeper.connect_string()])?.wait_with_output().await?;
    if !output.status.success() {
        return Err(format!("the client ended with {}", output.status).into());
    }
    accepting.abort();

    println!(
        "# Apache ZooKeeper {version}, Java client and server, recorded by scripts/capture-frames."
    );
    println!(
        "# DIRECTION CONNECTION HEX: `>` from the client, `<` from the server; the length is left out."
    );
    for line in lines.lock().map_err(|_| "a recorder panicked")?.iter() {
        println!("{line}");
    }
    Ok(())
}

type Lines = Arc<Mutex<Vec<String>>>;

async fn accept(listener: TcpListener, server: SocketAddr, lines: Lines) -> std::io::Result<()> {
    for connection in 1.. {
        let client = listener.accept().await?.0;
        let server = TcpStream::connect(server).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let cuts = Arc::new(Mutex::new(HashSet::new()));
        let up = pass('>', connection, from_client, to_server, lines.clone(), cuts.clone());
        let down = pass('<', connection, from_server, to_client, lines.clone(), cuts);
        // The first end of either direction closes both: dropping the halves closes the sockets.
        tokio::spawn(async move {
            tokio::select! { ended = up => ended, ended = down => ended }
        });
    }
    Ok(())
}

/// Records and forwards frames until the end of the stream, or until the response to a cut.
async fn pass(
    direction: char,
    connection: u32,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    lines: Lines,
    cuts: Arc<Mutex<HashSet<[u8; 4]>>>,
) -> std::io::Result<()> {
    loop {
        let length = from.read_u32().await?;
        let mut frame = vec![0; length as usize];
        from.read_exact(&mut frame).await?;
        let mut line = format!("{direction} {connection} ");
        for byte in &frame {
            write!(line, "{byte:02x}").map_err(std::io::Error::other)?;
        }
        lines.lock().map_err(|_| std::io::ErrorKind::Other)?.push(line);
        to.write_all(&[&length.to_be_bytes(), &frame[..]].concat()).await?;

        let Some(xid) = frame.first_chunk::<4>() else { continue };
        let mut cuts = cuts.lock().map_err(|_| std::io::ErrorKind::Other)?;
        if direction == '<' && cuts.contains(xid) {
            return Ok(());
        }
        if direction == '>' && frame.windows(CUT.len()).any(|part| part == CUT) {
            cuts.insert(*xid);
        }
    }
}
