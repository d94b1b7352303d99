//! The `zk-real` program.

use std::net::TcpStream;
use std::process::{Command, Output};

use zk_curator_real::{self as real, RealZooKeeper};

/// Runs `zk-real` with the variables that `cargo run` sets.
fn zk_real(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zk-real"));
    command
        .args(arguments)
        .env("CARGO_PKG_NAME", "zk-curator-testing")
        .env("CARGO_MANIFEST_DIR", "testing");
    command.output().expect("zk-real runs")
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_command_reaches_the_server_and_its_exit_code_is_ours() {
    let name = "the_command_reaches_the_server_and_its_exit_code_is_ours";
    if !real::runs(name, RealZooKeeper::available()) {
        return;
    }
    // bash has sockets: the server responds while the command runs, and is gone afterwards.
    let script = r#"echo "$ZK_CONNECT"; test -d "$ZK_DATA_DIRS/version-2" || exit 1; exec 3<>"/dev/tcp/${ZK_CONNECT/:/\/}"; printf ruok >&3; cat <&3; exit 7"#;
    let output = zk_real(&["--exec", "bash", "-c", script]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let Some((connect_string, answer)) = text.split_once('\n') else { panic!("{text}") };
    assert_eq!((output.status.code(), answer), (Some(7), "imok"), "{text}");
    assert!(TcpStream::connect(connect_string).is_err());
}

/// A `cargo` in the command would take these variables for its own, and rebuild every crate that
/// depends on them.
#[test]
#[ignore = "slow: scripts/test-all"]
fn command_does_not_see_our_package_variables() {
    let name = "command_does_not_see_our_package_variables";
    if !real::runs(name, RealZooKeeper::available()) {
        return;
    }
    let output = zk_real(&["--exec", "env"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.lines().any(|line| line.starts_with("ZK_CONNECT=")), "{text}");
    assert!(!text.contains("CARGO_PKG_") && !text.contains("CARGO_MANIFEST_"), "{text}");
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_missing_command_has_the_exit_code_of_a_shell() {
    let name = "a_missing_command_has_the_exit_code_of_a_shell";
    if real::runs(name, RealZooKeeper::available()) {
        assert_eq!(zk_real(&["--exec", "/nonexistent"]).status.code(), Some(127));
    }
}

#[test]
fn help_lists_options_and_commands() {
    let output = zk_real(&["--help"]);
    let help = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0));
    for part in ["usage: zk-real", "--ensemble N", "\n  kill MEMBER…", "\n  resume MEMBER…"] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[test]
fn wrong_options_are_refused() {
    for (arguments, wrong) in [
        (&["--ensemble"][..], "--ensemble"),
        (&["--ensemble", "1"], "\"1\" is not a number from 2 to 9"),
        (&["--ensemble", "10"], "\"10\" is not a number from 2 to 9"),
        (&["--ensemble", "three"], "\"three\" is not a number"),
        (&["--exec"], "option '--exec' wants a command"),
        (&["--until-eof", "--exec", "true"], "'--until-eof' is not for '--exec'"),
        (&["--colour"], "--colour"),
        (&["3"], "\"3\""),
    ] {
        let output = zk_real(arguments);
        let errors = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(wrong) && errors.lines().count() == 1, "{arguments:?}: {errors}");
    }
}
