use std::sync::Arc;

use crate::sasl::{SaslExchange, SaslMechanism};

/// The SASL mechanism with which the client authenticates every connection, if there is one.
#[derive(Debug)]
pub(super) struct Sasl {
    pub(super) mechanism: Option<Arc<dyn SaslMechanism>>,
    /// The mechanism from a provider for the current connection, which replaces the configured one.
    pub(super) provided: Option<Arc<dyn SaslMechanism>>,
    /// The exchange on the current connection.
    pub(super) exchange: Option<Box<dyn SaslExchange>>,
}

impl Sasl {
    pub(super) const fn new(mechanism: Option<Arc<dyn SaslMechanism>>) -> Self {
        Self { mechanism, provided: None, exchange: None }
    }

    pub(super) fn provide(&mut self, mechanism: Option<Arc<dyn SaslMechanism>>) {
        self.provided = mechanism;
    }
}
