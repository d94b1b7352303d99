//! Sessions: ids, passwords, and expiry as data. Times are milliseconds since the server object was made.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use zk_curator_proto::records::PASSWORD_LEN;

use crate::member::MemberId;
use crate::watch::ConnectionId;

/// The lowest bit of the top byte of a session id, which names the server that opened it, from 1.
const SERVER_SHIFT: u32 = 56;

/// The deadline of a session that does not expire.
const NEVER: u64 = u64::MAX;

/// A connection of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) member: MemberId,
    pub(crate) connection: ConnectionId,
}

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    password: Bytes,
    /// How many sessions the server has opened, this one included.
    pub(crate) number: u64,
    /// Milliseconds, negotiated by the connection that attached last.
    pub(crate) timeout: u64,
    /// The connection it is attached to.
    pub(crate) connection: Option<Place>,
    /// The connection it was attached to last: what is still under way on an earlier one is refused, also when this one
    /// has ended.
    pub(crate) owner: Option<Place>,
    /// Whether it lives on this server only, and ends when the server stops being read-only.
    pub(crate) local: bool,
    /// When it expires: a multiple of the tick, or never.
    deadline: u64,
}

/// What is kept of a session when its server is saved.
#[derive(Debug, Clone)]
pub(crate) struct SavedSession {
    pub(crate) id: i64,
    pub(crate) password: Bytes,
    /// Milliseconds.
    pub(crate) timeout: u64,
    pub(crate) number: u64,
}

/// What is kept of the sessions when their server is saved.
#[derive(Debug, Clone)]
pub(crate) struct SavedSessions {
    pub(crate) next_id: i64,
    pub(crate) opened: u64,
    /// In the order of their ids.
    pub(crate) living: Vec<SavedSession>,
}

/// All sessions that live.
#[derive(Debug)]
pub(crate) struct Sessions {
    by_id: BTreeMap<i64, Session>,
    /// Sessions by deadline. Deadlines are rounded up to the tick, so that most packets move nothing.
    deadlines: BTreeMap<u64, BTreeSet<i64>>,
    next_id: i64,
    opened: u64,
    /// Milliseconds, at least one.
    tick: u64,
    passwords: fastrand::Rng,
}

impl Sessions {
    /// No sessions. `tick` in milliseconds; ids and passwords are random without a seed.
    pub(crate) fn new(tick: u64, seed: Option<u64>) -> Self {
        let mut passwords = seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        // Spread, so that two servers of one process rarely give the same id to two sessions.
        let next_id = i64::from(passwords.u32(..)) << 16;
        Self {
            by_id: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            next_id,
            opened: 0,
            tick: tick.max(1),
            passwords,
        }
    }

    /// Sessions that were saved: nobody is attached to them, and they have their whole timeout from `now` on.
    pub(crate) fn restored(tick: u64, seed: Option<u64>, saved: SavedSessions, now: u64) -> Self {
        let next_id = saved.next_id & ((1 << SERVER_SHIFT) - 1);
        let mut sessions = Self { next_id, opened: saved.opened, ..Self::new(tick, seed) };
        for SavedSession { id, password, timeout, number } in saved.living {
            let (connection, owner) = (None, None);
            let session =
                Session { password, number, timeout, connection, owner, local: false, deadline: NEVER };
            sessions.by_id.insert(id, session);
            sessions.touch(id, now);
        }
        sessions
    }

    /// What is to be kept: sessions that live on this server only end with it.
    pub(crate) fn saved(&self) -> SavedSessions {
        let global = self.iter().filter(|(_, session)| !session.local);
        let living = global.map(|(id, session)| SavedSession {
            id,
            password: session.password.clone(),
            timeout: session.timeout,
            number: session.number,
        });
        SavedSessions { next_id: self.next_id, opened: self.opened, living: living.collect() }
    }

    /// Opens a session; returns its id.
    pub(crate) fn create(&mut self, connection: Place, timeout: u64, local: bool, now: u64) -> i64 {
        let server = connection.member as i64 + 1;
        let id = server << SERVER_SHIFT | self.next_id;
        self.next_id += 1;
        self.opened += 1;
        let number = self.opened;
        let password: [u8; PASSWORD_LEN] = self.passwords.u128(..).to_be_bytes();
        let deadline = self.round(now + timeout);
        let password = Bytes::copy_from_slice(&password);
        let owner = Some(connection);
        let session = Session { password, number, timeout, connection: owner, owner, local, deadline };
        self.by_id.insert(id, session);
        self.deadlines.entry(deadline).or_default().insert(id);
        id
    }

    /// Attaches a session to another connection, if it lives and the password is right.
    pub(crate) fn reattach(
        &mut self,
        id: i64,
        password: &[u8],
        connection: Place,
        timeout: u64,
        now: u64,
    ) -> bool {
        let Some(session) = self.by_id.get_mut(&id).filter(|session| session.password == password) else {
            return false;
        };
        session.connection = Some(connection);
        session.owner = Some(connection);
        session.timeout = timeout;
        self.touch(id, now);
        true
    }

    /// The member that has opened a session.
    pub(crate) const fn home(id: i64) -> MemberId {
        (id.cast_unsigned() >> SERVER_SHIFT) as MemberId - 1
    }

    /// The session, if it lives.
    pub(crate) fn get(&self, id: i64) -> Option<&Session> {
        self.by_id.get(&id)
    }

    /// The password of a session.
    pub(crate) fn password(&self, id: i64) -> Option<Bytes> {
        self.by_id.get(&id).map(|session| session.password.clone())
    }

    /// Notes that the session has no connection any more, unless it has another one by now.
    pub(crate) fn detach(&mut self, id: i64, connection: Place) {
        if let Some(session) =
            self.by_id.get_mut(&id).filter(|session| session.connection == Some(connection))
        {
            session.connection = None;
        }
    }

    /// Notes a sign of life.
    pub(crate) fn touch(&mut self, id: i64, now: u64) {
        if let Some(session) = self.by_id.get(&id) {
            self.set_deadline(id, self.round(now + session.timeout));
        }
    }

    /// Forgets a session; whether it lived.
    pub(crate) fn remove(&mut self, id: i64) -> Option<Session> {
        let session = self.by_id.remove(&id)?;
        self.forget_deadline(id, session.deadline);
        Some(session)
    }

    /// When the next session expires unless it shows a sign of life.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.deadlines.keys().next().copied()
    }

    /// The sessions whose time is up, in the order of their deadlines.
    pub(crate) fn overdue(&self, now: u64) -> Vec<i64> {
        self.deadlines.range(..=now).flat_map(|(_, ids)| ids).copied().collect()
    }

    /// Gives sessions their whole timeout again: all, or those alone that live on this server only.
    pub(crate) fn renew(&mut self, only_local: bool, now: u64) {
        for id in self.ids(only_local) {
            self.touch(id, now);
        }
    }

    /// Keeps every session from expiring that is known to more than this server, until it is renewed.
    pub(crate) fn suspend_global(&mut self) {
        for id in self.ids(false) {
            if self.by_id.get(&id).is_some_and(|session| !session.local) {
                self.set_deadline(id, NEVER);
            }
        }
    }

    /// The sessions, or those alone that live on this server only.
    pub(crate) fn ids(&self, only_local: bool) -> Vec<i64> {
        self.iter().filter(|(_, session)| session.local || !only_local).map(|(id, _)| id).collect()
    }

    /// The sessions by the time they expire, in milliseconds since the server was made.
    pub(crate) fn by_deadline(&self) -> impl Iterator<Item = (u64, &BTreeSet<i64>)> {
        self.deadlines.iter().map(|(deadline, ids)| (*deadline, ids))
    }

    /// Puts every deadline off, because time stood still for the server.
    pub(crate) fn postpone(&mut self, millis: u64) {
        let deadlines: Vec<_> = self.by_id.iter().map(|(id, session)| (*id, session.deadline)).collect();
        for (id, deadline) in deadlines {
            if deadline != NEVER {
                self.set_deadline(id, (deadline + millis).next_multiple_of(self.tick));
            }
        }
    }

    /// Every session with its id, sorted.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, &Session)> {
        self.by_id.iter().map(|(id, session)| (*id, session))
    }

    const fn round(&self, time: u64) -> u64 {
        (time / self.tick + 1) * self.tick
    }

    fn set_deadline(&mut self, id: i64, deadline: u64) {
        let Some(session) = self.by_id.get_mut(&id) else {
            return;
        };
        let before = std::mem::replace(&mut session.deadline, deadline);
        if before != deadline {
            self.forget_deadline(id, before);
            if deadline == NEVER {
                return;
            }
            self.deadlines.entry(deadline).or_default().insert(id);
        }
    }

    fn forget_deadline(&mut self, id: i64, deadline: u64) {
        if let Some(ids) = self.deadlines.get_mut(&deadline) {
            ids.remove(&id);
            if ids.is_empty() {
                self.deadlines.remove(&deadline);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(connection: ConnectionId) -> Place {
        Place { member: 0, connection }
    }

    #[test]
    fn a_session_expires_at_the_first_tick_after_its_timeout() {
        let mut sessions = Sessions::new(10, None);
        let id = sessions.create(at(1), 25, false, 0);
        assert_eq!(sessions.next_deadline(), Some(30));
        assert!(sessions.overdue(29).is_empty());
        assert_eq!(sessions.overdue(30), [id]);
        sessions.touch(id, 29);
        assert!(sessions.overdue(59).is_empty());
        assert_eq!(sessions.overdue(60), [id]);
        assert!(sessions.remove(id).is_some());
        assert_eq!(sessions.next_deadline(), None);
    }

    #[test]
    fn only_the_right_password_takes_a_session_up_again() {
        let mut sessions = Sessions::new(10, None);
        let id = sessions.create(at(1), 100, false, 0);
        let password = sessions.password(id).unwrap();
        assert!(!sessions.reattach(id, &[0; 16], at(2), 100, 0));
        assert!(!sessions.reattach(id + 1, &password, at(2), 100, 0));
        assert!(sessions.reattach(id, &password, at(2), 50, 0));
        assert_eq!(sessions.get(id).map(|s| (s.connection, s.timeout)), Some((Some(at(2)), 50)));
        assert_eq!(sessions.next_deadline(), Some(60));
    }

    #[test]
    fn a_connection_that_was_replaced_detaches_nothing() {
        let mut sessions = Sessions::new(10, None);
        let id = sessions.create(at(1), 100, false, 0);
        let password = sessions.password(id).unwrap();
        assert!(sessions.reattach(id, &password, at(2), 100, 0));
        sessions.detach(id, at(1));
        assert_eq!(sessions.get(id).and_then(|s| s.connection), Some(at(2)));
        sessions.detach(id, at(2));
        assert_eq!(sessions.get(id).and_then(|s| s.connection), None);
    }

    #[test]
    fn time_that_stood_still_does_not_count() {
        let mut sessions = Sessions::new(10, None);
        let id = sessions.create(at(1), 25, false, 0);
        sessions.postpone(1000);
        assert!(sessions.overdue(1029).is_empty());
        assert_eq!(sessions.overdue(1030), [id]);
        sessions.renew(false, 2000);
        assert_eq!(sessions.next_deadline(), Some(2030));
    }

    #[test]
    fn suspended_sessions_do_not_expire_until_renewed() {
        let mut sessions = Sessions::new(10, None);
        let (global, local) = (sessions.create(at(1), 25, false, 0), sessions.create(at(2), 25, true, 0));
        sessions.suspend_global();
        assert_eq!(sessions.overdue(u64::MAX), [local]);
        sessions.postpone(100);
        sessions.renew(true, 100);
        assert_eq!(sessions.overdue(u64::MAX - 1), [local]);
        sessions.renew(false, 100);
        assert_eq!(sessions.overdue(130), [global, local]);
    }

    #[test]
    fn a_session_names_the_server_that_opened_it() {
        let mut sessions = Sessions::new(10, None);
        for member in [0, 2, 199] {
            let id = sessions.create(Place { member, connection: 1 }, 100, false, 0);
            assert_eq!(Sessions::home(id), member);
        }
    }
}
