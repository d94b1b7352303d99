use std::collections::BTreeSet;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::select_all;
use tokio::time::Instant;
use zk_curator::certain::Receipt;
use zk_curator::op::CreateOp;
use zk_curator::path::ZPath;
use zk_curator::watch::Watch;
use zk_curator::{CuratorFramework, ErrorCode, ErrorKind};

use super::inspect::remove;
use super::machine;
use super::record::{TransactionRecord, whole_millis};
use super::settle::PartyTransaction;
use super::{DONE, Error, Form, Outcome};

/// Begins a transaction, or takes over from a coordinator that is gone. Any number of coordinators
/// may work at the same time: they can only complete the outcome that the nodes of the transaction
/// determine.
///
/// # Cancel safety
/// Dropping it changes nothing: sites end the transaction at its deadline, and a new coordinator
/// can [resume](Self::resume) it.
pub struct Coordinator {
    transaction: PartyTransaction,
    due: Instant,
    outcome: Option<Outcome>,
}

/// Begins a transaction: see [`Coordinator::begin`].
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct Begin {
    zk: CuratorFramework,
    path: String,
    record: TransactionRecord,
}

impl Coordinator {
    /// Begins a transaction of these sites: creates all its nodes in one request. Missing parents
    /// are created as containers.
    ///
    /// **Awaiting returns** the `Coordinator`. Errors:
    /// * [`Error::Exists`] when there is a node at the path.
    /// * [`Error::NoSites`], [`Error::Duplicate`], [`Error::InvalidSite`].
    /// * [`Error::Framework`] as a create, or `TooLarge` when the payload is. The transaction has
    ///   begun only if it says [`may_have_applied`](zk_curator::Error::may_have_applied): the
    ///   response was lost, and then the session.
    ///
    /// A lost response is resolved by a [receipt](zk_curator::certain) below the parent: a
    /// transaction that sites have finished in between does not begin again.
    ///
    /// # Cancel safety
    /// Once polled, the transaction may have begun, with all its nodes.
    pub fn begin(
        zk: &CuratorFramework,
        path: impl Into<String>,
        sites: impl IntoIterator<Item = impl Into<String>>,
        payload: impl Into<Bytes>,
    ) -> Begin {
        let sites = sites.into_iter().map(Into::into).collect();
        let deadline = Begin::DEADLINE;
        let record = TransactionRecord {
            id: zk.new_guid(),
            form: Form::default(),
            deadline,
            sites,
            payload: payload.into(),
        };
        Begin { zk: zk.uncompressed(), path: path.into(), record }
    }

    /// Takes over a transaction that another coordinator has begun, in any state. The deadline is
    /// counted from now.
    ///
    /// # Errors
    /// * [`Error::Gone`] when there is no transaction, [`Error::NotATransaction`].
    /// * [`Error::Framework`] as a read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn resume(zk: &CuratorFramework, path: impl Into<String>) -> Result<Self, Error> {
        let (transaction, outcome) = PartyTransaction::read("resume", zk, &path.into()).await?;
        let due = transaction.record.due();
        Ok(Self { transaction, due, outcome })
    }

    /// The path of the transaction.
    #[must_use]
    pub fn path(&self) -> &str {
        self.transaction.path.as_str()
    }

    /// The sites.
    #[must_use]
    pub fn sites(&self) -> &[String] {
        &self.transaction.record.sites
    }

    /// The payload of the transaction.
    #[must_use]
    pub const fn payload(&self) -> &Bytes {
        &self.transaction.record.payload
    }

    /// Waits for the votes and decides: to commit when all sites have voted to, to abort at the
    /// first vote to abort, when the node of a site that has voted is gone ([`Form::Ephemeral`]),
    /// and at the deadline.
    ///
    /// # Errors
    /// * [`Error::Gone`] when the transaction has been removed.
    /// * [`Error::Framework`] when an operation fails for longer than the retry policy allows; call
    ///   it again.
    ///
    /// # Cancel safety
    /// Nothing is lost; a decision that is being written may be written.
    pub async fn outcome(&mut self) -> Result<Outcome, Error> {
        self.settle(self.due).await
    }

    /// Aborts if that is still possible, without waiting for votes. Returns the decision. It is
    /// [`Committed`](Outcome::Committed) when all sites have voted to commit.
    ///
    /// # Errors
    /// As [`outcome`](Self::outcome).
    ///
    /// # Cancel safety
    /// Once polled, the transaction may be aborted.
    pub async fn abort(&mut self) -> Result<Outcome, Error> {
        self.settle(Instant::now()).await
    }

    pub(super) const fn record(&self) -> &TransactionRecord {
        &self.transaction.record
    }

    async fn settle(&mut self, due: Instant) -> Result<Outcome, Error> {
        if let Some(outcome) = self.outcome {
            return Ok(outcome);
        }
        let outcome = self.transaction.settle(true, due).await?;
        if self.transaction.record.form == Form::Symmetric && outcome == Outcome::Committed {
            // The votes say it already; the node says it for later readers. If it is not
            // written now, the first site writes it that is done.
            self.transaction.write("decide", &[machine::record(outcome)]).await?;
        }
        self.outcome = Some(outcome);
        Ok(outcome)
    }

    /// Waits until all sites have [acknowledged](super::Site::acknowledge) the decision, however
    /// long it takes, and removes the transaction.
    ///
    /// # Errors
    /// * [`Error::Undecided`] before the decision.
    /// * [`Error::Framework`] as a read or a delete; then it may be removed.
    ///
    /// # Cancel safety
    /// Nothing is removed, or everything.
    pub async fn clean_up(&mut self) -> Result<(), Error> {
        self.decided().await?;
        loop {
            let mut watches = Vec::new();
            for site in 0..self.sites().len() {
                watches.extend(self.watch_until_done(site).await?);
            }
            if watches.is_empty() {
                return self.remove().await;
            }
            let watched = self.transaction.zk.exists(self.transaction.identity()).watched().await?;
            if watched.value.is_none() {
                // Another client has removed it; the sites that are left belong to the next
                // transaction.
                return Ok(());
            }
            watches.push(watched.watch);
            // The state is unknown: read again.
            drop(select_all(watches).await);
        }
    }

    /// Removes the transaction without waiting for the sites. A site that comes later learns
    /// nothing ([`Error::Gone`]): for transactions whose sites will not come back.
    ///
    /// # Errors
    /// As [`clean_up`](Self::clean_up).
    ///
    /// # Cancel safety
    /// Nothing is removed, or everything.
    pub async fn discard(&mut self) -> Result<(), Error> {
        self.decided().await?;
        match self.transaction.decision_now().await {
            Ok(Some(_)) => {}
            // The votes alone are the decision.
            Ok(None) => {
                drop(
                    self.transaction
                        .write("discard", &[machine::record(Outcome::Committed)])
                        .await?,
                );
            }
            Err(Error::Gone { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        self.remove().await
    }

    async fn remove(&self) -> Result<(), Error> {
        let PartyTransaction { zk, path, record, .. } = &self.transaction;
        remove(zk, path, record).await
    }

    async fn decided(&mut self) -> Result<(), Error> {
        if self.outcome.is_none() {
            self.outcome = self.transaction.decision_now().await?;
        }
        match self.outcome {
            Some(_) => Ok(()),
            None => Err(Error::Undecided { path: self.path().to_owned() }),
        }
    }

    /// `None` when the site has acknowledged, else a watch for when it does.
    async fn watch_until_done(&self, site: usize) -> Result<Option<Watch>, Error> {
        let (zk, node) = (&self.transaction.zk, self.transaction.site(site));
        loop {
            match zk.get_data(node.as_str()).watched().await {
                Ok(watched) if watched.value.0 == DONE => return Ok(None),
                Ok(watched) => return Ok(Some(watched.watch)),
                Err(error) if error.kind() == ErrorKind::NoNode => {}
                Err(error) => return Err(error.into()),
            }
            if zk.exists(self.path()).await?.is_none() {
                return Ok(None);
            }
            let watched = zk.exists(node.as_str()).watched().await?;
            if watched.value.is_none() {
                return Ok(Some(watched.watch));
            }
        }
    }
}

impl Begin {
    /// Unless it is set.
    const DEADLINE: Duration = Duration::from_secs(60);

    /// The form of the protocol. Default: [`Form::Coordinated`].
    pub const fn form(mut self, form: Form) -> Self {
        self.record.form = form;
        self
    }

    /// Sets the time for which votes are awaited, in whole milliseconds. Every party counts it
    /// separately, from the moment at which it learned of the transaction, so clocks need not
    /// agree. Default: 60 s.
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.record.deadline = deadline;
        self
    }

    async fn run(self) -> Result<Coordinator, Error> {
        const OP: &str = "begin";
        let Self { zk, path, mut record } = self;
        let path = ZPath::for_operation(OP, path)?;
        check_sites(&path, &record.sites)?;
        record.deadline = whole_millis(record.deadline);
        let due = record.due();
        let data = record.encode(None);
        let transaction = PartyTransaction::new(&zk, path, record);
        let path = transaction.path.as_str();
        let parent = transaction.path.parent();
        let receipt = Receipt::new(&zk, parent.as_ref().map_or("/", |parent| parent.as_str()));
        for round in PartyTransaction::rounds() {
            let mut creates = zk.transaction().with(CreateOp::new(path).data(data.clone()));
            creates = creates.with(CreateOp::new(transaction.identity()).data(Bytes::new()));
            if transaction.record.form != Form::Ephemeral {
                for site in 0..transaction.record.sites.len() {
                    creates =
                        creates.with(CreateOp::new(transaction.site(site)).data(Bytes::new()));
                }
            }
            let Err(error) = creates.certain(&receipt).commit().await else { break };
            match (error.kind(), &parent) {
                (ErrorKind::TransactionFailed { code: ErrorCode::NodeExists, .. }, _) => {
                    return Err(Error::Exists { path: path.to_owned() });
                }
                (ErrorKind::TransactionFailed { code: ErrorCode::NoNode, .. }, Some(parent))
                    if round < *PartyTransaction::rounds().end() =>
                {
                    zk.create_containers(parent.as_str()).await?;
                }
                _ => return Err(error.of_operation(OP).into()),
            }
        }
        Ok(Coordinator { transaction, due, outcome: None })
    }
}

fn check_sites(path: &ZPath, sites: &[String]) -> Result<(), Error> {
    let transaction = || path.as_str().to_owned();
    if sites.is_empty() {
        return Err(Error::NoSites { path: transaction() });
    }
    let mut names = BTreeSet::new();
    for site in sites {
        if site.contains('/') || path.join(site).is_err() {
            return Err(Error::InvalidSite { path: transaction(), site: site.clone() });
        }
        if !names.insert(site) {
            return Err(Error::Duplicate { path: transaction(), site: site.clone() });
        }
    }
    Ok(())
}

impl IntoFuture for Begin {
    type Output = Result<Coordinator, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator")
            .field("path", &self.path())
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}
