//! The web explorer as a process.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::admin::pem;
use crate::running::{LIMIT, Running};
use crate::support::Zkc;

/// The arguments of a server on a free port.
const WEB: [&str; 3] = ["web", "--listen", "127.0.0.1:0"];

/// Starts a server, and returns its address.
async fn start(zkc: &Zkc, more: &[&str]) -> (Running, String) {
    start_at(&zkc.servers, more, "http://").await
}

async fn start_at(servers: &str, more: &[&str], scheme: &str) -> (Running, String) {
    let mut web = Running::start(servers, &[&WEB[..], more].concat());
    let line = web.line().await;
    let url = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}"));
    (web, url.strip_prefix(scheme).unwrap().to_owned())
}

/// Sends a request, and returns the response.
async fn ask(address: &str, head: &str, body: &str) -> String {
    exchange(TcpStream::connect(address).await.unwrap(), head, body).await
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    head: &str,
    body: &str,
) -> String {
    let length = body.len();
    let request = format!(
        "{head}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    // A peer that ends TLS without a message is no failure here.
    drop(timeout(LIMIT, stream.read_to_end(&mut response)).await.unwrap());
    String::from_utf8_lossy(&response).into_owned()
}

#[tokio::test]
async fn pages_are_served_until_a_signal() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let zkc = Zkc::start().await;
        zkc.run(&["create", "/orders", "x"]).await.ok();
        let (web, address) = start(&zkc, &[]).await;
        let page = ask(&address, "GET /tree HTTP/1.1", "").await;
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        assert!(page.contains("/tree/orders") && page.contains("read-only"), "{page}");
        let refused = ask(&address, "PUT /api/v1/node/orders HTTP/1.1\r\nIf-Match: *", "y").await;
        assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
        web.signal(signal);
        let ended = web.finish().await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(zkc.server.probe().sessions().is_empty(), "{ended:?}");
    }
}

#[tokio::test]
async fn streams_end_with_the_server() {
    let zkc = Zkc::start().await;
    let (web, address) = start(&zkc, &[]).await;
    let mut stream = BufReader::new(TcpStream::connect(&address).await.unwrap());
    let request = "GET /api/v1/watch/a HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.get_mut().write_all(request.as_bytes()).await.unwrap();
    let mut line = String::new();
    while !line.contains("fresh") {
        line.clear();
        timeout(LIMIT, stream.read_line(&mut line)).await.unwrap().unwrap();
    }
    web.signal(Signal::SIGTERM);
    let ended = web.finish().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.stderr.contains("not finished"), "{ended:?}");
}

#[tokio::test]
async fn changes_are_recorded_on_standard_error() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a b", "x"]).await.ok();
    let (web, address) = start(&zkc, &["--write"]).await;
    let changed = ask(&address, "PUT /api/v1/node/a%20b HTTP/1.1\r\nIf-Match: \"0\"", "yy").await;
    assert!(changed.starts_with("HTTP/1.1 200"), "{changed}");
    web.signal(Signal::SIGTERM);
    let ended = web.finish().await;
    let line = ended.stderr.lines().find(|line| line.contains("audit:"));
    let line = line.unwrap_or_else(|| panic!("{ended:?}"));
    for part in ["changed", "operation=set", "path=\"/a b\"", "who=anyone", "bytes=2"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[tokio::test]
async fn pages_say_that_there_is_no_server() {
    // A port that nobody listens on.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let servers = listener.local_addr().unwrap().to_string();
    drop(listener);
    let (web, address) = start_at(&servers, &["--timeout", "1s"], "http://").await;
    let help = ask(&address, "GET /help HTTP/1.1", "").await;
    assert!(help.starts_with("HTTP/1.1 200") && help.contains("ZooKeeper is away"), "{help}");
    let tree = ask(&address, "GET /tree HTTP/1.1", "").await;
    assert!(tree.starts_with("HTTP/1.1 503"), "{tree}");
    web.signal(Signal::SIGTERM);
    assert_eq!(web.finish().await.code, Some(0));
}

#[tokio::test]
async fn others_have_to_sign_in() {
    let zkc = Zkc::start().await;
    let token = zkc.run(&["web", "--new-token", "ann", "-o", "json"]).await.json();
    let users = zkc.secret("users", token["line"].as_str().unwrap());
    let any = ["web", "--listen", "0.0.0.0:0"];
    for (more, reason) in [
        (&[][..], "there are no users"),
        (&["--users", &users][..], "browsers cannot call"),
        (&["--users", &users, "--host", "zk", "--impersonate"][..], "without encryption"),
    ] {
        let told = zkc.run(&[&any[..], more].concat()).await.fails(2);
        assert!(told.contains(reason), "{told}");
    }
    let (web, address) = start(&zkc, &["--users", &users]).await;
    let refused = ask(&address, "GET /api/v1/node HTTP/1.1", "").await;
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    let token = token["token"].as_str().unwrap();
    let head = format!("GET /api/v1/node HTTP/1.1\r\nAuthorization: Bearer {token}");
    let node = ask(&address, &head, "").await;
    assert!(node.starts_with("HTTP/1.1 200"), "{node}");
    web.signal(Signal::SIGTERM);
    let ended = web.finish().await;
    assert!(!ended.stderr.contains(token), "{ended:?}");
}

#[tokio::test]
async fn bad_files_and_addresses_are_named() {
    let zkc = Zkc::start().await;
    let bad = zkc.secret("bad", "ann secret\n");
    let told = zkc.run(&[&WEB[..], &["--users", &bad]].concat()).await.fails(2);
    assert!(told.contains("line 1") && !told.contains("secret"), "{told}");
    zkc.run(&[&WEB[..], &["--users", "none"]].concat()).await.fails(2);
    let open = zkc.file("open");
    std::fs::write(&open, "").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&open, mode).unwrap();
    let open = open.display().to_string();
    let told = zkc.run(&[&WEB[..], &["--users", &open]].concat()).await.fails(2);
    assert!(told.contains("chmod 600"), "{told}");
    let tls = ["--https-cert", &bad, "--https-key", &bad];
    let told = zkc.run(&[&WEB[..], &tls].concat()).await.fails(2);
    assert!(told.contains("no certificate"), "{told}");
    zkc.run(&[&WEB[..], &["--redact", "/[a"]].concat()).await.fails(2);
    zkc.run(&[&WEB[..], &["--base-path", "//evil.com"]].concat()).await.fails(2);
    zkc.run(&[&WEB[..], &["--proxy-user-header", "x-user"]].concat()).await.fails(2);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let told = zkc.run(&["web", "--listen", &address]).await.fails(2);
    assert!(told.contains(&address) && told.contains("free port"), "{told}");
    zkc.run(&["web", "--new-token", "a b"]).await.fails(2);
}

#[tokio::test]
async fn a_read_only_context_forbids_changes() {
    let zkc = Zkc::start().await;
    let write = [&WEB[..], &["--write"]].concat();
    zkc.run(&[&["--read-only"][..], &write].concat()).await.fails(5);
    let add = ["ctx", "add", "prod", "-s", &zkc.servers, "--confirm-changes"];
    zkc.run(&add).await.ok();
    let told = zkc.run(&[&["-c", "prod"][..], &write].concat()).await.fails(2);
    assert!(told.contains("asks for confirmation"), "{told}");
}

#[tokio::test]
async fn a_full_output_ends_the_server() {
    let zkc = Zkc::start().await;
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = zkc.command(&WEB).stdout(Stdio::from(full)).spawn().unwrap();
    let status = timeout(LIMIT, child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(2));
}

#[tokio::test]
async fn a_slow_client_does_not_delay_the_others() {
    let zkc = Zkc::start().await;
    let (web, address) = start(&zkc, &[]).await;
    let mut slow = TcpStream::connect(&address).await.unwrap();
    slow.write_all(b"GET /tree HTTP/1.1\r\nHo").await.unwrap();
    assert!(ask(&address, "GET /help HTTP/1.1", "").await.starts_with("HTTP/1.1 200"));
    // It is idle when the server ends, and is not waited for longer than others.
    web.signal(Signal::SIGTERM);
    web.signal(Signal::SIGTERM);
    let ended = timeout(LIMIT, web.finish()).await.unwrap();
    assert!(matches!(ended.code, Some(0 | 8)), "{ended:?}");
    drop(slow);
}

#[tokio::test]
async fn pages_are_served_over_https() {
    let zkc = Zkc::start().await;
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let cert = zkc.secret("cert", &pem("CERTIFICATE", certificate.der()));
    let key = zkc.secret("key", &pem("PRIVATE KEY", &key.serialize_der()));
    let tls = ["--https-cert", &*cert, "--https-key", &*key];
    let (web, address) = start_at(&zkc.servers, &tls, "https://").await;
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(&address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let page = exchange(stream, "GET /help HTTP/1.1", "").await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    // A client without TLS gets nothing, and disturbs nobody.
    let plain = timeout(Duration::from_secs(60), ask(&address, "GET /help HTTP/1.1", "")).await;
    assert!(!plain.unwrap().contains("200"));
    web.signal(Signal::SIGTERM);
    assert_eq!(web.finish().await.code, Some(0));
}

#[tokio::test]
async fn the_past_is_read_from_a_directory() {
    let zkc = Zkc::start().await;
    let none = [&WEB[..], &["--history", "none"]].concat();
    let told = zkc.run(&none).await.fails(2);
    assert!(told.contains("none"), "{told}");
    let directory = zkc.file("zk");
    crate::history::incident().write(&directory);
    let directory = directory.to_str().unwrap();
    let (web, address) = start(&zkc, &["--history", directory]).await;
    let page = ask(&address, "GET /history/config HTTP/1.1", "").await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(page.contains("a client deleted it") && page.contains("ci-7:22"), "{page}");
    web.signal(Signal::SIGTERM);
    assert_eq!(web.finish().await.code, Some(0));
}

#[tokio::test]
async fn an_undelete_is_recorded_as_an_undelete() {
    let zkc = Zkc::start().await;
    let directory = zkc.file("zk");
    crate::history::incident().write(&directory);
    let directory = directory.to_str().unwrap();
    let (web, address) = start(&zkc, &["--write", "--history", directory]).await;
    let page = ask(&address, "GET /history/config HTTP/1.1", "").await;
    let cookie = between(&page, "set-cookie: ", ";");
    let csrf = between(&page, "name=\"csrf\" value=\"", "\"");
    let send = async |path: &str, fields: &str| {
        let head = format!(
            "POST {path} HTTP/1.1\r\nCookie: {cookie}\r\n\
             Content-Type: application/x-www-form-urlencoded"
        );
        ask(&address, &head, &format!("csrf={csrf}&{fields}")).await
    };
    let planned = send("/history/config", "action=undelete&at=0xb").await;
    let location = between(&planned, "location: ", "\r\n");
    let plan = ask(&address, &format!("GET {location} HTTP/1.1\r\nCookie: {cookie}"), "").await;
    let upload = between(&plan, "name=\"upload\" value=\"", "\"");
    let token = between(&plan, "name=\"token\" value=\"", "\"");
    let fields = format!("action=apply&upload={upload}&token={token}&root=here&confirm=yes");
    let applied = send("/data/config", &fields).await;
    assert!(applied.starts_with("HTTP/1.1 303"), "{applied}");
    assert_eq!(zkc.server.probe().data("/config/flags").unwrap(), "a=1\nb=3\n");
    web.signal(Signal::SIGTERM);
    let ended = web.finish().await;
    let line = ended.stderr.lines().find(|line| line.contains("audit:"));
    let line = line.unwrap_or_else(|| panic!("{ended:?}"));
    for part in ["changed", "operation=undelete", "path=/config ", "who=anyone"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

/// Returns the text between two others in a response.
fn between<'a>(response: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = response.split_once(before).unwrap_or_else(|| panic!("{before}: {response}"));
    rest.split_once(after).unwrap_or_else(|| panic!("{after}: {rest}")).0
}
