//! The program `zk-fault-proxy`.

use std::process::Output;

use serde_json::{Value, json};
use zk_curator_proto::records::CreateMode;
use zk_curator_proto::{ErrorCode, Request};
use zk_curator_real::TempDir;
use zk_curator_testing::TestServer;
use zk_test_server::control::Call;

use crate::common::{LONG, RawClient, create};
use crate::program::{Program, proxy_command};

/// Starts a server, and a proxy with a control port in front of it.
async fn proxied() -> (TestServer, Program) {
    let server = TestServer::start().await;
    let options = ["--server", &server.connect_string(), "--control", "0"];
    (server, Program::start_proxy(&options).await)
}

fn session(zk: &RawClient) -> String {
    format!("{:#x}", zk.id())
}

#[tokio::test]
async fn rules_of_the_protocol_apply_to_requests() {
    let (server, program) = proxied().await;
    let mut control = program.connect().await;
    let hello = json!({ "version": 1, "token": crate::program::TOKEN });
    let hello = control.ok("hello", hello).await;
    assert_eq!((&hello["kind"], &hello["version"]), (&json!("proxy"), &json!(1)));
    assert_eq!(hello["connect_string"], program.address());

    let mut zk = program.client().await;
    let verdicts = [
        ("lost", json!("lose_reply")),
        ("unsent", json!("lose_request")),
        ("cut", json!("disconnect")),
        ("no", json!({ "refuse": "no_auth" })),
        ("late", json!({ "delay_ms": 1 })),
    ];
    for (name, verdict) in verdicts {
        let rule = json!({ "name": name, "operation": "create", "path": format!("/{name}"), "verdict": verdict });
        assert_eq!(control.ok("add_rule", rule).await["rule"], name);
        let path = format!("/{name}");
        match name {
            "no" => {
                let refused = zk.create(&path, CreateMode::Persistent).await;
                assert_eq!(refused, Err(ErrorCode::NoAuth));
            }
            "late" => assert_eq!(zk.create(&path, CreateMode::Persistent).await, Ok(path.clone())),
            _ => {
                zk.send(create(&path, CreateMode::Persistent)).await;
                zk.closed().await;
                zk = program.client().await;
            }
        }
        control.until(json!({ "rule": name, "hits": 1 })).await;
        assert_eq!(control.ok("remove_rule", json!({ "rule": name })).await["hits"], 1);
        assert_eq!(server.probe().exists(&path), ["lost", "late"].contains(&name), "{name}");
    }
    program.end("TERM").await;
}

#[tokio::test]
async fn a_probe_counts_requests_and_sessions() {
    let (_server, program) = proxied().await;
    let mut control = program.controlled().await;
    let mut zk = program.client().await;
    zk.create("/a", CreateMode::Persistent).await.unwrap();
    zk.create("/a", CreateMode::Persistent).await.unwrap_err();
    zk.get_data("/a", false).await.unwrap();
    zk.ping().await;
    let id = session(&zk);
    control.until(json!({ "session_connected": id })).await;
    let mut probe = control.ok("probe", json!({})).await;
    let peer = probe["sessions"][0]["peer"].take();
    assert!(peer.as_str().unwrap().starts_with("127.0.0.1:"), "{peer}");
    let expected = json!({
        "connections": 1,
        "sessions": [
            { "session": id, "connected": true, "peer": null, "member": 0, "requests": 4 },
        ],
        "requests": { "create": 2, "get_data": 1, "ping": 1 },
        "unknown_requests": 0,
        "paths": [{ "path": "/a", "requests": { "create": 2, "get_data": 1 } }],
        "requests_of_other_paths": 0,
    });
    assert_eq!(probe, expected);

    let mut other = program.client().await;
    assert_eq!(control.ok("disconnect", json!({ "session": id })).await["connections"], 1);
    zk.closed().await;
    control.until(json!({ "session_disconnected": id })).await;
    assert_eq!(control.ok("disconnect", json!({ "session": id })).await["connections"], 0);
    other.ping().await;
    assert_eq!(control.ok("disconnect", json!({})).await["connections"], 1);
    other.closed().await;
    let message = control.fails("no_such_session", "disconnect", json!({ "session": "0x7" })).await;
    assert_eq!(message, "disconnect: there is no session 0x7");
    let wait = json!({ "condition": { "session_connected": "0x7" }, "timeout_ms": 0 });
    let state = control.fails("timeout", "until", wait).await;
    assert!(state.contains("2 sessions") && state.contains("disconnected, 4 requests"), "{state}");
}

#[tokio::test]
async fn members_are_stopped_and_partitioned_one_by_one() {
    let servers = [TestServer::start().await, TestServer::start().await];
    let addresses = servers.each_ref().map(TestServer::connect_string);
    let options = ["--server", &addresses[0], "--server", &addresses[1], "--listen", "127.0.0.1:0"];
    let program = Program::start_proxy(&[&options[..], &["--control", "0"]].concat()).await;
    let mut control = program.controlled().await;
    let open = async |member: usize| RawClient::over_tcp(&program.addresses[member]).await;
    let info = control.ok("info", json!({})).await;
    assert_eq!(info["connect_string"], program.addresses.join(","));
    let of = |field: &str| json!([info["members"][0][field], info["members"][1][field]]);
    assert_eq!(of("server"), json!(addresses));
    assert_eq!(of("address"), json!(program.addresses));
    assert_eq!(of("role"), json!(["proxy", "proxy"]));

    let mut zks = [open(0).await, open(1).await];
    control.ok("add_rule", json!({ "member": 1, "verdict": { "refuse": "throttled" } })).await;
    zks[0].ping().await;
    assert_eq!(zks[1].call(Request::Ping).await, Err(ErrorCode::from_code(-127).unwrap()));
    control.ok("remove_rules", json!({})).await;
    control.ok("stop", json!({ "member": 0 })).await;
    zks[0].closed().await;
    assert_eq!(control.ok("info", json!({})).await["members"][0]["role"], "stopped");
    control.ok("start", json!({ "member": 0 })).await;
    zks[0] = open(0).await;
    control.ok("partition", json!({ "member": 1 })).await;
    zks[1].send(Request::Ping).await;
    zks[0].ping().await;
    control.ok("heal", json!({ "member": 1 })).await;
    assert!(zks[1].reply().await.unwrap().is_ok());
    control.ok("restart", json!({})).await;
    for zk in &mut zks {
        zk.closed().await;
    }
    control.ok("partition", json!({})).await;
    control.ok("stop", json!({})).await;
    control.ok("reset", json!({})).await;
    open(0).await.ping().await;
    let message = control.fails("no_such_member", "stop", json!({ "member": 2 })).await;
    assert_eq!(message, "stop: there is no member 2, only 0 to 1");
    control
        .fails("no_such_member", "add_rule", json!({ "member": 2, "verdict": "disconnect" }))
        .await;
}

/// Calls that a proxy refuses.
fn unsupported() -> Vec<(&'static str, Value)> {
    vec![
        ("pause", json!({})),
        ("resume", json!({ "member": 0 })),
        ("split", json!({ "sides": [[0], [1]] })),
        ("set_read_only", json!({ "read_only": true })),
        ("expire", json!({ "session": "0x1" })),
        ("lag", json!({ "member": 0 })),
        ("end_lag", json!({ "lag": 1 })),
        ("change_leader", json!({})),
        ("advance", json!({ "by_ms": 1 })),
        ("shift_wall_clock", json!({ "by_ms": 1 })),
        ("set_version", json!({ "path": "/a", "version": 1 })),
        ("set_sequence", json!({ "path": "/a", "next": 1 })),
        ("remove", json!({ "path": "/a" })),
        ("reap_containers", json!({})),
        ("journal", json!({})),
        ("probe", json!({ "member": 0 })),
        ("until", json!({ "condition": { "exists": "/a" }, "timeout_ms": 1000 })),
        ("until", json!({ "condition": { "sessions": 1 }, "timeout_ms": 1000 })),
        ("until", json!({ "condition": { "session_ended": "0x1" }, "timeout_ms": 1000 })),
        ("until", json!({ "condition": { "leader": true }, "timeout_ms": 1000 })),
    ]
}

#[tokio::test]
async fn what_a_proxy_cannot_do_is_unsupported() {
    let (_server, program) = proxied().await;
    let mut control = program.controlled().await;
    for (call, parameters) in unsupported() {
        control.fails("unsupported", call, parameters).await;
    }
    control.ok("info", json!({})).await;
}

#[tokio::test]
async fn a_scenario_applies_from_the_first_request() {
    let server = TestServer::start().await;
    let folder = TempDir::new("zk-fault-proxy").unwrap();
    let file = folder.path().join("scenario.toml");
    let scenario = "version = 1\n\
        [[rule]]\nname = \"lost\"\noperation = \"create\"\nverdict = \"lose_reply\"\ntimes = 1\n\
        [[step]]\nuntil = { rule = \"lost\", hits = 1 }\ncall = \"partition\"\n\
        [[step]]\ncall = \"heal\"\n";
    std::fs::write(&file, scenario).unwrap();
    let path = file.to_str().unwrap();
    let server_option = server.connect_string();
    let options = ["--server", &server_option, "--scenario", path, "--until-scenario-ends"];
    let mut program = Program::start_proxy(&options).await;
    let mut zk = program.client().await;
    zk.send(create("/a", CreateMode::Persistent)).await;
    zk.closed().await;
    for expected in ["step 1: partition", "step 2: heal", "scenario ended"] {
        assert_eq!(program.line().await, expected);
    }
    let (status, errors) = program.ended().await;
    assert_eq!((status.code(), errors.as_str()), (Some(0), ""));
    assert!(server.probe().exists("/a"));
}

#[tokio::test]
async fn the_scenario_of_the_page_is_valid() {
    let page = include_str!("../../../docs/book/src/testing/fault-proxy.md");
    let scenario = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let folder = TempDir::new("zk-fault-proxy").unwrap();
    let file = folder.path().join("scenario.toml");
    std::fs::write(&file, scenario.expect("a block of TOML")).unwrap();
    let options = ["--server", "zk1:2181", "--scenario", file.to_str().unwrap()];
    Program::start_proxy(&options).await.end("TERM").await;
}

#[tokio::test]
async fn the_program_ends_with_its_input_or_by_a_signal() {
    let server = TestServer::start().await;
    let address = server.connect_string();
    let mut program = Program::start_proxy(&["--server", &address, "--until-eof"]).await;
    let mut zk = program.client().await;
    drop(program.process.stdin.take());
    zk.closed().await;
    let (status, errors) = program.ended().await;
    assert_eq!((status.code(), errors.as_str()), (Some(0), ""));
    for signal in ["TERM", "INT", "HUP"] {
        let program = Program::start_proxy(&["--server", &address]).await;
        program.client().await.ping().await;
        program.end(signal).await;
    }
}

#[tokio::test]
async fn a_server_that_is_away_does_not_end_the_proxy() {
    let server = TestServer::start().await;
    let address = server.connect_string();
    let mut program = Program::start_proxy(&["--server", &address]).await;
    program.client().await.ping().await;
    server.stop().await;
    for _ in 0..20 {
        assert_eq!(program.ask(b"").await, "");
    }
    server.restart().await.unwrap();
    let ping = async { program.client().await.ping().await };
    tokio::time::timeout(LONG, ping).await.unwrap();
    let (status, errors) = program.signal("TERM").await;
    assert_eq!(status.code(), Some(0));
    // One line about all attempts, unless they took ten seconds.
    let line = format!("zk-fault-proxy: {address}: cannot connect: ");
    let lines: Vec<_> = errors.lines().collect();
    assert!((1..10).contains(&lines.len()), "{errors}");
    assert!(lines.iter().all(|error| error.starts_with(&line)), "{errors}");
}

#[tokio::test]
async fn wrong_options_are_refused_in_one_line() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (options, part) in [
        (&["--frob"][..], "invalid option '--frob'"),
        (&[], "no '--server' is given"),
        (&["zk1:2181"], "unexpected argument"),
        (&["--listen", "127.0.0.1:0", "--server", "zk1:2181"], "'--listen' follows its '--server'"),
        (&["--server", "zk1:2181", "--listen", "localhost"], "'localhost' for option '--listen'"),
        (&["--server", "zk1"], "\"zk1\" is not host:port"),
        (&["--server", "zk1:2181", "--listen", &taken], &taken),
        (&["--server", "zk1:2181", "--max-frame", "1023"], "from 1024 to 2147483647"),
        (&["--server", "zk1:2181", "--max-connections", "0"], "from 1 to 1000000"),
        (&["--server", "zk1:2181", "--control", "65536"], "from 0 to 65535"),
        (&["--server", "zk1:2181", "--scenario", "/no/such"], "cannot read the scenario"),
        (&["--server", "zk1:2181", "--until-scenario-ends"], "is for '--scenario'"),
    ] {
        let output = proxy_command(options).output();
        let Output { status, stdout, stderr } =
            tokio::time::timeout(LONG, output).await.expect("an end in time").unwrap();
        let text = String::from_utf8(stderr).unwrap();
        assert_eq!((status.code(), stdout.len()), (Some(2), 0), "{options:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.starts_with("zk-fault-proxy: ") && text.contains(part), "{text}");
    }
    for (option, starts) in [("--help", "A proxy"), ("--version", "zk-fault-proxy ")] {
        let output = proxy_command(&[option]).output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.starts_with(starts), "{text}");
    }
}

/// The table of the protocol's page names the calls that a proxy supports.
#[test]
fn the_page_lists_the_supported_calls() {
    let page = include_str!("../PROTOCOL.md");
    let (_, section) = page.split_once("\n## The fault proxy\n").expect("a section of the page");
    let (section, _) = section.split_once("\n## ").expect("its end");
    let first_cells = section.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    let listed: Vec<_> = first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let unsupported: Vec<_> = unsupported().into_iter().map(|(call, _)| call).collect();
    for call in Call::NAMES {
        // `probe` and `until` support some parameters.
        let supported = !unsupported.contains(call) || ["probe", "until"].contains(call);
        assert_eq!(listed.contains(call), supported, "{call}");
    }
}
