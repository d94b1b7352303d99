//! Commands that move nodes.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

mod backup;
mod copy;
mod diff;
mod null_data;
mod on_apache_zookeeper;
mod restore;
mod sequences;

use std::process::{Command, Stdio};

use serde_json::Value;
use zk_curator::CuratorFramework;
use zk_curator_real::TempDir;
use zk_curator_testing::TestServer;

/// The outcome of a command.
#[derive(Debug)]
struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Ran {
    /// Fails unless the command ended with this code.
    #[track_caller]
    fn code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Fails unless stderr has this text.
    #[track_caller]
    fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "no {text:?} in {self:?}");
        self
    }

    #[track_caller]
    fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "no {text:?} in {self:?}");
        self
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

fn command(servers: &str, arguments: &[&str]) -> Command {
    zk_curator_real::default_signals();
    let mut command = Command::new(env!("CARGO_BIN_EXE_zkc"));
    command.args(["--servers", servers]).args(arguments).stdin(Stdio::null());
    command.env_clear().env("ZKC_CONFIG", "/none");
    command
}

/// Runs a command.
async fn zkc(server: &TestServer, arguments: &[&str]) -> Ran {
    run(command(&server.connect_string(), arguments)).await
}

async fn run(mut command: Command) -> Ran {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A path for a file, which is removed at the end of the test.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(TempDir::new("zkc-transfer").unwrap())
    }

    fn file(&self) -> String {
        self.path("backup.zkb")
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Returns the names of all files.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

async fn connected(server: &TestServer) -> CuratorFramework {
    let zk = server.framework().build().unwrap();
    zk.start().await.unwrap();
    zk
}

/// Creates nodes with data.
async fn create(zk: &CuratorFramework, nodes: &[(&str, &str)]) {
    for (path, data) in nodes {
        zk.create(*path).creating_parents().data((*data).to_owned()).await.unwrap();
    }
}

/// Creates many nodes, in folders.
async fn fill(zk: &CuratorFramework, root: &str, folders: usize, each: usize) {
    zk.create(root).creating_parents().idempotent().await.unwrap();
    for folder in 0..folders {
        let folder = format!("{root}/folder-{folder}");
        let mut transaction = zk.transaction().create(&folder, "");
        for n in 0..each {
            transaction = transaction.create(format!("{folder}/{n}"), format!("data of {n}"));
        }
        transaction.commit().await.unwrap();
    }
}

/// Fails unless two subtrees have the same paths, data and ACLs.
#[track_caller]
fn assert_equal((a, from): (&TestServer, &str), (b, to): (&TestServer, &str)) {
    let nodes = |server: &TestServer, root: &str| {
        let probe = server.probe();
        let paths = probe.paths().into_iter();
        let below = paths.filter_map(|path| {
            let relative = path.strip_prefix(root)?.to_owned();
            let acl = probe.acl(&path).iter();
            let acl = acl.map(|acl| format!("{}:{}:{:?}", acl.scheme, acl.id, acl.permissions));
            let acl: Vec<_> = acl.collect();
            Some((relative, probe.data(&path), acl))
        });
        below.collect::<Vec<_>>()
    };
    assert_eq!(nodes(a, from), nodes(b, to));
}
