//! The calls of the control port, as clients of the servers see them.

use serde_json::{Value, json};
use zk_curator_proto::records::{CreateMode, MultiOp};
use zk_curator_proto::{ErrorCode, Request};

use crate::common::{LONG_SESSION, RawClient, create, create_body, delete};
use crate::program::{CONTROL, Control, Program};

/// The options of an ensemble whose control port is open.
const ENSEMBLE: &[&str] =
    &["--control", "0", "--tick-time", "100", "--max-session-timeout", "60000", "--ensemble", "3"];

fn session(client: &RawClient) -> String {
    format!("{:#x}", client.id())
}

async fn member(control: &mut Control, member: usize) -> Value {
    control.ok("info", json!({})).await["members"][member].take()
}

#[tokio::test]
async fn servers_stop_start_and_restart() {
    let program = Program::start(CONTROL).await;
    let mut control = program.controlled().await;
    let mut zk = program.client().await;
    zk.create("/a", CreateMode::Persistent).await.unwrap();
    control.ok("stop", json!({})).await;
    zk.closed().await;
    assert_eq!(member(&mut control, 0).await["role"], "stopped");
    crate::common::refuses(program.address().parse().unwrap()).await;
    control.ok("start", json!({})).await;
    let mut zk = program.client().await;
    zk.exists("/a", false).await.unwrap();
    control.ok("start", json!({ "member": 0 })).await;
    zk.ping().await;
    control.ok("restart", json!({})).await;
    zk.closed().await;
    program.client().await.exists("/a", false).await.unwrap();
    for call in ["stop", "start", "restart", "pause", "resume", "partition", "heal", "probe"] {
        let message = control.fails("no_such_member", call, json!({ "member": 1 })).await;
        assert!(message.ends_with("no member 1, only 0"), "{message}");
    }
}

#[tokio::test]
async fn a_member_that_is_null_is_not_every_member() {
    let program = Program::start(ENSEMBLE).await;
    let mut control = program.controlled().await;
    for (call, parameters) in [
        ("stop", json!({ "member": null })),
        ("start", json!({ "member": null })),
        ("restart", json!({ "member": null })),
        ("pause", json!({ "member": null })),
        ("resume", json!({ "member": null })),
        ("partition", json!({ "member": null })),
        ("heal", json!({ "member": null })),
        ("set_read_only", json!({ "member": null, "read_only": true })),
        ("shift_wall_clock", json!({ "member": null, "by_ms": 5 })),
        ("change_leader", json!({ "member": null })),
        ("probe", json!({ "member": null })),
        ("disconnect", json!({ "session": null })),
        ("lag", json!({ "member": 0, "delay_ms": null })),
        ("add_rule", json!({ "member": null, "verdict": "disconnect" })),
        ("add_rule", json!({ "session": null, "verdict": "disconnect" })),
        ("until", json!({ "condition": { "sessions": 0, "rule": null }, "timeout_ms": 0 })),
    ] {
        let message = control.fails("bad_request", call, parameters).await;
        assert!(message.contains("is null; leave it out"), "{message}");
    }
    let journal = control.ok("journal", json!({})).await;
    assert_eq!(journal["entries"], json!([]), "no member was touched");
}

#[tokio::test]
async fn a_stopped_server_starts_after_changes_of_its_mode() {
    for last in ["start", "reset"] {
        let program = Program::start(CONTROL).await;
        let mut control = program.controlled().await;
        let zk = program.client().await;
        control.ok("stop", json!({})).await;
        for read_only in [true, false] {
            control.ok("set_read_only", json!({ "read_only": read_only })).await;
            assert_eq!(member(&mut control, 0).await["role"], "stopped", "{read_only}");
        }
        control.ok("advance", json!({ "by_ms": 2 * LONG_SESSION })).await;
        control.until(json!({ "session_disconnected": session(&zk) })).await;
        control.ok(last, json!({})).await;
        assert_eq!(member(&mut control, 0).await["role"], "standalone");
        let mut zk = program.client().await;
        zk.create("/a", CreateMode::Persistent).await.unwrap();
    }
}

#[tokio::test]
async fn a_reset_ends_every_sequence_of_faults() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for options in [CONTROL, ENSEMBLE] {
        let program = Program::start(options).await;
        let mut control = program.controlled().await;
        let members = program.addresses.len();
        for round in 0..25 {
            let mut stopped = vec![false; members];
            let mut faults = Vec::new();
            for _ in 0..rng.usize(1..12) {
                let one = rng.usize(..members);
                let of_all = rng.bool();
                let mut parameters = if of_all { json!({}) } else { json!({ "member": one }) };
                let call = match rng.u8(..9) {
                    0 | 1 => "stop",
                    2 => "start",
                    3 => "restart",
                    4 => "pause",
                    5 => "partition",
                    6 => ["resume", "heal"][rng.usize(..2)],
                    7 => {
                        parameters["verdict"] = json!({ "delay_ms": u32::MAX });
                        "add_rule"
                    }
                    _ => {
                        parameters["read_only"] = json!(rng.bool());
                        "set_read_only"
                    }
                };
                faults.push(format!("{call} {parameters}"));
                control.ok(call, parameters).await;
                for (at, stopped) in stopped.iter_mut().enumerate() {
                    match call {
                        "stop" if of_all || at == one => *stopped = true,
                        "start" | "restart" if of_all || at == one => *stopped = false,
                        _ => {}
                    }
                    let role = member(&mut control, at).await["role"].take();
                    assert_eq!(role == "stopped", *stopped, "member {at}: {faults:?}");
                }
            }
            control.ok("reset", json!({})).await;
            for (at, address) in program.addresses.iter().enumerate() {
                let created = async {
                    let mut zk = RawClient::over_tcp(address).await;
                    zk.create(&format!("/{round}-{at}"), CreateMode::Persistent).await
                };
                let created = tokio::time::timeout(crate::common::LONG, created).await;
                assert!(matches!(created, Ok(Ok(_))), "member {at}, {created:?}: {faults:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_paused_server_responds_later_and_expires_no_session() {
    let program = Program::start(CONTROL).await;
    let mut control = program.controlled().await;
    let mut zk = program.client().await;
    control.ok("pause", json!({})).await;
    zk.send(create("/a", CreateMode::Persistent)).await;
    control.ok("advance", json!({ "by_ms": 2 * LONG_SESSION })).await;
    control.until(json!({ "absent": "/a" })).await;
    control.ok("resume", json!({})).await;
    control.until(json!({ "exists": "/a" })).await;
    assert!(zk.reply().await.unwrap().is_ok());
    let journal = control.ok("journal", json!({})).await;
    let faults: Vec<_> =
        journal["entries"].as_array().unwrap().iter().map(|entry| &entry["fault"]).collect();
    assert_eq!(faults, ["held", "advanced by 80s", "released"]);
    assert!(journal["entries"][0]["at_ms"].is_u64() && journal["entries"][0]["member"].is_null());
}

#[tokio::test]
async fn members_that_were_all_paused_resume_one_by_one() {
    let program = Program::start(ENSEMBLE).await;
    let mut control = program.controlled().await;
    let zk = RawClient::over_tcp_for(&program.addresses[0], 200).await;
    control.ok("pause", json!({})).await;
    for member in 0..3 {
        control.ok("resume", json!({ "member": member })).await;
    }
    control.until(json!({ "leader": true })).await;
    // Nothing keeps the session, so the clock of sessions runs.
    control.until(json!({ "session_ended": session(&zk) })).await;
}

#[tokio::test]
async fn bytes_wait_in_a_partition_and_sessions_expire() {
    let program = Program::start(CONTROL).await;
    let mut control = program.controlled().await;
    let mut zk = program.client().await;
    let id = session(&zk);
    control.until(json!({ "session_connected": id })).await;
    control.ok("partition", json!({})).await;
    zk.send(create("/a", CreateMode::Persistent)).await;
    control.ok("advance", json!({ "by_ms": 2 * LONG_SESSION })).await;
    control.until(json!({ "session_ended": id })).await;
    control.until(json!({ "session_disconnected": id })).await;
    control.ok("heal", json!({ "member": 0 })).await;
    assert_eq!(zk.reply().await, None);
    program.client().await.create("/b", CreateMode::Persistent).await.unwrap();
    control.until(json!({ "absent": "/a" })).await;
}

#[tokio::test]
async fn sides_of_an_ensemble_are_split_and_healed() {
    let program = Program::start(ENSEMBLE).await;
    let mut control = program.controlled().await;
    let info = control.ok("info", json!({})).await;
    assert_eq!(info["leader"], 2);
    assert_eq!(info["connect_string"], program.addresses.join(","));
    for (member, address) in program.addresses.iter().enumerate() {
        assert_eq!(info["members"][member]["address"], *address);
    }
    control.ok("split", json!({ "sides": [[2], [0, 1]] })).await;
    assert_eq!(member(&mut control, 2).await["role"], "looking");
    assert!(control.ok("info", json!({})).await["leader"].as_u64().unwrap() < 2);
    control.ok("split", json!({ "sides": [[0], [1], [2]] })).await;
    control.until(json!({ "leader": false })).await;
    control.ok("heal", json!({ "member": 1 })).await;
    control.until(json!({ "leader": false })).await;
    control.ok("heal", json!({})).await;
    control.until(json!({ "leader": true })).await;
    let message = control.fails("no_such_member", "split", json!({ "sides": [[3]] })).await;
    assert!(message.ends_with("only 0 to 2"), "{message}");
    control.fails("bad_request", "split", json!({ "sides": [[0, 1], [1]] })).await;
}

#[tokio::test]
async fn sessions_expire_and_lose_their_connection() {
    let program = Program::start(CONTROL).await;
    let mut control = program.controlled().await;
    let mut zk = program.client().await;
    let mut other = program.client().await;
    zk.create("/mine", CreateMode::Ephemeral).await.unwrap();
    control.until(json!({ "sessions": 2 })).await;
    control.ok("expire", json!({ "session": session(&zk) })).await;
    zk.closed().await;
    assert_eq!(other.exists("/mine", false).await, Err(ErrorCode::NoNode));
    control.fails("no_such_session", "expire", json!({ "session": session(&zk) })).await;
    control.fails("no_such_session", "disconnect", json!({ "session": session(&zk) })).await;
    let id = session(&other);
    let ended = control.ok("disconnect", json!({ "session": id })).await;
    assert_eq!(ended, json!({ "connections": 1 }));
    other.closed().await;
    let ended = control.ok("disconnect", json!({ "session": id })).await;
    assert_eq!(ended, json!({ "connections": 0 }));
    let mut clients = [program.client().await, program.client().await];
    let ended = control.ok("disconnect", json!({})).await;
    assert_eq!(ended, json!({ "connections": 2 }));
    for client in &mut clients {
        client.closed().await;
    }
    let probe = control.ok("probe", json!({})).await;
    assert_eq!(probe["sessions"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_server_becomes_read_only() {
    let program = Program::start(CONTROL).await;
    let mut control = program.controlled().await;
    let mut zk = program.client().await;
    control.ok("set_read_only", json!({ "read_only": true })).await;
    zk.closed().await;
    assert_eq!(member(&mut control, 0).await["role"], "read-only");
    assert_eq!(program.ask(b"isro").await, "ro");
    control.ok("set_read_only", json!({ "read_only": false, "member": 0 })).await;
    assert_eq!(program.ask(b"isro").await, "rw");
}

#[tokio::test]
async fn a_member_lags_until_its_last_lag_ends() {
    let program = Program::start(ENSEMBLE).await;
    let mut control = program.controlled().await;
    let first = control.ok("lag", json!({ "member": 0 })).await["lag"].take();
    let second =
        control.ok("lag", json!({ "member": 0, "delay_ms": 3_600_000 })).await["lag"].take();
    let mut at_leader = RawClient::over_tcp(&program.addresses[2]).await;
    at_leader.create("/a", CreateMode::Persistent).await.unwrap();
    control.until(json!({ "exists": "/a" })).await;
    assert_eq!(member(&mut control, 1).await["behind"], 0);
    assert_ne!(member(&mut control, 0).await["behind"], 0);
    let stale = control.ok("probe", json!({ "member": 0 })).await;
    assert_eq!(stale["nodes"], json!([]));
    control.ok("end_lag", json!({ "lag": first })).await;
    assert_ne!(member(&mut control, 0).await["behind"], 0);
    control.ok("end_lag", json!({ "lag": second })).await;
    assert_eq!(member(&mut control, 0).await["behind"], 0);
    control.fails("no_such_lag", "end_lag", json!({ "lag": second })).await;
    control.fails("no_such_member", "lag", json!({ "member": 3 })).await;
}

#[tokio::test]
async fn the_leader_changes() {
    let program = Program::start(ENSEMBLE).await;
    let mut control = program.controlled().await;
    let next = control.ok("change_leader", json!({})).await;
    assert_ne!(next["leader"], 2);
    let next = control.ok("change_leader", json!({ "member": 2 })).await;
    assert_eq!(next, json!({ "leader": 2 }));
    assert_eq!(control.ok("change_leader", json!({ "member": 2 })).await, next);
    control.ok("stop", json!({ "member": 0 })).await;
    control.fails("failed", "change_leader", json!({ "member": 0 })).await;
    control.ok("stop", json!({ "member": 1 })).await;
    control.until(json!({ "leader": false })).await;
    control.fails("failed", "change_leader", json!({})).await;
    control.fails("failed", "set_version", json!({ "path": "/", "version": 1 })).await;
}

#[tokio::test]
async fn a_single_server_has_no_leader() {
    let program = Program::start(CONTROL).await;
    let mut control = program.controlled().await;
    control.until(json!({ "leader": false })).await;
    for (call, parameters) in [
        ("change_leader", json!({})),
        ("lag", json!({ "member": 0 })),
        ("end_lag", json!({ "lag": 1 })),
        ("split", json!({ "sides": [] })),
    ] {
        control.fails("unsupported", call, parameters).await;
    }
}

#[tokio::test]
async fn nodes_change_without_a_client() {
    let program = Program::start(&[CONTROL, &["--container-interval", "3600000"]].concat()).await;
    let mut control = program.controlled().await;
    let mut zk = program.client().await;
    zk.create("/a", CreateMode::Persistent).await.unwrap();
    control.ok("set_version", json!({ "path": "/a", "version": i32::MAX })).await;
    assert_eq!(zk.set_data("/a", b"").await.unwrap().version, i32::MIN);
    control.ok("set_sequence", json!({ "path": "/a", "next": 41 })).await;
    let path = zk.create("/a/n-", CreateMode::EphemeralSequential).await.unwrap();
    assert_eq!(path, "/a/n-0000000041");
    control.until(json!({ "children": "/a", "count": 1 })).await;
    let removed = control.ok("remove", json!({ "path": "/a" })).await;
    assert_eq!(removed, json!({ "sessions": [session(&zk)] }));
    assert_eq!(zk.exists("/a", false).await, Err(ErrorCode::NoNode));
    for (call, parameters) in [
        ("remove", json!({ "path": "/a" })),
        ("set_version", json!({ "path": "/a", "version": 1 })),
        ("set_sequence", json!({ "path": "/a", "next": 1 })),
    ] {
        let message = control.fails("no_such_node", call, parameters).await;
        assert!(message.ends_with("no node /a"), "{message}");
    }
    let container = create_body("/c", CreateMode::Container);
    zk.call(Request::CreateContainer(container)).await.unwrap();
    zk.create("/c/child", CreateMode::Persistent).await.unwrap();
    zk.delete("/c/child").await.unwrap();
    assert_eq!(control.ok("reap_containers", json!({})).await, json!({ "paths": ["/c"] }));
    assert_eq!(control.ok("reap_containers", json!({})).await, json!({ "paths": [] }));

    zk.create("/now", CreateMode::Persistent).await.unwrap();
    control.ok("shift_wall_clock", json!({ "by_ms": -86_400_000 })).await;
    zk.create("/before", CreateMode::Persistent).await.unwrap();
    let (now, before) = (zk.exists("/now", false).await, zk.exists("/before", false).await);
    assert!(before.unwrap().ctime + 80_000_000 < now.unwrap().ctime);
}

#[tokio::test]
async fn time_passes_for_sessions_by_a_call() {
    let program = Program::start(&["--control", "0"]).await;
    let mut control = program.controlled().await;
    let mut zk = program.client().await;
    control.ok("advance", json!({ "by_ms": 60_000 })).await;
    zk.closed().await;
    control.until(json!({ "sessions": 0 })).await;
}

#[tokio::test]
async fn a_probe_shows_nodes_sessions_watches_and_counts() {
    let program = Program::start(ENSEMBLE).await;
    let mut control = program.controlled().await;
    let mut zk = RawClient::over_tcp(&program.addresses[1]).await;
    zk.create("/a", CreateMode::Persistent).await.unwrap();
    zk.create("/a/e", CreateMode::Ephemeral).await.unwrap();
    zk.call(Request::CreateContainer(create_body("/c", CreateMode::Container))).await.unwrap();
    zk.call(crate::common::auth("digest", b"me:secret")).await.unwrap();
    zk.exists("/a", true).await.unwrap();
    zk.children("/a", true).await.unwrap();
    control.until(json!({ "watches": "/a", "at_least": 2 })).await;
    let probe = control.ok("probe", json!({})).await;
    let paths: Vec<_> =
        probe["nodes"].as_array().unwrap().iter().map(|node| &node["path"]).collect();
    assert_eq!(paths, ["/a", "/a/e", "/c"]);
    let stat = zk.exists("/a", false).await.unwrap();
    assert_eq!(
        probe["nodes"][0],
        json!({
            "path": "/a", "data": "ZGF0YQ==", "version": 0, "cversion": 1,
            "czxid": format!("{:#x}", stat.czxid), "mzxid": format!("{:#x}", stat.mzxid),
            "pzxid": format!("{:#x}", stat.pzxid), "owner": null, "container": false,
            "ttl_ms": null, "children": 1,
        })
    );
    assert_eq!(probe["nodes"][1]["owner"], session(&zk));
    assert_eq!(probe["nodes"][2]["container"], true);
    let sessions = &probe["sessions"][0];
    assert_eq!(sessions["session"], session(&zk));
    assert_eq!(
        (&sessions["timeout_ms"], &sessions["connected"]),
        (&json!(LONG_SESSION), &json!(true))
    );
    assert_eq!(sessions["ephemerals"], json!(["/a/e"]));
    assert!(sessions["identities"][0].as_str().unwrap().starts_with("digest:me"), "{sessions}");
    assert!(!probe.to_string().contains("secret"), "{probe}");
    let watch = |kind: &str| json!({ "session": session(&zk), "path": "/a", "kind": kind });
    assert_eq!(probe["watches"], json!([watch("data"), watch("child")]));
    for (operation, count) in [("create", 3), ("exists", 1), ("get_children", 1), ("auth", 1)] {
        assert_eq!(probe["requests"][operation], count, "{operation}");
    }
    assert_eq!((&probe["connections"], &probe["notifications"]), (&json!(1), &json!(0)));
    // The client is connected to another member.
    let leader = control.ok("probe", json!({ "member": 2 })).await;
    assert_eq!((&leader["watches"], &leader["requests"]), (&json!([]), &json!({})));
    assert_eq!((&leader["nodes"], &leader["zxid"]), (&probe["nodes"], &probe["zxid"]));
}

#[tokio::test]
async fn a_wait_that_takes_too_long_shows_the_state() {
    let program = Program::start(CONTROL).await;
    let mut control = program.controlled().await;
    let mut zk = program.client().await;
    zk.create("/there", CreateMode::Persistent).await.unwrap();
    control.ok("add_rule", json!({ "name": "never", "verdict": "disconnect", "path": "/x" })).await;
    for condition in [json!({ "absent": "/there" }), json!({ "rule": "never", "hits": 1 })] {
        let parameters = json!({ "condition": condition, "timeout_ms": 1 });
        let message = control.fails("timeout", "until", parameters).await;
        assert!(message.contains("/there = \"data\""), "{message}");
        assert!(message.contains("rule never has fired 0 times"), "{message}");
    }
}

#[tokio::test]
async fn reset_ends_every_fault_and_keeps_nodes() {
    let program = Program::start(ENSEMBLE).await;
    let mut control = program.controlled().await;
    let mut zk = program.client().await;
    zk.create("/a", CreateMode::Persistent).await.unwrap();
    control.ok("add_rule", json!({ "verdict": "disconnect" })).await;
    control.ok("lag", json!({ "member": 0 })).await;
    control.ok("pause", json!({ "member": 1 })).await;
    control.ok("partition", json!({})).await;
    control.ok("split", json!({ "sides": [[0], [1], [2]] })).await;
    control.ok("set_read_only", json!({ "member": 2, "read_only": true })).await;
    control.ok("stop", json!({ "member": 0 })).await;
    control.ok("reset", json!({})).await;
    let info = control.ok("info", json!({})).await;
    for member in 0..3 {
        let role = info["members"][member]["role"].as_str().unwrap();
        assert!(role == "leader" || role == "follower", "{info}");
        let mut zk = RawClient::over_tcp(&program.addresses[member]).await;
        assert!(zk.exists("/a", false).await.is_ok());
        zk.set_data("/a", b"").await.unwrap();
    }
    control.fails("no_such_rule", "rule", json!({ "rule": "rule-1" })).await;
    control.fails("no_such_lag", "end_lag", json!({ "lag": 1 })).await;
}

#[tokio::test]
async fn a_read_only_server_is_read_only_after_a_reset() {
    let program = Program::start(&[CONTROL, &["--read-only"]].concat()).await;
    let mut control = program.controlled().await;
    control.ok("set_read_only", json!({ "read_only": false })).await;
    assert_eq!(program.ask(b"isro").await, "rw");
    control.ok("reset", json!({})).await;
    assert_eq!(program.ask(b"isro").await, "ro");
}

#[tokio::test]
async fn each_verdict_has_its_effect() {
    let program = Program::start(CONTROL).await;
    let mut control = program.controlled().await;
    for (number, (verdict, is_applied, is_connected)) in [
        (json!("lose_reply"), true, false),
        (json!("lose_request"), false, false),
        (json!("disconnect"), false, false),
        (json!({ "delay_ms": 1 }), true, true),
        (json!({ "refuse": "no_auth" }), false, true),
        (json!({ "refuse": -112 }), false, true),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/{number}");
        let rule = json!({ "operation": "create", "path": path, "verdict": verdict });
        let rule = control.ok("add_rule", rule).await["rule"].take();
        let mut zk = program.client().await;
        zk.send(create(&path, CreateMode::Persistent)).await;
        let reply = zk.reply().await;
        assert_eq!(reply.is_some(), is_connected, "{verdict}: {reply:?}");
        match verdict["refuse"] {
            Value::String(_) => assert_eq!(reply, Some(Err(ErrorCode::NoAuth))),
            Value::Number(_) => assert_eq!(reply, Some(Err(ErrorCode::SessionExpired))),
            _ => assert!(reply.is_none_or(|reply| reply.is_ok())),
        }
        let exists = program.client().await.exists(&path, false).await.is_ok();
        assert_eq!(exists, is_applied, "{verdict}");
        control.until(json!({ "rule": rule, "hits": 1 })).await;
        assert_eq!(control.ok("rule", json!({ "rule": rule })).await, json!({ "hits": 1 }));
        assert_eq!(control.ok("remove_rule", json!({ "rule": rule })).await, json!({ "hits": 1 }));
        control.fails("no_such_rule", "remove_rule", json!({ "rule": rule })).await;
    }
}

#[tokio::test]
async fn a_rule_fires_after_some_requests_and_some_times() {
    let program = Program::start(CONTROL).await;
    let mut control = program.controlled().await;
    let rule = json!({
        "name": "third and fourth", "operation": "create", "under": "/a",
        "verdict": { "refuse": "no_auth" }, "after": 2, "times": 2,
    });
    control.ok("add_rule", rule.clone()).await;
    let message = control.fails("bad_request", "add_rule", rule).await;
    assert!(message.contains("there is a rule 'third and fourth'"), "{message}");
    // Rules belong to the program, not to the connection.
    let mut control = program.controlled().await;
    let mut zk = program.client().await;
    zk.create("/a", CreateMode::Persistent).await.unwrap();
    let mut results = Vec::new();
    for number in 0..6 {
        results.push(zk.create(&format!("/a/{number}"), CreateMode::Persistent).await.is_ok());
    }
    assert_eq!(results, [true, true, false, false, true, true]);
    // A transaction matches by one of its operations.
    control.ok("remove_rules", json!({})).await;
    let rule = json!({ "operation": "delete", "path": "/a/1", "verdict": { "refuse": "no_auth" } });
    assert_eq!(control.ok("add_rule", rule).await, json!({ "rule": "rule-1" }));
    let op = |path: &str| match delete(path) {
        Request::Delete(body) => MultiOp::Delete(body),
        other => panic!("{other:?}"),
    };
    assert_eq!(zk.call(Request::Multi(vec![op("/a/0"), op("/a/1")])).await, Err(ErrorCode::NoAuth));
    zk.multi(vec![op("/a/0"), op("/a/4")]).await;
}

#[tokio::test]
async fn a_rule_is_for_a_session_and_a_member() {
    let program = Program::start(ENSEMBLE).await;
    let mut control = program.controlled().await;
    let mut first = RawClient::over_tcp(&program.addresses[0]).await;
    let mut second = RawClient::over_tcp(&program.addresses[1]).await;
    let mut third = RawClient::over_tcp(&program.addresses[1]).await;
    let refuse = json!({ "refuse": "throttled" });
    let rule = json!({ "verdict": refuse, "member": 0, "operation": ["exists", "create"] });
    control.ok("add_rule", rule).await;
    let rule = json!({ "verdict": refuse, "session": session(&second), "operation": "exists" });
    control.ok("add_rule", rule).await;
    assert_eq!(first.exists("/", false).await, Err(ErrorCode::Throttled));
    assert_eq!(second.exists("/", false).await, Err(ErrorCode::Throttled));
    assert!(third.exists("/", false).await.is_ok());
    control.fails("no_such_member", "add_rule", json!({ "verdict": refuse, "member": 3 })).await;
}

#[tokio::test]
async fn a_wait_for_a_removed_rule_fails() {
    let program = Program::start(CONTROL).await;
    let (mut control, mut waiting) = (program.controlled().await, program.controlled().await);
    control.ok("add_rule", json!({ "name": "gone", "verdict": "disconnect" })).await;
    let condition = json!({ "rule": "gone", "hits": 1 });
    waiting.send("until", json!({ "condition": condition, "timeout_ms": 600_000 })).await;
    assert_eq!(control.ok("remove_rule", json!({ "rule": "gone" })).await, json!({ "hits": 0 }));
    assert_eq!(waiting.response().await.unwrap_err().0, "no_such_rule");
    // The rule has no effect any more.
    assert!(program.client().await.exists("/", false).await.is_ok());
    control.fails("no_such_rule", "rule", json!({ "rule": "gone" })).await;
    let parameters = json!({ "condition": condition, "timeout_ms": 1 });
    control.fails("no_such_rule", "until", parameters).await;
}

#[tokio::test]
async fn the_program_ends_with_its_standard_input() {
    let mut program = Program::start(&[CONTROL, &["--until-eof"]].concat()).await;
    let mut zk = program.client().await;
    drop(program.process.stdin.take());
    let (status, errors) = program.ended().await;
    assert_eq!((status.code(), errors.as_str()), (Some(0), ""));
    zk.closed().await;
}
