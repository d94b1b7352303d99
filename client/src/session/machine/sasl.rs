//! The SASL exchange, between the handshake and everything else.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;
use tracing::warn;
use zk_curator_proto::records::{ReplyHeader, SaslToken};
use zk_curator_proto::{DecodeError, Decoder, ErrorCode, Record, Request, XID_NOTIFICATION};

use super::{Machine, Phase};
use crate::Error;
use crate::connector::ConnectionFailure;
use crate::sasl::{SaslExchange, SaslMechanism};
use crate::session::SessionState;

/// How the client proves who it is on every connection, if it was told to.
#[derive(Debug)]
pub(super) struct Sasl {
    mechanism: Option<Arc<dyn SaslMechanism>>,
    /// The one that a provider supplied for the present connection, in its place.
    provided: Option<Arc<dyn SaslMechanism>>,
    /// That of the present connection.
    exchange: Option<Box<dyn SaslExchange>>,
}

impl Sasl {
    pub(super) const fn new(mechanism: Option<Arc<dyn SaslMechanism>>) -> Self {
        Self { mechanism, provided: None, exchange: None }
    }

    pub(super) fn provide(&mut self, mechanism: Option<Arc<dyn SaslMechanism>>) {
        self.provided = mechanism;
    }
}

impl Machine {
    /// Begins the exchange, if there is to be one. `deadline` is that of the attempt to connect.
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

    /// A message has arrived while [`Phase::Authenticating`].
    pub(super) fn on_sasl(&mut self, input: &mut Decoder, now: Instant) -> Result<(), DecodeError> {
        let Phase::Authenticating { xid, sent_at, deadline } = self.phase else { return Ok(()) };
        let header = ReplyHeader::decode(input, "header")?;
        if header.xid == XID_NOTIFICATION {
            return self.on_event(header.zxid, input);
        }
        if header.xid != xid {
            self.disconnect(now, "the server answered out of order");
            return Ok(());
        }
        self.heard(sent_at);
        self.last_answer = now;
        match ErrorCode::from_code(header.err) {
            None => {
                let token = SaslToken::decode(input, "sasl")?.token.unwrap_or_default();
                match self.sasl.exchange.as_mut().map_or(Ok(None), |exchange| exchange.step(&token)) {
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
            // Whatever it is, it does not speak of the credentials.
            Some(_) => self.disconnect(now, "the server failed to authenticate the client"),
        }
        Ok(())
    }

    fn sasl_failed(&mut self, why: &'static str, now: Instant) {
        if self.asks_again() {
            return self.disconnect(now, why);
        }
        warn!(why, "SASL authentication failed");
        self.states.failed(ConnectionFailure::of_connection(self.peer.as_ref(), io::Error::other(why)));
        if self.farewell.is_some() {
            // The session has ended already, in another state.
            return self.end_farewell(&Err(Error::AuthFailed { sent: false }));
        }
        self.end(SessionState::AuthFailed);
    }
}
