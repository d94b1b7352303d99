//! Rules as messages decide as the same functions of the Rust API do.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use zk_curator_proto::Request;
use zk_curator_proto::records::{CreateMode, MultiOp};
use zk_curator_testing::{RuleRequest, TestServer, Verdict};
use zk_test_server::control::rule::RuleSpec;

use crate::common::{RawClient, create, create_body, delete};
use crate::program::{CONTROL, Program};

#[tokio::test]
async fn a_message_decides_as_the_same_function_does() {
    type Function = fn(&RuleRequest<'_>) -> bool;
    let rules: [(Function, Value); 5] = [
        (|request| request.is_create(), json!({ "operation": "create" })),
        (
            |request| request.is_create_under("/locks"),
            json!({ "operation": "create", "under": "/locks" }),
        ),
        (|request| request.is_delete(), json!({ "operation": "delete" })),
        (|request| request.is_transaction(), json!({ "operation": "multi" })),
        (|request| request.matches("/*/b-*"), json!({ "path": "/*/b-*" })),
    ];
    for (function, fields) in rules {
        let mut spec = fields.clone();
        spec["verdict"] = json!("disconnect");
        let spec: RuleSpec = serde_json::from_value(spec).unwrap();
        let server = TestServer::in_memory().await;
        let decisions = Arc::new(Mutex::new(Vec::new()));
        let decided = Arc::clone(&decisions);
        let _rule = server.rule(move |request| {
            let both = (function(request), spec.judge(request) == Verdict::Disconnect);
            decided.lock().unwrap().push(both);
            Verdict::Pass
        });
        let mut zk = RawClient::new(&server).await;
        for path in ["/locks", "/locks/a", "/locks/b-", "/other", "/other/b-1"] {
            zk.create(path, CreateMode::Persistent).await.unwrap();
        }
        let Request::Delete(body) = delete("/other/b-1") else { panic!("no delete") };
        let create = create_body("/locks/c", CreateMode::EphemeralSequential);
        zk.multi(vec![MultiOp::Delete(body), MultiOp::Create(create)]).await;
        zk.delete("/other").await.unwrap();
        let decisions = decisions.lock().unwrap();
        assert!(decisions.iter().any(|both| both.0) && decisions.iter().any(|both| !both.0));
        assert!(decisions.iter().all(|both| both.0 == both.1), "{fields}: {decisions:?}");
    }
}

#[tokio::test]
async fn a_rule_that_is_removed_holds_no_request() {
    let behind = TestServer::start().await;
    let proxy = ["--server", &behind.connect_string(), "--control", "0"];
    for program in [Program::start(CONTROL).await, Program::start_proxy(&proxy).await] {
        let (mut control, mut waiter) = (program.controlled().await, program.controlled().await);
        for (call, parameters) in [
            ("remove_rule", json!({ "rule": "late" })),
            ("remove_rules", json!({})),
            ("reset", json!({})),
        ] {
            let rule = json!({
                "name": "late", "operation": "create", "verdict": { "delay_ms": u32::MAX },
            });
            control.ok("add_rule", rule).await;
            let mut zk = program.client().await;
            zk.send(create("/a", CreateMode::Persistent)).await;
            control.until(json!({ "rule": "late", "hits": 1 })).await;
            // A wait that the removal ends keeps no request either.
            let wait = json!({ "condition": { "rule": "late", "hits": 2 }, "timeout_ms": 60_000 });
            let (message, reply) =
                tokio::join!(waiter.fails("no_such_rule", "until", wait), async {
                    control.ok(call, parameters).await;
                    zk.reply().await.unwrap()
                });
            assert!(message.contains("no rule 'late'"), "{message}");
            reply.unwrap();
            zk.delete("/a").await.unwrap();
        }
    }
}
