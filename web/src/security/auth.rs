//! The user of a request.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, header};

use super::network::Network;
use super::sessions::Sessions;
use super::users::{Users, is_name};

/// The header in which proxies name the addresses of their clients.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The ways to sign in. Without any, every client that reaches the server is accepted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Authentication {
    pub(crate) users: Option<Users>,
    /// The header in which a trusted proxy names the user whom it has signed in.
    pub(crate) proxy_header: Option<HeaderName>,
    /// The networks of the proxies in front of this server.
    pub(crate) trusted: Vec<Network>,
}

/// The way in which a request was authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    /// None: nobody has to sign in.
    Open,
    /// By the cookie of a session.
    Cookie,
    /// By a token in the header `Authorization`, which no foreign page can add.
    Bearer,
    /// By the header of a trusted proxy.
    Proxy,
}

/// The decision about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Access {
    /// The user; empty if nobody has to sign in.
    Granted { user: Arc<str>, means: Means },
    /// The request has no credentials, or those of a session that is over.
    Missing,
    /// The request has a token that no user has.
    Refused,
}

/// The client of an accepted request.
#[derive(Debug, Clone)]
pub(crate) struct Viewer {
    /// The name of the user; empty if nobody has to sign in.
    pub(crate) user: Arc<str>,
    pub(crate) means: Means,
    /// The address of the client, if it is known.
    pub(crate) peer: Option<IpAddr>,
    /// The value of the cookie that identifies the browser, if it has one.
    pub(crate) session: Option<String>,
    /// The token that forms of this browser have to contain.
    pub(crate) csrf: String,
    /// The name by which requests and streams are counted.
    pub(crate) counted_as: String,
}

impl Viewer {
    /// Returns the name for logs.
    pub(crate) fn who(&self) -> &str {
        if self.user.is_empty() { "anyone" } else { &self.user }
    }
}

impl Authentication {
    /// Returns `true` if every client is accepted.
    pub(crate) const fn is_open(&self) -> bool {
        self.users.is_none() && self.proxy_header.is_none()
    }

    /// Returns the address of the client: that of the connection, or the one that a trusted proxy
    /// names. Each proxy appends the address of its own client to `X-Forwarded-For`. So the last
    /// address that is not one of a trusted proxy is the client, and those before it are its claims.
    pub(crate) fn client(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<IpAddr> {
        let values = headers.get_all(FORWARDED_FOR).iter().rev();
        let named = values.flat_map(|value| value.to_str().unwrap_or_default().rsplit(','));
        let mut client = peer?;
        for address in named {
            let Some(address) = address_of(address).filter(|_| self.trusts(client)) else { break };
            client = address;
        }
        Some(client)
    }

    /// Decides about a request. `peer` is the address of the connection, and `session` the cookie.
    pub(crate) fn access(
        &self,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
        sessions: &Sessions,
        session: Option<&str>,
    ) -> Access {
        if self.is_open() {
            return Access::Granted { user: "".into(), means: Means::Open };
        }
        if let Some(user) = self.proxy_user(headers, peer) {
            return Access::Granted { user, means: Means::Proxy };
        }
        let Some(users) = &self.users else { return Access::Missing };
        if let Some(token) = bearer(headers) {
            let user = users.with_token(token);
            return user
                .map_or(Access::Refused, |user| Access::Granted { user, means: Means::Bearer });
        }
        let user = session.and_then(|session| sessions.user_of(session));
        // A user may have been removed from the list since.
        match user.filter(|user| users.has(user)) {
            Some(user) => Access::Granted { user, means: Means::Cookie },
            None => Access::Missing,
        }
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(address))
    }

    fn proxy_user(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<Arc<str>> {
        let header = self.proxy_header.as_ref()?;
        if !self.trusts(peer?) {
            return None;
        }
        let mut values = headers.get_all(header).iter();
        let user = values.next()?.to_str().ok()?;
        // A proxy that appends its header to that of a client sends two.
        (values.next().is_none() && is_name(user)).then(|| user.into())
    }
}

/// Returns an address, which may have a port, or the brackets of IPv6.
fn address_of(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let address = text.trim_matches(['[', ']']).parse().ok();
    address.or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()))
}

/// Returns the token of the header `Authorization: Bearer`; empty for another scheme.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().unwrap_or_default();
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Some(token.trim()),
        _ => Some(""),
    }
}

/// Returns the first cookie of a name.
pub(crate) fn cookie_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let pairs = cookies.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(';'));
    pairs
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::HeaderValue;

    use super::super::keys::Keys;
    use super::*;

    const FOO: &str = "ann 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn granted(user: &str, means: Means) -> Access {
        Access::Granted { user: user.into(), means }
    }

    #[tokio::test]
    async fn tokens_and_sessions_are_users() {
        let sessions = Sessions::new(Keys::random(), 9, Duration::from_secs(60));
        let users = Some(FOO.parse().unwrap());
        let closed = Authentication { users, ..Authentication::default() };
        let access = |all: &[(&'static str, &'static str)], session: Option<&str>| {
            closed.access(&headers(all), None, &sessions, session)
        };
        assert_eq!(access(&[], None), Access::Missing);
        let header = [("authorization", "bearer foo")];
        assert_eq!(access(&header, None), granted("ann", Means::Bearer));
        for value in ["Bearer bar", "Bearer", "Basic Zm9v", "foo"] {
            assert_eq!(access(&[("authorization", value)], None), Access::Refused, "{value}");
        }
        let id = sessions.open("ann".into(), None);
        assert_eq!(access(&[], Some(&id)), granted("ann", Means::Cookie));
        let other = sessions.open("bob".into(), None);
        assert_eq!(access(&[], Some(&other)), Access::Missing, "not in the list");
        let open = Authentication::default();
        assert_eq!(open.access(&headers(&[]), None, &sessions, None), granted("", Means::Open));
    }

    #[tokio::test]
    async fn only_a_trusted_proxy_names_users() {
        let sessions = Sessions::new(Keys::random(), 9, Duration::from_secs(60));
        let proxy_header = Some(HeaderName::from_static("x-user"));
        let trusted = vec!["10.0.0.0/8".parse().unwrap()];
        let closed = Authentication { users: None, proxy_header, trusted };
        let access = |all: &[(&'static str, &'static str)], peer: Option<&str>| {
            let peer = peer.map(|peer| peer.parse().unwrap());
            closed.access(&headers(all), peer, &sessions, None)
        };
        let ann = [("x-user", "ann")];
        assert_eq!(access(&ann, Some("10.0.0.1")), granted("ann", Means::Proxy));
        assert_eq!(access(&ann, Some("11.0.0.1")), Access::Missing);
        assert_eq!(access(&ann, None), Access::Missing);
        assert_eq!(access(&[("x-user", "")], Some("10.0.0.1")), Access::Missing);
        assert_eq!(access(&[ann[0], ("x-user", "bob")], Some("10.0.0.1")), Access::Missing);
    }

    #[test]
    fn only_a_trusted_proxy_names_clients() {
        let trusted = vec!["10.0.0.0/8".parse().unwrap()];
        let closed = Authentication { trusted, ..Authentication::default() };
        for (peer, named, expected) in [
            ("10.0.0.1", &["192.0.2.7"][..], "192.0.2.7"),
            ("10.0.0.1", &["1.1.1.1, 192.0.2.7"], "192.0.2.7"),
            ("10.0.0.1", &["1.1.1.1", "192.0.2.7,10.0.0.2"], "192.0.2.7"),
            ("10.0.0.1", &["[2001:db8::7]:443"], "2001:db8::7"),
            ("10.0.0.1", &["[2001:db8::7]"], "2001:db8::7"),
            ("10.0.0.1", &["1.1.1.1, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["10.0.0.3"], "10.0.0.3"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("192.0.2.1", &["1.1.1.1"], "192.0.2.1"),
        ] {
            let named: Vec<_> = named.iter().map(|value| (FORWARDED_FOR, *value)).collect();
            let client = closed.client(&headers(&named), Some(peer.parse().unwrap()));
            assert_eq!(client, Some(expected.parse().unwrap()), "{peer} {named:?}");
        }
        let open = Authentication::default();
        let spoofed = headers(&[(FORWARDED_FOR, "1.1.1.1")]);
        assert_eq!(open.client(&spoofed, None), None);
        let peer = Some("10.0.0.1".parse().unwrap());
        assert_eq!(open.client(&spoofed, peer), peer);
    }

    #[test]
    fn the_first_cookie_counts() {
        let headers = headers(&[("cookie", "a=1; zkc=x=y"), ("cookie", "zkc=z")]);
        assert_eq!(cookie_of(&headers, "zkc"), Some("x=y"));
        assert_eq!(cookie_of(&headers, "kc"), None);
    }
}
