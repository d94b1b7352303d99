use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::sasl::{SaslExchange, SaslMechanism, Working};

/// The SASL mechanism with which the client authenticates every connection, if there is one.
pub(super) struct Sasl {
    pub(super) mechanism: Option<Arc<dyn SaslMechanism>>,
    /// The mechanism from a provider for the current connection, which replaces the configured one.
    pub(super) provided: Option<Arc<dyn SaslMechanism>>,
    /// The exchange on the current connection.
    pub(super) exchange: Option<Box<dyn SaslExchange>>,
    /// The first token, until a server has accepted the session.
    pub(super) first: Option<Bytes>,
    /// A step for the driver to perform.
    pub(super) work: Option<Working>,
    /// The failure to report if that step takes too long.
    pub(super) late: Option<io::Error>,
}

impl fmt::Debug for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sasl")
            .field("mechanism", &self.mechanism)
            .field("provided", &self.provided)
            .field("exchange", &self.exchange)
            .finish_non_exhaustive()
    }
}

impl Sasl {
    pub(super) const fn new(mechanism: Option<Arc<dyn SaslMechanism>>) -> Self {
        Self { mechanism, provided: None, exchange: None, first: None, work: None, late: None }
    }

    pub(super) fn provide(&mut self, mechanism: Option<Arc<dyn SaslMechanism>>) {
        self.provided = mechanism;
    }
}
