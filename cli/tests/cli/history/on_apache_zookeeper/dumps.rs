//! The tools of Apache ZooKeeper read the same from the files.

use std::collections::BTreeMap;
use std::path::Path;

use zk_curator_ops::history::{Files, Log, Snapshot, StoredStat};
use zk_curator_real::java::Program;

use super::workload::{connected, ensemble, every_kind};
use crate::support::Zkc;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: scripts/test-all"]
async fn dumps_are_those_of_the_tools_of_apache_zookeeper() {
    let name = "dumps_are_those_of_the_tools_of_apache_zookeeper";
    let Some(mut ensemble) = ensemble(name, 300).await else { return };
    let mut zkc = Zkc::start().await;
    zkc.servers = ensemble.connect_string();
    let zk = connected(&zkc.servers).await;
    every_kind(&zkc, &zk, "/one").await;
    every_kind(&zkc, &zk, "/two").await;
    zk.close().await.expect("closed");
    ensemble.wait_until_synced().await.expect("synced");
    for server in 0..3 {
        ensemble.stop(server).await.expect("stopped");
    }
    let files = Files::find([ensemble.server(0).data_directory()]).expect("files");
    let toolkit = tool("org.apache.zookeeper.server.persistence.TxnLogToolkit");
    for log in &files.logs {
        assert_eq!(dumped(&dump(&toolkit, &log.path).await), decoded(&log.path));
    }
    let formatter = tool("org.apache.zookeeper.server.SnapshotFormatter");
    let mut snapshots = files.snapshots.iter().filter(|snapshot| snapshot.zxid > 0);
    let last = snapshots.next_back().expect("a snapshot");
    let expected = formatted(&dump(&formatter, &last.path).await);
    assert_eq!(nodes(&last.path), expected);
    // A server decides at random when it takes a snapshot: at latest after 300 transactions.
    assert!(expected.len() > 100, "{} nodes", expected.len());
}

fn tool(class: &str) -> Program {
    Program::installed(class).unwrap_or_else(|error| panic!("{class}: {error}"))
}

async fn dump(tool: &Program, file: &Path) -> String {
    let mut command = tool.command(["-Xmx256m"]);
    let output = command.arg(file).output().await.expect("an output");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Session, request, transaction, operation, and the path if the operation has one.
type Line = (u64, u32, u64, String, Option<String>);

/// Parses the lines of `TxnLogToolkit`: `… session 0x1 cxid 0x2 zxid 0x3 create /a,…`.
fn dumped(text: &str) -> Vec<Line> {
    let hex = |word: &str| {
        let digits = word.strip_prefix("0x").unwrap_or_else(|| panic!("{word}"));
        u64::from_str_radix(digits, 16).expect("hexadecimal")
    };
    let lines = text.lines().filter_map(|line| line.split_once(" session "));
    lines
        .map(|(_, rest)| {
            let words: Vec<_> = rest.splitn(7, ' ').collect();
            let [session, "cxid", cxid, "zxid", zxid, operation, ..] = &words[..] else {
                panic!("{rest}")
            };
            let path = words.get(6).and_then(|rest| rest.split(',').next());
            let path = path.map(|path| path.trim_matches('\'')).filter(has_path);
            // Java widens the number of the request.
            let cxid = u32::try_from(hex(cxid) & 0xffff_ffff).expect("32 bits");
            let path = path.map(str::to_owned);
            // Until 3.8, one operation had another name.
            let operation = if *operation == "createTtl" { "createTTL" } else { operation };
            (hex(session), cxid, hex(zxid), operation.to_owned(), path)
        })
        .collect()
}

fn has_path(text: &&str) -> bool {
    text.starts_with('/') && !text.contains(' ')
}

fn decoded(path: &Path) -> Vec<Line> {
    let mut log = Log::open(path).expect("a log");
    let mut lines = Vec::new();
    while let Some(record) = log.next_record().expect("a record") {
        let header = record.header;
        lines.push((
            header.session.get().cast_unsigned(),
            header.cxid.cast_unsigned(),
            header.zxid.cast_unsigned(),
            operation(header.op.code()).to_owned(),
            record.txn.path().map(str::to_owned),
        ));
    }
    lines
}

/// Returns the name of an operation in the dump of the tool.
fn operation(code: i32) -> &'static str {
    match code {
        1 => "create",
        2 => "delete",
        5 => "setData",
        7 => "setACL",
        13 => "check",
        14 => "multi",
        15 => "create2",
        16 => "reconfig",
        19 => "createContainer",
        20 => "deleteContainer",
        21 => "createTTL",
        -1 => "error",
        -10 => "createSession",
        -11 => "closeSession",
        other => panic!("operation {other}"),
    }
}

/// The numbers of a node, by their names in the dump.
type Numbers = BTreeMap<String, i64>;

/// Parses the nodes of `SnapshotFormatter`.
fn formatted(text: &str) -> BTreeMap<String, Numbers> {
    let mut nodes = BTreeMap::<String, Numbers>::new();
    let mut path = None;
    for line in text.lines() {
        if line.starts_with('/') {
            path = Some(line.to_owned());
            nodes.insert(line.to_owned(), Numbers::new());
        } else if line.starts_with("Session Details") {
            break;
        } else if let (Some(path), Some((name, value))) = (&path, line.split_once(" = ")) {
            let name = name.trim();
            let number = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok().map(u64::cast_signed),
                None => value.parse().ok(),
            };
            if let Some(number) = number.filter(|_| !(is_usage(path) && name == "dataLength"))
                && let Some(numbers) = nodes.get_mut(path)
            {
                numbers.insert(name.to_owned(), number);
            }
        }
    }
    nodes
}

fn nodes(path: &Path) -> BTreeMap<String, Numbers> {
    let mut snapshot = Snapshot::open(path).expect("a snapshot");
    let mut nodes = BTreeMap::new();
    while let Some(node) = snapshot.next_node().expect("a node") {
        let path = if node.path.is_empty() { "/" } else { node.path };
        let length = node.data.map_or(0, <[u8]>::len);
        let StoredStat { czxid, mzxid, pzxid, ephemeral_owner, .. } = node.stat;
        let mut numbers = Numbers::new();
        for (name, number) in [
            ("cZxid", czxid),
            ("mZxid", mzxid),
            ("pZxid", pzxid),
            ("cversion", node.stat.cversion.into()),
            ("dataVersion", node.stat.version.into()),
            ("aclVersion", node.stat.aversion.into()),
            ("ephemeralOwner", ephemeral_owner),
            ("dataLength", i64::try_from(length).expect("a short node")),
        ] {
            if !(is_usage(path) && name == "dataLength") {
                numbers.insert(name.to_owned(), number);
            }
        }
        nodes.insert(path.to_owned(), numbers);
    }
    nodes
}

/// Returns `true` for the usage of a quota, which the tool counts again when it loads the snapshot.
fn is_usage(path: &str) -> bool {
    path.ends_with("/zookeeper_stats")
}
