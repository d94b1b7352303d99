//! The REST interface.

use axum::body::Body;
use serde_json::{Value, json};
use zk_curator::CreateMode;
use zk_curator_testing::{Verdict, paused};
use zk_curator_web::WebOptions;

use crate::support::{Reply, Site, ask};

async fn site() -> Site {
    let site = Site::start(WebOptions::new().write(true)).await;
    site.zk.create("/a").data("1").await.unwrap();
    site
}

async fn send(
    site: &Site,
    method: &str,
    address: &str,
    condition: (&str, &str),
    body: &str,
) -> Reply {
    let request = ask(method, address);
    let request =
        if condition.0.is_empty() { request } else { request.header(condition.0, condition.1) };
    site.send(request.body(Body::from(body.to_owned())).unwrap()).await
}

#[tokio::test]
async fn a_node_has_data_a_stat_and_rights() {
    let site = site().await;
    let reply = site.get("/api/v1/node/a").await;
    assert_eq!((reply.status, reply.header("etag")), (200, "\"0\""));
    let node: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(node["data"], json!({ "text": "1" }));
    assert_eq!(node["acl"], json!([{ "identity": "world:anyone", "permissions": 31 }]));
    assert_eq!(
        (&node["stat"]["version"], &node["stat"]["ephemeral_owner"]),
        (&json!(0), &Value::Null)
    );
    site.zk.set_data("/a", &b"\xff"[..]).await.unwrap();
    assert_eq!(site.json("/api/v1/node/a").await["data"], json!({ "base64": "/w==" }));
    let none = site.get("/api/v1/node/none").await.problem();
    assert_eq!(
        (&none["status"], &none["kind"], &none["exit_code"]),
        (&json!(404), &json!("no-node"), &json!(4))
    );
    assert_eq!(site.get("/api/v1/node/a%2fb").await.problem()["status"], 400);
    assert_eq!(site.json("/api/v1/node").await["path"], "/");
    assert_eq!(site.json("/api/v1/node/").await["path"], "/");
}

#[tokio::test]
async fn data_are_sent_as_bytes_on_request() {
    let site = site().await;
    site.zk.set_data("/a", "<script>alert(1)</script>").await.unwrap();
    let request = ask("GET", "/api/v1/node/a").header("accept", "application/octet-stream");
    let by_accept = site.send(request.body(Body::empty()).unwrap()).await;
    for reply in [by_accept, site.get("/raw/a").await] {
        assert_eq!((reply.status, &*reply.body), (200, "<script>alert(1)</script>"));
        assert_eq!(reply.header("content-type"), "application/octet-stream");
        assert_eq!(reply.header("content-disposition"), "attachment; filename=\"node-data.bin\"");
        assert_eq!(reply.header("etag"), "\"1\"");
    }
}

#[tokio::test]
async fn a_write_needs_the_version() {
    let site = site().await;
    let put = async |condition, body| send(&site, "PUT", "/api/v1/node/a", condition, body).await;
    assert_eq!(put(("", ""), "2").await.problem()["status"], 428);
    let conflict = put(("if-match", "\"7\""), "2").await.problem();
    assert_eq!((&conflict["status"], &conflict["kind"]), (&json!(412), &json!("conflict")));
    for bad in ["0", "W/\"0\"", "\"0\", \"1\"", "\"x\""] {
        assert_eq!(put(("if-match", bad), "2").await.problem()["status"], 400, "{bad}");
    }
    assert_eq!(put(("if-none-match", "*"), "2").await.problem()["status"], 400);
    assert_eq!(site.server.probe().data("/a").unwrap(), "1");
    let reply = put(("if-match", "\"0\""), "2").await;
    assert_eq!((reply.status, reply.header("etag")), (200, "\"1\""));
    assert_eq!(put(("if-match", "*"), "3").await.header("etag"), "\"2\"");
    assert_eq!(site.server.probe().data("/a").unwrap(), "3");
    let none = send(&site, "PUT", "/api/v1/node/none", ("if-match", "*"), "x").await;
    assert_eq!(none.problem()["status"], 404);
}

#[tokio::test]
async fn a_create_never_replaces() {
    let site = site().await;
    let new = ("if-none-match", "*");
    let post = async |address: &str, condition| send(&site, "POST", address, condition, "x").await;
    assert_eq!(post("/api/v1/node/b", ("", "")).await.problem()["status"], 428);
    assert_eq!(post("/api/v1/node/a", new).await.problem()["status"], 412);
    let reply = post("/api/v1/node/b", new).await;
    assert_eq!((reply.status, reply.header("location")), (201, "/api/v1/node/b"));
    assert_eq!(site.server.probe().data("/b").unwrap(), "x");
    let reply = post("/api/v1/node/b/n-?mode=persistent_sequential", new).await;
    assert_eq!((reply.status, reply.header("location")), (201, "/api/v1/node/b/n-0000000000"));
    assert_eq!(post("/api/v1/node/c?mode=container", new).await.status, 201);
    assert!(site.server.probe().is_container("/c"));
    assert_eq!(post("/api/v1/node/d?mode=ephemeral", new).await.problem()["status"], 400);
    assert_eq!(post("/api/v1/node/none/d", new).await.problem()["status"], 404);
    site.zk.create("/e").mode(CreateMode::Ephemeral).await.unwrap();
    assert_eq!(post("/api/v1/node/e/d", new).await.problem()["status"], 409);
}

#[tokio::test]
async fn a_delete_needs_the_version() {
    let site = site().await;
    let delete =
        async |address: &str, condition| send(&site, "DELETE", address, condition, "").await;
    assert_eq!(delete("/api/v1/node/a", ("", "")).await.problem()["status"], 428);
    assert_eq!(delete("/api/v1/node/a", ("if-match", "\"1\"")).await.problem()["status"], 412);
    site.zk.create("/a/b").await.unwrap();
    assert_eq!(delete("/api/v1/node/a", ("if-match", "*")).await.problem()["status"], 409);
    assert_eq!(delete("/api/v1/node/a/b", ("if-match", "\"0\"")).await.status, 204);
    assert_eq!(delete("/api/v1/node/a", ("if-match", "*")).await.status, 204);
    assert!(!site.server.probe().exists("/a"));
}

#[test]
fn a_lost_response_is_an_unknown_outcome() {
    paused(async {
        let site = site().await;
        let lose = site
            .server
            .rule(|request| if request.is_create() { Verdict::LoseReply } else { Verdict::Pass });
        let lose = lose.times(1);
        let reply = send(&site, "POST", "/api/v1/node/b", ("if-none-match", "*"), "x").await;
        let problem = reply.problem();
        assert_eq!(
            (&problem["status"], &problem["kind"]),
            (&json!(504), &json!("unknown-outcome"))
        );
        assert_eq!((lose.hits(), &problem["exit_code"]), (1, &json!(7)));
        assert!(site.server.probe().exists("/b"));
    });
}

#[tokio::test]
async fn children_are_listed_in_pages() {
    let site = site().await;
    for number in 0..7 {
        site.zk.create(format!("/a/n{number}")).data("x".repeat(number)).await.unwrap();
    }
    let page = site.json("/api/v1/children/a?sort=size&from=5").await;
    assert_eq!(
        (&page["total"], &page["from"], &page["next"]),
        (&json!(7), &json!(5), &Value::Null)
    );
    let names: Vec<_> =
        page["children"].as_array().unwrap().iter().map(|child| &child["name"]).collect();
    assert_eq!(names, [&json!("n1"), &json!("n0")]);
    let page = site.json("/api/v1/children/a?filter=N*3").await;
    assert_eq!(
        (&page["matching"], &page["children"][0]["kind"]),
        (&json!(1), &json!("persistent"))
    );
    let request = ask("GET", "/tree/a").header("accept", "application/json");
    let by_accept = site.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(by_accept.body, site.get("/api/v1/children/a").await.body);
}

#[tokio::test]
async fn paths_are_completed() {
    let site = site().await;
    for name in ["/a/one", "/a/other", "/a/two"] {
        site.zk.create(name).await.unwrap();
    }
    assert_eq!(
        site.json("/api/v1/names?path=%2Fa%2Fo").await["paths"],
        json!(["/a/one", "/a/other"])
    );
    assert_eq!(site.json("/api/v1/names?path=/a/").await["paths"].as_array().unwrap().len(), 3);
    assert_eq!(site.json("/api/v1/names?path=/none/x").await["paths"], json!([]));
    assert_eq!(site.get("/api/v1/names?path=/a//b").await.problem()["status"], 400);
    assert_eq!(site.json("/api/v1/openapi.json").await["openapi"], "3.1.0");
}

#[test]
fn without_a_server_the_response_says_so() {
    paused(async {
        let site = site().await;
        site.server.stop().await;
        let problem = site.get("/api/v1/node/a").await.problem();
        assert_eq!((&problem["status"], &problem["kind"]), (&json!(503), &json!("no-connection")));
        let page = site.get("/node/a").await;
        assert_eq!((page.status, page.header("retry-after")), (503, "1"));
        assert!(page.body.contains("No connection to ZooKeeper"));
    });
}
