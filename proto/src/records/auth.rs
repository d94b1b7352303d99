use std::fmt;

use bytes::Bytes;

use super::record;
use crate::{DecodeError, Decoder, Encoder, Record};

/// Adds an identity to the connection (`addauth`).
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the wire form is fixed by the protocol")]
pub struct AuthPacket {
    /// The authentication scheme, for example `digest`.
    pub scheme: String,
    /// The credentials. `Debug` does not show them.
    pub auth: Option<Bytes>,
}

impl fmt::Debug for AuthPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthPacket").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

impl Record for AuthPacket {
    const MIN_SIZE: usize = 12;

    fn encode(&self, out: &mut Encoder) {
        out.i32(0);
        out.string(&self.scheme);
        out.buffer(self.auth.as_deref());
    }

    fn decode(input: &mut Decoder, _what: &'static str) -> Result<Self, DecodeError> {
        input.i32("AuthPacket.type")?;
        Ok(Self {
            scheme: input.string("AuthPacket.scheme")?,
            auth: input.buffer("AuthPacket.auth")?,
        })
    }
}

/// A step of a SASL exchange, in either direction.
#[derive(Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the wire form is fixed by the protocol")]
pub struct SaslToken {
    /// The token of one side. `Debug` does not show it.
    pub token: Option<Bytes>,
}

impl fmt::Debug for SaslToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslToken").finish_non_exhaustive()
    }
}

impl Record for SaslToken {
    const MIN_SIZE: usize = 4;

    fn encode(&self, out: &mut Encoder) {
        out.buffer(self.token.as_deref());
    }

    fn decode(input: &mut Decoder, _what: &'static str) -> Result<Self, DecodeError> {
        Ok(Self { token: input.buffer("SaslToken.token")? })
    }
}

record! {
    /// An identity of a connection, in the response to `whoAmI`.
    ClientInfo {
        /// The authentication scheme.
        scheme: String,
        /// The user within the scheme: for `digest` the name without the password.
        user: String,
    }
}
