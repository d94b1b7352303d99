//! Closing, connection loss, and the end of the session.

use std::io;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::{info, warn};
use zk_curator_proto::DEFAULT_MAX_FRAME;

use super::{
    Farewell, RequestInFlight, SentRequest, SessionClosing, SessionEffect, SessionMachine,
    SessionPhase, after,
};
use crate::connector::ConnectionFailure;
use crate::session::{ExpiredBy, RequestSubmission, SessionState};
use crate::watch::WatchEnded;
use crate::{Error, SessionCredentials};

/// The least length of a request whose size may be why the server closed the connection, unless it
/// is over the servers' default limit.
const LARGE_REQUEST: usize = 1 << 16;

impl SessionMachine {
    /// Handles the drop of the last handle, [`crate::session::SessionCommand::Close`] or
    /// [`crate::session::SessionCommand::Detach`].
    pub(in crate::session) fn on_close(
        &mut self,
        done: Option<oneshot::Sender<Result<(), Error>>>,
        detach: bool,
        now: Instant,
    ) {
        if let Some(farewell) = &mut self.farewell {
            let forgotten = done.is_none();
            farewell.deadline = farewell.deadline.min(after(now, self.close_timeout));
            farewell.waiters.extend(done);
            if forgotten {
                // The receiver was dropped.
                self.end_farewell(&Err(Error::ConnectionLoss { sent: false }));
            }
            return;
        }
        if let SessionPhase::Ended(_) = self.phase {
            if let Some(done) = done {
                // A failure means that the caller no longer waits.
                drop(done.send(self.states.end_told()));
            }
            return;
        }
        if let Some(closing) = &mut self.closing {
            closing.waiters.extend(done);
            return;
        }
        self.closing = Some(SessionClosing {
            detach,
            deadline: after(now, self.close_timeout),
            sent: false,
            acknowledged: false,
            waiters: done.into_iter().collect(),
        });
        if self.phase == SessionPhase::Connected {
            self.send_close(now);
        } else if self.has_nothing_to_tell() || (detach && self.queued.is_empty()) {
            self.end(SessionState::Closed);
        }
    }

    /// Returns `true` if closing needs no server: there is no session, none is being opened, and no
    /// request waits.
    fn has_nothing_to_tell(&self) -> bool {
        self.session.is_none()
            && !matches!(self.phase, SessionPhase::Handshaking { .. })
            && self.queued.values().all(|queued| self.queue.is_left(&queued.submission.reply))
    }

    pub(super) fn disconnect(&mut self, now: Instant, why: &'static str) {
        self.lose(now, self.failure(now, io::Error::other(why)));
    }

    /// Returns the failure of the current connection.
    pub(super) fn failure(&self, now: Instant, why: io::Error) -> io::Error {
        ConnectionFailure::of_connection(self.peer.as_ref(), why, self.stalled(now))
    }

    pub(super) fn lose(&mut self, now: Instant, why: io::Error) {
        self.deliver();
        let was_connected = self.phase == SessionPhase::Connected && self.farewell.is_none();
        if !self.reach.of_ensemble {
            // Only that server knew the session.
            self.session = None;
        }
        self.reach.read_only = false;
        self.phase = SessionPhase::Waiting { until: self.hosts.not_before(now) };
        if was_connected {
            self.times.lost_at = now;
            info!(%why, "connection lost");
            self.states.failed(why);
            self.states.publish(SessionState::Disconnected);
        } else {
            self.attempt_failed(why);
        }
        self.forget_connection(&Error::ConnectionLoss { sent: true });
        self.publish_validity();
        if self.closing.is_some() && self.has_nothing_to_tell() {
            self.end(SessionState::Closed);
        }
    }

    /// Handles a connection that failed. Servers close it without a response if a
    /// request is over their limit. If that may be the reason, the request must not be sent again:
    /// it would cost every connection.
    pub(super) fn blame_largest(&mut self, why: &io::Error) {
        if !is_by_peer(why) {
            return;
        }
        let largest = self.in_flight.iter().max_by_key(|request| request.length);
        let Some(RequestInFlight {
            xid,
            what: SentRequest::Request(RequestSubmission { opcode, .. }),
            length,
            ..
        }) = largest
        else {
            return;
        };
        if *length < LARGE_REQUEST {
            return;
        }
        let suspect = Some((*opcode, *length));
        if *length > DEFAULT_MAX_FRAME || self.suspect == suspect {
            warn!(?opcode, length, "the server closed the connection on a large request");
            self.blamed = Some(*xid);
        }
        self.suspect = suspect;
    }

    /// Ends the session and this client. A client that is closing ends as closed in any case;
    /// `close` fails if no server was reached first. A client that is detaching ends as detached,
    /// unless the session has ended.
    pub(super) fn end(&mut self, mut state: SessionState) {
        self.deliver();
        let closing = self.closing.take();
        let close_result = closing.as_ref().map_or(Ok(()), |closing| {
            let server_knows =
                closing.acknowledged || state == SessionState::Expired(ExpiredBy::Server);
            if server_knows || closing.detach || self.session.is_none() {
                Ok(())
            } else {
                Err(Error::ConnectionLoss { sent: closing.sent })
            }
        });
        state = match (&closing, state) {
            (Some(SessionClosing { detach: true, .. }), SessionState::Closed) => {
                SessionState::Detached
            }
            // A session that is over cannot be detached from.
            (Some(SessionClosing { detach: true, .. }) | None, state) => state,
            (Some(SessionClosing { detach: false, .. }), _) => SessionState::Closed,
        };
        if let (SessionState::Detached, Some(session)) = (state, &self.session) {
            let (id, password) = (session.info.id, session.password.clone());
            self.states.granted(SessionCredentials::new(id, password, self.last_zxid));
        }
        self.phase = SessionPhase::Ended(state);
        // A server that refuses the credentials, or that is not reached any more, keeps the
        // session.
        let is_left = matches!(state, SessionState::AuthFailed | SessionState::Unreachable);
        if let Err(why) = &close_result {
            self.states.untold(why.clone());
        } else if closing.is_none() && is_left && self.session.is_some() {
            self.states.untold(Error::ConnectionLoss { sent: false });
        }
        self.states.session_over();
        self.states.publish(state);
        let (unanswered, unsent, watches) = match state {
            SessionState::Expired(_) => (
                Error::SessionExpired { sent: true },
                Error::SessionExpired { sent: false },
                WatchEnded::SessionLost,
            ),
            SessionState::AuthFailed => (
                Error::AuthFailed { sent: true },
                Error::AuthFailed { sent: false },
                WatchEnded::SessionLost,
            ),
            SessionState::Unreachable => {
                (Error::ConnectionLoss { sent: true }, Error::NotConnected, WatchEnded::SessionLost)
            }
            _ => (Error::Closed { sent: true }, Error::Closed { sent: false }, WatchEnded::Closed),
        };
        self.forget_connection(&unanswered);
        for queued in std::mem::take(&mut self.queued).into_values() {
            self.answers.push(queued.submission.reply, Err(unsent.clone()));
        }
        self.auth.end(&unsent, &mut self.answers);
        self.deliver();
        self.watches.end(watches);
        for waiter in closing.into_iter().flat_map(|closing| closing.waiters) {
            // A failure means that the caller no longer waits.
            drop(waiter.send(close_result.clone()));
        }
        self.effects.push_back(SessionEffect::Done);
    }

    /// Detaches, if the client is detaching and all earlier requests have responses.
    pub(super) fn detach_if_done(&mut self) {
        let detaching = self.closing.as_ref().is_some_and(|closing| closing.detach);
        if detaching && self.in_flight.is_empty() && self.queued.is_empty() {
            self.end(SessionState::Closed);
        }
    }

    /// Ends the session by the client's own clock. The servers may not agree if they were down
    /// themselves; then the nodes of the session block other clients until it expires. So the
    /// client ends the session as soon as it reaches a server, within the session timeout.
    pub(super) fn expire_by_clock(&mut self, now: Instant) {
        let is_closing = self.closing.is_some();
        let patience = self.timeout();
        self.end(SessionState::Expired(ExpiredBy::Clock));
        if !is_closing {
            self.effects.retain(|effect| *effect != SessionEffect::Done);
            self.farewell = Some(Farewell { deadline: after(now, patience), waiters: Vec::new() });
            self.reach.deadline = None;
            self.phase = SessionPhase::Waiting { until: self.hosts.not_before(now) };
        }
    }

    /// Ends the client: a server has ended the session, or none was reached.
    pub(super) fn end_farewell(&mut self, result: &Result<(), Error>) {
        if let Err(why) = result {
            self.states.untold(why.clone());
        }
        for waiter in self.farewell.take().into_iter().flat_map(|farewell| farewell.waiters) {
            // A failure means that the caller no longer waits.
            drop(waiter.send(result.clone()));
        }
        self.forget_connection(&Error::SessionExpired { sent: true });
        self.phase = SessionPhase::Ended(SessionState::Expired(ExpiredBy::Clock));
        self.effects.push_back(SessionEffect::Done);
    }

    /// Counts all sent requests as unanswered, even those that the driver had not written yet: the
    /// client does not know how much of them has left.
    fn forget_connection(&mut self, unanswered: &Error) {
        self.effects.push_back(SessionEffect::Disconnect);
        self.out.clear();
        self.skipping = 0;
        self.attempts.clear();
        self.peer = None;
        self.rearming.clear();
        self.pings.clear();
        let is_over = matches!(self.phase, SessionPhase::Ended(_));
        self.watches.disconnected(is_over);
        self.auth.reset();
        self.has_moved = false;
        let blamed = self.blamed.take();
        for RequestInFlight { xid, what, length, .. } in std::mem::take(&mut self.in_flight) {
            let SentRequest::Request(submission) = what else { continue };
            let error = match blamed == Some(xid) {
                true => Error::LargeRequestLost { length },
                false => unanswered.clone(),
            };
            self.answers.push(submission.reply, Err(error));
        }
    }
}

/// Returns `true` if the other end has closed the connection.
fn is_by_peer(why: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        why.kind(),
        Kind::UnexpectedEof
            | Kind::ConnectionReset
            | Kind::ConnectionAborted
            | Kind::BrokenPipe
            | Kind::WriteZero
    )
}
