//! The nodes of each scenario on the servers, and the search for nodes that are left.

use std::time::Duration;

use tokio::time::Instant;
use zk_curator::retry::BoundedExponentialBackoffRetry;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_client::internal::sleep;

use super::error::ChaosError;
use super::settings::Subject;
use crate::RealEnsemble;

/// The interval between two checks for leftovers.
const POLL: Duration = Duration::from_millis(200);
/// The time that servers may take to remove empty containers, for which they look twice a second. A
/// container that never had a child is removed two seconds after it was created.
const REAPING: Duration = Duration::from_secs(10);

/// The parent nodes of the scenarios of a round, one for each scenario.
#[derive(Debug)]
pub(super) struct Ground<'a> {
    connect_string: String,
    root: String,
    subjects: &'a [Subject],
}

impl<'a> Ground<'a> {
    /// Creates the nodes that the scenarios need.
    pub(super) async fn prepare(
        connect_string: &str,
        seed: u64,
        subjects: &'a [Subject],
    ) -> Result<Self, ChaosError> {
        let connect_string = connect_string.to_owned();
        let ground = Self { connect_string, root: format!("/chaos-{seed}"), subjects };
        let zk = ground.connect().await?;
        let made = ground
            .make(&zk)
            .await
            .map_err(ChaosError::zookeeper("create the nodes of the scenarios"));
        close(&zk).await?;
        made?;
        Ok(ground)
    }

    /// Returns a node that no scenario uses.
    pub(super) fn witness(&self) -> String {
        format!("{}/_witness", self.root)
    }

    async fn make(&self, zk: &CuratorFramework) -> Result<(), zk_curator::Error> {
        for (scenario, subject) in self.subjects.iter().enumerate() {
            let chroot = self.chroot(scenario);
            zk.create(&chroot).creating_parents().idempotent().await?;
            for node in subject.sim.subject().nodes {
                zk.create(format!("{chroot}{node}")).creating_parents().idempotent().await?;
            }
        }
        zk.create(self.witness()).creating_parents().idempotent().await?;
        Ok(())
    }

    /// Returns the parent node of a scenario.
    pub(super) fn chroot(&self, scenario: usize) -> String {
        let name = self.subjects.get(scenario).map_or("", |subject| &subject.name);
        format!("{}/{name}", self.root)
    }

    /// Returns the nodes that are left of each scenario after the servers had time to remove them,
    /// and the sessions that are left of any scenario.
    pub(super) async fn leftovers(
        &self,
        ensemble: &RealEnsemble,
        patience: Duration,
    ) -> Result<Vec<(Option<usize>, String)>, ChaosError> {
        let mut deadline = Instant::now() + patience;
        loop {
            let mut left = Vec::new();
            let zk = self.connect().await?;
            for (scenario, subject) in self.subjects.iter().enumerate() {
                let nodes = self.nodes(&zk, scenario, subject).await;
                let nodes = nodes.map_err(ChaosError::zookeeper("list the remaining nodes"))?;
                if !nodes.is_empty() {
                    left.push((Some(scenario), format!("nodes are left: {nodes:?}")));
                }
            }
            close(&zk).await?;
            match sessions(ensemble).await? {
                Some(0) => deadline = deadline.min(Instant::now() + REAPING),
                Some(sessions) => left.push((None, format!("{sessions} sessions are left"))),
                None => left.push((None, "the leader does not tell its sessions".to_owned())),
            }
            if left.is_empty() || Instant::now() >= deadline {
                return Ok(left);
            }
            sleep(POLL).await;
        }
    }

    /// Returns the nodes of a scenario, except the ones that it may leave.
    async fn nodes(
        &self,
        zk: &CuratorFramework,
        scenario: usize,
        subject: &Subject,
    ) -> Result<Vec<String>, zk_curator::Error> {
        let mut nodes = below(zk, &self.chroot(scenario)).await?;
        nodes.retain(|path| !subject.sim.subject().may_stay(path));
        Ok(nodes)
    }

    /// Removes all nodes. If the servers report children of an empty node, compares the nodes on
    /// each server.
    pub(super) async fn clear(&self) -> Result<Option<String>, ChaosError> {
        let zk = self.connect().await?;
        let cleared = zk.delete(&self.root).deleting_children().await;
        close(&zk).await?;
        match cleared {
            Err(error) if error.kind() == ErrorKind::NotEmpty => self.compared().await.map(Some),
            Err(error) if error.kind() != ErrorKind::NoNode => {
                Err(ChaosError::zookeeper("delete the nodes of the scenarios")(error))
            }
            _ => Ok(None),
        }
    }

    /// Lists the nodes of all scenarios on each server.
    async fn compared(&self) -> Result<String, ChaosError> {
        let mut compared = String::from("the nodes of the scenarios cannot be deleted");
        for server in self.connect_string.split(',') {
            let zk = self.connect_to(server).await?;
            let nodes = below(&zk, &self.root).await;
            close(&zk).await?;
            let nodes = nodes.map_err(ChaosError::zookeeper("list the nodes of the scenarios"))?;
            compared.push_str(&format!("; {server} has {nodes:?}"));
        }
        Ok(compared)
    }

    pub(super) async fn connect(&self) -> Result<CuratorFramework, ChaosError> {
        self.connect_to(&self.connect_string).await
    }

    async fn connect_to(&self, servers: &str) -> Result<CuratorFramework, ChaosError> {
        let connect = async {
            let retry = BoundedExponentialBackoffRetry::new(
                Duration::from_millis(50),
                Duration::from_secs(1),
                20,
            );
            let zk = CuratorFramework::builder()
                .connect_string(servers)
                .session_timeout(Duration::from_secs(10))
                .connection_timeout(Duration::from_secs(30))
                .retry(retry)
                .build()?;
            zk.start().await?;
            Ok(zk)
        };
        connect.await.map_err(ChaosError::zookeeper("connect to the servers"))
    }
}

/// Returns the paths of all nodes below one, without the node itself.
async fn below(zk: &CuratorFramework, root: &str) -> Result<Vec<String>, zk_curator::Error> {
    let mut nodes = Vec::new();
    let mut open = vec![String::new()];
    while let Some(parent) = open.pop() {
        let children = match zk.children(format!("{root}{parent}")).await {
            Ok(children) => children,
            Err(error) if error.kind() == ErrorKind::NoNode => continue,
            Err(error) => return Err(error),
        };
        let children = children.iter().map(|name| format!("{parent}/{name}"));
        nodes.extend(children.clone());
        open.extend(children);
    }
    Ok(nodes)
}

pub(super) async fn close(zk: &CuratorFramework) -> Result<(), ChaosError> {
    zk.close().await.map_err(ChaosError::zookeeper("close the session of the run"))
}

/// Returns the number of sessions that the leader knows.
async fn sessions(ensemble: &RealEnsemble) -> Result<Option<u64>, ChaosError> {
    let leader = ensemble.leader().await?;
    let dump = ensemble.server(leader).four_letter_word("dump").await?;
    // `Session Sets (2)/(5):` is five sessions, which end at two times.
    let count = |line: &str| {
        line.strip_prefix("Session Sets (")?.split_once(")/(")?.1.strip_suffix("):")?.parse().ok()
    };
    Ok(dump.lines().find_map(count))
}
