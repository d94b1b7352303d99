use std::error::Error as StdError;
use std::io;

use crate::ConnectionFailure;

/// The reason why authentication with Kerberos failed. It is inside the [`io::Error`] of
/// [`ZooKeeper::last_failure`](crate::ZooKeeper::last_failure); [`KerberosError::of`] finds it
/// there.
///
/// The message contains the words of the Kerberos library, which name principals, realms and files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KerberosError {
    service: Box<str>,
    kind: KerberosErrorKind,
    words: Box<str>,
}

/// The kind of the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KerberosErrorKind {
    /// Neither the ticket cache nor the client keytab has credentials of the client.
    #[error("there is no ticket and no usable client keytab")]
    NoTicket,
    /// The ticket in the cache has expired, and the client keytab, if there is one, has no key of
    /// its principal.
    #[error("the ticket has expired, and there is no usable client keytab")]
    TicketExpired,
    /// The ticket cache belongs to another principal than
    /// [`Kerberos::client_principal`](super::Kerberos::client_principal), and has no room for a
    /// second one. Use a cache of the type `DIR:`, or a process for each principal.
    #[error("the ticket cache belongs to another principal")]
    WrongCache,
    /// The ticket cache cannot be read or written, for example because its directory does not
    /// exist.
    #[error("the ticket cache cannot be read or written")]
    UnusableCache,
    /// The KDC does not know the client's principal.
    #[error("the KDC does not know the client")]
    UnknownClient,
    /// The key in the client keytab is not, or no longer, the key of the client's principal.
    #[error("the key of the client is wrong")]
    WrongKey,
    /// The KDC does not know the server's principal. Check the host of the connect string, its
    /// canonical name, and [`Kerberos::server_principal`](super::Kerberos::server_principal).
    #[error("the KDC does not know the server")]
    UnknownServer,
    /// The clocks of this machine and of the KDC differ by more than `clockskew` of `krb5.conf`.
    #[error("the clocks of this machine and of the KDC differ")]
    ClockSkew,
    /// No KDC of the realm responds, or its addresses are not known.
    #[error("no KDC responds")]
    KdcUnreachable,
    /// The Kerberos library did not finish within the time for one attempt to connect. It may still
    /// be waiting for a KDC.
    #[error("there was no ticket in time")]
    TimedOut,
    /// `krb5.conf` or the name of a principal is not valid.
    #[error("the configuration or the name of a principal is not valid")]
    Configuration,
    /// Another error of the Kerberos library: see its message.
    #[error("the Kerberos library failed")]
    Library,
    /// The server refuses the client. Its log says why: the key in its keytab may be wrong, its
    /// clock may differ, or it may not be configured for Kerberos.
    #[error("the server refuses the client; see its log")]
    Refused,
    /// The server could not prove that it has the key of the service.
    #[error("the server did not prove its identity")]
    ServerNotProven,
    /// The server violates the mechanism GSSAPI, or demands a security layer.
    #[error("the server violates the mechanism GSSAPI")]
    Protocol,
}

impl KerberosErrorKind {
    /// Returns `true` if the server is at fault or refuses the client, which ends the client in
    /// [`SessionState::AuthFailed`](crate::SessionState::AuthFailed). Otherwise only the attempt to
    /// connect has failed, and the next one follows after the usual pause.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Refused | Self::ServerNotProven | Self::Protocol)
    }

    /// Returns the kind of an error of the library while it obtained a ticket. `code` is the minor
    /// status: an error code of Kerberos (`krb5_err.et`, the same in MIT's library and Heimdal), or
    /// of MIT's GSSAPI.
    pub(super) const fn of_ticket(code: i32, is_without_credentials: bool) -> Self {
        match code {
            CC_NOTFOUND | KT_NOTFOUND => Self::NoTicket,
            AP_ERR_TKT_EXPIRED => Self::TicketExpired,
            KG_CCACHE_NOMATCH => Self::WrongCache,
            CC_BADNAME | CC_UNKNOWN_TYPE | CC_IO | FCC_PERM | FCC_NOFILE | FCC_INTERNAL
            | CC_WRITE | CC_FORMAT | CCACHE_BADVNO | CC_READONLY => Self::UnusableCache,
            KDC_ERR_C_PRINCIPAL_UNKNOWN => Self::UnknownClient,
            KDC_ERR_S_PRINCIPAL_UNKNOWN => Self::UnknownServer,
            AP_ERR_BAD_INTEGRITY | KDC_ERR_PREAUTH_FAILED | PREAUTH_FAILED => Self::WrongKey,
            AP_ERR_SKEW | KDCREP_SKEW => Self::ClockSkew,
            KDC_UNREACH | REALM_UNKNOWN | REALM_CANT_RESOLVE => Self::KdcUnreachable,
            CONFIG_NODEFREALM | CONFIG_BADFORMAT | CONFIG_CANTOPEN | PARSE_MALFORMED
            | PARSE_ILLCHAR => Self::Configuration,
            _ if is_without_credentials => Self::NoTicket,
            _ => Self::Library,
        }
    }
}

/// The principal of the cache is another one (MIT's table `k5g`).
const KG_CCACHE_NOMATCH: i32 = 39_756_032;

/// The first code of the table `krb5`. The first 128 are those of the protocol.
const KRB5: i32 = -1_765_328_384;

const KDC_ERR_C_PRINCIPAL_UNKNOWN: i32 = KRB5 + 6;
const KDC_ERR_S_PRINCIPAL_UNKNOWN: i32 = KRB5 + 7;
const KDC_ERR_PREAUTH_FAILED: i32 = KRB5 + 24;
const AP_ERR_BAD_INTEGRITY: i32 = KRB5 + 31;
const AP_ERR_TKT_EXPIRED: i32 = KRB5 + 32;
const AP_ERR_SKEW: i32 = KRB5 + 37;
const PARSE_ILLCHAR: i32 = KRB5 + 133;
const PARSE_MALFORMED: i32 = KRB5 + 134;
const CONFIG_CANTOPEN: i32 = KRB5 + 135;
const CONFIG_BADFORMAT: i32 = KRB5 + 136;
const CC_BADNAME: i32 = KRB5 + 139;
const CC_UNKNOWN_TYPE: i32 = KRB5 + 140;
const CC_NOTFOUND: i32 = KRB5 + 141;
const KDCREP_SKEW: i32 = KRB5 + 148;
const REALM_UNKNOWN: i32 = KRB5 + 154;
const KDC_UNREACH: i32 = KRB5 + 156;
const KT_NOTFOUND: i32 = KRB5 + 181;
const CC_IO: i32 = KRB5 + 193;
const FCC_PERM: i32 = KRB5 + 194;
const FCC_NOFILE: i32 = KRB5 + 195;
const FCC_INTERNAL: i32 = KRB5 + 196;
const CC_WRITE: i32 = KRB5 + 197;
const CC_FORMAT: i32 = KRB5 + 199;
const PREAUTH_FAILED: i32 = KRB5 + 210;
const CCACHE_BADVNO: i32 = KRB5 + 212;
const REALM_CANT_RESOLVE: i32 = KRB5 + 220;
const CONFIG_NODEFREALM: i32 = KRB5 + 224;
const CC_READONLY: i32 = KRB5 + 246;

impl KerberosError {
    pub(super) fn new(service: &str, kind: KerberosErrorKind, words: impl Into<Box<str>>) -> Self {
        Self { service: service.into(), kind, words: words.into() }
    }

    /// Returns the `KerberosError` inside an error of
    /// [`ZooKeeper::last_failure`](crate::ZooKeeper::last_failure), if there is one.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        let error = ConnectionFailure::of(error).map_or(error, ConnectionFailure::reason);
        error.get_ref()?.downcast_ref()
    }

    /// Returns the kind of the error.
    #[must_use]
    pub const fn kind(&self) -> KerberosErrorKind {
        self.kind
    }

    /// Returns the service to which the client tried to authenticate, for example
    /// `zookeeper@zk1.example.com`.
    #[must_use]
    pub const fn service(&self) -> &str {
        &self.service
    }

    /// Returns the message of the Kerberos library. Empty if the error is not from the library.
    #[must_use]
    pub const fn words(&self) -> &str {
        &self.words
    }

    pub(super) fn into_io(self) -> io::Error {
        let kind = match self.kind {
            KerberosErrorKind::TimedOut => io::ErrorKind::TimedOut,
            KerberosErrorKind::Refused => io::ErrorKind::PermissionDenied,
            KerberosErrorKind::Configuration => io::ErrorKind::InvalidInput,
            KerberosErrorKind::Protocol | KerberosErrorKind::ServerNotProven => {
                io::ErrorKind::InvalidData
            }
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, self)
    }
}

impl std::fmt::Display for KerberosError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kerberos with {}: {}", self.service, self.kind)?;
        if self.words.is_empty() { Ok(()) } else { write!(f, ": {}", self.words) }
    }
}

impl StdError for KerberosError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The codes that MIT's library returned for each of these faults.
    #[test]
    fn the_codes_of_the_library_have_kinds() {
        for (code, kind) in [
            (-1_765_328_243, KerberosErrorKind::NoTicket),
            (-1_765_328_352, KerberosErrorKind::TicketExpired),
            (39_756_032, KerberosErrorKind::WrongCache),
            // A directory that does not exist, no permission, a directory in place of a file, and
            // `/dev/full`. The library calls each of them a lack of credentials, too.
            (-1_765_328_189, KerberosErrorKind::UnusableCache),
            (-1_765_328_190, KerberosErrorKind::UnusableCache),
            (-1_765_328_185, KerberosErrorKind::UnusableCache),
            (-1_765_328_172, KerberosErrorKind::UnusableCache),
            (-1_765_328_378, KerberosErrorKind::UnknownClient),
            (-1_765_328_353, KerberosErrorKind::WrongKey),
            (-1_765_328_377, KerberosErrorKind::UnknownServer),
            (-1_765_328_347, KerberosErrorKind::ClockSkew),
            (-1_765_328_236, KerberosErrorKind::ClockSkew),
            (-1_765_328_228, KerberosErrorKind::KdcUnreachable),
            (-1_765_328_160, KerberosErrorKind::Configuration),
            (-1_765_328_250, KerberosErrorKind::Configuration),
            (5, KerberosErrorKind::Library),
        ] {
            assert_eq!(KerberosErrorKind::of_ticket(code, false), kind, "{code}");
            if kind != KerberosErrorKind::Library {
                assert_eq!(KerberosErrorKind::of_ticket(code, true), kind, "{code}");
            }
            assert!(!kind.is_final());
        }
        assert_eq!(KerberosErrorKind::of_ticket(5, true), KerberosErrorKind::NoTicket);
    }

    #[test]
    fn an_error_names_the_service_and_the_words() {
        let kind = KerberosErrorKind::UnknownServer;
        let error = KerberosError::new("zookeeper@zk1", kind, "Server not found").into_io();
        assert_eq!(
            error.to_string(),
            "Kerberos with zookeeper@zk1: the KDC does not know the server: Server not found"
        );
        assert_eq!(KerberosError::of(&error).unwrap().kind(), kind);
        let refused = KerberosError::new("zookeeper@zk1", KerberosErrorKind::Refused, "");
        assert_eq!(
            refused.to_string(),
            "Kerberos with zookeeper@zk1: the server refuses the client; see its log"
        );
    }
}
