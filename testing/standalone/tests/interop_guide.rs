//! The programs in `README.md` work as printed there.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::path::Path;
use std::process::Output;

use tokio::process::Command;
use zk_curator_real as real;
use zk_curator_real::TempDir;
use zk_curator_real::other_clients::{PATIENCE, c_client, c_library, compile_c};

const PAGE: &str = include_str!("../README.md");

/// Returns the only program of the page in a language.
fn program(language: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("```{language}\n")).expect("a program of the page");
    rest.split_once("```").expect("its end").0
}

/// Runs a program with `zk-test-server` in its path, and asserts that it succeeds.
async fn run(directory: &Path, command: impl AsRef<Path>, arguments: &[&str]) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_zk-test-server"));
    let path = std::env::var_os("PATH").unwrap();
    let path =
        std::iter::once(binary.parent().unwrap().to_owned()).chain(std::env::split_paths(&path));
    let output = Command::new(command.as_ref())
        .args(arguments)
        .env("PATH", std::env::join_paths(path).unwrap())
        .current_dir(directory)
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, output).await.expect("it ends in time").unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn the_program_for_a_shell_keeps_its_data() {
    let test = "the_program_for_a_shell_keeps_its_data";
    if !real::runs(test, c_client()) {
        return;
    }
    let directory = TempDir::new(test).unwrap();
    let output = run(directory.path(), "sh", &["-e", "-c", program("sh")]).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("/greeting: rc = 0\n value_len = 3\nnew"), "{said}");
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn the_program_for_bash_loses_a_response() {
    let test = "the_program_for_bash_loses_a_response";
    if !real::runs(test, c_client()) {
        return;
    }
    let directory = TempDir::new(test).unwrap();
    let output = run(directory.path(), "bash", &["-e", "-c", program("bash")]).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("[/greeting]: rc = -4"), "{said}");
    let calls = String::from_utf8(output.stdout).unwrap();
    let calls: Vec<_> = calls.lines().filter(|line| line.starts_with('{')).collect();
    assert_eq!(
        calls[1..3],
        ["{\"id\":2,\"ok\":{\"rule\":\"lost\"}}", "{\"id\":3,\"ok\":{\"hits\":1}}"]
    );
    assert!(calls[3].starts_with("{\"id\":4,\"ok\":{\"waited_ms\":"), "{calls:?}");
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn the_program_in_c_greets() {
    let test = "the_program_in_c_greets";
    if !real::runs(test, c_library()) {
        return;
    }
    let directory = TempDir::new(test).unwrap();
    let source = directory.path().join("greeting.c");
    std::fs::write(&source, program("c")).unwrap();
    let compiled = compile_c(&source, directory.path()).await;
    let output = run(directory.path(), compiled, &[]).await;
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "hello\n");
}
