//! The programs of `docs/book/src/testing/real-ensemble.md` work as printed there.

use std::error::Error;
use std::time::Duration;

use tokio::process::Command;
use zk_curator::CuratorFramework;
use zk_curator_real::other_clients::PATIENCE;
use zk_curator_real::{self as real, RealZooKeeper};

const PAGE: &str = include_str!("../../../docs/book/src/testing/real-ensemble.md");

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn orders_survive_their_servers_as_in_the_guide() -> Result<(), Box<dyn Error>> {
    orders_survive_their_servers().await
}

async fn orders_survive_their_servers() -> Result<(), Box<dyn Error>> {
    // ANCHOR: members
    let test = "orders_survive_their_servers";
    let Some(mut ensemble) = real::or_skip_ensemble(test, 3).await else { return Ok(()) };
    let zk = CuratorFramework::builder()
        .connect_string(ensemble.connect_string())
        .session_timeout(Duration::from_secs(6))
        .build()?;
    zk.start().await?;

    // A crash: SIGKILL. The create is retried until the others have elected a leader.
    let leader = ensemble.leader().await?;
    ensemble.kill(leader).await?;
    zk.create("/orders").idempotent().await?;
    ensemble.restart(leader).await?; // with its data, on its port

    // A server that hangs: SIGSTOP. Its clients notice by their session timeouts.
    let follower = ensemble.follower().await?;
    ensemble.pause(follower).await?;
    zk.set_data("/orders", "paused").idempotent().await?;
    ensemble.resume(follower).await?;
    // ANCHOR_END: members

    // An orderly stop, of a majority. ZooKeeper before 3.9.4 may lose acknowledged writes if a
    // server ends while others elect a leader, so the test waits for the end of each election.
    ensemble.wait_until_synced().await?;
    ensemble.stop(0).await?;
    ensemble.wait_until_synced().await?;
    ensemble.stop(1).await?;
    // No server serves alone, so they are started together.
    ensemble.restart_all(&[0, 1]).await?;
    assert_eq!(zk.get_data("/orders").await?, "paused");
    zk.close().await?;
    Ok(()) // dropping the ensemble kills its servers and removes their data
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn the_script_of_the_guide_changes_members() {
    let test = "the_script_of_the_guide_changes_members";
    if !real::runs(test, RealZooKeeper::available()) {
        return;
    }
    let (_, rest) = PAGE.split_once("```bash\n").expect("a script");
    let (script, _) = rest.split_once("```").expect("its end");
    let programs = std::path::Path::new(env!("CARGO_BIN_EXE_zk-real")).parent().expect("a folder");
    let path = std::env::var_os("PATH").expect("a path");
    let path = std::iter::once(programs.to_owned()).chain(std::env::split_paths(&path));
    let output = Command::new("bash")
        .args(["-e", "-c", script])
        .env("PATH", std::env::join_paths(path).expect("a path"))
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, output).await.expect("an end in time");
    let output = output.expect("bash runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let answers: Vec<&str> = text.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(
        answers,
        ["kill", "leader", "start", "pause", "resume", "synced", "stop", "quit"],
        "{text}"
    );
    assert!(text.lines().all(|line| line.starts_with("ok ")), "{text}");
}
