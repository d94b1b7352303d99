//! The SASL exchange, between the handshake and all other requests.

use std::io;

use bytes::Bytes;
use tokio::time::Instant;
use tracing::warn;
use zk_curator_proto::records::{ReplyHeader, SaslToken};
use zk_curator_proto::{DecodeError, Decoder, ErrorCode, Record, Request, XID_NOTIFICATION};

use super::{Machine, Phase};
use crate::Error;
use crate::connector::ConnectionFailure;
use crate::session::SessionState;

impl Machine {
    /// Begins the exchange, if SASL is configured. `deadline` is the deadline of the attempt to
    /// connect.
    pub(super) fn begins_sasl(&mut self, deadline: Instant, now: Instant) -> bool {
        let mechanism = self.sasl.provided.as_ref().or(self.sasl.mechanism.as_ref());
        self.sasl.exchange = mechanism.map(|mechanism| mechanism.start());
        let begins = self.sasl.exchange.is_some();
        if begins {
            self.send_sasl(Bytes::new(), deadline, now);
        }
        begins
    }

    fn send_sasl(&mut self, token: Bytes, deadline: Instant, now: Instant) {
        let xid = self.next_xid();
        self.phase = Phase::Authenticating { xid, sent_at: now, deadline };
        self.put_request(xid, &Request::Sasl(SaslToken { token: Some(token) }), now);
    }

    /// Handles a message that arrived while [`Phase::Authenticating`].
    pub(super) fn on_sasl(&mut self, input: &mut Decoder, now: Instant) -> Result<(), DecodeError> {
        let Phase::Authenticating { xid, sent_at, deadline } = self.phase else { return Ok(()) };
        let header = ReplyHeader::decode(input, "header")?;
        if header.xid == XID_NOTIFICATION {
            return self.on_event(header.zxid, input, now);
        }
        if header.xid != xid {
            self.disconnect(now, "the server responded out of order");
            return Ok(());
        }
        self.heard(sent_at);
        self.last_response = now;
        match ErrorCode::from_code(header.err) {
            None => {
                let token = SaslToken::decode(input, "sasl")?.token.unwrap_or_default();
                match self.sasl.exchange.as_mut().map_or(Ok(None), |exchange| exchange.step(&token))
                {
                    Ok(Some(answer)) => self.send_sasl(answer, deadline, now),
                    Ok(None) => {
                        self.refused_once = false;
                        self.serve(now);
                    }
                    Err(why) => self.sasl_failed(why, now),
                }
            }
            Some(ErrorCode::AuthFailed | ErrorCode::SessionClosedRequireSaslAuth) => {
                self.sasl_failed("the server refuses the name or the password", now);
            }
            // Other errors say nothing about the credentials.
            Some(_) => self.disconnect(now, "the server failed to authenticate the client"),
        }
        Ok(())
    }

    fn sasl_failed(&mut self, why: &'static str, now: Instant) {
        if self.asks_again() {
            return self.disconnect(now, why);
        }
        warn!(why, "SASL authentication failed");
        self.states.failed(ConnectionFailure::of_connection(
            self.peer.as_ref(),
            io::Error::other(why),
            None,
        ));
        if self.farewell.is_some() {
            // The session has already ended, in another state.
            return self.end_farewell(&Err(Error::AuthFailed { sent: false }));
        }
        self.end(SessionState::AuthFailed);
    }
}
