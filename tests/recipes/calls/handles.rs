//! Handles with other settings: compression, a namespace, a chroot.

use zk_curator::{Acl, CuratorFrameworkBuilder};
use zk_curator_testing::TestServer;
use zk_curator_tests::catalogue::{Row, Settings};

use super::{Judged, Played, each_of, expected, plain, same, undisturbed};

fn compressing(builder: CuratorFrameworkBuilder, _: &TestServer) -> CuratorFrameworkBuilder {
    builder.enable_compression()
}

fn in_namespace(builder: CuratorFrameworkBuilder, _: &TestServer) -> CuratorFrameworkBuilder {
    builder.namespace("ns")
}

fn in_chroot(builder: CuratorFrameworkBuilder, server: &TestServer) -> CuratorFrameworkBuilder {
    let servers = format!("{}/ns", server.connect_string());
    builder.connect_string(servers).create_chroot(Acl::open_unsafe())
}

/// The same nodes are left below the prefix, and nothing beside it.
async fn is_moved(row: Row, settings: Settings) -> Judged {
    let as_usual = expected(row).await?;
    let Played { left, .. } = undisturbed(row, settings).await?;
    let below = |line: String| match line.strip_prefix("/ns") {
        Some(line) => line.to_owned(),
        None => format!("outside: {line}"),
    };
    let mut left: Vec<_> = left.into_iter().map(below).filter(|line| !line.is_empty()).collect();
    left.sort();
    same(&Played { left, ..as_usual.clone() }, &as_usual)
}

/// Checksums are of the full paths within the chroot.
const CHECKSUMS: &str = "migration::";
/// A dead letter is the compressed item below an uncompressed header.
const MOVED: &str = "queue::Delivery<Locking>::reject";

#[test]
fn a_namespace_only_moves_what_a_call_leaves() {
    each_of(0, 2, async |row| {
        if row.name.starts_with(CHECKSUMS) {
            Ok(())
        } else {
            is_moved(row, [in_namespace; 2]).await
        }
    });
}

#[test]
fn a_chroot_only_moves_what_a_call_leaves() {
    each_of(1, 2, async |row| is_moved(row, [in_chroot; 2]).await);
}

/// Calls that wait for data which they can read.
const WAIT: [&str; 3] = [
    "queue::Consumer::run",
    "cache::CuratorCache::wait_for",
    "framework::CuratorFramework::wait_data",
];

/// The areas in whose nodes are data of users.
const USERS: [&str; 10] = [
    "cache",
    "discovery",
    "framework",
    "group",
    "inspect",
    "migration",
    "name",
    "node",
    "queue",
    "stm",
];

/// The errors of calls that read data of users.
const UNREADABLE: [&str; 2] = ["cannot be decoded", "is corrupt"];

/// Data of recipes are not compressed, and read by all. Those of users may be unreadable.
#[test]
fn compression_on_one_side_concerns_data_of_users() {
    let sides: [Settings; 2] = [[compressing, plain], [plain, compressing]];
    for (side, settings) in sides.into_iter().enumerate() {
        each_of(side, 2, async |row| {
            if row.name == MOVED || WAIT.contains(&row.call()) {
                return Ok(());
            }
            match undisturbed(row, settings).await {
                Ok(played) if played.is_compressed && !USERS.contains(&row.area()) => {
                    Err("it compresses data of its own".to_owned())
                }
                Ok(played) => same(&played, &expected(row).await?),
                Err(why) if UNREADABLE.iter().any(|text| why.contains(text)) => Ok(()),
                Err(why) => Err(why),
            }
        });
    }
}
