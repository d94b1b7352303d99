//! The programs in `docs/book/src/testing/other-clients.md` work as printed there.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::path::{Path, PathBuf};
use std::process::Output;

use tokio::process::Command;
use zk_curator_real::TempDir;
use zk_curator_real::other_clients::{PATIENCE, c_client, c_library, compile_c, python_with_kazoo};
use zk_curator_real::{self as real, java};

const GUIDE: &str = include_str!("../../../docs/book/src/testing/other-clients.md");

/// Returns the only program of the guide in a language.
fn program(language: &str) -> &'static str {
    let (_, rest) = GUIDE.split_once(&format!("```{language}\n")).expect("a program in the guide");
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
async fn the_program_in_python_tests_a_lock() {
    let test = "the_program_in_python_tests_a_lock";
    let python = python_with_kazoo(env!("CARGO_TARGET_TMPDIR")).await;
    if !real::runs(test, python.as_ref().map(|_| ())) {
        return;
    }
    let directory = TempDir::new(test).unwrap();
    let output = run(directory.path(), python.unwrap(), &["-c", program("python")]).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("Ran 1 test") && said.ends_with("OK\n"), "{said}");
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn the_program_in_java_greets() {
    let test = "the_program_in_java_greets";
    if !real::runs(test, java::available()) {
        return;
    }
    let directory = TempDir::new(test).unwrap();
    std::fs::write(directory.path().join("ZkTestServer.java"), program("java")).unwrap();
    let jars = std::env::var("ZOOKEEPER_JARS").unwrap_or_else(|_| "/usr/share/java".to_owned());
    let jars: Vec<_> = jars.split(':').map(|directory| format!("{directory}/*")).collect();
    let java = std::env::var_os("JAVA_HOME")
        .map_or_else(|| "java".into(), |home| PathBuf::from(home).join("bin/java"));
    let output = run(directory.path(), java, &["-cp", &jars.join(":"), "ZkTestServer.java"]).await;
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "hello\n");
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
