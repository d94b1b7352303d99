use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use zk_curator::{CuratorFramework, ErrorKind};

use super::machine;
use super::settle::{ConditionalWrite, PartyTransaction};
use super::{DONE, Error, Form, Outcome, Vote};

/// A site that takes part in a transaction: votes once, learns the decision, and says when it
/// is done with it.
///
/// # Cancel safety
/// Dropping it changes nothing: a vote that was cast is a promise and stands. It can
/// [`join`](Self::join) again.
pub struct Site {
    transaction: PartyTransaction,
    site: usize,
    due: Instant,
    outcome: Option<Outcome>,
}

impl Site {
    /// Joins a transaction as one of its sites, also after a crash, whatever has happened
    /// in between. One site must be one process at a time.
    ///
    /// The deadline is counted from now.
    ///
    /// # Errors
    /// * [`Error::Gone`] if the transaction does not exist yet, or no longer exists.
    /// * [`Error::NotASite`], [`Error::NotATransaction`].
    /// * [`Error::Framework`] as a read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn join(
        zk: &CuratorFramework,
        path: impl Into<String>,
        site: impl Into<String>,
    ) -> Result<Self, Error> {
        let (path, site) = (path.into(), site.into());
        let (mut transaction, mut outcome) = PartyTransaction::read("join", zk, &path).await?;
        let Some(index) = transaction.record.sites.iter().position(|other| *other == site) else {
            return Err(Error::NotASite { path, site });
        };
        let due = transaction.record.due();
        if transaction.record.form == Form::Symmetric && outcome.is_none() {
            // As in the recipe: every site reads every vote and leaves a watch, and votes then.
            outcome = transaction.look(true).await?;
        }
        Ok(Self { transaction, site: index, due, outcome })
    }

    /// The path of the transaction.
    #[must_use]
    pub fn path(&self) -> &str {
        self.transaction.path.as_str()
    }

    /// The name of this site.
    #[must_use]
    pub fn site(&self) -> &str {
        &self.transaction.record.sites[self.site]
    }

    /// All sites, in the order of the coordinator.
    #[must_use]
    pub fn sites(&self) -> &[String] {
        &self.transaction.record.sites
    }

    /// The payload of the transaction.
    #[must_use]
    pub const fn payload(&self) -> &Bytes {
        &self.transaction.record.payload
    }

    /// The form of the protocol.
    #[must_use]
    pub const fn form(&self) -> Form {
        self.transaction.record.form
    }

    /// Returns the time for which every party waits for votes.
    #[must_use]
    pub const fn deadline(&self) -> Duration {
        self.transaction.record.deadline
    }

    /// Casts the vote. To vote [`Commit`](Vote::Commit) is to promise that whatever is needed for
    /// it will not fail, also after a crash, until the outcome is known. The first vote to abort
    /// decides.
    ///
    /// To cast the same vote again is no error, as long as nothing is decided.
    ///
    /// # Errors
    /// * [`Error::Late`] when it was decided before; the vote does not count.
    /// * [`Error::AlreadyCast`] when this site has voted otherwise, here or before a crash.
    /// * [`Error::Gone`]; [`Error::Framework`] as a write; then the vote may be cast.
    ///
    /// # Cancel safety
    /// Once polled, the vote may be cast.
    pub async fn vote(&mut self, vote: Vote) -> Result<(), Error> {
        let form = self.form();
        let mut changes = machine::vote(form, self.site, vote);
        let mut unknown = None;
        for round in PartyTransaction::rounds() {
            let written = self.transaction.write("vote", &changes).await;
            match written.map_err(|error| error.or_unknown(unknown.as_ref()))? {
                ConditionalWrite::Done => break,
                ConditionalWrite::Look(error) if round == *PartyTransaction::rounds().end() => {
                    return Err(error.into());
                }
                ConditionalWrite::Look(error) => unknown = Some(error),
            }
            let cast = self.cast().await.map_err(|error| error.or_unknown(unknown.as_ref()))?;
            // Check afterwards: if the transaction still exists, the vote that was read belongs to
            // it.
            let decision = self.transaction.decision_now().await;
            let decision = decision.map_err(|error| error.or_unknown(unknown.as_ref()))?;
            match cast {
                Some((cast, is_ours)) if cast == vote => {
                    if is_ours {
                        break;
                    }
                    // Of an earlier session, with which it would end.
                    changes = machine::renew(self.site, vote);
                }
                Some((cast, _)) => {
                    return Err(Error::AlreadyCast { path: self.path().to_owned(), vote: cast });
                }
                None => changes = machine::vote(form, self.site, vote),
            }
            if let Some(outcome) = decision {
                self.outcome = Some(outcome);
                return Err(Error::Late { path: self.path().to_owned(), outcome });
            }
        }
        if vote == Vote::Abort {
            self.outcome = Some(Outcome::Aborted);
        }
        Ok(())
    }

    /// The vote that this site has cast, here or before a crash; `None` also when it has
    /// acknowledged the outcome.
    ///
    /// # Errors
    /// * [`Error::Gone`] when the transaction has been removed.
    /// * [`Error::Framework`] as a read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn vote_cast(&self) -> Result<Option<Vote>, Error> {
        let cast = self.cast().await?;
        self.transaction.decision_now().await?;
        Ok(cast.map(|(vote, _)| vote))
    }

    /// Returns the vote that was cast, and `true` if it lasts as long as our session, or longer.
    async fn cast(&self) -> Result<Option<(Vote, bool)>, Error> {
        let zk = &self.transaction.zk;
        // A vote whose response was lost, or that was cast before a crash, is counted also where
        // this server does not show it yet.
        let read = zk.get_data(self.transaction.site(self.site)).with_stat().linearizable();
        let (data, stat) = match read.await {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let session = zk.session().map_or(0, |session| session.id.get());
        let is_ours = !stat.is_ephemeral() || stat.ephemeral_owner == session;
        Ok(Vote::parse(&data).map(|vote| (vote, is_ours)))
    }

    /// Waits for the decision, however long it takes; it takes no longer than the deadline while
    /// servers can be reached, because any party that finds it passed decides, including this site.
    ///
    /// # Errors
    /// * [`Error::Gone`] when the transaction has been removed by force.
    /// * [`Error::Framework`] when an operation fails for longer than the retry policy allows; call
    ///   it again.
    ///
    /// # Cancel safety
    /// Nothing is lost; a decision that is being written may be written.
    pub async fn outcome(&mut self) -> Result<Outcome, Error> {
        if let Some(outcome) = self.outcome {
            return Ok(outcome);
        }
        let watch_votes = self.form() == Form::Symmetric;
        let outcome = self.transaction.settle(watch_votes, self.due).await?;
        self.outcome = Some(outcome);
        Ok(outcome)
    }

    /// Says that this site has carried out the decision and needs the transaction no longer. When
    /// all sites have, it can be [cleaned up](super::Coordinator::clean_up).
    ///
    /// # Errors
    /// * [`Error::Undecided`] before the decision.
    /// * [`Error::Framework`] as a write; then it may be said.
    ///
    /// # Cancel safety
    /// Once polled, it may be said.
    pub async fn acknowledge(&mut self) -> Result<(), Error> {
        let transaction = &self.transaction;
        let form = self.form();
        let node = transaction.site(self.site);
        let mut there = form == Form::Ephemeral;
        // Of votes alone the node of the transaction may not know.
        let mut recorded = match (form, self.outcome) {
            (Form::Coordinated | Form::Ephemeral, Some(_)) => true,
            _ => match transaction.decision_now().await {
                Ok(decision) => {
                    self.outcome = self.outcome.or(decision);
                    decision.is_some()
                }
                Err(Error::Gone { .. }) => return Ok(()),
                Err(error) => return Err(error),
            },
        };
        let Some(outcome) = self.outcome else {
            return Err(Error::Undecided { path: self.path().to_owned() });
        };
        let mut unknown = None;
        for round in PartyTransaction::rounds() {
            let changes = machine::acknowledge(form, self.site, outcome, recorded, there);
            let written = transaction.write("acknowledge", &changes).await;
            match written.map_err(|error| error.or_unknown(unknown.as_ref()))? {
                ConditionalWrite::Done => break,
                ConditionalWrite::Look(error) if round == *PartyTransaction::rounds().end() => {
                    return Err(error.into());
                }
                ConditionalWrite::Look(error) => unknown = Some(error),
            }
            recorded = match transaction.decision_now().await {
                Ok(decision) => decision.is_some(),
                Err(Error::Gone { .. }) => return Ok(()),
                Err(error) => return Err(error.or_unknown(unknown.as_ref())),
            };
            there = match transaction.zk.get_data(node.as_str()).await {
                Ok(data) if data == DONE => break,
                Ok(_) => true,
                Err(error) if error.kind() == ErrorKind::NoNode => false,
                Err(error) => return Err(Error::from(error).or_unknown(unknown.as_ref())),
            };
        }
        Ok(())
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site")
            .field("path", &self.path())
            .field("site", &self.site())
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}
