//! Kerberos: the mechanism GSSAPI with the library of the operating system.

mod context;
mod error;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};

use super::gssapi::{Exchange as GssapiExchange, Fault};
use super::{SaslExchange, SaslFailure, SaslMechanism, Step, Work, Worked};
use context::{Context, LibraryError, Service};
pub use error::{KerberosError, KerberosErrorKind};

/// The settings of authentication with Kerberos, for
/// [`ZooKeeperBuilder::sasl_kerberos`](crate::ZooKeeperBuilder::sasl_kerberos).
///
/// By default the client is the principal of the ticket cache or of the client keytab, and the
/// server is `zookeeper/<host>`, with the host of the connect string.
///
/// The clients of a `Kerberos` and of its clones call the Kerberos library one after another.
///
/// ```
/// use zk_curator_client::kerberos::Kerberos;
///
/// let by_default = Kerberos::new();
/// let one_name_for_all_servers =
///     Kerberos::new().client_principal("orders").server_principal("zookeeper/zk@EXAMPLE.COM");
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Kerberos {
    client: Option<String>,
    service: String,
    server: Option<String>,
    /// Lets one call of the library run at a time. A library that waits for a KDC cannot be
    /// interrupted, and later attempts to connect must not start a thread each.
    turn: Arc<Semaphore>,
}

impl Kerberos {
    /// Returns the default settings.
    pub fn new() -> Self {
        let turn = Arc::new(Semaphore::new(1));
        Self { client: None, service: "zookeeper".to_owned(), server: None, turn }
    }

    /// Sets the principal of the client, for example `orders` or `orders@EXAMPLE.COM`. Default: the
    /// default principal of the ticket cache or, without a ticket cache, the first principal of the
    /// client keytab.
    pub fn client_principal(mut self, principal: impl Into<String>) -> Self {
        self.client = Some(principal.into());
        self
    }

    /// Sets the first part of the servers' principals, as `zookeeper.sasl.client.username` in Java.
    /// Default: `zookeeper`.
    ///
    /// The second part is the host of the connect string. The Kerberos library makes it canonical
    /// as `krb5.conf` says: by default it asks DNS for the canonical name, and for the name of the
    /// address. With `dns_canonicalize_hostname = false` it uses the host unchanged, in lower case.
    pub fn service_name(mut self, service: impl Into<String>) -> Self {
        self.service = service.into();
        self
    }

    /// Sets the principal of all servers, whatever their hosts are, as `zookeeper.server.principal`
    /// in Java. For example `zookeeper/zk@EXAMPLE.COM`. Default: a principal for each host.
    pub fn server_principal(mut self, principal: impl Into<String>) -> Self {
        self.server = Some(principal.into());
        self
    }

    fn service(&self, host: &str) -> Service {
        match &self.server {
            Some(principal) => Service::Principal(principal.clone()),
            None => Service::HostBased(format!("{}@{host}", self.service)),
        }
    }
}

impl Default for Kerberos {
    fn default() -> Self {
        Self::new()
    }
}

/// The mechanism, with settings.
#[derive(Debug)]
pub(crate) struct Gssapi(pub(crate) Kerberos);

impl SaslMechanism for Gssapi {
    fn start(&self, host: &str) -> Box<dyn SaslExchange> {
        let service = self.0.service(host);
        let context = Context::new(self.0.client.clone(), service.clone());
        Box::new(Exchange {
            service: service.name().into(),
            inner: Some(GssapiExchange::new(context)),
            turn: Arc::clone(&self.0.turn),
        })
    }
}

struct Exchange {
    service: Arc<str>,
    /// `None` while a step is performed.
    inner: Option<GssapiExchange<Context>>,
    turn: Arc<Semaphore>,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("service", &self.service).finish_non_exhaustive()
    }
}

impl SaslExchange for Exchange {
    fn begin(&mut self) -> Step {
        self.step(&[])
    }

    /// Performs the step on a thread. Every call may read files; the first one may need a KDC.
    fn step(&mut self, token: &[u8]) -> Step {
        let late = KerberosError::new(&self.service, KerberosErrorKind::TimedOut, "").into_io();
        let Some(inner) = self.inner.take() else {
            return Step::Ready(Err("the exchange has ended".into()));
        };
        let (service, turn) = (Arc::clone(&self.service), Arc::clone(&self.turn));
        let future = Box::pin(perform(service, inner, Bytes::copy_from_slice(token), turn));
        Step::Pending(Work { future, late })
    }

    fn refused(&self) -> io::Error {
        KerberosError::new(&self.service, KerberosErrorKind::Refused, "").into_io()
    }
}

/// Performs a step on a thread of its own. It is not a task of tokio's pool for blocking calls,
/// because a runtime that shuts down waits for these.
///
/// If the future is dropped, the thread still runs until the library returns.
async fn perform(
    service: Arc<str>,
    mut inner: GssapiExchange<Context>,
    token: Bytes,
    turn: Arc<Semaphore>,
) -> Worked {
    let (sender, receiver) = oneshot::channel();
    let permit = Arc::clone(&turn).acquire_owned().await;
    let thread = thread::Builder::new().name("zk-kerberos".to_owned()).spawn(move || {
        let stepped = inner.advance(&token);
        // A failure means that the attempt to connect was given up.
        drop(sender.send((inner, stepped)));
        drop(permit);
    });
    let answer = match thread {
        Ok(_) => receiver.await.map_err(|_| "the thread of the Kerberos library ended".to_owned()),
        Err(why) => Err(format!("no thread for the Kerberos library: {why}")),
    };
    let (inner, stepped) = match answer {
        Ok((inner, stepped)) => (Some(inner), stepped.map_err(|fault| failure(&service, fault))),
        Err(why) => (None, Err(failed(&service, KerberosErrorKind::Library, why))),
    };
    (Box::new(Exchange { service, inner, turn }), stepped)
}

fn failure(service: &str, fault: Fault<LibraryError>) -> SaslFailure {
    match fault {
        Fault::Begin(LibraryError { code, is_without_credentials, words }) => {
            failed(service, KerberosErrorKind::of_ticket(code, is_without_credentials), words)
        }
        Fault::Unproven(error) => failed(service, KerberosErrorKind::ServerNotProven, error.words),
        Fault::Protocol(why) => failed(service, KerberosErrorKind::Protocol, why.to_owned()),
    }
}

fn failed(service: &str, kind: KerberosErrorKind, words: String) -> SaslFailure {
    let why = KerberosError::new(service, kind, words).into_io();
    SaslFailure { why, is_final: kind.is_final() }
}
