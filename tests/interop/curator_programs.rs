//! Java programs of other tests, tested alone, because those tests rely on them.

use std::future::ready;
use std::process::Output;
use std::time::Duration;

use tokio::process::Child;
use zk_curator_real::java::Program;
use zk_curator_real::{self as real, Chroot, RealError, RealZooKeeper, Session, TempDir, java};
use zk_curator_testing::wait;

use crate::contest::compiled;

const ROUNDS: usize = 25;

/// Returns a chroot, and the contender for a mutex. Returns `None` without Java.
async fn contender(test: &str) -> Option<(Chroot, Program)> {
    if !real::runs(test, java::available()) {
        return None;
    }
    let chroot = real::chroot_or_skip(test).await?;
    Some((chroot, compiled("CuratorMutexContender.java").await))
}

/// Waits for the end of a program. Returns its exit code and its lines.
async fn finish(child: Child) -> (Option<i32>, Vec<String>) {
    let ended = tokio::time::timeout(Duration::from_secs(100), child.wait_with_output()).await;
    let Output { status, stdout, .. } =
        ended.expect("the program ends in time").expect("its output is read");
    let text = String::from_utf8(stdout).expect("the output is UTF-8");
    (status.code(), text.lines().map(str::to_owned).collect())
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn two_curators_never_hold_the_mutex_together_and_both_finish() {
    let name = "two_curators_never_hold_the_mutex_together_and_both_finish";
    let Some((chroot, contender)) = contender(name).await else { return };
    let counter = format!("{}/counter", chroot.path());
    let mut session = Session::open(chroot.addr(), 30_000);
    session.create(&counter, b"0");

    let rounds = ROUNDS.to_string();
    let connect_string = chroot.connect_string();
    let start = |label| {
        contender
            .spawn([&connect_string, "/locks/orders", &rounds, label, "/witness", "/counter"])
            .unwrap()
    };
    let (one, two) = (start("one"), start("two"));
    for (label, (code, lines)) in [("one", finish(one).await), ("two", finish(two).await)] {
        assert_eq!(code, Some(0), "{lines:?}");
        assert_eq!(lines.len(), ROUNDS + 1, "{lines:?}");
        for (round, line) in lines[..ROUNDS].iter().enumerate() {
            let node = line.strip_prefix(&format!("HELD {label} {round} /locks/orders/_c_"));
            assert!(node.is_some_and(|node| node[36..].starts_with("-lock-00")), "{line}");
        }
        assert_eq!(lines[ROUNDS], "DONE");
    }
    let count = (2 * ROUNDS).to_string();
    assert_eq!(session.get_data(&counter).as_deref(), Some(count.as_bytes()));
    assert_eq!(session.get_data(&format!("{}/witness", chroot.path())), None);
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn a_second_holder_is_a_violation() {
    let name = "a_second_holder_is_a_violation";
    let Some((chroot, contender)) = contender(name).await else { return };
    let counter = format!("{}/counter", chroot.path());
    let mut session = Session::open(chroot.addr(), 30_000);
    session.create(&counter, b"0");
    // A client that believes to hold the lock.
    session.create(&format!("{}/witness", chroot.path()), b"two");
    let connect_string = chroot.connect_string();
    let child = contender
        .spawn([&connect_string, "/locks/orders", "5", "one", "/witness", "/counter"])
        .unwrap();
    let (code, lines) = finish(child).await;
    let last = lines.last().map(String::as_str);
    assert_eq!((code, last), (Some(3), Some("VIOLATION one 0 two")), "{lines:?}");
    assert_eq!(session.get_data(&counter).as_deref(), Some(&b"0"[..]));
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn the_layout_of_curators_mutex_is_the_documented_one() {
    let name = "the_layout_of_curators_mutex_is_the_documented_one";
    if !real::runs(name, java::available()) {
        return;
    }
    let builder = RealZooKeeper::builder().jvm_property("znode.container.checkIntervalMs", 100);
    let Some(zookeeper) = real::or_skip_with(name, builder).await else { return };
    let layout = compiled("CuratorMutexLayout.java").await;
    let child = layout.spawn([&zookeeper.connect_string(), "/locks/orders"]).unwrap();
    let (code, lines) = finish(child).await;
    assert_eq!(code, Some(0));
    let [child] = &lines[..] else { panic!("{lines:?}") };
    let fields: Vec<&str> = child.split(' ').collect();
    let ["CHILD", path, owner, session, data] = fields[..] else { panic!("{child}") };
    assert_eq!((owner, data), (session, "label"));
    let node = path.strip_prefix("/locks/orders/_c_").expect("the prefix of protection");
    let (uuid, rest) = node.split_at(36);
    assert_eq!(rest, "-lock-0000000000");
    for (index, symbol) in uuid.char_indices() {
        match index {
            8 | 13 | 18 | 23 => assert_eq!(symbol, '-', "{uuid}"),
            _ => assert!(symbol.is_ascii_digit() || ('a'..='f').contains(&symbol), "{uuid}"),
        }
    }

    // Parents are containers, which the server removes once they are empty. Clients have no other
    // way to see that.
    let mut client = Session::open(zookeeper.addr(), 30_000);
    let removed = wait::until(|| ready(client.get_data("/locks").is_none()));
    tokio::time::timeout(Duration::from_secs(20), removed)
        .await
        .expect("the lock path is a container");
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn a_program_that_does_not_compile_says_why() {
    if !real::runs("a_program_that_does_not_compile_says_why", java::available()) {
        return;
    }
    let folder = TempDir::new("broken").unwrap();
    let source = folder.path().join("Broken.java");
    std::fs::write(&source, "class Broken { int number = \"text\"; }\n").unwrap();
    let error = Program::compile(source).await.unwrap_err();
    assert!(matches!(error, RealError::Compile { .. }), "{error}");
    assert!(error.to_string().contains("Broken.java:1: error: incompatible types"), "{error}");
}
