//! The sessions of users who have signed in.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator::internal::Locked;

use super::keys::{ClientId, Keys, random_token};

/// The open sessions: at most a given number, each for a given time from its beginning.
///
/// It keeps codes of the ids only, so the memory of the process contains no cookie for long.
pub(crate) struct Sessions {
    keys: Keys,
    most: usize,
    lasting: Duration,
    open: Locked<BTreeMap<[u8; 32], OpenSession>>,
}

#[derive(Debug)]
struct OpenSession {
    user: Arc<str>,
    /// The session with ZooKeeper, if each user has one.
    client: Option<ClientId>,
    ends: Instant,
}

impl Sessions {
    /// `lasting` is bounded by the [limits](crate::Limits::sessions): the clock cannot add every
    /// time.
    pub(crate) fn new(keys: Keys, most: usize, lasting: Duration) -> Self {
        Self { keys, most: most.max(1), lasting, open: Locked::default() }
    }

    /// Opens a session and returns its id. If there are too many, the one that ends first of the
    /// user with the most sessions is closed.
    pub(crate) fn open(&self, user: Arc<str>, client: Option<ClientId>) -> String {
        let id = random_token();
        let now = Instant::now();
        let mut open = self.open.lock();
        open.retain(|_, session| session.ends > now);
        while open.len() >= self.most {
            let sessions = open.iter().map(|(id, session)| (*id, &*session.user, session.ends));
            match excess(sessions) {
                Some(first) => drop(open.remove(&first)),
                None => break,
            }
        }
        open.insert(self.code(&id), OpenSession { user, client, ends: now + self.lasting });
        id
    }

    /// Returns the user of an open session.
    pub(crate) fn user_of(&self, id: &str) -> Option<Arc<str>> {
        let open = self.open.lock();
        let session = open.get(&self.code(id))?;
        (session.ends > Instant::now()).then(|| Arc::clone(&session.user))
    }

    /// Returns the session with ZooKeeper of an open session.
    pub(crate) fn client_of(&self, id: &str) -> Option<ClientId> {
        self.open.lock().get(&self.code(id))?.client
    }

    /// Closes a session. Returns its session with ZooKeeper, if no other one has it.
    pub(crate) fn close(&self, id: &str) -> Option<ClientId> {
        let mut open = self.open.lock();
        let client = open.remove(&self.code(id))?.client?;
        open.values().all(|other| other.client != Some(client)).then_some(client)
    }

    fn code(&self, id: &str) -> [u8; 32] {
        self.keys.code("session", id.as_bytes())
    }
}

/// Returns the one of too many entries that is closed: the first one of the user who has the most.
/// So no user can close the entries of the others by opening many. Each entry has its id, its user
/// and the time by which the first one is found.
pub(crate) fn excess<'a, Id, T: Copy + Ord>(
    entries: impl Iterator<Item = (Id, &'a str, T)>,
) -> Option<Id> {
    let entries: Vec<_> = entries.collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, user, _) in &entries {
        *counts.entry(*user).or_default() += 1;
    }
    let place = |(_, user, time): &(Id, &str, T)| (Reverse(counts.get(*user).copied()), *time);
    entries.into_iter().min_by_key(place).map(|(id, ..)| id)
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("open", &self.open.lock().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use zk_curator_testing::{paused, wait};

    use super::*;

    #[test]
    fn a_session_ends_after_its_time() {
        paused(async {
            let sessions = Sessions::new(Keys::random(), 2, Duration::from_secs(60));
            let id = sessions.open("ann".into(), None);
            assert_eq!(sessions.user_of(&id).as_deref(), Some("ann"));
            assert_eq!(sessions.user_of("other"), None);
            wait::past(Duration::from_secs(61)).await;
            assert_eq!(sessions.user_of(&id), None);
        });
    }

    #[test]
    fn the_number_of_sessions_is_bounded() {
        paused(async {
            let sessions = Sessions::new(Keys::random(), 2, Duration::from_secs(60));
            let mut ids = Vec::new();
            for user in ["a", "b", "c"] {
                ids.push(sessions.open(user.into(), None));
                wait::past(Duration::from_secs(1)).await;
            }
            let users: Vec<_> = ids.iter().map(|id| sessions.user_of(id)).collect();
            assert_eq!(users, [None, Some("b".into()), Some("c".into())]);
            assert_eq!(sessions.close(&ids[2]), None);
            assert_eq!(sessions.user_of(&ids[2]), None);
        });
    }

    #[test]
    fn no_user_closes_the_sessions_of_others() {
        paused(async {
            let sessions = Sessions::new(Keys::random(), 3, Duration::from_secs(60));
            let ann = sessions.open("ann".into(), None);
            let mut bob = Vec::new();
            for _ in 0..9 {
                wait::past(Duration::from_secs(1)).await;
                bob.push(sessions.open("bob".into(), None));
            }
            assert_eq!(sessions.user_of(&ann).as_deref(), Some("ann"));
            let open: Vec<_> = bob.iter().filter(|id| sessions.user_of(id).is_some()).collect();
            assert_eq!(open, [&bob[7], &bob[8]]);
        });
    }

    #[test]
    fn the_last_session_of_a_client_names_it() {
        paused(async {
            let keys = Keys::random();
            let client = Some(keys.client_id("ann", "x:y"));
            let sessions = Sessions::new(keys, 9, Duration::from_secs(60));
            let (one, two) =
                (sessions.open("ann".into(), client), sessions.open("ann".into(), client));
            assert_eq!(sessions.client_of(&one), client);
            assert_eq!((sessions.close(&one), sessions.client_of(&one)), (None, None));
            assert_eq!(sessions.close(&two), client);
        });
    }
}
