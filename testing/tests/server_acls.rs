//! Access control: every operation, and the permission that it needs.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::common::{RawClient, auth, create_body, delete, set_data};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zk_curator_proto::records::{
    Acl, AclResponse, AddWatchRequest, CheckVersionRequest, ClientInfo, CreateMode, CreateRequest,
    EventType, GetAclRequest, GetAllChildrenNumberRequest, GetChildrenRequest, GetDataRequest,
    MultiOp, MultiResult, Permissions, SetAclRequest,
};
use zk_curator_proto::{ErrorCode, Request, Response};
use zk_curator_testing::{TestServer, digest};

fn create_with(path: &str, acl: Vec<Acl>) -> Request {
    Request::Create(CreateRequest { acl, ..create_body(path, CreateMode::Persistent) })
}

fn set_acl(path: &str, acl: Vec<Acl>, version: i32) -> Request {
    Request::SetAcl(SetAclRequest { path: path.into(), acl, version })
}

fn anyone(permissions: Permissions) -> Vec<Acl> {
    vec![Acl::new(permissions, "world", "anyone")]
}

async fn acl_of(zk: &mut RawClient, path: &str) -> Result<Vec<Acl>, ErrorCode> {
    match zk.call(Request::GetAcl(GetAclRequest { path: path.into() })).await? {
        Response::Acl(AclResponse { acl, .. }) => Ok(acl),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn every_operation_needs_its_permission() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let every = [
        Permissions::READ,
        Permissions::WRITE,
        Permissions::CREATE,
        Permissions::DELETE,
        Permissions::ADMIN,
    ];
    for given in every {
        let path = format!("/{}", given.bits());
        let child = format!("{path}/child");
        zk.create(&path, CreateMode::Persistent).await.unwrap();
        zk.create(&child, CreateMode::Persistent).await.unwrap();
        zk.call(set_acl(&path, anyone(given), -1)).await.unwrap();
        let check = MultiOp::Check(CheckVersionRequest { path: path.clone(), version: -1 });
        let attempts = [
            (
                Permissions::READ,
                Request::GetData(GetDataRequest { path: path.clone(), watch: false }),
            ),
            (
                Permissions::READ,
                Request::GetChildren(GetChildrenRequest { path: path.clone(), watch: false }),
            ),
            (
                Permissions::READ,
                Request::GetAllChildrenNumber(GetAllChildrenNumberRequest { path: path.clone() }),
            ),
            (Permissions::WRITE, set_data(&path, b"", -1)),
            (Permissions::CREATE, create_with(&format!("{path}/new"), Acl::open_unsafe())),
            (Permissions::DELETE, delete(&child)),
            (Permissions::ADMIN, set_acl(&path, anyone(given), -1)),
        ];
        for (needed, request) in attempts {
            let allowed = match zk.call(request.clone()).await {
                Ok(_) => true,
                Err(ErrorCode::NoAuth) => false,
                other => panic!("{request:?}: {other:?}"),
            };
            assert_eq!(allowed, given.contains(needed), "{request:?} with {given:?}");
        }
        let readable = given.contains(Permissions::READ);
        assert_eq!(zk.exists(&path, false).await.is_ok(), readable);
        assert_eq!(
            acl_of(&mut zk, &path).await.is_ok(),
            readable || given.contains(Permissions::ADMIN)
        );
        let refused = MultiResult::Error(Some(ErrorCode::NoAuth));
        assert_eq!(
            zk.multi(vec![check]).await,
            [if readable { MultiResult::Check } else { refused }]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn permission_comes_before_versions_and_after_existence() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    zk.call(create_with("/a", Acl::read_unsafe())).await.unwrap();
    assert_eq!(zk.call(set_data("/a", b"", 9)).await, Err(ErrorCode::NoAuth));
    assert_eq!(zk.call(set_data("/none", b"", 9)).await, Err(ErrorCode::NoNode));
    assert_eq!(zk.call(delete("/a/none")).await, Err(ErrorCode::NoAuth), "of the parent");
    assert_eq!(zk.call(set_acl("/a", Vec::new(), 9)).await, Err(ErrorCode::InvalidAcl));
    assert_eq!(zk.call(set_acl("/none", Vec::new(), 9)).await, Err(ErrorCode::InvalidAcl));
    assert_eq!(zk.call(set_acl("/a", Acl::open_unsafe(), 9)).await, Err(ErrorCode::NoAuth));
    assert_eq!(zk.call(create_with("/none/a", vec![])).await, Err(ErrorCode::InvalidAcl));
    // A delete needs no permission on the node itself.
    assert_eq!(zk.delete("/a").await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn the_creator_has_its_proven_identity() {
    let server = TestServer::in_memory().await;
    let mut alice = RawClient::new(&server).await;
    let mut other = RawClient::new(&server).await;
    assert_eq!(alice.call(create_with("/a", Acl::creator_all())).await, Err(ErrorCode::InvalidAcl));
    alice.call(auth("digest", b"alice:1")).await.unwrap();
    alice.call(auth("digest", b"alice:1")).await.unwrap();
    alice.call(create_with("/a", Acl::creator_all())).await.unwrap();
    let id = digest("alice:1");
    assert_eq!(acl_of(&mut alice, "/a").await, Ok(vec![Acl::new(Permissions::ALL, "digest", &id)]));
    assert_eq!(other.get_data("/a", false).await, Err(ErrorCode::NoAuth));

    let readable = [Acl::creator_all(), Acl::read_unsafe()].concat();
    let Ok(Response::Stat(stat)) = alice.call(set_acl("/a", readable, 0)).await else {
        panic!("no stat")
    };
    assert_eq!((stat.aversion, stat.version), (1, 0));
    assert_eq!(alice.call(set_acl("/a", Acl::creator_all(), 0)).await, Err(ErrorCode::BadVersion));
    let shown = [Acl::new(Permissions::ALL, "digest", "alice:x"), Acl::read_unsafe()[0].clone()];
    assert_eq!(acl_of(&mut other, "/a").await, Ok(shown.to_vec()), "without the hash");

    let who = |scheme: &str, user: &str| ClientInfo { scheme: scheme.into(), user: user.into() };
    let identities = Response::Identities(vec![who("digest", "alice"), who("ip", "127.0.0.1")]);
    assert_eq!(alice.call(Request::WhoAmI).await, Ok(identities));
    // An identity belongs to the connection, not to the session.
    let mut again = alice.reattach(&server).await.unwrap();
    assert_eq!(again.set_data("/a", b"").await, Err(ErrorCode::NoAuth));
}

#[tokio::test(start_paused = true)]
async fn the_superuser_may_do_everything() {
    let server =
        TestServer::builder().tcp(false).super_digest(digest("root:toor")).start().await.unwrap();
    let mut zk = RawClient::new(&server).await;
    zk.call(create_with("/a", vec![Acl::new(Permissions::ALL, "digest", "nobody:hash")]))
        .await
        .unwrap();
    assert_eq!(zk.set_data("/a", b"").await, Err(ErrorCode::NoAuth));
    zk.call(auth("digest", b"root:wrong")).await.unwrap();
    assert_eq!(zk.set_data("/a", b"").await, Err(ErrorCode::NoAuth));
    zk.call(auth("digest", b"root:toor")).await.unwrap();
    assert!(zk.set_data("/a", b"").await.is_ok());
    let acl = acl_of(&mut zk, "/a").await.unwrap();
    assert_eq!(acl[0].id, "nobody:hash");
}

#[tokio::test(start_paused = true)]
async fn events_are_only_for_clients_that_may_read() {
    let server = TestServer::in_memory().await;
    let mut writer = RawClient::new(&server).await;
    let mut watcher = RawClient::new(&server).await;
    writer.call(auth("digest", b"w:w")).await.unwrap();
    for mode in 0..2 {
        let watch = AddWatchRequest { path: format!("/{mode}"), mode };
        watcher.call(Request::AddWatch(watch)).await.unwrap();
    }
    for path in ["/0", "/1"] {
        writer.call(create_with(path, Acl::creator_all())).await.unwrap();
        writer.call(set_acl(path, Acl::open_unsafe(), -1)).await.unwrap();
        writer.set_data(path, b"").await.unwrap();
        writer.call(create_with(&format!("{path}/secret"), Acl::creator_all())).await.unwrap();
    }
    watcher.ping().await;
    let expected = [
        (EventType::NodeDataChanged, "/0".to_owned()),
        (EventType::NodeChildrenChanged, "/0".to_owned()),
        (EventType::NodeDataChanged, "/1".to_owned()),
    ];
    assert_eq!(Vec::from_iter(watcher.events), expected);
}

/// The server listens on every address of this machine. A client with an IPv4 address is known by
/// that, even on an IPv6 socket.
#[tokio::test]
async fn clients_are_known_by_addresses_of_both_versions() {
    let server = match TestServer::builder().host(Ipv6Addr::UNSPECIFIED.into()).start().await {
        Ok(server) => server,
        Err(error) => return println!("SKIPPED: no addresses of version 6 here: {error}"),
    };
    let port = server.addr().unwrap().port();
    let mut known = Vec::new();
    for address in [Ipv6Addr::LOCALHOST.into(), std::net::IpAddr::from(Ipv4Addr::LOCALHOST)] {
        let Ok(stream) = TcpStream::connect((address, port)).await else {
            println!("SKIPPED: {address} is not reached here");
            continue;
        };
        let mut zk = RawClient::open(Box::new(stream), crate::common::new_session()).await.unwrap();
        let Ok(Response::Identities(identities)) = zk.call(Request::WhoAmI).await else {
            panic!("no identities")
        };
        let [ClientInfo { scheme, user }] = &identities[..] else { panic!("{identities:?}") };
        assert_eq!(scheme, "ip");
        let (other, mine) =
            if address.is_ipv4() { ("::/0", "127.0.0.0/8") } else { ("127.0.0.0/8", "::/64") };
        let path = format!("/{}", known.len());
        let acl = |id: &str| vec![Acl::new(Permissions::ALL, "ip", id)];
        zk.call(create_with(&path, acl(mine))).await.unwrap();
        zk.set_data(&path, b"mine").await.unwrap();
        zk.call(set_acl(&path, acl(other), -1)).await.unwrap();
        assert_eq!(zk.set_data(&path, b"no more").await, Err(ErrorCode::NoAuth), "{other}");
        let mut stream = TcpStream::connect((address, port)).await.unwrap();
        stream.write_all(b"cons").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let shown = if address.is_ipv4() { "/127.0.0.1:" } else { "/[0:0:0:0:0:0:0:1]:" };
        assert!(answer.contains(shown), "{answer}");
        known.push(user.clone());
    }
    for user in known {
        assert!(["0:0:0:0:0:0:0:1", "127.0.0.1"].contains(&user.as_str()), "{user}");
    }
}
