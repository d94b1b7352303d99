//! The timers of the machine, and the lifetime of its session.

use std::io;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;
use zk_curator_proto::{Request, XID_PING};

use super::{GrantedSession, LATE, LONGEST_UNASKED, SessionEffect, SessionMachine, SessionPhase};
use crate::connector::STALLED;
use crate::session::SessionState;
use crate::{DisconnectedPolicy, Error};

/// The longest interval between two pings, however long the session timeout is.
const LONGEST_PING_INTERVAL: Duration = Duration::from_secs(10);
/// The number of attempts to connect for which there must be time before the session is lost.
const FEWEST_ATTEMPTS: u32 = 3;
/// The first pause before a client of a read-only server searches for a writable one. It doubles
/// after every round over the other servers.
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// The longest such pause.
const LONGEST_LOOK: Duration = Duration::from_secs(60);
/// The shortest time limit of an attempt to connect while there is no session to lose, however
/// short the session timeout is, and however many hosts there are.
const SHORTEST_FIRST_ATTEMPT: Duration = Duration::from_secs(1);

impl SessionMachine {
    /// Returns the time at which [`SessionMachine::on_timer`] is due.
    pub(in crate::session) fn next_timer(&self) -> Option<Instant> {
        let phase = match self.phase {
            SessionPhase::Waiting { until } => Some(until),
            SessionPhase::Connecting { next } => {
                self.attempts.iter().map(|attempt| attempt.deadline).chain([next]).min()
            }
            SessionPhase::Asking { deadline }
            | SessionPhase::Preparing { deadline }
            | SessionPhase::Proving { deadline }
            | SessionPhase::Handshaking { deadline, .. }
            | SessionPhase::Rejecting { deadline }
            | SessionPhase::Authenticating { deadline, .. } => Some(deadline),
            SessionPhase::Connected => {
                Some((self.times.last_sent + self.ping_interval()).min(self.silent_at()))
            }
            SessionPhase::Ended(_) => return None,
        };
        let queued = self.queued.first_key_value().map(|(_, queued)| queued.deadline);
        let closing = self.closing.as_ref().map(|closing| closing.deadline);
        let farewell = self.farewell.as_ref().map(|farewell| farewell.deadline);
        let look = (self.phase == SessionPhase::Connected && self.reach.read_only)
            .then_some(self.reach.look_at);
        [phase, queued, closing, farewell, look, self.reach.deadline, self.expires_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Notes that the driver runs again, before it passes on any input. If this is long after the
    /// time at which it should have run, the process was stopped, or a task has blocked the threads
    /// of the runtime. A failure after that is not the fault of a server.
    pub(in crate::session) fn on_wake(&mut self, now: Instant) {
        let late =
            self.next_timer().map_or(Duration::ZERO, |due| now.saturating_duration_since(due));
        if late >= self.judged_timeout() / LATE
            && self.stalled(now).is_none_or(|before| before <= late)
        {
            self.times.late = Some((now, late));
        }
    }

    /// Returns the least time for which the driver did not run, if that may be why there was no
    /// response.
    pub(super) fn stalled(&self, now: Instant) -> Option<Duration> {
        let (noticed, late) = self.times.late?;
        (now.saturating_duration_since(noticed) < self.silence_limit()).then_some(late)
    }

    /// Handles the passing of time.
    pub(in crate::session) fn on_timer(&mut self, now: Instant) {
        if self.closing.as_ref().is_some_and(|closing| closing.deadline <= now) {
            return self.end(SessionState::Closed);
        }
        if self.farewell.as_ref().is_some_and(|farewell| farewell.deadline <= now) {
            return self.end_farewell(&Err(Error::ConnectionLoss { sent: false }));
        }
        if self.reach.deadline.is_some_and(|deadline| deadline <= now) {
            return self.end(SessionState::Unreachable);
        }
        if self.expires_at().is_some_and(|deadline| deadline <= now) {
            match self.stalled(now) {
                Some(late) => {
                    warn!(
                        "this process did not run for {late:.1?}, and may have lost its session: {STALLED}"
                    );
                }
                None => warn!("no server responded for the session timeout"),
            }
            return self.expire_by_clock(now);
        }
        while let Some(queued) =
            self.queued.first_entry().filter(|queued| queued.get().deadline <= now)
        {
            self.answers.push(queued.remove().submission.reply, Err(Error::NotConnected));
        }
        self.detach_if_done();
        self.on_phase_timer(now);
    }

    fn on_phase_timer(&mut self, now: Instant) {
        match self.phase {
            SessionPhase::Waiting { until } if until <= now => self.attempt(now),
            SessionPhase::Connecting { next } => {
                while let Some(late) = self.attempts.iter().find(|attempt| attempt.deadline <= now)
                {
                    let host = late.host.clone();
                    self.effects.push_back(SessionEffect::Abandon(host.clone()));
                    self.on_attempt_failed(&host, io::ErrorKind::TimedOut.into(), now);
                }
                if next <= now && matches!(self.phase, SessionPhase::Connecting { .. }) {
                    self.attempt(now);
                }
            }
            SessionPhase::Asking { deadline } if deadline <= now => {
                self.disconnect(now, "the credentials provider did not respond in time");
            }
            SessionPhase::Preparing { deadline } | SessionPhase::Proving { deadline }
                if deadline <= now =>
            {
                self.on_late_work(now);
            }
            SessionPhase::Rejecting { deadline } if deadline <= now => self.not_resumed(now),
            SessionPhase::Handshaking { deadline, .. }
            | SessionPhase::Authenticating { deadline, .. }
                if deadline <= now =>
            {
                self.disconnect(now, "no response to the connection attempt");
            }
            SessionPhase::Connected if self.silent_at() <= now => {
                let stalled = self.stalled(now).is_some();
                self.disconnect(
                    now,
                    if stalled { "no response was read in time" } else { "the server is silent" },
                );
            }
            SessionPhase::Connected if self.reach.read_only && self.reach.look_at <= now => {
                self.look(now);
            }
            SessionPhase::Connected if self.times.last_sent + self.ping_interval() <= now => {
                self.pings.push_back(now);
                self.put_request(XID_PING, &Request::Ping, now);
            }
            _ => {}
        }
    }

    /// Looks for a writable server.
    fn look(&mut self, now: Instant) {
        let host = self.hosts.other(self.reach.looks);
        self.reach.looks = self.reach.looks.saturating_add(1);
        let others = u32::try_from(self.hosts.len().saturating_sub(1)).unwrap_or(u32::MAX).max(1);
        let round = self.reach.looks / others;
        let pause = FIRST_LOOK.saturating_mul(1 << round.min(16)).min(LONGEST_LOOK);
        self.reach.look_at = now + pause;
        self.effects.push_back(SessionEffect::Look(host));
    }

    /// Returns the time at which the session must be considered expired. This happens only without
    /// a connection, and no later than the server expires it.
    pub(super) fn expires_at(&self) -> Option<Instant> {
        match (&self.session, self.phase) {
            (_, SessionPhase::Ended(_)) | (None, _) => None,
            _ if self.farewell.is_some() => None,
            (Some(_), _) if self.is_kept_alive() => None,
            (Some(session), _) => Some(self.certain_until(session)),
        }
    }

    /// Returns `true` if there is a connection that keeps the session alive. A connection to a
    /// read-only server does not, because that server does not notify the ensemble.
    pub(super) fn is_kept_alive(&self) -> bool {
        self.phase == SessionPhase::Connected && !(self.reach.read_only && self.reach.of_ensemble)
    }

    /// Returns the time until which the server cannot have expired the session, and this client
    /// does not give it up either.
    pub(super) fn certain_until(&self, session: &GrantedSession) -> Instant {
        let timeout = session.info.timeout;
        let expires = self.times.seen_alive + timeout;
        if self.expiration_percent >= 100 || self.is_kept_alive() {
            return expires;
        }
        expires
            .min(self.times.lost_at + timeout.mul_f64(f64::from(self.expiration_percent) / 100.0))
    }

    /// Publishes the time until which the session is certain, for clients that check it themselves.
    pub(super) fn publish_validity(&self) {
        if self.farewell.is_none() && !matches!(self.phase, SessionPhase::Ended(_)) {
            self.states
                .valid_until(self.session.as_ref().map(|session| self.certain_until(session)));
        }
    }

    pub(super) fn timeout(&self) -> Duration {
        self.session.as_ref().map_or(self.requested_timeout, |session| session.info.timeout)
    }

    /// Returns the session timeout by which the silence of a server is judged. The servers decide
    /// how long the session lives.
    pub(super) fn judged_timeout(&self) -> Duration {
        self.timeout().min(self.requested_timeout.max(LONGEST_UNASKED))
    }

    /// Returns the time limit of an attempt to connect. A single server that accepts a connection
    /// and is then silent, for example while it starts, must not cost the session.
    pub(super) fn attempt_limit(&self) -> Duration {
        let attempts = u32::try_from(self.hosts.len()).unwrap_or(u32::MAX).max(FEWEST_ATTEMPTS);
        let share = self.judged_timeout() / attempts;
        let share = match self.disconnected {
            // Requests that wait for a connection should reach more than one server. If all servers
            // need longer, the limit doubles after every round.
            DisconnectedPolicy::Wait(patience) => {
                let first = (patience / attempts).max(SHORTEST_FIRST_ATTEMPT);
                share.min(first.saturating_mul(1 << self.hosts.failed_rounds().min(16)))
            }
            DisconnectedPolicy::FailFast => share,
        };
        if self.session.is_none() { share.max(SHORTEST_FIRST_ATTEMPT) } else { share }
    }

    pub(super) fn ping_interval(&self) -> Duration {
        (self.judged_timeout() / 3).min(LONGEST_PING_INTERVAL)
    }

    /// Returns the time at which a connection without further responses is closed. A delayed
    /// response proves only that the server received our request when we sent it. The server counts
    /// from then on, and may expire the session before any other input reaches us. Another
    /// connection, which has no backlog, may still save the session. A read-only server never keeps
    /// a session alive.
    pub(super) fn silent_at(&self) -> Instant {
        let silent = self.times.last_response + self.silence_limit();
        if self.reach.read_only {
            silent
        } else {
            silent.min(self.times.seen_alive + self.timeout() / 6 * 5)
        }
    }

    pub(super) fn silence_limit(&self) -> Duration {
        self.judged_timeout() * 2 / 3
    }
}
