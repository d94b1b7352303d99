//! Shared by the benchmarks: a connection without a client, and medians with their spread.
#![expect(clippy::unwrap_used, reason = "a benchmark ends when it fails")]
#![allow(dead_code, clippy::allow_attributes, reason = "each benchmark uses some of it")]

mod process;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::{Bytes, BytesMut};
use zk_curator_proto::records::{ConnectRequest, RequestHeader};
use zk_curator_proto::{Record, Request, frame};

pub(crate) use process::*;

/// A session on a plain blocking socket. Requests are encoded beforehand, and responses are not
/// decoded.
pub(crate) struct Wire {
    stream: TcpStream,
    input: BytesMut,
    chunk: Box<[u8]>,
}

impl Wire {
    /// Connects and opens a session.
    pub(crate) fn connect(server: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(server).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut out = BytesMut::new();
        let connect = ConnectRequest {
            timeout: 40_000,
            password: Some(Bytes::from_static(&[0; 16])),
            ..ConnectRequest::default()
        };
        frame::put(&mut out, |body| connect.encode(body));
        stream.write_all(&out).unwrap();
        let mut wire = Self { stream, input: BytesMut::new(), chunk: vec![0; 64 * 1024].into() };
        wire.read_frames(1, drop);
        wire
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Reads this many frames, without their lengths.
    pub(crate) fn read_frames(&mut self, mut count: usize, mut each: impl FnMut(Bytes)) {
        while count > 0 {
            while let Some(body) = frame::take(&mut self.input, 1 << 20).unwrap() {
                each(body);
                count -= 1;
            }
            if count > 0 {
                let read = self.stream.read(&mut self.chunk).unwrap();
                assert_ne!(read, 0, "the server is gone");
                self.input.extend_from_slice(&self.chunk[..read]);
            }
        }
    }
}

/// The frames of requests, numbered from 1.
pub(crate) fn frames(requests: impl IntoIterator<Item = Request>) -> Vec<u8> {
    let mut out = BytesMut::new();
    for (xid, request) in (1..).zip(requests) {
        frame::put(&mut out, |body| {
            RequestHeader { xid, opcode: request.opcode().code() }.encode(body);
            request.encode_body(body);
        });
    }
    out.to_vec()
}

/// A median, and half of the range in percent of it.
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) percent: f64,
}

impl Spread {
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let median = values[values.len() / 2];
        let half = (values[values.len() - 1] - values[0]) / 2.0;
        // Equal values have no spread, also if they are zero.
        let percent = if half == 0.0 { 0.0 } else { half / median * 100.0 };
        Self { median, percent }
    }
}
