use bytes::Bytes;
use libgssapi::context::{ClientCtx, CtxFlags, SecurityContext};
use libgssapi::credential::{Cred, CredUsage};
use libgssapi::error::Error as GssError;
use libgssapi::name::Name;
use libgssapi::oid::{GSS_MECH_KRB5, GSS_NT_HOSTBASED_SERVICE, GSS_NT_KRB5_PRINCIPAL, OidSet};

use crate::sasl::gssapi;

/// Routine errors, which are in the second byte of the major status: `GSS_S_NO_CRED`,
/// `GSS_S_CREDENTIALS_EXPIRED` and `GSS_S_CONTEXT_EXPIRED`.
const NO_CRED: u32 = 7;
const CREDENTIALS_EXPIRED: u32 = 11;
const CONTEXT_EXPIRED: u32 = 12;

/// The name of the service to which the client authenticates.
#[derive(Debug, Clone)]
pub(super) enum Service {
    /// A service on a host, for example `zookeeper@zk1.example.com`.
    HostBased(String),
    /// A principal, for example `zookeeper/zk1.example.com@EXAMPLE.COM`.
    Principal(String),
}

impl Service {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::HostBased(name) | Self::Principal(name) => name,
        }
    }
}

/// An error of the library, with its words. These depend on the thread that made the failed call,
/// so they are requested immediately.
#[derive(Debug)]
pub(super) struct LibraryError {
    pub(super) code: i32,
    pub(super) is_without_credentials: bool,
    /// `true` if the ticket has expired since the exchange began.
    pub(super) is_expired: bool,
    pub(super) words: String,
}

impl From<GssError> for LibraryError {
    fn from(error: GssError) -> Self {
        let words = error.to_string();
        // The words for the major status say little; those for the minor status follow in
        // parentheses. They can be "Success", also for other numbers than zero.
        let told = match words.split_once(" (") {
            Some((major, minor)) if error.minor == 0 || minor.starts_with("Success") => major,
            Some((_, minor)) => minor.strip_suffix(')').unwrap_or(minor),
            None => &words,
        };
        let routine = (error.major.bits() >> 16) & 0xff;
        Self {
            code: error.minor.cast_signed(),
            is_without_credentials: routine == NO_CRED,
            is_expired: matches!(routine, CREDENTIALS_EXPIRED | CONTEXT_EXPIRED),
            words: told.to_owned(),
        }
    }
}

/// A security context of the library. Nothing happens before its first token is requested.
pub(super) struct KerberosContext {
    client: Option<String>,
    service: Service,
    context: Option<ClientCtx>,
}

impl KerberosContext {
    pub(super) const fn new(client: Option<String>, service: Service) -> Self {
        Self { client, service, context: None }
    }

    /// Obtains credentials: from the ticket cache or, if they are missing or expire soon, from the
    /// KDC with the client keytab.
    fn open(&self) -> Result<ClientCtx, GssError> {
        let client = match &self.client {
            Some(principal) => Some(Name::new(principal.as_bytes(), Some(GSS_NT_KRB5_PRINCIPAL))?),
            None => None,
        };
        let service = match &self.service {
            Service::HostBased(name) => Name::new(name.as_bytes(), Some(GSS_NT_HOSTBASED_SERVICE)),
            Service::Principal(name) => Name::new(name.as_bytes(), Some(GSS_NT_KRB5_PRINCIPAL)),
        }?;
        let mechanisms = OidSet::singleton(GSS_MECH_KRB5)?;
        let credentials =
            Cred::acquire(client.as_ref(), None, CredUsage::Initiate, Some(&mechanisms))?;
        let flags = CtxFlags::GSS_C_MUTUAL_FLAG | CtxFlags::GSS_C_INTEG_FLAG;
        Ok(ClientCtx::new(Some(credentials), service, flags, Some(GSS_MECH_KRB5)))
    }

    fn opened(&mut self) -> Result<&mut ClientCtx, GssError> {
        let context = match self.context.take() {
            Some(context) => context,
            None => self.open()?,
        };
        Ok(self.context.insert(context))
    }
}

impl gssapi::GssapiContext for KerberosContext {
    type Error = LibraryError;

    fn establish(&mut self, token: Option<&[u8]>) -> Result<Option<Bytes>, LibraryError> {
        let answer = self.opened()?.step(token, None)?;
        Ok(answer.map(|answer| Bytes::copy_from_slice(&answer)))
    }

    fn is_established(&self) -> bool {
        self.context.as_ref().is_some_and(SecurityContext::is_complete)
    }

    fn is_mutual(&self) -> Result<bool, LibraryError> {
        match &self.context {
            Some(context) => Ok(context.flags()?.contains(CtxFlags::GSS_C_MUTUAL_FLAG)),
            None => Ok(false),
        }
    }

    fn wrap(&mut self, message: &[u8]) -> Result<Bytes, LibraryError> {
        Ok(Bytes::copy_from_slice(&self.opened()?.wrap(false, message)?))
    }

    fn unwrap(&mut self, message: &[u8]) -> Result<Bytes, LibraryError> {
        Ok(Bytes::copy_from_slice(&self.opened()?.unwrap(message)?))
    }
}
