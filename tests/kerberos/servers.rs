//! Servers that refuse, that cannot prove their identity, and that are lost during the exchange.

use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zk_curator_client::CreateMode;
use zk_curator_client::kerberos::{KerberosError, KerberosErrorKind};
use zk_curator_proto::records::{ConnectResponse, ReplyHeader, RequestHeader, SaslToken};
use zk_curator_proto::{Decoder, Record, frame};
use zk_curator_real::RealZooKeeper;

use crate::realm::{
    ALICE, ALICE_ID, LONG, Realm, SERVER, by_name, client, end_of, in_realm, only, proven, start,
};

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_server_with_an_old_key_refuses() {
    in_realm("a_server_with_an_old_key_refuses", LONG, async |realm: Realm| {
        realm.use_keytab(ALICE).await;
        let server = realm.server().await;
        realm.kdc.change_key(SERVER).await.unwrap();
        let zk = client(&by_name(&server)).connect().unwrap();
        let failure = end_of(&zk).await;
        let error = KerberosError::of(&failure).unwrap();
        assert_eq!(
            (error.kind(), error.service()),
            (KerberosErrorKind::Refused, "zookeeper@localhost")
        );
        assert!(error.kind().is_final());
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_server_that_tolerates_failures_is_none_for_kerberos() {
    let test = "a_server_that_tolerates_failures_is_none_for_kerberos";
    in_realm(test, LONG, async |realm: Realm| {
        realm.use_keytab(ALICE).await;
        let keytab = realm.path("server.keytab");
        let tolerant = realm
            .server_with(&keytab, |builder| builder.setting("allowSaslFailedClients", "true"))
            .await;
        start(client(&by_name(&tolerant))).await.close().await.unwrap();
        realm.kdc.change_key(SERVER).await.unwrap();
        std::fs::remove_file(realm.kdc.cache()).unwrap();
        end_of(&client(&by_name(&tolerant)).connect().unwrap()).await;
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_server_without_kerberos_ends_the_client() {
    in_realm("a_server_without_kerberos_ends_the_client", LONG, async |realm: Realm| {
        realm.use_keytab(ALICE).await;
        let server = RealZooKeeper::start().await.unwrap();
        end_of(&client(&by_name(&server)).connect().unwrap()).await;
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_server_that_requires_sasl_gets_it() {
    in_realm("a_server_that_requires_sasl_gets_it", LONG, async |realm: Realm| {
        realm.use_keytab(ALICE).await;
        let keytab = realm.path("server.keytab");
        let server = realm
            .server_with(&keytab, |builder| builder.setting("sessionRequireClientSASLAuth", "true"))
            .await;
        let zk = start(client(&by_name(&server))).await;
        zk.add_auth("digest", b"a:b").await.unwrap();
        assert!(zk.exists("/").await.unwrap().is_some());
        zk.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn an_impostor_without_the_key_ends_the_client() {
    in_realm("an_impostor_without_the_key_ends_the_client", LONG, async |realm: Realm| {
        realm.use_keytab(ALICE).await;
        // A response of the real server, from another connection.
        let server = realm.server().await;
        let relay = Relay::start(&server, 0).await;
        start(client(&relay.connect_string())).await.close().await.unwrap();
        let genuine = relay.tokens();
        assert_eq!(genuine.len(), 3, "{genuine:?}");
        assert!(genuine[2].is_empty());

        for (tokens, kind) in [
            // No proof at all.
            (vec![Bytes::new()], KerberosErrorKind::Protocol),
            (vec![Bytes::from_static(b"\x01\0\0\0")], KerberosErrorKind::ServerNotProven),
            // The offer of layers in place of the proof, and a proof for another connection.
            (vec![genuine[1].clone()], KerberosErrorKind::ServerNotProven),
            (genuine.clone(), KerberosErrorKind::ServerNotProven),
        ] {
            let impostor = Impostor::start(tokens).await;
            let zk = client(&impostor).connect().unwrap();
            let failure = end_of(&zk).await;
            assert_eq!(KerberosError::of(&failure).unwrap().kind(), kind, "{failure}");
        }
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_response_that_is_lost_at_any_step_is_another_attempt() {
    let test = "a_response_that_is_lost_at_any_step_is_another_attempt";
    in_realm(test, LONG, async |realm: Realm| {
        realm.use_keytab(ALICE).await;
        let server = realm.server().await;
        // The handshake and three tokens.
        let relay = Relay::start(&server, 4).await;
        let zk = start(client(&relay.connect_string())).await;
        assert_eq!(relay.connections(), 5);
        assert_eq!(proven(&zk).await, [ALICE_ID]);
        zk.create("/mine", b"", &only(ALICE_ID), CreateMode::Ephemeral).await.unwrap();
        zk.close().await.unwrap();
    });
}

/// Relays frames between clients and a server, and records the tokens of the server. The first
/// connection is cut in place of its first response, the second in place of its second, and so on.
struct Relay {
    port: u16,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    connections: usize,
    /// The responses of the server on the last connection.
    replies: Vec<Bytes>,
}

impl Relay {
    /// Cuts the first `cuts` connections.
    async fn start(server: &RealZooKeeper, cuts: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, addr) = (Arc::new(Mutex::new(Seen::default())), server.addr());
        let shared = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(addr).await.unwrap();
                let passing = {
                    let mut seen = shared.lock().unwrap();
                    seen.connections += 1;
                    seen.replies.clear();
                    if seen.connections <= cuts { seen.connections - 1 } else { usize::MAX }
                };
                relay(near, far, passing, &shared).await;
            }
        });
        Self { port, seen }
    }

    fn connect_string(&self) -> String {
        format!("localhost:{}", self.port)
    }

    fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    /// Returns the tokens that the server has sent on the last connection, after its handshake.
    fn tokens(&self) -> Vec<Bytes> {
        let seen = self.seen.lock().unwrap();
        let tokens = seen.replies.iter().skip(1).take(3).map(|reply| {
            let mut reply = Decoder::new(reply.clone());
            ReplyHeader::decode(&mut reply, "header").unwrap();
            SaslToken::decode(&mut reply, "token").unwrap().token.unwrap_or_default()
        });
        tokens.collect()
    }
}

/// Relays one connection until it ends, or until `passing` responses have passed.
async fn relay(near: TcpStream, far: TcpStream, passing: usize, seen: &Mutex<Seen>) {
    let (mut from_client, mut to_client) = near.into_split();
    let (mut from_server, mut to_server) = far.into_split();
    let requests = async {
        drop(tokio::io::copy(&mut from_client, &mut to_server).await);
    };
    let replies = async {
        let mut input = BytesMut::new();
        for _ in 0..passing {
            let Some(reply) = read(&mut from_server, &mut input).await else { return };
            let mut output = BytesMut::new();
            frame::put_parts(&mut output, &[&reply]);
            seen.lock().unwrap().replies.push(reply);
            if to_client.write_all(&output).await.is_err() {
                return;
            }
        }
        // The server has responded, and the client never learns of it.
        read(&mut from_server, &mut input).await;
    };
    tokio::select! {
        () = requests => {}
        () = replies => {}
    }
}

/// Reads a frame. Returns `None` at the end of the connection.
async fn read(from: &mut (impl AsyncReadExt + Unpin), input: &mut BytesMut) -> Option<Bytes> {
    loop {
        if let Some(frame) = frame::take(input, usize::MAX).unwrap() {
            return Some(frame);
        }
        if from.read_buf(input).await.ok()? == 0 {
            return None;
        }
    }
}

/// A server that grants sessions, and responds to the tokens of clients with these ones.
struct Impostor;

impl Impostor {
    /// Returns its connect string.
    async fn start(tokens: Vec<Bytes>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                Self::serve(client, &tokens).await;
            }
        });
        format!("localhost:{port}")
    }

    async fn serve(mut client: TcpStream, tokens: &[Bytes]) {
        let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
        if read(&mut client, &mut input).await.is_none() {
            return;
        }
        let granted = ConnectResponse {
            timeout: 20_000,
            session_id: 7,
            password: Some(Bytes::from_static(&[0; 16])),
            ..ConnectResponse::default()
        };
        frame::put(&mut output, |body| granted.encode(body));
        let mut tokens = tokens.iter();
        loop {
            if client.write_all_buf(&mut output).await.is_err() {
                return;
            }
            let Some(request) = read(&mut client, &mut input).await else { return };
            let mut request = Decoder::new(request);
            let RequestHeader { xid, .. } = RequestHeader::decode(&mut request, "header").unwrap();
            let token = tokens.next().cloned().unwrap_or_default();
            frame::put(&mut output, |body| {
                ReplyHeader { xid, zxid: 0, err: 0 }.encode(body);
                SaslToken { token: Some(token) }.encode(body);
            });
        }
    }
}
