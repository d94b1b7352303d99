//! Where the clients of each scenario work on the servers, and what they leave there.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zk_curator::retry::BoundedExponentialBackoffRetry;
use zk_curator::{CuratorFramework, ErrorKind};

use super::{ChaosError, Subject};
use crate::RealEnsemble;

/// How often it is looked whether everything is gone.
const POLL: Duration = Duration::from_millis(200);
/// How long servers may take to remove empty containers, when nobody is there any more: they look twice a second.
const REAPING: Duration = Duration::from_secs(10);

/// The nodes below which the scenarios of a round are, one each.
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
        let made = ground.make(&zk).await.map_err(ChaosError::zookeeper("create the nodes of the scenarios"));
        close(&zk).await?;
        made?;
        Ok(ground)
    }

    async fn make(&self, zk: &CuratorFramework) -> Result<(), zk_curator::Error> {
        for (scenario, subject) in self.subjects.iter().enumerate() {
            let chroot = self.chroot(scenario);
            zk.create(&chroot).creating_parents().idempotent().await?;
            for node in subject.sim.subject().nodes {
                zk.create(format!("{chroot}{node}")).creating_parents().idempotent().await?;
            }
        }
        Ok(())
    }

    /// Where a scenario is.
    pub(super) fn chroot(&self, scenario: usize) -> String {
        let name = self.subjects.get(scenario).map_or("", |subject| &subject.name);
        format!("{}/{name}", self.root)
    }

    /// What is left of each scenario when the servers have had time to forget it, and of none in particular: sessions.
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
                let nodes = nodes.map_err(ChaosError::zookeeper("list what is left"))?;
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

    /// The nodes of a scenario, but for those that it may leave.
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

    /// Removes all. If the servers say that there are children of what has none, each of them is asked what it has.
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

    /// The nodes of all scenarios, as each server has them.
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

    async fn connect(&self) -> Result<CuratorFramework, ChaosError> {
        self.connect_to(&self.connect_string).await
    }

    async fn connect_to(&self, servers: &str) -> Result<CuratorFramework, ChaosError> {
        let connect = async {
            let retry =
                BoundedExponentialBackoffRetry::new(Duration::from_millis(50), Duration::from_secs(1), 20);
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

/// The paths of all nodes below one, without its own.
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

async fn close(zk: &CuratorFramework) -> Result<(), ChaosError> {
    zk.close().await.map_err(ChaosError::zookeeper("close the session of the run"))
}

/// How many sessions the leader knows.
async fn sessions(ensemble: &RealEnsemble) -> Result<Option<u64>, ChaosError> {
    let leader = ensemble.leader().await?;
    let dump = ensemble.server(leader).four_letter_word("dump").await?;
    // `Session Sets (2)/(5):` is five sessions, which end at two times.
    let count = |line: &str| {
        line.strip_prefix("Session Sets (")?.split_once(")/(")?.1.strip_suffix("):")?.parse().ok()
    };
    Ok(dump.lines().find_map(count))
}
