//! The SASL exchange: its first step before the handshake, and the others between the handshake and
//! all other requests.

use std::io;

use bytes::Bytes;
use tokio::time::Instant;
use tracing::warn;
use zk_curator_proto::records::{ReplyHeader, SaslToken};
use zk_curator_proto::{DecodeError, Decoder, ErrorCode, Record, Request, XID_NOTIFICATION};

use super::{SessionEffect, SessionMachine, SessionPhase};
use crate::Error;
use crate::connector::ConnectionFailure;
use crate::sasl::{SaslExchange, SaslFailure, SaslStep, SaslWork, Stepped, Worked, Working};
use crate::session::SessionState;

impl SessionMachine {
    /// Obtains the first token, if SASL is configured, and then begins the handshake. `deadline` is
    /// the deadline of the attempt to connect.
    ///
    /// A handshake renews the session on the server. So a client that cannot obtain a token must
    /// not begin one: its session would never expire, and its locks would block other clients.
    pub(super) fn prepare(&mut self, deadline: Instant, now: Instant) {
        self.sasl.first = None;
        let mechanism = self.sasl.provided.as_ref().or(self.sasl.mechanism.as_ref());
        let host = self.peer.as_ref().map_or("", |peer| peer.host.as_str());
        let Some(mut exchange) = mechanism.map(|mechanism| mechanism.start(host)) else {
            return self.handshake(deadline, now);
        };
        self.phase = SessionPhase::Preparing { deadline };
        let step = exchange.begin();
        self.sasl.exchange = Some(exchange);
        self.on_step(step, now);
    }

    fn on_step(&mut self, step: SaslStep, now: Instant) {
        match step {
            SaslStep::Ready(stepped) => self.on_stepped(stepped, now),
            SaslStep::Pending(SaslWork { future, late }) => {
                self.sasl.exchange = None;
                self.sasl.work = Some(future);
                self.sasl.late = Some(late);
                self.effects.push_back(SessionEffect::Prove);
            }
        }
    }

    /// Returns the step to perform for [`SessionEffect::Prove`].
    pub(in crate::session) const fn take_work(&mut self) -> Option<Working> {
        self.sasl.work.take()
    }

    /// Handles a step that the driver has performed.
    pub(in crate::session) fn on_worked(&mut self, (exchange, stepped): Worked, now: Instant) {
        if matches!(self.phase, SessionPhase::Preparing { .. } | SessionPhase::Proving { .. }) {
            self.sasl.exchange = Some(exchange);
            self.on_stepped(stepped, now);
        }
    }

    /// Handles a step that was not performed in time.
    pub(super) fn on_late_work(&mut self, now: Instant) {
        let why = self.sasl.late.take().unwrap_or_else(|| io::ErrorKind::TimedOut.into());
        self.lose(now, self.failure(now, why));
    }

    fn on_stepped(&mut self, stepped: Stepped, now: Instant) {
        match (self.phase, stepped) {
            (SessionPhase::Preparing { deadline }, Ok(first)) => {
                self.sasl.first = first;
                self.handshake(deadline, now);
            }
            (SessionPhase::Proving { deadline }, Ok(Some(answer))) => {
                self.send_sasl(answer, deadline, now);
            }
            (_, Ok(_)) => {
                self.refused_once = false;
                self.serve(now);
            }
            (_, Err(SaslFailure { why, is_final: true })) => self.sasl_failed(why, now),
            (_, Err(SaslFailure { why, is_final: false })) => {
                self.lose(now, self.failure(now, why));
            }
        }
    }

    pub(super) fn send_sasl(&mut self, token: Bytes, deadline: Instant, now: Instant) {
        let xid = self.next_xid();
        self.phase = SessionPhase::Authenticating { xid, sent_at: now, deadline };
        self.put_request(xid, &Request::Sasl(SaslToken { token: Some(token) }), now);
    }

    /// Handles a message that arrived while [`SessionPhase::Authenticating`] or
    /// [`SessionPhase::Proving`].
    pub(super) fn on_sasl(&mut self, input: &mut Decoder, now: Instant) -> Result<(), DecodeError> {
        let header = ReplyHeader::decode(input, "header")?;
        if header.xid == XID_NOTIFICATION {
            return self.on_event(header.zxid, input, now);
        }
        let (sent_at, deadline) = match self.phase {
            SessionPhase::Authenticating { xid, sent_at, deadline } if xid == header.xid => {
                (sent_at, deadline)
            }
            _ => {
                self.disconnect(now, "the server responded out of order");
                return Ok(());
            }
        };
        self.heard(sent_at);
        self.times.last_response = now;
        match ErrorCode::from_code(header.err) {
            None => {
                let token = SaslToken::decode(input, "sasl")?.token.unwrap_or_default();
                let step = match &mut self.sasl.exchange {
                    Some(exchange) => exchange.step(&token),
                    None => SaslStep::Ready(Err("the exchange has ended".into())),
                };
                self.phase = SessionPhase::Proving { deadline };
                self.on_step(step, now);
            }
            Some(ErrorCode::AuthFailed | ErrorCode::SessionClosedRequireSaslAuth) => {
                let why = self.sasl.exchange.as_deref().map(SaslExchange::refused);
                let why = why.unwrap_or_else(|| io::ErrorKind::PermissionDenied.into());
                self.sasl_failed(why, now);
            }
            // Other errors say nothing about the credentials.
            Some(_) => self.disconnect(now, "the server failed to authenticate the client"),
        }
        Ok(())
    }

    fn sasl_failed(&mut self, why: io::Error, now: Instant) {
        if self.asks_again() {
            return self.lose(now, self.failure(now, why));
        }
        warn!(%why, "SASL authentication failed");
        self.states.failed(ConnectionFailure::of_connection(self.peer.as_ref(), why, None));
        if self.farewell.is_some() {
            // The session has already ended, in another state.
            return self.end_farewell(&Err(Error::AuthFailed { sent: false }));
        }
        self.end(SessionState::AuthFailed);
    }
}
