//! A realm for each test.
//!
//! The Kerberos library takes the ticket cache, the keytab and the realm from the environment of
//! its process. So each test runs in a process of its own: [`in_realm`] starts the same test again,
//! with the environment of a new realm.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use tokio::time::timeout;
use zk_curator_client::kerberos::{Kerberos, KerberosError, KerberosErrorKind};
use zk_curator_client::{
    Acl, DisconnectedPolicy, Permissions, SessionState, SessionStates, ZooKeeper, ZooKeeperBuilder,
};
use zk_curator_real::{self as real, Kdc, RealZooKeeper, RealZooKeeperBuilder, TempDir};
use zk_curator_testing::wait;

/// Names the directory of the realm in the process that runs the test.
const HOME: &str = "ZK_CURATOR_REALM";
/// Longer than any test takes, on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

/// The life of a ticket in tests that do not wait for its end.
pub(crate) const LONG: Duration = Duration::from_secs(3600);
/// The time that is enough for a server to be restarted, and for tickets to expire.
pub(crate) const SESSION: Duration = Duration::from_secs(60);

/// The principal of the servers, for the connect string `localhost`.
pub(crate) const SERVER: &str = "zookeeper/localhost";
/// The principal of the clients, and the id in ACLs.
pub(crate) const ALICE: &str = "alice";
pub(crate) const ALICE_ID: &str = "alice@EXAMPLE.TEST";

/// A Kerberos server whose realm has the principals [`SERVER`] and [`ALICE`].
pub(crate) struct Realm {
    home: PathBuf,
    pub(crate) kdc: Kdc,
}

/// Runs `test` with a realm whose tickets last for `ticket_life`. `name` is the name of the calling
/// test.
pub(crate) fn in_realm(name: &str, ticket_life: Duration, test: impl AsyncFnOnce(Realm)) {
    in_realm_with(name, ticket_life, &[], test);
}

/// Does the same as [`in_realm`], with further variables of the environment.
pub(crate) fn in_realm_with(
    name: &str,
    ticket_life: Duration,
    variables: &[(&str, &str)],
    test: impl AsyncFnOnce(Realm),
) {
    if let Some(home) = env::var_os(HOME) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        return runtime.block_on(async {
            let realm = Realm::start(home.into(), ticket_life).await;
            timeout(LIMIT, Box::pin(test(realm))).await.expect("the test hangs");
        });
    }
    if !real::runs(name, Kdc::available()) || !real::runs(name, RealZooKeeper::available()) {
        return;
    }
    let home = TempDir::new("zk-curator-realm").unwrap();
    let output = Command::new(env::current_exe().unwrap())
        .args([name, "--ignored", "--nocapture"])
        .env(HOME, home.path())
        .envs(Kdc::environment(home.path()))
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success() && text.contains(" 1 passed; 0 failed");
    assert!(passed, "{name}:\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
}

impl Realm {
    async fn start(home: PathBuf, ticket_life: Duration) -> Self {
        let kdc = Kdc::start(&home, ticket_life).await.unwrap();
        let realm = Self { home, kdc };
        for principal in [SERVER, ALICE] {
            realm.kdc.add(principal).await.unwrap();
        }
        realm.kdc.export(SERVER, &realm.path("server.keytab")).await.unwrap();
        realm.kdc.export(ALICE, &realm.path("alice.keytab")).await.unwrap();
        realm
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.join(name)
    }

    /// Makes the keytab of a principal the client keytab of this process.
    pub(crate) async fn use_keytab(&self, principal: &str) {
        self.kdc.export(principal, &self.kdc.client_keytab()).await.unwrap();
    }

    /// Removes the client keytab. The tickets that were obtained with it stay.
    pub(crate) fn forget_keytab(&self) {
        fs::remove_file(self.kdc.client_keytab()).unwrap();
    }

    pub(crate) async fn kinit(&self) {
        self.kdc.kinit(ALICE, &self.path("alice.keytab")).await.unwrap();
    }

    /// Starts Apache ZooKeeper as the service [`SERVER`].
    pub(crate) async fn server(&self) -> RealZooKeeper {
        self.server_with(&self.path("server.keytab"), |builder| builder).await
    }

    pub(crate) async fn server_with(
        &self,
        keytab: &Path,
        configure: impl FnOnce(RealZooKeeperBuilder) -> RealZooKeeperBuilder,
    ) -> RealZooKeeper {
        let builder = self.kdc.secure(RealZooKeeper::builder(), SERVER, keytab).unwrap();
        configure(builder).quick_start().start().await.unwrap()
    }
}

/// Returns the connect string of a server by name: addresses have no principals.
pub(crate) fn by_name(server: &RealZooKeeper) -> String {
    format!("localhost:{}", server.addr().port())
}

pub(crate) fn client(connect_string: &str) -> ZooKeeperBuilder {
    client_with(connect_string, Kerberos::new())
}

pub(crate) fn client_with(connect_string: &str, kerberos: Kerberos) -> ZooKeeperBuilder {
    // Requests wait while a server is restarted, also on a busy machine.
    let patient = DisconnectedPolicy::Wait(SESSION);
    let builder = ZooKeeper::builder(connect_string).session_timeout(SESSION);
    builder.disconnected(patient).sasl_kerberos(kerberos)
}

pub(crate) async fn start(builder: ZooKeeperBuilder) -> ZooKeeper {
    let zk = builder.connect().unwrap();
    if let Err(error) = zk.connected().await {
        panic!("{error}: {:?}", zk.last_failure());
    }
    zk
}

/// Waits for a state.
pub(crate) async fn until(states: &mut SessionStates, is_right: impl Fn(SessionState) -> bool) {
    while let Some(state) = states.next().await {
        if is_right(state) {
            return;
        }
    }
    panic!("the session has ended");
}

/// Waits until the last failure is from Kerberos, and returns it. The last failure is not a stream,
/// so it is polled.
pub(crate) async fn kerberos_failure(zk: &ZooKeeper) -> KerberosError {
    wait::until_some(async || {
        let failure = zk.last_failure()?;
        KerberosError::of(&failure).cloned()
    })
    .await
}

/// Asserts that the client fails for a reason that may pass, and continues to try.
pub(crate) async fn assert_tries(zk: &ZooKeeper, kind: KerberosErrorKind, words: &str) {
    let error = kerberos_failure(zk).await;
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.words().contains(words), "{error}");
    assert!(!kind.is_final());
    assert!(zk.state().end().is_none(), "{:?}", zk.state());
}

/// An ACL for one principal.
pub(crate) fn only(principal: &str) -> [Acl; 1] {
    [Acl::new(Permissions::ALL, "sasl", principal)]
}

/// Returns the ids that a server has proven for the connection of a client.
pub(crate) async fn proven(zk: &ZooKeeper) -> Vec<String> {
    let infos = zk.who_am_i().await.unwrap();
    infos.into_iter().filter(|info| info.scheme == "sasl").map(|info| info.user).collect()
}

/// Returns the failure of a client that has ended.
pub(crate) async fn end_of(zk: &ZooKeeper) -> Arc<std::io::Error> {
    assert!(zk.connected().await.is_err());
    assert_eq!(zk.state(), SessionState::AuthFailed, "{:?}", zk.last_failure());
    zk.last_failure().expect("a failure")
}
