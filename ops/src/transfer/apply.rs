//! Applies changes in transactions of a bounded size.

use std::time::Duration;

use bytes::Bytes;
use zk_curator::op::{CreateOp, SetDataOp, Transaction, fan_out};
use zk_curator::{Acl, CreateMode, CuratorFramework, Error as FrameworkError, ErrorKind};

use crate::error::Error;
use crate::path;
use crate::tree::walk::{self, WalkPace};

/// The greatest size of a transaction in bytes: half of what servers accept by default.
pub(crate) const MAX_BYTES: usize = 512 << 10;
/// The operations of a transaction.
const MAX_OPS: usize = 1_000;
/// The bytes of an operation beside its paths, its data and its ACL.
const OVERHEAD: usize = 64;
/// The attempts after a lost response.
const ATTEMPTS: usize = 5;
/// The ACLs that are set at a time.
const ACLS_AT_ONCE: usize = 64;
/// The name of the nodes that use up sequence numbers.
const BURNT: &str = "zkc-burn-";

/// A change of a node.
#[derive(Debug, Clone)]
pub(crate) enum NodeChange {
    Create {
        path: String,
        /// `None` for null data.
        data: Option<Bytes>,
        acl: Vec<Acl>,
        mode: CreateMode,
        ttl: Option<Duration>,
    },
    SetData {
        path: String,
        data: Option<Bytes>,
        version: i32,
    },
    Delete {
        path: String,
        version: i32,
    },
    /// Uses up sequence numbers of a parent, by nodes that are deleted in the same transaction.
    Burn {
        parent: String,
        numbers: usize,
    },
}

impl NodeChange {
    /// Returns an estimate of the bytes in a request.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Create { path, data, acl, .. } => {
                let acl: usize = acl.iter().map(|acl| acl.scheme.len() + acl.id.len() + 12).sum();
                OVERHEAD + path.len() + length(data) + acl
            }
            Self::SetData { path, data, .. } => OVERHEAD + path.len() + length(data),
            Self::Delete { path, .. } => OVERHEAD + path.len(),
            Self::Burn { parent, numbers } => numbers * (parent.len() + BURNT.len() + OVERHEAD) * 2,
        }
    }

    /// Returns the operations in a request.
    pub(crate) const fn ops(&self) -> usize {
        match self {
            Self::Burn { numbers, .. } => *numbers * 2,
            _ => 1,
        }
    }

    fn path(&self) -> &str {
        match self {
            Self::Create { path, .. } | Self::SetData { path, .. } | Self::Delete { path, .. } => {
                path
            }
            Self::Burn { parent, .. } => parent,
        }
    }

    fn add(&self, transaction: Transaction) -> Transaction {
        match self.clone() {
            Self::Create { path, data, acl, mode, ttl } => {
                let create = CreateOp::new(path).acl(acl).mode(mode);
                let create = match data {
                    Some(data) => create.data(data),
                    None => create.null_data(),
                };
                transaction.with(match ttl {
                    Some(ttl) => create.ttl(ttl),
                    None => create,
                })
            }
            Self::SetData { path, data, version } => {
                let set = match data {
                    Some(data) => SetDataOp::new(path, data),
                    None => SetDataOp::null(path),
                };
                transaction.with(set.version(version))
            }
            Self::Delete { path, version } => transaction.delete_if(path, version),
            Self::Burn { parent, numbers } => (0..numbers).fold(transaction, |transaction, n| {
                let path = path::join(&parent, &format!("{BURNT}{n}"));
                transaction.create(&path, Bytes::new()).delete(path)
            }),
        }
    }

    /// Returns `true` if the node is as after this change.
    async fn is_applied(&self, zk: &CuratorFramework) -> Result<bool, FrameworkError> {
        let paths = [self.path().to_owned()];
        let answer = walk::read_each(zk, &paths, &mut WalkPace::up_to(1)).await?.pop();
        let state = match answer.transpose() {
            Err(error) if error.kind() == ErrorKind::NoNode => None,
            state => state?,
        };
        Ok(match (self, state) {
            (Self::Create { data, .. }, Some((found, stat))) => stat.version == 0 && *data == found,
            (Self::SetData { data, version, .. }, Some((found, stat))) => {
                stat.version == version.wrapping_add(1) && *data == found
            }
            (Self::Delete { .. }, None) => true,
            _ => false,
        })
    }
}

fn length(data: &Option<Bytes>) -> usize {
    data.as_ref().map_or(0, Bytes::len)
}

/// Splits the sequence numbers of a parent into changes that fit into a transaction.
fn burns(
    parent: &str,
    mut numbers: u64,
    limit: TransactionLimit,
) -> impl Iterator<Item = NodeChange> + '_ {
    let one = limit.bytes_of(&NodeChange::Burn { parent: parent.to_owned(), numbers: 1 });
    let most = (limit.bytes / one).clamp(1, MAX_OPS / 2);
    std::iter::from_fn(move || {
        let now = usize::try_from(numbers).unwrap_or(usize::MAX).min(most);
        numbers -= u64::try_from(now).unwrap_or(numbers);
        (now > 0).then(|| NodeChange::Burn { parent: parent.to_owned(), numbers: now })
    })
}

/// The limit of the size of transactions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransactionLimit {
    bytes: usize,
    /// The bytes that the chroot and the namespace add to each path.
    prefix: usize,
}

impl TransactionLimit {
    /// Half of the greatest request, because the sizes of changes are estimates.
    pub(crate) fn of(zk: &CuratorFramework) -> Self {
        let prefix = zk.server_path("/").len();
        Self { bytes: MAX_BYTES.min(zk.max_frame() / 2), prefix }
    }

    fn bytes_of(&self, change: &NodeChange) -> usize {
        change.bytes().saturating_add(change.ops().saturating_mul(self.prefix))
    }
}

/// The size of changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransactionSize {
    bytes: usize,
    ops: usize,
    limit: TransactionLimit,
}

impl TransactionSize {
    pub(crate) const fn none(limit: TransactionLimit) -> Self {
        Self { bytes: 0, ops: 0, limit }
    }

    pub(crate) fn add(&mut self, change: &NodeChange) {
        self.bytes = self.bytes.saturating_add(self.limit.bytes_of(change));
        self.ops = self.ops.saturating_add(change.ops());
    }

    /// Adds the changes that raise the counter of a parent, until they no longer fit.
    pub(crate) fn add_burns(&mut self, parent: &str, numbers: u64) {
        for change in burns(parent, numbers, self.limit) {
            self.add(&change);
            if !self.fits() {
                return;
            }
        }
    }

    /// Returns `true` if one transaction has room for it.
    pub(crate) const fn fits(&self) -> bool {
        self.bytes <= self.limit.bytes && self.ops <= MAX_OPS
    }
}

/// Applies changes in order.
#[derive(Debug)]
pub(crate) struct Applier<'a> {
    zk: &'a CuratorFramework,
    pending: Vec<NodeChange>,
    size: TransactionSize,
    /// The ACLs to set after the transaction, with the versions that they replace.
    acls: Vec<(String, Vec<Acl>, i32)>,
    transactions: u64,
    changes: u64,
}

impl<'a> Applier<'a> {
    pub(crate) fn new(zk: &'a CuratorFramework) -> Self {
        let (pending, acls) = Default::default();
        let size = TransactionSize::none(TransactionLimit::of(zk));
        Self { zk, pending, size, acls, transactions: 0, changes: 0 }
    }

    pub(crate) const fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Adds a change. Sends the earlier ones if there is no room for it in their transaction.
    pub(crate) async fn push(&mut self, change: NodeChange) -> Result<(), Error> {
        let mut size = self.size;
        size.add(&change);
        if !size.fits() {
            self.flush().await?;
            size = self.size;
            size.add(&change);
        }
        self.size = size;
        self.pending.push(change);
        Ok(())
    }

    /// Adds the changes that raise the counter of a parent.
    pub(crate) async fn burn(&mut self, parent: &str, numbers: u64) -> Result<(), Error> {
        for change in burns(parent, numbers, self.size.limit) {
            self.push(change).await?;
        }
        Ok(())
    }

    /// Sets an ACL after the next transaction: no transaction can contain it.
    pub(crate) async fn set_acl(
        &mut self,
        path: String,
        acl: Vec<Acl>,
        version: i32,
    ) -> Result<(), Error> {
        self.acls.push((path, acl, version));
        if self.acls.len() >= MAX_OPS { self.flush().await } else { Ok(()) }
    }

    /// Sends what is left.
    pub(crate) async fn flush(&mut self) -> Result<(), Error> {
        if !self.pending.is_empty() {
            self.commit().await.map_err(|error| self.explain(error))?;
            self.transactions += 1;
            self.changes += u64::try_from(self.pending.len()).unwrap_or_default();
            self.pending.clear();
            self.size = TransactionSize::none(self.size.limit);
        }
        let acls = std::mem::take(&mut self.acls);
        let sets = acls
            .into_iter()
            .map(|(path, acl, version)| self.zk.set_acl(path, acl).version(version));
        // All of them are over: a failure of one says nothing about the others.
        let mut failure = None;
        for result in fan_out(ACLS_AT_ONCE, sets).await {
            match result {
                Ok(_) => self.changes += 1,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(()), |error| Err(self.explain(error)))
    }

    /// Sends a transaction. After a lost response, one of its changes tells if it was applied. If
    /// it seems not to be, and is then refused, the first error is returned: another client may
    /// have changed the node after it was applied.
    async fn commit(&self) -> Result<(), FrameworkError> {
        let witness = self.pending.iter().find(|change| !matches!(change, NodeChange::Burn { .. }));
        let mut lost = None;
        for _ in 1..ATTEMPTS {
            match self.send().await {
                Err(error) if error.may_have_applied() => {
                    lost = lost.or(Some(error.clone()));
                    let Some(witness) = witness else { continue };
                    // The server of the new connection may lag behind.
                    let read = async {
                        self.zk.sync("/").await?;
                        witness.is_applied(self.zk).await
                    };
                    match read.await {
                        Ok(true) => return Ok(()),
                        Ok(false) => {}
                        // The failure of this read does not say that nothing was applied.
                        Err(_) => return Err(error),
                    }
                }
                result => return result.map_err(|error| lost.unwrap_or(error)),
            }
        }
        self.send().await.map_err(|error| lost.unwrap_or(error))
    }

    async fn send(&self) -> Result<(), FrameworkError> {
        let transaction = self.zk.transaction().uncompressed();
        let transaction = self.pending.iter().fold(transaction, |all, change| change.add(all));
        transaction.commit().await.map(drop)
    }

    /// Says what was done before a failure.
    pub(crate) fn explain(&self, failure: impl Into<Error>) -> Error {
        let failure: Error = failure.into();
        match self.changes {
            // It is not known if something was changed.
            0 if failure.may_have_applied() => failure,
            changes => Error::Interrupted { changes, source: Box::new(failure) },
        }
    }
}

#[cfg(test)]
mod tests {
    use zk_curator_testing::{OpCode, TestServer, Verdict};

    use super::*;

    async fn connected(server: &TestServer) -> CuratorFramework {
        let builder = CuratorFramework::builder().connect_string(server.connect_string());
        let zk = builder.build().expect("a framework");
        zk.start().await.expect("a session");
        zk
    }

    #[tokio::test]
    async fn a_refused_repetition_leaves_the_outcome_unknown() {
        let server = TestServer::start().await;
        let (zk, other) = (connected(&server).await, connected(&server).await);
        let lost = server.rule(|request| {
            let is_lost = request.is(OpCode::Multi);
            if is_lost { Verdict::LoseReply } else { Verdict::Pass }
        });
        let _lost = lost.times(1);
        let long = Duration::from_secs(600);
        let read = server.rule(move |request| {
            if request.is(OpCode::Sync) { Verdict::Delay(long) } else { Verdict::Pass }
        });
        let change = async {
            read.fired().await;
            other.set_data("/a", "new").await.expect("a change");
            read.end();
        };
        let mut applier = Applier::new(&zk);
        let (data, acl, mode) = (Some(Bytes::new()), Acl::open_unsafe(), CreateMode::Persistent);
        let create = NodeChange::Create { path: "/a".to_owned(), data, acl, mode, ttl: None };
        applier.push(create).await.expect("room");
        let (applied, ()) = tokio::join!(applier.flush(), change);
        let failure = applied.expect_err("a refusal");
        assert!(failure.may_have_applied(), "{failure:?}");
    }

    #[tokio::test]
    async fn acls_that_were_set_are_counted_after_a_failure() {
        let server = TestServer::start().await;
        let zk = connected(&server).await;
        let mut applier = Applier::new(&zk);
        for (path, version) in [("/a", 7), ("/b", 0)] {
            zk.create(path).await.expect("a node");
            let set = applier.set_acl(path.to_owned(), Acl::read_unsafe(), version);
            set.await.expect("room");
        }
        let failure = applier.flush().await.expect_err("another version");
        assert!(matches!(failure, Error::Interrupted { changes: 1, .. }), "{failure:?}");
    }

    #[test]
    fn burns_fit_into_transactions() {
        for (bytes, prefix) in [(MAX_BYTES, 1), (20_000, 1), (MAX_BYTES, 3_000)] {
            let limit = TransactionLimit { bytes, prefix };
            for (parent, numbers) in
                [("/q", 0), ("/q", 1), ("/q", 1_234), (&*"/long".repeat(900), 900)]
            {
                let changes: Vec<_> = burns(parent, numbers, limit).collect();
                let total: usize = changes.iter().map(NodeChange::ops).sum();
                assert_eq!(total as u64, numbers * 2);
                for change in changes {
                    let mut size = TransactionSize::none(limit);
                    size.add(&change);
                    assert!(size.fits(), "{size:?}");
                }
            }
        }
    }
}
