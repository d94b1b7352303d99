//! Messages, tokens and connections of the control port.

use serde_json::{Value, json};

use crate::program::{CONTROL, Program, TOKEN, command, refusal};

/// A wait checks its condition after every transaction. The names of children are sorted for their
/// readers, which would take long for many.
#[test]
fn conditions_read_no_names() {
    let source = include_str!("../src/control/condition.rs");
    assert!(source.contains("stat.num_children"), "children are counted otherwise");
    for names in [".children(", ".paths(", ".ephemerals("] {
        assert!(!source.contains(names), "a condition reads names: {names}");
    }
}

/// Asserts that a message is an error with a code and without an `id`.
fn assert_anonymous(message: &Value, code: &str) {
    assert_eq!(
        (&message["id"], &message["error"]["code"]),
        (&Value::Null, &json!(code)),
        "{message}"
    );
}

#[tokio::test]
async fn a_malformed_request_is_refused_and_the_next_one_served() {
    let program = Program::start(CONTROL).await;
    let mut control = program.controlled().await;
    for (request, part) in [
        (json!({ "call": "inform" }), "'inform' is not a call of the protocol"),
        (json!({ "call": 7 }), "`call` must be the name"),
        (json!({}), "`call` must be the name"),
        (json!({ "call": "info", "member": 0 }), "unknown field `member`"),
        (json!({ "call": "stop", "members": 0 }), "unknown field `members`"),
        (json!({ "call": "stop", "member": "0" }), "invalid type: string"),
        (json!({ "call": "stop", "member": -1 }), "integer `-1`"),
        (json!({ "call": "stop", "member": 0.5 }), "floating point"),
        (json!({ "call": "expire" }), "missing field `session`"),
        (json!({ "call": "expire", "session": 4096 }), "invalid type: integer"),
        (json!({ "call": "expire", "session": "1000" }), "`0x`"),
        (json!({ "call": "expire", "session": "0x" }), "`0x`"),
        (json!({ "call": "expire", "session": "0x+1" }), "`0x`"),
        (json!({ "call": "expire", "session": "0x11112222333344445" }), "`0x`"),
        (json!({ "call": "advance", "by_ms": -1 }), "integer `-1`"),
        (json!({ "call": "advance", "by_ms": 4_294_967_296_u64 }), "4294967296"),
        (json!({ "call": "shift_wall_clock", "by_ms": 4_294_967_296_u64 }), "`by_ms`"),
        (json!({ "call": "set_version", "path": "a", "version": 1 }), "begin with a slash"),
        (json!({ "call": "set_version", "path": "/a/", "version": 1 }), "ends with a slash"),
        (json!({ "call": "set_version", "path": "/a", "version": 2_147_483_648_u32 }), "version"),
        (json!({ "call": "set_read_only", "read_only": 1 }), "expected a boolean"),
        (json!({ "call": "remove", "path": "/" }), "of the server itself"),
        (json!({ "call": "remove", "path": "/zookeeper/quota" }), "of the server itself"),
        (json!({ "call": "add_rule" }), "missing field `verdict`"),
        (json!({ "call": "add_rule", "verdict": "pass" }), "unknown variant `pass`"),
        (json!({ "call": "add_rule", "verdict": { "delay_ms": "1" } }), "invalid type: string"),
        (json!({ "call": "add_rule", "verdict": { "delay_ms": 1, "x": 1 } }), "single key"),
        (json!({ "call": "add_rule", "verdict": { "refuse": "ok" } }), "'ok' is not an error"),
        (json!({ "call": "add_rule", "verdict": { "refuse": 0 } }), "'0' is not an error"),
        (json!({ "call": "add_rule", "verdict": "disconnect", "operation": "make" }), "'make'"),
        (json!({ "call": "add_rule", "verdict": "disconnect", "operation": [] }), "empty list"),
        (json!({ "call": "add_rule", "verdict": "disconnect", "name": "" }), "name is empty"),
        (json!({ "call": "add_rule", "verdict": "disconnect", "after": -1 }), "integer `-1`"),
        (json!({ "call": "add_rule", "verdict": "disconnect", "times": 0 }), "`times` is 0"),
        (json!({ "call": "add_rule", "verdict": "disconnect", "under": "/a/*" }), "no pattern"),
        (json!({ "call": "add_rule", "verdict": "disconnect", "under": "/a?" }), "no pattern"),
        (json!({ "call": "until", "timeout_ms": 0, "condition": {} }), "a condition is one of"),
        (json!({ "call": "until", "timeout_ms": 0, "condition": "exists" }), "invalid type"),
        (
            json!({ "call": "until", "timeout_ms": 0, "condition": { "exists": "/", "absent": "/" } }),
            "a condition is one of",
        ),
        (
            json!({ "call": "until", "timeout_ms": 0, "condition": { "children": "/a" } }),
            "needs `count`",
        ),
        (
            json!({ "call": "until", "timeout_ms": 0, "condition": { "sessions": 1, "hits": 1 } }),
            "needs `hits`",
        ),
        (json!({ "call": "until", "condition": { "leader": true } }), "missing field `timeout_ms`"),
        (json!({ "call": "hello", "version": "1", "token": 1_234_567 }), "hello: needs"),
    ] {
        let mut request = request;
        request["id"] = json!(7);
        control.write(format!("{request}\n").as_bytes()).await;
        let answer = control.message().await.unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!("bad_request")));
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(part), "{request}: {message}");
        assert!(!message.contains('\n') && !message.contains("1234567"), "{message}");
    }
    for id in ["", "\"id\":null,", "\"id\":\"1\",", "\"id\":1.5,"] {
        control.write(format!("{{{id}\"call\":\"stop\"}}\n").as_bytes()).await;
        assert_anonymous(&control.message().await.unwrap(), "bad_request");
    }
    // Nothing was done.
    let info = control.ok("info", json!({})).await;
    assert_eq!(info["members"][0]["role"], "standalone");
    assert_eq!(control.ok("journal", json!({})).await["entries"], json!([]));
}

#[tokio::test]
async fn ids_are_returned_unchanged() {
    let program = Program::start(CONTROL).await;
    let mut control = program.controlled().await;
    for id in ["0", "-9223372036854775808", "18446744073709551615", "7"] {
        control.write(format!("{{\"call\":\"remove_rules\",\"id\":{id}}}\r\n").as_bytes()).await;
        let answer = control.message().await.unwrap();
        assert_eq!((answer["id"].to_string().as_str(), &answer["ok"]), (id, &json!({})));
    }
}

#[tokio::test]
async fn a_line_that_is_no_json_closes_the_connection() {
    let program = Program::start(CONTROL).await;
    let long = format!("{{\"id\":1,\"call\":\"{}\"}}\n", "x".repeat(1024 * 1024));
    for line in ["\n", "info\n", "GET / HTTP/1.1\r\n", "[1]\n", "{\"id\":1\n", "\u{0}\n", &long] {
        for mut control in [program.controlled().await, program.connect().await] {
            control.write(line.as_bytes()).await;
            if let Some(message) = control.message().await {
                assert_anonymous(&message, "bad_request");
                assert_eq!(control.message().await, None);
            } else {
                assert_eq!(line.len(), long.len(), "only unread bytes lose the response");
            }
        }
    }
    let mut control = program.controlled().await;
    control.write(b"{\"id\":1,\"call\":\"\xff\"}\n").await;
    assert_anonymous(&control.message().await.unwrap(), "bad_request");
}

#[tokio::test]
async fn requests_without_the_token_are_refused() {
    let program = Program::start(CONTROL).await;
    for (call, parameters) in [
        ("info", json!({})),
        ("stop", json!({ "member": 7 })),
        ("hello", json!({ "version": 1, "token": "a token of test?" })),
        ("hello", json!({ "version": 1, "token": "" })),
        ("hello", json!({ "version": 99, "token": format!("{TOKEN} ") })),
    ] {
        let mut control = program.connect().await;
        let (code, message) = control.call(call, parameters).await.unwrap_err();
        assert_eq!(code, "unauthorized");
        assert!(!message.contains(TOKEN), "{message}");
        assert_eq!(control.message().await, None, "the connection is closed");
    }
    // Another version can be tried on the same connection.
    let mut control = program.connect().await;
    let message = control
        .fails("unsupported_version", "hello", json!({ "version": 2, "token": TOKEN }))
        .await;
    assert!(message.contains("only 1"), "{message}");
    let hello = control.ok("hello", json!({ "version": 1, "token": TOKEN })).await;
    assert_eq!((&hello["version"], &hello["kind"]), (&json!(1), &json!("server")));
    assert_eq!(hello["connect_string"], program.address());
    assert_eq!(hello["server"], env!("CARGO_PKG_VERSION"));
    // A second `hello` is checked, too.
    let result = control.call("hello", json!({ "version": 1, "token": "no" })).await;
    assert_eq!(result.unwrap_err().0, "unauthorized");
    assert_eq!(control.message().await, None);
    program.end("TERM").await;
}

#[tokio::test]
async fn the_control_port_needs_a_token() {
    for token in [None, Some(0), Some(15), Some(257)] {
        let mut command = command(&["--port", "0", "--control", "0"]);
        match token {
            Some(length) => command.env("ZK_TEST_SERVER_TOKEN", "x".repeat(length)),
            None => command.env_remove("ZK_TEST_SERVER_TOKEN"),
        };
        let output = command.output().await.unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{text}");
        assert!(text.contains("'--control': ZK_TEST_SERVER_TOKEN "), "{text}");
    }
    let program = Program::start(CONTROL).await;
    let taken = program.control.as_deref().unwrap();
    let port = taken.rsplit_once(':').unwrap().1;
    let text = refusal(&["--port", "0", "--control", port]).await;
    assert!(text.contains(&format!("cannot listen on {taken}: ")), "{text}");
}

#[tokio::test]
async fn requests_in_one_packet_are_served_in_order() {
    let program = Program::start(CONTROL).await;
    let mut control = program.controlled().await;
    let requests: String =
        (0..1000).map(|id| format!("{{\"id\":{id},\"call\":\"info\"}}\n")).collect();
    control.write(requests.as_bytes()).await;
    // The last line has no line feed, so it is no request.
    control.write(b"{\"id\":1000,\"call\":\"stop\"}").await;
    control.finish().await;
    for id in 0..1000 {
        assert_eq!(control.message().await.unwrap()["id"], id);
    }
    assert_eq!(control.message().await, None);
    let info = program.controlled().await.ok("info", json!({})).await;
    assert_eq!(info["members"][0]["role"], "standalone");
}

#[tokio::test]
async fn only_64_connections_are_open() {
    let program = Program::start(CONTROL).await;
    let mut waiting = Vec::new();
    for _ in 0..64 {
        let mut control = program.controlled().await;
        control
            .send("until", json!({ "condition": { "exists": "/a" }, "timeout_ms": 600_000 }))
            .await;
        waiting.push(control);
    }
    let hello = json!({ "version": 1, "token": TOKEN });
    let mut refused = program.connect().await;
    let message = refused.fails("failed", "hello", hello.clone()).await;
    assert_eq!(message, "hello: 64 connections are open");
    assert_eq!(refused.message().await, None);
    // A client that ends its connection ends its wait, which makes room.
    waiting.pop().unwrap().finish().await;
    let mut control = program.connect().await;
    control.ok("hello", hello).await;
    control.until(json!({ "absent": "/a" })).await;
    // All others wait for the same node.
    let mut zk = program.client().await;
    zk.create("/a", zk_curator_proto::records::CreateMode::Persistent).await.unwrap();
    for mut control in waiting {
        assert!(control.response().await.unwrap()["waited_ms"].is_u64());
    }
}

#[tokio::test]
async fn connections_without_hello_do_not_block_others() {
    let program = Program::start(CONTROL).await;
    let mut served = program.controlled().await;
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(program.connect().await);
    }
    program.controlled().await.ok("info", json!({})).await;
    served.ok("info", json!({})).await;
    // The oldest were closed, and the last ones wait.
    for control in &mut silent[..160] {
        assert_eq!(control.message().await, None);
    }
    let last = silent.last_mut().unwrap();
    last.ok("hello", json!({ "version": 1, "token": TOKEN })).await;
}

#[tokio::test]
async fn the_program_ends_while_calls_run() {
    let program = Program::start(CONTROL).await;
    let mut control = program.controlled().await;
    control.send("until", json!({ "condition": { "exists": "/a" }, "timeout_ms": 600_000 })).await;
    program.end("TERM").await;
    assert_eq!(control.message().await, None);
}

#[tokio::test]
async fn the_program_ends_during_every_fault() {
    for fault in ["pause", "partition", "stop"] {
        let program = Program::start(&[CONTROL, &["--ensemble", "3"]].concat()).await;
        let mut control = program.controlled().await;
        let mut zk = program.client().await;
        control.ok(fault, json!({})).await;
        zk.write(b"\0\0").await;
        program.end("TERM").await;
    }
}

#[tokio::test]
async fn random_lines_never_end_the_program() {
    let mut program = Program::start(CONTROL).await;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let words = [
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\\",
        "0",
        "-1",
        "1e400",
        "0x1",
        "null",
        "true",
        "/a",
        "\"id\"",
        "\"call\"",
        "\"member\"",
        "\"until\"",
        "\"add_rule\"",
        "\"verdict\"",
        "\"lag\"",
        "\"path\"",
        "\"split\"",
        "\"sides\"",
        "\"condition\"",
        "\"exists\"",
        "\u{0}",
        "ä",
        "\\ud800",
    ];
    let calls = ["info", "add_rule", "split", "lag", "probe", "until", "set_version", "remove"];
    for _ in 0..300 {
        let mut control = program.controlled().await;
        let mut line = match random.u8(..3) {
            0 => String::new(),
            _ => format!("{{\"id\":1,\"call\":\"{}\",", random.choice(calls).unwrap()),
        };
        for _ in 0..random.usize(..20) {
            line += random.choice(words).unwrap();
        }
        let mut bytes = line.into_bytes();
        if random.bool() && !bytes.is_empty() {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        bytes.push(b'\n');
        control.write(&bytes).await;
        let answer = control.message().await.expect("a response");
        assert!(answer.get("ok").is_some() != answer.get("error").is_some(), "{answer}");
    }
    assert!(program.process.try_wait().unwrap().is_none());
    program.end("TERM").await;
}
