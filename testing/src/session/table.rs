//! [`Sessions`]: ids, passwords, and expiry as data.
//!
//! Times are milliseconds since the server was created.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use zk_curator_proto::records::PASSWORD_LEN;

use super::deadlines::{Deadlines, NEVER};
use super::record::{SavedSession, SavedSessions, Session};
use crate::ids::{MemberId, Place};

/// The lowest bit of the top byte of a session id, which names the server that opened it, from 1.
const SERVER_SHIFT: u32 = 56;

/// All open sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    by_id: BTreeMap<i64, Session>,
    deadlines: Deadlines,
    next_id: i64,
    opened: u64,
    passwords: fastrand::Rng,
}

impl Sessions {
    /// Creates an empty table. `tick` is in milliseconds; ids and passwords are random without a
    /// seed.
    pub(crate) fn new(tick: u64, seed: Option<u64>) -> Self {
        let mut passwords = seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        // The ids are random, so two servers of one process rarely use the same id.
        let next_id = i64::from(passwords.u32(..)) << 16;
        Self {
            by_id: BTreeMap::new(),
            deadlines: Deadlines::new(tick),
            next_id,
            opened: 0,
            passwords,
        }
    }

    /// Creates a table of saved sessions, without connections and with their full timeout from
    /// `now` on.
    pub(crate) fn restored(tick: u64, seed: Option<u64>, saved: SavedSessions, now: u64) -> Self {
        let next_id = saved.next_id & ((1 << SERVER_SHIFT) - 1);
        let mut sessions = Self { next_id, opened: saved.opened, ..Self::new(tick, seed) };
        for SavedSession { id, password, timeout, number } in saved.living {
            let (connection, owner) = (None, None);
            let session = Session {
                password,
                number,
                timeout,
                connection,
                owner,
                local: false,
                deadline: NEVER,
            };
            sessions.by_id.insert(id, session);
            sessions.touch(id, now);
        }
        sessions
    }

    /// Returns the sessions to save; local sessions end with their server.
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
        let deadline = self.deadlines.after(now + timeout);
        let password = Bytes::copy_from_slice(&password);
        let owner = Some(connection);
        let session =
            Session { password, number, timeout, connection: owner, owner, local, deadline };
        self.by_id.insert(id, session);
        self.deadlines.insert(id, deadline);
        id
    }

    /// Attaches a session to another connection; returns `true` if it exists and the password is
    /// right.
    pub(crate) fn reattach(
        &mut self,
        id: i64,
        password: &[u8],
        connection: Place,
        timeout: u64,
        now: u64,
    ) -> bool {
        let Some(session) = self.by_id.get_mut(&id).filter(|session| session.password == password)
        else {
            return false;
        };
        session.connection = Some(connection);
        session.owner = Some(connection);
        session.timeout = timeout;
        self.touch(id, now);
        true
    }

    /// Returns the number of a session; zero if it is not open.
    pub(crate) fn number(&self, id: i64) -> u64 {
        self.get(id).map_or(0, Session::number)
    }

    /// Returns the member that opened a session.
    pub(crate) const fn home(id: i64) -> MemberId {
        (id.cast_unsigned() >> SERVER_SHIFT) as MemberId - 1
    }

    /// Returns a session, if it is open.
    pub(crate) fn get(&self, id: i64) -> Option<&Session> {
        self.by_id.get(&id)
    }

    /// Returns the password of a session.
    pub(crate) fn password(&self, id: i64) -> Option<Bytes> {
        self.by_id.get(&id).map(|session| session.password.clone())
    }

    /// Detaches a session from a connection, unless it is attached to another one.
    pub(crate) fn detach(&mut self, id: i64, connection: Place) {
        if let Some(session) =
            self.by_id.get_mut(&id).filter(|session| session.connection == Some(connection))
        {
            session.connection = None;
        }
    }

    /// Extends the deadline of a session.
    pub(crate) fn touch(&mut self, id: i64, now: u64) {
        if let Some(session) = self.by_id.get(&id) {
            self.set_deadline(id, self.deadlines.after(now + session.timeout));
        }
    }

    /// Removes the local sessions of a member.
    pub(crate) fn remove_local(&mut self, member: MemberId) {
        for id in self.ids(true) {
            if Self::home(id) == member {
                self.remove(id);
            }
        }
    }

    /// Removes a session and returns it, if it was open.
    pub(crate) fn remove(&mut self, id: i64) -> Option<Session> {
        let session = self.by_id.remove(&id)?;
        self.deadlines.remove(id, session.deadline);
        Some(session)
    }

    /// Returns the next deadline.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.deadlines.next()
    }

    /// Returns the overdue sessions, in the order of deadlines.
    pub(crate) fn overdue(&self, now: u64) -> Vec<i64> {
        self.deadlines.until(now).collect()
    }

    /// Gives all sessions, or the local ones, their full timeout again.
    pub(crate) fn renew(&mut self, only_local: bool, now: u64) {
        for id in self.ids(only_local) {
            self.touch(id, now);
        }
    }

    /// Keeps sessions that are not local from expiring until they are renewed.
    pub(crate) fn suspend_global(&mut self) {
        for id in self.ids(false) {
            if self.by_id.get(&id).is_some_and(|session| !session.local) {
                self.set_deadline(id, NEVER);
            }
        }
    }

    /// Returns the ids of all sessions, or of the local ones.
    pub(crate) fn ids(&self, only_local: bool) -> Vec<i64> {
        self.iter().filter(|(_, session)| session.local || !only_local).map(|(id, _)| id).collect()
    }

    /// Returns the sessions by deadline, in milliseconds since the server was created.
    pub(crate) fn by_deadline(&self) -> impl Iterator<Item = (u64, &BTreeSet<i64>)> {
        self.deadlines.iter()
    }

    /// Postpones every deadline by the time that the server was held.
    pub(crate) fn postpone(&mut self, millis: u64) {
        let deadlines: Vec<_> =
            self.by_id.iter().map(|(id, session)| (*id, session.deadline)).collect();
        for (id, deadline) in deadlines {
            if deadline != NEVER {
                self.set_deadline(id, self.deadlines.not_before(deadline + millis));
            }
        }
    }

    /// Returns every session with its id, sorted.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, &Session)> {
        self.by_id.iter().map(|(id, session)| (*id, session))
    }

    fn set_deadline(&mut self, id: i64, deadline: u64) {
        let Some(session) = self.by_id.get_mut(&id) else {
            return;
        };
        let before = std::mem::replace(&mut session.deadline, deadline);
        if before != deadline {
            self.deadlines.remove(id, before);
            self.deadlines.insert(id, deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ConnectionId;

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
        let (global, local) =
            (sessions.create(at(1), 25, false, 0), sessions.create(at(2), 25, true, 0));
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
