//! The protocol of kazoo's `Semaphore`.

use bytes::Bytes;
use futures_util::future::join;
use zk_curator::path::ZPath;
use zk_curator::{CreateMode, CuratorFramework, ErrorKind, OwnedNode};

use super::error::Error;
use super::tag;
use crate::advice::LongWait;
use crate::contender::Contender;
use crate::order::OrderRule;
use crate::path::child;

/// A semaphore as kazoo has it. Its steps, for each acquire:
/// 1. Acquire kazoo's lock at `<path>-__lock__`, and check the limit that is stored in the node.
/// 2. List the children of the node, whatever their names.
/// 3. If there are fewer than the limit, create the permit, and look if the lock still exists,
///    which kazoo does not. If an operator has deleted it, begin again without the permit.
/// 4. Otherwise watch the children, and go to 2 at every change.
/// 5. Release the lock.
pub(super) struct KazooSemaphore<'a> {
    zk: &'a CuratorFramework,
    leases: ZPath,
    lock: ZPath,
    limit: u32,
    label: &'a Bytes,
    rule: OrderRule,
}

impl<'a> KazooSemaphore<'a> {
    pub(super) fn new(
        zk: &'a CuratorFramework,
        operation: &'static str,
        path: &str,
        limit: u32,
        label: &'a Bytes,
    ) -> Result<Self, Error> {
        let leases = ZPath::for_operation(operation, path)?;
        let lock = ZPath::for_operation(operation, format!("{}-{}", leases.as_str(), tag::KAZOO))?;
        // Whether the lock exists is asked after the permits are created.
        let rule = OrderRule {
            parent_stays: true,
            watches_itself: false,
            ..OrderRule::exclusive(tag::KAZOO)
        };
        Ok(Self { zk, leases, lock, limit, label, rule })
    }

    /// Creates permits when there are fewer than the limit. `None` if they would have to wait, and
    /// `waits` is not set.
    pub(super) async fn acquire(
        &self,
        count: u32,
        waits: bool,
    ) -> Result<Option<Vec<OwnedNode>>, Error> {
        let mut long = LongWait::begin();
        loop {
            // 1
            let enter = Contender::enter(self.zk, &self.lock, &self.rule, self.label);
            let (turn, checked) = join(enter, self.check_limit()).await;
            let (mut turn, ()) = (turn?, checked?);
            if !waits && !turn.is_turn().await? {
                return Ok(None);
            }
            while !turn.step().await? {}
            let held = turn.into_node();
            while held.is_ours() {
                // 2
                let children = self.zk.children(self.leases.as_str()).watched().await?;
                let (names, watch) = (children.value.0, children.watch);
                let present = u32::try_from(names.len()).unwrap_or(u32::MAX);
                if present.saturating_add(count) <= self.limit {
                    // 3
                    let leases = self.create(count).await?;
                    // If the lock still exists, nobody else has counted in between.
                    let is_held = held.ownership().confirm().await?.is_some();
                    if is_held && leases.iter().all(OwnedNode::is_ours) {
                        return Ok(Some(leases));
                    }
                    // The lock ended with its session, or was deleted.
                    break;
                }
                if !waits {
                    return Ok(None);
                }
                // 4
                let session_lost = held.ownership().session_lost();
                tokio::select! {
                    biased;
                    () = session_lost => break,
                    _ = watch => {}
                    () = long.look(self.zk, "acquire", &self.leases, &names) => {}
                }
            }
        }
    }

    /// The names of the permits.
    pub(super) async fn leases(&self) -> Result<Vec<String>, Error> {
        match self.zk.children(self.leases.as_str()).await {
            Ok(names) => Ok(names.iter().map(|name| child(&self.leases, name)).collect()),
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the node with the limit, or compares it: kazoo refuses another limit too.
    async fn check_limit(&self) -> Result<(), Error> {
        loop {
            match self.zk.get_data(self.leases.as_str()).await {
                Ok(data) => return self.compare(&data),
                Err(error) if error.kind() == ErrorKind::NoNode => {}
                Err(error) => return Err(error.into()),
            }
            let create = self.zk.create(self.leases.as_str()).creating_parents();
            match create.data(self.limit.to_string()).idempotent().await {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::NodeExists => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn compare(&self, data: &[u8]) -> Result<(), Error> {
        // kazoo ignores data that are no number.
        let stored = std::str::from_utf8(data).ok().and_then(|text| text.trim().parse().ok());
        match stored {
            Some(stored) if stored != i64::from(self.limit) => Err(Error::OtherLimit {
                path: self.leases.as_str().to_owned(),
                stored,
                limit: self.limit,
            }),
            _ => Ok(()),
        }
    }

    async fn create(&self, count: u32) -> Result<Vec<OwnedNode>, Error> {
        let mut leases = Vec::new();
        for _ in 0..count {
            let name = self.zk.new_guid().replace('-', "");
            let create = self.zk.create(child(&self.leases, &name)).mode(CreateMode::Ephemeral);
            let create = create.data(self.label.clone()).idempotent().unique_name();
            leases.push(create.owned().await?);
        }
        Ok(leases)
    }
}
