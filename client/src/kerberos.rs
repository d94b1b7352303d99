//! Authentication with Kerberos (feature `kerberos`): SASL with the mechanism GSSAPI.
//!
//! The client uses the Kerberos library of the operating system, MIT's or Heimdal, with its
//! configuration (`krb5.conf`). To compile it, install the headers and a C parser: on Debian the
//! packages `libkrb5-dev` and `libclang-dev`.
//!
//! # Credentials
//! They come from the ticket cache, which `kinit` fills, or from a client keytab. With a keytab, no
//! other program needs to renew tickets: the library requests a new ticket when a connection is
//! opened and the last ticket has expired or expires soon. These variables of the environment must
//! be set before the process starts:
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `KRB5_CLIENT_KTNAME` | the client keytab | `default_client_keytab_name` of `krb5.conf` |
//! | `KRB5CCNAME` | the ticket cache; a service with a keytab uses `MEMORY:` | `default_ccache_name` of `krb5.conf` |
//! | `KRB5_CONFIG` | the configuration | `/etc/krb5.conf` |
//!
//! # What is authenticated
//! Every connection, in both directions: the client ends in
//! [`SessionState::AuthFailed`](crate::SessionState::AuthFailed) if a server refuses it or cannot
//! prove that it has the key of its principal. ZooKeeper has no security layer of SASL
//! (`qop=auth`), so the rest of the connection is neither encrypted nor protected against changes.
//! Use TLS too on a network that you do not control.
//!
//! # Expiry
//! A server does not end a connection whose ticket has expired. Only the next connection needs a
//! ticket. Without one, the attempt to connect fails, and the next one follows after the usual
//! pause. So a ticket that is renewed in time keeps the session. `last_failure` contains the
//! [`KerberosError`].
//!
//! # Blocking
//! The library may wait for a KDC for longer than an attempt to connect lasts. It runs on a thread
//! of its own, one at a time for a [`Kerberos`] and its clones, and the attempt is given up in time
//! ([`KerberosErrorKind::TimedOut`]).

pub use crate::sasl::kerberos::{Kerberos, KerberosError, KerberosErrorKind};
