//! Kerberos: the mechanism GSSAPI with the library of the operating system.

mod context;
mod error;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};

use super::gssapi::{ExchangeFault, GssapiExchange};
use super::{SaslExchange, SaslFailure, SaslMechanism, SaslStep, SaslWork, Worked};
use crate::locked::Locked;
use context::{KerberosContext, LibraryError, Service};
pub use error::{KerberosError, KerberosErrorKind};

/// The settings of authentication with Kerberos, for
/// [`ZooKeeperBuilder::sasl_kerberos`](crate::ZooKeeperBuilder::sasl_kerberos).
///
/// By default the client is the principal of the ticket cache or of the client keytab, and the
/// server is `zookeeper/<host>`, with the host of the connect string.
///
/// The clients of a `Kerberos` and of its clones obtain the tickets for a service one after the
/// other.
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
    turns: Arc<ExchangeTurns>,
}

impl Kerberos {
    /// Returns the default settings.
    pub fn new() -> Self {
        let turns = Arc::default();
        Self { client: None, service: "zookeeper".to_owned(), server: None, turns }
    }

    /// Sets the principal of the client, for example `orders` or `orders@EXAMPLE.COM`. Default: the
    /// default principal of the ticket cache or, without a ticket cache, the first principal of the
    /// client keytab.
    ///
    /// A cache of the type `FILE:` or `MEMORY:` has room for one principal, so a process with
    /// several principals needs one of the type `DIR:`.
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

/// The turns of the threads that obtain tickets, by service: one thread at a time for each.
///
/// A library that waits for a KDC cannot be interrupted, and later attempts to connect must not
/// start a thread each.
#[derive(Debug, Default)]
struct ExchangeTurns(Locked<BTreeMap<Arc<str>, Arc<Semaphore>>>);

impl ExchangeTurns {
    /// Returns the turn of a service.
    fn of(&self, service: &Arc<str>) -> Arc<Semaphore> {
        let mut turns = self.0.lock();
        // Only exchanges and threads hold turns. The others belong to servers that may be gone.
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        let turn = turns.entry(Arc::clone(service));
        Arc::clone(turn.or_insert_with(|| Arc::new(Semaphore::new(1))))
    }
}

impl SaslMechanism for Kerberos {
    fn start(&self, host: &str) -> Box<dyn SaslExchange> {
        let service = self.service(host);
        let name = Arc::from(service.name());
        let turn = Some(self.turns.of(&name));
        let context = KerberosContext::new(self.client.clone(), service);
        Box::new(KerberosExchange {
            service: name,
            inner: Some(GssapiExchange::new(context)),
            turn,
        })
    }
}

struct KerberosExchange {
    service: Arc<str>,
    /// `None` while a step is performed.
    inner: Option<GssapiExchange<KerberosContext>>,
    /// The turn for the first step. The other steps need no KDC, and wait for no other thread.
    turn: Option<Arc<Semaphore>>,
}

impl fmt::Debug for KerberosExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KerberosExchange").field("service", &self.service).finish_non_exhaustive()
    }
}

impl SaslExchange for KerberosExchange {
    fn begin(&mut self) -> SaslStep {
        self.step(&[])
    }

    /// Performs the step on a thread. Every call may read files; the first one may need a KDC.
    fn step(&mut self, token: &[u8]) -> SaslStep {
        let late = KerberosError::new(&self.service, KerberosErrorKind::TimedOut, "").into_io();
        let Some(inner) = self.inner.take() else {
            return SaslStep::Ready(Err("the exchange has ended".into()));
        };
        let (service, turn) = (Arc::clone(&self.service), self.turn.take());
        let future = Box::pin(perform(service, inner, Bytes::copy_from_slice(token), turn));
        SaslStep::Pending(SaslWork { future, late })
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
    mut inner: GssapiExchange<KerberosContext>,
    token: Bytes,
    turn: Option<Arc<Semaphore>>,
) -> Worked {
    let (sender, receiver) = oneshot::channel();
    let permit = match turn {
        Some(turn) => Some(turn.acquire_owned().await),
        None => None,
    };
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
    (Box::new(KerberosExchange { service, inner, turn: None }), stepped)
}

fn failure(service: &str, fault: ExchangeFault<LibraryError>) -> SaslFailure {
    match fault {
        // The ticket has expired during the exchange: this says nothing about the server.
        ExchangeFault::Begin(LibraryError { is_expired: true, words, .. })
        | ExchangeFault::Unproven(LibraryError { is_expired: true, words, .. }) => {
            failed(service, KerberosErrorKind::TicketExpired, words)
        }
        ExchangeFault::Begin(LibraryError { code, is_without_credentials, words, .. }) => {
            failed(service, KerberosErrorKind::of_ticket(code, is_without_credentials), words)
        }
        ExchangeFault::Unproven(error) => {
            failed(service, KerberosErrorKind::ServerNotProven, error.words)
        }
        ExchangeFault::Protocol(why) => {
            failed(service, KerberosErrorKind::Protocol, why.to_owned())
        }
    }
}

fn failed(service: &str, kind: KerberosErrorKind, words: String) -> SaslFailure {
    let why = KerberosError::new(service, kind, words).into_io();
    SaslFailure { why, is_final: kind.is_final() }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use libgssapi::error::MajorFlags;

    use super::*;

    #[test]
    fn first_steps_for_one_service_take_turns() {
        let kerberos = Kerberos::new();
        let [a, b] = ["zookeeper@a", "zookeeper@b"].map(Arc::from);
        // The clone of the settings has the same turns.
        let clone = kerberos.clone();
        let held = clone.turns.of(&a).try_acquire_owned().unwrap();
        let mut exchange = kerberos.start("a");
        let SaslStep::Pending(SaslWork { mut future, .. }) = exchange.begin() else { panic!() };
        let mut context = std::task::Context::from_waker(Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
        assert_eq!(kerberos.turns.of(&b).available_permits(), 1);
        // The first in line gets the turn, and not a later attempt.
        drop(held);
        kerberos.turns.of(&a).try_acquire_owned().unwrap_err();
        drop((future, exchange));
        assert_eq!(kerberos.turns.of(&a).available_permits(), 1);
    }

    /// An error with a routine error of GSSAPI and no minor status.
    fn routine(error: u32) -> LibraryError {
        let major = MajorFlags::from_bits_retain(error << 16);
        LibraryError::from(libgssapi::error::Error { major, minor: 0 })
    }

    /// The last steps of an exchange use the ticket of its first.
    #[test]
    fn a_ticket_that_expires_during_an_exchange_ends_no_client() {
        const DEFECTIVE_TOKEN: u32 = 9;
        for expired in [11, 12] {
            assert!(routine(expired).words.contains("expired"), "{:?}", routine(expired));
            for fault in
                [ExchangeFault::Begin(routine(expired)), ExchangeFault::Unproven(routine(expired))]
            {
                let SaslFailure { why, is_final } = failure("zookeeper@a", fault);
                let kind = KerberosError::of(&why).map(KerberosError::kind);
                assert_eq!((kind, is_final), (Some(KerberosErrorKind::TicketExpired), false));
            }
        }
        assert!(failure("zookeeper@a", ExchangeFault::Unproven(routine(DEFECTIVE_TOKEN))).is_final);
    }

    #[test]
    fn services_without_exchanges_are_forgotten() {
        let turns = ExchangeTurns::default();
        let held = turns.of(&Arc::from("held"));
        for host in 0..10 {
            turns.of(&Arc::from(format!("zookeeper@{host}")));
        }
        assert_eq!(turns.0.lock().len(), 2);
        drop(held);
    }
}
