//! An explorer of an embedded server, and its clients.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, BodyDataStream, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::request::Builder;
use axum::http::{HeaderMap, Request, header};
use futures_util::StreamExt;
use serde_json::Value;
use tower::ServiceExt;
use zk_curator::CuratorFramework;
use zk_curator_client::Connector;
use zk_curator_ops::ensemble::probe::ProbeOptions;
use zk_curator_testing::{TestServer, ZooKeeperVersion};
use zk_curator_web::{WebOptions, router};

/// An explorer and its server.
pub(crate) struct Site {
    pub(crate) server: TestServer,
    pub(crate) zk: CuratorFramework,
    pub(crate) router: Router,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// A browser that has loaded a page with a form.
#[derive(Debug, Clone)]
pub(crate) struct Browser {
    pub(crate) cookie: String,
    pub(crate) csrf: String,
}

impl Site {
    /// Starts a server in memory, which is asked no four-letter words.
    pub(crate) async fn start(options: WebOptions) -> Self {
        Self::on(TestServer::in_memory().await, options.without_probe()).await
    }

    /// Starts a server of ZooKeeper 3.8 in memory, which shows every stat.
    pub(crate) async fn of_3_8(options: WebOptions) -> Self {
        let server = TestServer::builder().version(ZooKeeperVersion::V3_8).tcp(false).start();
        Self::on(server.await.unwrap(), options.without_probe()).await
    }

    /// Starts a server on TCP.
    pub(crate) async fn on_tcp(options: WebOptions) -> Self {
        Self::on(TestServer::start().await, options).await
    }

    /// Starts a server in memory, which is asked four-letter words through memory.
    pub(crate) async fn probing(options: WebOptions) -> Self {
        let server = TestServer::in_memory().await;
        let connector = Arc::new(server.connector());
        Self::asking(server, connector, options).await
    }

    /// Starts an explorer of a server in memory, which is asked four-letter words through
    /// `connector`.
    pub(crate) async fn asking(
        server: TestServer,
        connector: Arc<dyn Connector>,
        options: WebOptions,
    ) -> Self {
        // The name of a host would be looked up before its server is asked.
        let zk = server.framework().connect_string("127.0.0.1:2181").build().unwrap();
        zk.start().await.unwrap();
        let router = router(&zk, options.probe(ProbeOptions::new().connector(connector)));
        Self { server, zk, router }
    }

    async fn on(server: TestServer, options: WebOptions) -> Self {
        let zk = server.framework().build().unwrap();
        zk.start().await.unwrap();
        let router = router(&zk, options);
        Self { server, zk, router }
    }

    /// Returns another client of the server, with a session of its own.
    pub(crate) async fn client(&self) -> CuratorFramework {
        let zk = self.server.framework().build().unwrap();
        zk.start().await.unwrap();
        zk
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }

    pub(crate) async fn get(&self, address: &str) -> Reply {
        self.send(ask("GET", address).body(Body::empty()).unwrap()).await
    }

    /// Loads a page in a browser that has a cookie.
    pub(crate) async fn get_as(&self, browser: &Browser, address: &str) -> Reply {
        let request = ask("GET", address).header(header::COOKIE, &browser.cookie);
        self.send(request.body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn json(&self, address: &str) -> Value {
        let reply = self.get(address).await;
        serde_json::from_str(&reply.body).unwrap_or_else(|why| panic!("{why}: {}", reply.body))
    }

    /// Loads a page with a form.
    pub(crate) async fn browser(&self, address: &str) -> Browser {
        let reply = self.get(address).await;
        let cookie = reply.header(header::SET_COOKIE.as_str());
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Browser { cookie, csrf: reply.csrf() }
    }

    /// Sends a form as a browser does.
    pub(crate) async fn form(
        &self,
        browser: &Browser,
        address: &str,
        fields: &[(&str, &str)],
    ) -> Reply {
        let csrf = [("csrf", browser.csrf.as_str())];
        let request = ask("POST", address)
            .header(header::COOKIE, &browser.cookie)
            .header(header::ORIGIN, "http://localhost:9181")
            .header("sec-fetch-site", "same-origin")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let body = encoded(csrf.iter().chain(fields));
        self.send(request.body(Body::from(body)).unwrap()).await
    }

    /// Opens the news of a path.
    pub(crate) async fn watch(&self, address: &str) -> (u16, BodyDataStream) {
        let request = ask("GET", address).body(Body::empty()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        (response.status().as_u16(), response.into_body().into_data_stream())
    }
}

impl Reply {
    /// Returns a header; empty without one.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the address of a redirect without its query.
    pub(crate) fn destination(&self) -> &str {
        self.header("location").split('?').next().unwrap()
    }

    pub(crate) fn problem(&self) -> Value {
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.body);
        serde_json::from_str(&self.body).unwrap()
    }

    /// Returns the token of the first form; empty without one.
    pub(crate) fn csrf(&self) -> String {
        let (_, rest) = self.body.split_once("name=\"csrf\" value=\"").unwrap_or_default();
        rest.split('"').next().unwrap().to_owned()
    }
}

/// Begins a request of a program.
pub(crate) fn ask(method: &str, address: &str) -> Builder {
    Request::builder().method(method).uri(address).header(header::HOST, "localhost:9181")
}

/// Adds the address of the connection.
pub(crate) fn from_peer(mut request: Request<Body>, peer: &str) -> Request<Body> {
    let peer = SocketAddr::new(peer.parse().unwrap(), 40_000);
    request.extensions_mut().insert(ConnectInfo(peer));
    request
}

/// Waits for news with a state, and returns their generation.
pub(crate) async fn news(stream: &mut BodyDataStream, state: &str) -> u64 {
    loop {
        let part = stream.next().await.expect("the stream continues").unwrap();
        let text = String::from_utf8(part.to_vec()).unwrap();
        let data = text.lines().find_map(|line| line.strip_prefix("data:"));
        let Some(data) = data else { continue };
        let news: Value = serde_json::from_str(data.trim()).unwrap();
        if news["state"] == state {
            return news["generation"].as_u64().unwrap();
        }
    }
}

fn encoded<'a>(fields: impl Iterator<Item = &'a (&'a str, &'a str)>) -> String {
    let encode = |text: &str| {
        let mut encoded = String::new();
        for byte in text.bytes() {
            if byte.is_ascii_alphanumeric() {
                encoded.push(char::from(byte));
            } else {
                encoded.push_str(&format!("%{byte:02x}"));
            }
        }
        encoded
    };
    let pair = |(name, value): &(&str, &str)| format!("{}={}", encode(name), encode(value));
    fields.map(pair).collect::<Vec<_>>().join("&")
}
