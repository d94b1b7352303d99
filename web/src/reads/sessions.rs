//! The sessions that the servers know, read in the background for all pages.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::debug;
use zk_curator::CuratorFramework;
use zk_curator::internal::Signal;
use zk_curator_ops::ensemble::probe::ProbeOptions;
use zk_curator_ops::ensemble::sessions::{EnsembleSessions, sessions};
use zk_curator_ops::ensemble::{EnsembleProbe, ProbeNote};
use zk_curator_ops::holders::SessionFacts;

use crate::show::duration;

/// The age from which the sessions are read again, if a page asks for them.
const OLD: Duration = Duration::from_secs(5);
/// The time that a read may take in all.
const LONGEST: Duration = Duration::from_secs(10);

/// The last read of the sessions. At most one read is under way, and only while pages ask.
#[derive(Debug)]
pub(crate) struct SessionCache {
    zk: CuratorFramework,
    /// `None` if the servers are not asked.
    options: Option<ProbeOptions>,
    state: Signal<CacheState>,
}

#[derive(Debug, Clone, Default)]
struct CacheState {
    known: Option<(Arc<SessionFacts>, Instant)>,
    /// The time at which the last read began.
    begun: Option<Instant>,
    is_reading: bool,
}

/// The known sessions, and their age.
#[derive(Debug, Clone)]
pub(crate) struct KnownSessions {
    pub(crate) facts: Arc<SessionFacts>,
    /// The time since they were read; `None` if they were not.
    pub(crate) age: Option<Duration>,
    /// `true` if the settings allow to ask the servers.
    pub(crate) are_asked: bool,
}

impl KnownSessions {
    /// Returns a sentence about the age of the sessions.
    pub(crate) fn words(&self) -> String {
        match self.age {
            _ if !self.are_asked => {
                "The settings of this explorer do not let it ask the servers for their sessions."
                    .to_owned()
            }
            None => "The sessions are not known yet: the servers have not responded.".to_owned(),
            Some(age) => {
                format!("Sessions and addresses as the servers knew them {} ago.", duration(age))
            }
        }
    }
}

impl SessionCache {
    pub(crate) fn new(zk: CuratorFramework, options: Option<ProbeOptions>) -> Arc<Self> {
        Arc::new(Self { zk, options, state: Signal::default() })
    }

    /// Returns the sessions of the last read at once. Starts another one if it is old.
    pub(crate) fn present(self: &Arc<Self>) -> KnownSessions {
        self.refresh();
        let (facts, age) = match self.state.look(|state| state.known.clone()) {
            Some((facts, at)) => (facts, Some(at.elapsed())),
            None => (Arc::new(facts_of(&self.zk, EnsembleSessions::default())), None),
        };
        KnownSessions { facts, age, are_asked: self.options.is_some() }
    }

    /// Returns the sessions, and first waits for a read that is under way, at most for this time.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn recent(self: &Arc<Self>, within: Duration) -> KnownSessions {
        self.refresh();
        let read = self.state.until(|state| !state.is_reading);
        if timeout(within, read).await.is_err() {
            debug!("the sessions are not read yet: those of the read before are shown");
        }
        self.present()
    }

    /// Starts a read, unless one is under way or the last one is recent.
    fn refresh(self: &Arc<Self>) {
        let Some(options) = self.options.clone() else { return };
        let is_due = self.state.modify(|state| {
            let is_recent = state.begun.is_some_and(|begun| begun.elapsed() < OLD);
            let is_due = !state.is_reading && !is_recent;
            if is_due {
                state.is_reading = true;
                state.begun = Some(Instant::now());
            }
            is_due
        });
        if !is_due {
            return;
        }
        let (zk, cache) = (self.zk.clone(), Arc::clone(self));
        let read = async move { timeout(LONGEST, read(&zk, options)).await.ok() };
        // The end is also that of a task that panics, or whose runtime ends.
        self.zk.spawn_then(read, move |facts| {
            cache.state.modify(|state| {
                state.is_reading = false;
                if let Ok(Some(facts)) = facts {
                    state.known = Some((Arc::new(facts), Instant::now()));
                }
            });
        });
    }
}

async fn read(zk: &CuratorFramework, options: ProbeOptions) -> SessionFacts {
    let probe = EnsembleProbe::of(zk).with_options(options);
    let mut found = sessions(&probe).await.unwrap_or_else(|error| {
        let mut none = EnsembleSessions::default();
        none.notes.push(ProbeNote::NotAsked { error: Arc::new(error) });
        none
    });
    // Paths of ephemeral nodes are most of the response, and no page shows them.
    for session in found.by_id.values_mut() {
        session.ephemerals = Vec::new();
    }
    facts_of(zk, found)
}

fn facts_of(zk: &CuratorFramework, found: EnsembleSessions) -> SessionFacts {
    SessionFacts::of(found, zk.session().map(|session| session.id))
}
