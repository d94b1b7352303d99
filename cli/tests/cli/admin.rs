//! Admin servers over HTTPS, and four-letter words over TLS.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::support::Zkc;

const REFUSED: &str = "is not executed because it is not in the whitelist.\n";

/// A CA, with what it has issued in files.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate").der().clone();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// Issues a certificate for the server, or for a client.
    fn issue(&self) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
        (params.signed_by(&key, &self.issuer).expect("a certificate"), key)
    }

    /// Returns a listener for TLS, which may demand certificates of its clients.
    fn acceptor(&self, demands: bool) -> TlsAcceptor {
        let (certificate, key) = self.issue();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let config = config.with_safe_default_protocol_versions().expect("versions");
        let config = if demands {
            let mut roots = RootCertStore::empty();
            roots.add(self.certificate.clone()).expect("a CA");
            let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            config.with_client_cert_verifier(clients.build().expect("a verifier"))
        } else {
            config.with_no_client_auth()
        };
        let config = config.with_single_cert(vec![certificate.der().clone()], key);
        TlsAcceptor::from(Arc::new(config.expect("a key")))
    }
}

pub(crate) fn pem(what: &str, der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN {what}-----\n{text}\n-----END {what}-----\n")
}

/// Responds to every connection: the admin server in JSON, and words with a refusal. Returns the
/// port.
async fn serve(acceptor: TlsAcceptor, of: fn(&str) -> String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut request = [0; 1024];
                let Ok(length) = stream.read(&mut request).await else { return };
                let response = of(&String::from_utf8_lossy(&request[..length]));
                drop(stream.write_all(response.as_bytes()).await);
                drop(stream.shutdown().await);
            });
        }
    });
    port
}

fn refuse(word: &str) -> String {
    format!("{word} {REFUSED}")
}

fn admin(request: &str) -> String {
    let command = request.split(' ').nth(1).and_then(|path| path.strip_prefix("/commands/"));
    let body = match command {
        Some("stats") => json!({
            "version": "3.9.3-abc, built on 2025", "read_only": false, "node_count": 6,
            "server_stats": { "server_state": "standalone", "last_processed_zxid": 2 },
        }),
        Some("monitor") => json!({ "server_state": "standalone", "watch_count": 3 }),
        Some("configuration") => json!({ "server_id": 0, "tick_time": 2000 }),
        Some("connections") => json!({ "connections": [] }),
        Some("watch_summary") => {
            json!({ "num_connections": 1, "num_paths": 2, "num_total_watches": 3 })
        }
        Some("initial_configuration") => json!({ "initial_configuration": "dataDir=/data\n" }),
        Some("system_properties") => json!({ "jute.maxbuffer": "2097152" }),
        _ => return "HTTP/1.1 404 Not Found\r\n\r\n{}".to_owned(),
    };
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{body}")
}

#[tokio::test]
async fn an_admin_server_is_asked_over_https() {
    let (zkc, authority) = (Zkc::start().await, Authority::new());
    let ca = zkc.file("ca.pem");
    std::fs::write(&ca, pem("CERTIFICATE", &authority.certificate)).expect("a file");
    let ca = ca.display().to_string();
    let server = serve(authority.acceptor(false), refuse).await;
    let server = format!("127.0.0.1:{server}");
    let admin = serve(authority.acceptor(false), admin).await;
    let admin = format!("https://:{admin}");
    let run = async |arguments: &[&str]| {
        let all = [&["-s", &server, "--tls-ca", &ca], arguments].concat();
        zkc.run(&all).await
    };
    let refused = run(&["status", "-o", "json"]).await;
    assert!(refused.stdout.contains("\"refused\""), "{refused:?}");
    let rows = run(&["status", "-o", "json", "--admin", &admin]).await.json();
    assert_eq!((&rows[0]["role"], &rows[0]["version"]), (&"standalone".into(), &"3.9.3".into()));
    let rows = run(&["watches", "-o", "json", "--admin", &admin]).await.json();
    assert_eq!(rows[0]["watches"], 3);
    let rows = run(&["doctor", "-o", "json", "--admin", &admin]).await.json();
    let never =
        rows.as_array().unwrap().iter().find(|row| row["line"] == "autopurge.purgeInterval=24");
    assert!(never.is_some(), "{rows}");
    // The admin server of another host is not that of this server.
    let other = admin.replace("https://", "https://other");
    let refused = run(&["status", "-o", "json", "--admin", &other]).await;
    assert!(refused.stdout.contains("\"refused\""), "{refused:?}");
}

#[tokio::test]
async fn admin_servers_and_clients_are_checked() {
    let (zkc, authority, other) = (Zkc::start().await, Authority::new(), Authority::new());
    let file = |name: &str, text: &str| {
        std::fs::write(zkc.file(name), text).expect("a file");
        zkc.file(name).display().to_string()
    };
    let (certificate, key) = authority.issue();
    let ca = file("ca.pem", &pem("CERTIFICATE", &authority.certificate));
    let certificate = file("client.pem", &pem("CERTIFICATE", certificate.der()));
    let key = zkc.secret("client.key", &pem("PRIVATE KEY", &key.serialize_der()));
    let server = serve(authority.acceptor(false), refuse).await;
    let server = format!("127.0.0.1:{server}");
    let admins = [
        (serve(other.acceptor(false), admin).await, "certificate"),
        (serve(authority.acceptor(true), admin).await, "admin server: "),
    ];
    for (port, told) in admins {
        let admin = format!("https://:{port}");
        let arguments = ["-s", &server, "--tls-ca", &ca, "watches", "--admin", &admin];
        let refused = zkc.run(&arguments).await.fails(5);
        assert!(refused.contains("admin server: ") && refused.contains(told), "{refused}");
    }
    let admin = format!("https://:{}", admins[1].0);
    let client = ["--tls-cert", &certificate, "--tls-key", &key];
    let arguments =
        [&["-s", &server, "--tls-ca", &ca, "watches", "--admin", &admin], &client[..]].concat();
    zkc.run(&arguments).await.ok();

    let unchecked = zkc.run(&["status", "--admin", &admin]).await.fails(2);
    assert!(unchecked.contains("--tls-ca"), "{unchecked}");
    zkc.run(&["status", "--admin", "ftp://zk1"]).await.fails(2);
}
