//! Handles with other settings: compression, a namespace, a chroot.

use zk_curator::{Acl, CuratorFrameworkBuilder};
use zk_curator_testing::TestServer;
use zk_curator_tests::catalogue::{Row, Settings};

use super::{Judged, Played, each, expected, same, undisturbed};

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
    let Played { result, left, requests } = undisturbed(row, settings).await?;
    let below = |line: String| match line.strip_prefix("/ns") {
        Some(line) => line.to_owned(),
        None => format!("outside: {line}"),
    };
    let mut left: Vec<_> = left.into_iter().map(below).filter(|line| !line.is_empty()).collect();
    left.sort();
    same(&Played { result, left, requests }, &as_usual)
}

/// Checksums are of the full paths within the chroot.
const CHECKSUMS: &str = "migration::";
/// A dead letter is the compressed item below an uncompressed header.
const MOVED: &str = "queue::Delivery<Locking>::reject";

#[test]
fn a_namespace_only_moves_what_a_call_leaves() {
    each(
        async |row| {
            if row.name.starts_with(CHECKSUMS) { Ok(()) } else { is_moved(row, in_namespace).await }
        },
    );
}

#[test]
fn a_chroot_only_moves_what_a_call_leaves() {
    each(async |row| is_moved(row, in_chroot).await);
}

#[test]
fn a_compressing_framework_leaves_the_same() {
    each(async |row| {
        if row.name == MOVED {
            return Ok(());
        }
        same(&undisturbed(row, compressing).await?, &expected(row).await?)
    });
}
