//! `zookeeper-client`. Its locks are released by the drop of their guard alone.

use std::pin::Pin;
use std::time::Duration;

use zookeeper_client::{
    Acls, Client, CreateMode, LockClient, LockOptions, LockPrefix, SessionState,
};

use crate::shared::Session;
use crate::shared::fleet::{self, Reports};
use crate::shared::locks::{self, Mutex, Release};
use crate::shared::measure::Result;

const ACLS: Acls<'static> = Acls::anyone_all();
/// The end of the name of a lock's node, as in Curator's.
const LOCK: &str = "lock-";

pub(crate) async fn run() -> Result<()> {
    let names = ["mutex-drop", "many-locks", "shared-mutex-plain", "handover", "fleet-return"];
    crate::run::<Client>(&names, async |stage| match stage.workload.as_str() {
        "mutex-drop" => locks::alone(stage, Lock::new, true).await,
        "many-locks" => locks::many(stage, Lock::new).await,
        "shared-mutex-plain" => locks::shared(stage, Lock::new).await,
        "handover" => locks::handover(stage, Lock::new).await,
        "fleet-return" => fleet::come_back(stage).await,
        _ => crate::unknown(stage),
    })
    .await
}

impl Session for Client {
    type Data = Vec<u8>;

    async fn open(connect: &str, timeout: Duration) -> Result<Self> {
        Ok(Self::connector().with_session_timeout(timeout).connect(connect).await?)
    }

    fn closed(&self) -> Pin<Box<dyn Future<Output = ()>>> {
        let mut states = self.state_watcher();
        Box::pin(async move { while !states.changed().await.is_terminated() {} })
    }

    async fn close(&self) -> Result<()> {
        // The drop of the last clone closes it.
        Ok(())
    }

    async fn create(&self, path: &str, data: &[u8], is_ephemeral: bool) -> Result<()> {
        let mode = if is_ephemeral { CreateMode::Ephemeral } else { CreateMode::Persistent };
        Self::create(self, path, data, &mode.with_acls(ACLS)).await?;
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<Vec<u8>> {
        Ok(self.get_data(path).await?.0)
    }

    async fn watch(
        &self,
        path: &str,
    ) -> Result<(Vec<u8>, impl Future<Output = Result<()>> + use<>)> {
        let (data, _, watcher) = self.get_and_watch_data(path).await?;
        Ok((data, async move {
            watcher.changed().await;
            Ok(())
        }))
    }

    async fn set(&self, path: &str, data: &[u8]) -> Result<i32> {
        Ok(self.set_data(path, data, None).await?.version)
    }

    async fn delete(&self, path: &str) -> Result<()> {
        Ok(Self::delete(self, path, None).await?)
    }

    async fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.check_stat(path).await?.is_some())
    }

    async fn children(&self, path: &str) -> Result<Vec<String>> {
        Ok(self.list_children(path).await?)
    }
}

impl Reports for Client {
    fn lost_and_back(&self) -> impl Future<Output = Result<()>> + use<> {
        let mut states = self.state_watcher();
        // From here on, the next connection is another one.
        states.state();
        async move {
            loop {
                let state = states.changed().await;
                if state == SessionState::SyncConnected {
                    return Ok(());
                }
                if state.is_terminated() {
                    return Err(format!("the session ended: {state}").into());
                }
            }
        }
    }
}

struct Lock {
    client: Client,
    path: String,
}

impl Lock {
    fn new(client: &Client, path: &str) -> Self {
        Self { client: client.clone(), path: path.to_owned() }
    }
}

impl Mutex for Lock {
    type Guard<'a> = LockClient<'a>;

    async fn acquire(&self) -> Result<LockClient<'_>> {
        let prefix = LockPrefix::new_curator(&self.path, LOCK)?;
        let parents = CreateMode::Container.with_acls(ACLS);
        let options = LockOptions::new(ACLS).with_ancestor_options(parents)?;
        Ok(self.client.lock(prefix, b"", options).await?)
    }
}

impl Release for LockClient<'_> {}
