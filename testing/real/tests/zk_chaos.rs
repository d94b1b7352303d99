//! The command line of `zk-chaos`, without Apache ZooKeeper.
#![cfg(unix)]

use std::process::{Command, Output};

fn zk_chaos(arguments: &[&str]) -> (Option<i32>, String, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_zk-chaos")).args(arguments).output();
    let Output { status, stdout, stderr } = run.expect("zk-chaos runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn help_and_the_names_of_the_recipes_are_printed() {
    let (code, help, _) = zk_chaos(&["--help"]);
    assert!(code == Some(0) && help.contains("usage: zk-chaos"), "{help}");
    let (code, names, _) = zk_chaos(&["--list"]);
    assert!(code == Some(0) && names.lines().any(|name| name == "mutex"), "{names}");
}

#[test]
fn wrong_options_are_reported() {
    for (arguments, wrong) in [
        (&["--scenario", "mutex,tree"][..], "there is no scenario tree"),
        (&["--without", "tree"], "there is no scenario tree"),
        (&["--without", "mutex", "--scenario", "mutex"], "no scenario is left"),
        (&["--duration", "soon"], "\"soon\" is not a time"),
        (&["--duration", "0s"], "\"0s\" is not a time"),
        (&["--clients", "0"], "\"0\" is not a number from 1 to 100"),
        (&["--colour"], "--colour"),
    ] {
        let (code, _, errors) = zk_chaos(arguments);
        assert!(code == Some(2) && errors.contains(wrong), "{arguments:?}: {errors}");
    }
}

#[test]
fn a_client_without_a_life_ends() {
    for life in [&[][..], &["{}"]] {
        let (code, ..) = zk_chaos(&[&["--client-of-chaos"], life].concat());
        assert_eq!(code, Some(2));
    }
}
