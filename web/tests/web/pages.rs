//! The pages.

use axum::Router;
use axum::body::Body;
use zk_curator::op::fan_out;
use zk_curator::{Acl, CreateMode, Permissions};
use zk_curator_testing::OpCode;
use zk_curator_web::WebOptions;

use crate::support::{Site, ask};

async fn site() -> Site {
    Site::start(WebOptions::new()).await
}

#[tokio::test]
async fn the_way_to_a_node_is_shown() {
    let site = site().await;
    site.zk.create("/app/orders/7").creating_parents().data("x").await.unwrap();
    assert_eq!(site.get("/").await.header("location"), "/tree");
    let page = site.get("/tree/app/orders").await.body;
    for part in [
        "<title>orders – children – ZooKeeper</title>",
        "<a href=\"/tree/app\"><bdi>app</bdi></a>",
        "<a href=\"/tree/app/orders/7\">",
        "href=\"/node/app/orders\"",
        "data-live=\"/api/v1/watch/app/orders\"",
        "1 child.",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let page = site.get("/node/app/orders/7").await.body;
    for part in
        ["never changed: version 0", "world:anyone", "text, 1 B", "read-only", "ip:127.0.0.1"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    let none = site.get("/tree/none").await;
    assert_eq!(none.status, 404);
    assert!(none.body.contains("No such node"));
}

#[tokio::test]
async fn the_path_bar_works_without_script() {
    let site = site().await;
    for (path, address) in [
        ("/a/b", "/tree/a/b"),
        ("a/b/", "/tree/a/b"),
        ("%2F", "/tree"),
        ("", "/tree"),
        ("/a+b%2525", "/tree/a%20b%2525"),
    ] {
        let reply = site.get(&format!("/go?path={path}")).await;
        assert_eq!((reply.status, reply.header("location")), (303, address), "{path}");
    }
    assert_eq!(site.get("/go?path=/a/../b").await.status, 400);
    assert_eq!(site.get("/go?path=%00").await.status, 400);
}

#[tokio::test]
async fn many_children_are_shown_in_pages() {
    let site = site().await;
    site.zk.create("/jobs").await.unwrap();
    let creates = (0..6_000)
        .map(|_| site.zk.create("/jobs/job-").mode(CreateMode::PersistentSequential).data("x"));
    assert!(fan_out(512, creates).await.iter().all(Result::is_ok));
    let count = |opcode| site.server.probe().requests(opcode);
    // The first page of all reads the identity.
    site.get("/tree").await;
    let before = (
        count(OpCode::GetChildren2),
        count(OpCode::MultiRead),
        site.server.probe().total_requests(),
    );
    let page = site.get("/tree/jobs").await.body;
    let after = (
        count(OpCode::GetChildren2),
        count(OpCode::MultiRead),
        site.server.probe().total_requests(),
    );
    assert_eq!((after.0 - before.0, after.1 - before.1, after.2 - before.2), (1, 1, 2));
    assert!(page.len() < 300_000, "{}", page.len());
    assert_eq!(page.matches("<tr>").count(), 201);
    assert!(page.contains("1–200 of 6,000") && page.contains("6,000 children."), "{page}");
    assert!(page.contains("href=\"/tree/jobs?from=200\" rel=\"next\""));
    assert!(page.contains("href=\"/tree/jobs?from=5800\">Last »"), "{page}");
    let last = site.get("/tree/jobs?from=5800").await.body;
    assert!(last.contains("job-0000005999") && !last.contains("rel=\"next\""));
    assert!(last.contains("<span>Last »</span>"), "{last}");
    assert!(last.contains("href=\"/tree/jobs?from=5600\" rel=\"prev\""));
    let sorted = site.get("/tree/jobs?sort=time").await.body;
    assert!(sorted.contains("Sorted by name."), "too many for an order by stats");
    let filtered = site.get("/tree/jobs?sort=time&filter=*59*9").await.body;
    assert!(!filtered.contains("Sorted by name.") && filtered.contains("match the filter"));
    let beyond = site.get("/tree/jobs?from=99999999").await;
    assert_eq!(beyond.status, 200);
}

#[tokio::test]
async fn orders_by_stats_are_descending() {
    let site = site().await;
    site.zk.create("/a").await.unwrap();
    for (name, data) in [("x", "1"), ("y", "333"), ("z", "22")] {
        site.zk.create(format!("/a/{name}")).data(data).await.unwrap();
    }
    site.zk.create("/a/x/child").await.unwrap();
    let order = async |sort: &str| {
        let page = site.get(&format!("/tree/a?sort={sort}")).await.body;
        let at = |name: &str| page.find(&format!("href=\"/tree/a/{name}\"")).unwrap();
        let mut names = ["x", "y", "z"];
        names.sort_by_key(|name| at(name));
        names.concat()
    };
    assert_eq!(order("name").await, "xyz");
    assert_eq!(order("size").await, "yzx");
    assert_eq!(order("children").await, "xyz");
    assert_eq!(order("other").await, "xyz");
}

#[tokio::test]
async fn a_node_without_permission_is_shown_as_such() {
    // ZooKeeper 3.9 does not even show the stat.
    for (site, status) in
        [(Site::of_3_8(WebOptions::new()).await, 200), (Site::start(WebOptions::new()).await, 403)]
    {
        let only_ann = vec![Acl::new(Permissions::ALL, "digest", "ann:kJh=")];
        site.zk.create("/a").await.unwrap();
        site.zk.create("/a/secret/child").creating_parents().await.unwrap();
        site.zk.set_data("/a/secret", "s3cret").await.unwrap();
        site.zk.set_acl("/a/secret", only_ann).await.unwrap();
        let page = site.get("/node/a/secret").await;
        assert_eq!(page.status, status, "{}", page.body);
        let text = match status {
            200 => "ZooKeeper does not permit",
            _ => "ZooKeeper refuses permission",
        };
        assert!(page.body.contains(text), "{}", page.body);
        assert!(!page.body.contains("kJh="), "{}", page.body);
        assert!(!page.body.contains("The node has no children."), "{}", page.body);
        let page = site.get("/tree/a").await;
        assert!(page.body.contains("<bdi>secret</bdi>"), "{}", page.body);
        assert_eq!(site.get("/raw/a/secret").await.status, 403);
    }
}

#[tokio::test]
async fn the_owner_of_an_ephemeral_node_is_shown() {
    let site = site().await;
    site.zk.create("/e").mode(CreateMode::Ephemeral).await.unwrap();
    let session = site.zk.session().unwrap().id;
    let page = site.get("/node/e").await.body;
    assert!(page.contains(&format!("{session} (this explorer)")), "{page}");
    assert!(site.get("/tree").await.body.contains("ephemeral"));
}

#[tokio::test]
async fn a_quota_is_shown() {
    let site = site().await;
    site.zk.create("/app").await.unwrap();
    site.zk.create("/zookeeper/quota/app").await.unwrap();
    let limits = "/zookeeper/quota/app/zookeeper_limits";
    site.zk.create(limits).data("count=5,bytes=-1").await.unwrap();
    site.zk.create("/zookeeper/quota/app/zookeeper_stats").data("count=1,bytes=0").await.unwrap();
    let page = site.get("/node/app").await.body;
    assert!(page.contains("<h2 id=\"quota-heading\">Quota</h2>"), "{page}");
    assert!(!site.get("/node/zookeeper/quota").await.body.contains("quota-heading"));
}

#[tokio::test]
async fn the_explorer_is_mounted_below_a_prefix() {
    let mut site = Site::start(WebOptions::new().base_path("/admin/zk").unwrap()).await;
    site.zk.create("/a").await.unwrap();
    let outer = Router::new().nest("/admin/zk", site.router.clone());
    site.router = outer.fallback(|| async { "the outer service" });
    let page = site.get("/admin/zk/tree/a").await;
    assert_eq!(page.status, 200, "{}", page.body);
    let links = page.body.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let outside: Vec<_> =
        links.filter(|link| !link.starts_with("/admin/zk/") && *link != "#main").collect();
    assert!(outside.is_empty(), "{outside:?}");
    assert_eq!(site.get("/admin/zk").await.header("location"), "/admin/zk/tree");
    let none = site.get("/admin/zk/none").await;
    assert_eq!(none.status, 404);
    assert!(none.body.contains("There is no page at this address."), "{}", none.body);
    assert_eq!(site.get("/elsewhere").await.body, "the outer service");
}

#[tokio::test]
async fn a_namespace_has_a_root_of_its_own() {
    let mut site = site().await;
    site.zk.create("/app/a").creating_parents().await.unwrap();
    let zk = site.zk.using_namespace("app").unwrap();
    site.router = zk_curator_web::router(&zk, WebOptions::new());
    let page = site.get("/tree").await.body;
    assert!(page.contains("href=\"/tree/a\"") && page.contains("<bdi>/app</bdi>"), "{page}");
}

#[tokio::test]
async fn pages_have_landmarks_and_labels() {
    let site = Site::probing(WebOptions::new().write(true)).await;
    for address in [
        "/tree",
        "/node",
        "/why",
        "/recipes",
        "/services",
        "/ensemble",
        "/search",
        "/search?for=zoo",
        "/changes",
        "/data",
        "/help",
        "/none",
    ] {
        let page = site.get(address).await.body;
        for part in
            ["<html lang=\"en\">", "<main id=\"main\"", "<header", "<footer", "href=\"#main\""]
        {
            assert!(page.contains(part), "{address} {part}");
        }
        assert_eq!(page.matches("<h1>").count(), 1, "{address}");
        assert!(!page.contains(" style=") && !page.contains(" onclick="), "{address}");
        assert_eq!(page.matches("<script").count(), page.matches("<script src=").count());
        for id in page.split("<input id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(page.contains(&format!("for=\"{id}\"")), "{address} {id}");
        }
    }
}

#[tokio::test]
async fn a_head_request_has_no_body() {
    let site = site().await;
    let reply = site.send(ask("HEAD", "/tree").body(Body::empty()).unwrap()).await;
    assert_eq!((reply.status, &*reply.body), (200, ""));
}
