//! Rules as messages decide as the same functions of the Rust API do.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use zk_curator_proto::Request;
use zk_curator_proto::records::{CreateMode, MultiOp};
use zk_curator_testing::{RuleRequest, TestServer, Verdict};
use zk_test_server::control::rule::RuleSpec;

use crate::common::{RawClient, create_body, delete};

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
