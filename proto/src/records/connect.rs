use std::fmt;

use bytes::Bytes;

use crate::{DecodeError, Decoder, Encoder, Record};

/// Length of a session password in bytes.
pub const PASSWORD_LEN: usize = 16;

/// The first frame of a connection, without a header. It opens a session or resumes one.
#[derive(Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the wire form is fixed by the protocol")]
pub struct ConnectRequest {
    /// Always zero.
    pub protocol_version: i32,
    /// The highest zxid the client has seen; a server that is behind it refuses the connection.
    pub last_zxid_seen: i64,
    /// The requested session timeout, in milliseconds.
    pub timeout: i32,
    /// Zero for a new session.
    pub session_id: i64,
    /// The password of the session, 16 bytes; zeros for a new one. `Debug` does not show it.
    pub password: Option<Bytes>,
    /// `true` if the client accepts a read-only server.
    pub read_only: bool,
}

/// The response to [`ConnectRequest`], without a header.
#[derive(Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the wire form is fixed by the protocol")]
pub struct ConnectResponse {
    /// Always zero.
    pub protocol_version: i32,
    /// The granted session timeout in milliseconds; zero or less means that the session has
    /// expired.
    pub timeout: i32,
    /// The session.
    pub session_id: i64,
    /// The password of the session. `Debug` does not show it.
    pub password: Option<Bytes>,
    /// `true` if this server is in read-only mode.
    pub read_only: bool,
}

impl fmt::Debug for ConnectRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectRequest")
            .field("last_zxid_seen", &self.last_zxid_seen)
            .field("timeout", &self.timeout)
            .field("session_id", &format_args!("{:#x}", self.session_id))
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ConnectResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectResponse")
            .field("timeout", &self.timeout)
            .field("session_id", &format_args!("{:#x}", self.session_id))
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

impl Record for ConnectRequest {
    const MIN_SIZE: usize = 28;

    fn encode(&self, out: &mut Encoder) {
        out.i32(self.protocol_version);
        out.i64(self.last_zxid_seen);
        out.i32(self.timeout);
        out.i64(self.session_id);
        out.buffer(self.password.as_deref());
        out.bool(self.read_only);
    }

    fn decode(input: &mut Decoder, _what: &'static str) -> Result<Self, DecodeError> {
        Ok(Self {
            protocol_version: input.i32("ConnectRequest.protocolVersion")?,
            last_zxid_seen: input.i64("ConnectRequest.lastZxidSeen")?,
            timeout: input.i32("ConnectRequest.timeOut")?,
            session_id: input.i64("ConnectRequest.sessionId")?,
            password: input.buffer("ConnectRequest.passwd")?,
            read_only: trailing_flag(input, "ConnectRequest.readOnly")?,
        })
    }
}

impl Record for ConnectResponse {
    const MIN_SIZE: usize = 20;

    fn encode(&self, out: &mut Encoder) {
        out.i32(self.protocol_version);
        out.i32(self.timeout);
        out.i64(self.session_id);
        out.buffer(self.password.as_deref());
        out.bool(self.read_only);
    }

    fn decode(input: &mut Decoder, _what: &'static str) -> Result<Self, DecodeError> {
        Ok(Self {
            protocol_version: input.i32("ConnectResponse.protocolVersion")?,
            timeout: input.i32("ConnectResponse.timeOut")?,
            session_id: input.i64("ConnectResponse.sessionId")?,
            password: input.buffer("ConnectResponse.passwd")?,
            read_only: trailing_flag(input, "ConnectResponse.readOnly")?,
        })
    }
}

/// Reads the read-only flag, which peers before ZooKeeper 3.4 do not send.
fn trailing_flag(input: &mut Decoder, what: &'static str) -> Result<bool, DecodeError> {
    if input.remaining() == 0 { Ok(false) } else { input.bool(what) }
}
