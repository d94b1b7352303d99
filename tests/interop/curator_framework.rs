//! Nodes that Java Curator and we write, each read by the other: gzip, default data, ACLs,
//! namespaces.

use bytes::Bytes;
use tokio::time::timeout;
use zk_curator::acl::AclProvider;
use zk_curator::{Acl, CuratorFramework, ErrorKind};
use zk_curator_real::java::Program;
use zk_curator_tests::{builder_for, start};

use crate::contest::{PATIENCE, compiled};

/// The provider of the Java program.
#[derive(Debug)]
struct Provider;

impl AclProvider for Provider {
    fn acl(&self, path: &str) -> Vec<Acl> {
        if path.contains("/acl") { Acl::read_unsafe() } else { Acl::open_unsafe() }
    }
}

fn large() -> Vec<u8> {
    (0..200_000_i32).map(|i| (i.wrapping_mul(i) % 251) as u8).collect()
}

/// `java.util.Arrays.hashCode`.
fn hash(data: &[u8]) -> i32 {
    data.iter().fold(1, |hash: i32, byte| {
        hash.wrapping_mul(31).wrapping_add(i32::from(byte.cast_signed()))
    })
}

/// Curator 5.4 says in the last byte of the header that the system is FAT, as Java did before 16;
/// 5.7 that it is unknown.
fn without_system(gzip: Bytes) -> Bytes {
    assert!([0, 0xff].contains(&gzip[9]), "{gzip:?}");
    Bytes::from([&gzip[..9], &gzip[10..]].concat())
}

async fn framework(connect_string: &str, namespace: &str) -> CuratorFramework {
    let builder = builder_for(connect_string)
        .namespace(namespace)
        .acl_provider(Provider)
        .default_data_is_local_address()
        .authorization("digest", "user:secret");
    start(builder).await
}

/// Writes as the Java program does.
async fn write(zk: &CuratorFramework) {
    zk.create("/gzip/text").creating_parents().compressed().data("grün").await.unwrap();
    zk.create("/gzip/empty").compressed().data("").await.unwrap();
    zk.create("/gzip/large").compressed().data(large()).await.unwrap();
    zk.create("/default").await.unwrap();
    zk.create("/mine").acl(Acl::creator_all()).data("mine").await.unwrap();
    zk.create("/acl").data("acl").await.unwrap();
}

/// The output of the program, without the last line.
async fn run(program: &Program, connect_string: &str, namespace: &str, what: &str) -> Vec<String> {
    let child = program.spawn([connect_string, namespace, what]).unwrap();
    let output = child.wait_with_output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.pop().as_deref(), Some("DONE"), "{text}");
    lines
}

#[expect(clippy::too_many_lines, reason = "one story")]
async fn java_and_rust_read_each_other(connect_string: &str) {
    let program = compiled("CuratorFrameworkData.java").await;
    let (rust, java) = (
        framework(connect_string, "teams/rust").await,
        framework(connect_string, "teams/java").await,
    );
    write(&rust).await;
    let written = run(&program, connect_string, "teams/java", "write").await;
    let default = written[0].strip_prefix("DEFAULT ").unwrap();

    // Java finds the same in Rust's nodes as in its own, and the data that it has written.
    let ours = run(&program, connect_string, "teams/rust", "read").await;
    let theirs = run(&program, connect_string, "teams/java", "read").await;
    // The default data are an address of this machine for both, if it has several perhaps not the
    // same.
    let is_default = |line: &String| line.starts_with("DATA /default ");
    let but_default = |lines: &[String]| {
        lines.iter().filter(|line| !is_default(line)).cloned().collect::<Vec<_>>()
    };
    assert_eq!(but_default(&ours), but_default(&theirs));
    for lines in [&ours, &theirs] {
        let line = lines.iter().find(|line| is_default(line)).unwrap();
        let address = line.rsplit(' ').next().unwrap().parse::<std::net::IpAddr>();
        assert!(address.is_ok(), "{line}");
    }
    let large = large();
    for (name, data) in [("text", "grün".as_bytes()), ("empty", b""), ("large", &large)] {
        assert!(
            ours.contains(&format!("GZIP {name} {} {}", data.len(), hash(data))),
            "{name}: {ours:?}"
        );
    }
    assert!(theirs.contains(&format!("DATA /default {default}")), "{default}: {theirs:?}");
    assert_eq!(java.get_data("/default").await.unwrap(), default);
    assert!(ours.contains(&"DATA /mine mine".to_owned()), "{ours:?}");

    // We find the same in Java's, byte by byte where nothing is compressed.
    for (name, data) in [("text", "grün".as_bytes()), ("empty", b""), ("large", &large)] {
        let path = format!("/gzip/{name}");
        assert_eq!(java.get_data(&path).decompressed().await.unwrap(), data, "{name}");
        assert_eq!(
            without_system(rust.get_data(&path).await.unwrap()).slice(..9),
            without_system(java.get_data(&path).await.unwrap()).slice(..9),
            "{name}"
        );
    }
    assert_eq!(
        without_system(java.get_data("/gzip/empty").await.unwrap()),
        without_system(rust.get_data("/gzip/empty").await.unwrap())
    );
    for path in ["/mine", "/acl", "/gzip", "/"] {
        assert_eq!(
            java.get_data(path).await.unwrap(),
            rust.get_data(path).await.unwrap(),
            "{path}"
        );
        assert_eq!(java.get_acl(path).await.unwrap(), rust.get_acl(path).await.unwrap(), "{path}");
    }
    let stranger = start(builder_for(connect_string).namespace("teams/java")).await;
    assert_eq!(stranger.get_data("/mine").await.unwrap_err().kind(), ErrorKind::NoAuth);
    assert_eq!(stranger.set_data("/acl", "").await.unwrap_err().kind(), ErrorKind::NoAuth);
    assert_eq!(stranger.get_data("/acl").await.unwrap(), "acl");

    // The namespace is a path like any other.
    let outside = rust.using_namespace("").unwrap();
    let mut names = outside.children("/teams/rust").await.unwrap();
    names.sort();
    assert_eq!(names, ["acl", "default", "gzip", "mine"]);
}

on_each_with_java! {
    java_and_rust_read_each_other,
    |servers| timeout(PATIENCE, java_and_rust_read_each_other(&servers)).await.unwrap()
}
