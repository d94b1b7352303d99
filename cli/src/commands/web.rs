use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_ops::history::Files;
use zk_curator_web::{
    Impersonation, Network, NewToken, Redaction, RedactionError, Users, WebOptions, router,
};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, TextReport};
use crate::private;
use crate::probe::ProbeArguments;
use crate::stop::{Handled, Stops};
#[cfg(feature = "tls")]
use crate::web_server::ServerTls;
use crate::web_server::{ServerEnd, WebServer, print_audit};

/// The time in which requests have to finish after the end was asked for.
const GRACE: Duration = Duration::from_secs(10);

const AFTER_HELP: &str = "\
Without --write, nothing can be changed. Without --users, every client that reaches the address is \
accepted, so it has to be a loopback address: use --users or --proxy-user-header for another one. \
Browsers have to call the server by localhost, its address, or a --host.

The file of --users has a line for each token: a name, and the SHA-256 of the token. --new-token \
makes a token and its line. Only its owner may read the file.

With --history, names, sizes and sessions of the past are shown to all users. A value is shown if \
the rights of that time let everyone read it: the files do not know the users.

Changes are recorded on standard error, with the user, the path and the size. Ctrl-C and TERM end \
the server: live pages end, and requests have 10 seconds to finish.

Exit codes:
  0    ended by a signal, with all requests finished
  2    invalid arguments or files, or the address cannot be used
  5    --write where the context or --read-only forbids changes
  8    ended by a signal, and some requests were not finished in time";

/// The arguments of `zkc web`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Web {
    /// Address to listen on, IP:PORT; the port 0 is a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9181")]
    listen: SocketAddr,
    /// Accept changes
    #[arg(long)]
    write: bool,
    /// Host by which browsers call the server, with or without a port. Repeatable
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Path below which a proxy serves the pages, such as /zookeeper
    #[arg(long, value_name = "PATH")]
    base_path: Option<String>,
    /// File with the users who may sign in
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Header in which a proxy names the user
    #[arg(long, value_name = "HEADER", requires = "trusted_proxies")]
    proxy_user_header: Option<String>,
    /// Network of the proxies in front of the server, such as 10.0.0.0/8, which may name users, and
    /// the addresses of clients in X-Forwarded-For. Repeatable
    #[arg(long = "trusted-proxy", value_name = "NETWORK")]
    trusted_proxies: Vec<Network>,
    /// Certificate of the server (PEM), for HTTPS
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "https_key")]
    https_cert: Option<PathBuf>,
    /// Key of the certificate of the server (PEM)
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "https_cert")]
    https_key: Option<PathBuf>,
    /// State that a proxy in front of the server uses HTTPS: cookies are then marked as secure
    #[arg(long)]
    behind_https: bool,
    /// Show the past of nodes, from the transaction logs and snapshots of one server: its data
    /// directory, and its log directory if it is another one. Repeatable
    #[arg(long, value_name = "DIR")]
    history: Vec<PathBuf>,
    /// Show the values of the past whatever their rights were, to all users
    #[arg(long, requires = "history")]
    history_all_data: bool,
    /// Hide the data of nodes whose paths match, in place of the default patterns. Repeatable
    /// [default: **/password* and **/secrets/**]
    #[arg(long, value_name = "GLOB")]
    redact: Vec<String>,
    /// Act in the name of the user: the login form also asks for an identity of ZooKeeper (digest),
    /// and each user has a session of their own
    #[arg(long, requires = "users", conflicts_with = "proxy_user_header")]
    impersonate: bool,
    #[command(flatten)]
    probe: ProbeArguments,
    /// Print a new token for a user, with its line for the file of --users, and end
    #[arg(long, value_name = "USER", conflicts_with_all = ["listen", "write", "users"])]
    new_token: Option<String>,
}

impl Web {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        if let Some(user) = &self.new_token {
            return new_token(user);
        }
        if self.write {
            app.allow_change().await?;
        }
        self.check_address()?;
        let impersonation = self.impersonation(app)?;
        let mut options = self.options()?.probe(self.probe.options(app)?);
        if let Some(impersonation) = impersonation.clone() {
            options = options.impersonate(impersonation);
        }
        #[cfg(feature = "tls")]
        let tls = self.tls()?;
        let listener = TcpListener::bind(self.listen).await.map_err(|error| {
            CommandFailure::usage(format!("{}: {error}", self.listen))
                .hint("--listen 127.0.0.1:0 takes a free port")
        })?;
        let address = listener.local_addr()?;
        let (stops, handled) = (Stops::catch()?, Handled::begin());
        // Without a server, the pages say that ZooKeeper is away.
        let zk =
            if self.impersonate { app.anonymous_builder()?.build()? } else { app.framework()? };
        zk.start_in_background()?;
        print_audit();
        let server = WebServer {
            listener,
            router: router(&zk, options),
            trusted_proxies: self.trusted_proxies.clone(),
            #[cfg(feature = "tls")]
            tls,
        };
        let served = match self.tell(app, address) {
            Ok(()) => Ok(Self::serve(app, server, stops).await),
            Err(failure) => Err(failure),
        };
        drop(handled);
        close(&zk, impersonation).await?;
        match served? {
            ServerEnd::Finished => Ok(CommandOutput::nothing()),
            ServerEnd::Cut => {
                app.out().warn("some requests were not finished");
                Ok(Exit::PARTLY.into())
            }
        }
    }

    /// Serves until a signal, and with another one does not wait for requests.
    async fn serve(app: &App, server: WebServer, stops: Stops) -> ServerEnd {
        let stops = Mutex::new(stops);
        let stop = async {
            stops.lock().await.next().await;
            app.out().say("ending; another signal does not wait for requests");
        };
        let hurry = async {
            stops.lock().await.next().await;
        };
        server.run(stop, hurry, GRACE).await
    }

    /// Refuses an address that others reach, if nobody has to sign in.
    fn check_address(&self) -> Result<(), CommandFailure> {
        let (address, ip) = (self.listen, self.listen.ip());
        if ip.is_loopback() {
            return Ok(());
        }
        if self.users.is_none() && self.proxy_user_header.is_none() {
            return Err(CommandFailure::usage(format!(
                "refused: other hosts reach {address}, and there are no users"
            ))
            .hint("pass --users or --proxy-user-header, or listen on 127.0.0.1"));
        }
        if ip.is_unspecified() && self.hosts.is_empty() {
            return Err(CommandFailure::usage(format!("refused: browsers cannot call {address}"))
                .hint("--host names the hosts by which browsers call the server"));
        }
        if self.impersonate && !self.has_tls() && !self.behind_https {
            return Err(CommandFailure::usage(
                "refused: with --impersonate, passwords would be sent without encryption",
            )
            .hint("pass --https-cert and --https-key, or listen on 127.0.0.1"));
        }
        Ok(())
    }

    fn has_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        let has_certificate = self.https_cert.is_some();
        #[cfg(not(feature = "tls"))]
        let has_certificate = false;
        has_certificate
    }

    #[cfg(feature = "tls")]
    fn tls(&self) -> Result<Option<ServerTls>, CommandFailure> {
        match (&self.https_cert, &self.https_key) {
            (Some(certificate), Some(key)) => ServerTls::read(certificate, key).map(Some),
            _ => Ok(None),
        }
    }

    fn options(&self) -> Result<WebOptions, CommandFailure> {
        let usage = |error: &dyn std::fmt::Display| CommandFailure::usage(error.to_string());
        let mut options = WebOptions::new().write(self.write);
        options = options.tls(self.has_tls() || self.behind_https);
        for host in &self.hosts {
            options = options.host(host);
        }
        if let Some(host) = own_host(self.listen.ip()) {
            options = options.host(host);
        }
        if let Some(path) = &self.base_path {
            options = options.base_path(path).map_err(|error| usage(&error))?;
        }
        if let Some(file) = &self.users {
            private::check(file)?;
            let invalid = |error: &dyn std::fmt::Display| {
                CommandFailure::usage(format!("{}: {error}", file.display()))
            };
            let text = std::fs::read_to_string(file).map_err(|error| invalid(&error))?;
            let users: Users = text.parse().map_err(|error| invalid(&error))?;
            options = options.users(users);
        }
        if let Some(header) = &self.proxy_user_header {
            options = options.proxy_user_header(header).map_err(|error| usage(&error))?;
        }
        options = options.trusted_proxies(self.trusted_proxies.iter().copied());
        if !self.history.is_empty() {
            // Each page finds the files again: a running server adds and removes some.
            Files::find(&self.history)?;
            options = options.history(&self.history).history_all_data(self.history_all_data);
        }
        if !self.redact.is_empty() {
            let redaction = Redaction::new(&self.redact);
            let redaction = redaction.map_err(|error: RedactionError| {
                CommandFailure::usage(format!("--redact: {error}"))
            })?;
            options = options.redaction(redaction);
        }
        Ok(options)
    }

    /// Returns the sessions of the users. They have no identity of this program.
    fn impersonation(&self, app: &App) -> Result<Option<Impersonation>, CommandFailure> {
        if !self.impersonate {
            return Ok(None);
        }
        // Refused here, and not when a user signs in.
        drop(app.anonymous_builder()?);
        let app = app.clone();
        Ok(Some(Impersonation::new(move || {
            app.anonymous_builder().map_err(|failure| failure.to_string().into())
        })))
    }

    fn tell(&self, app: &App, address: SocketAddr) -> Result<(), CommandFailure> {
        let scheme = if self.has_tls() { "https" } else { "http" };
        let path = self.base_path.as_deref().unwrap_or_default().trim_end_matches('/');
        let url = format!("{scheme}://{address}{path}");
        let report = TextReport::new(format!("listening on {url}"), json!({ "url": url }));
        app.out().print(&report.names([url]).in_one_line().into())
    }
}

async fn close(
    zk: &CuratorFramework,
    impersonation: Option<Impersonation>,
) -> Result<(), CommandFailure> {
    if let Some(impersonation) = impersonation {
        impersonation.close().await;
    }
    match zk.close().await {
        Err(error) if error.kind() == ErrorKind::LeftBehind => Err(error.into()),
        // The session then ends by itself.
        _ => Ok(()),
    }
}

/// Returns the host of an address in URLs; `None` for the addresses of all hosts.
fn own_host(ip: IpAddr) -> Option<String> {
    match ip {
        ip if ip.is_unspecified() => None,
        IpAddr::V4(ip) => Some(ip.to_string()),
        IpAddr::V6(ip) => Some(format!("[{ip}]")),
    }
}

fn new_token(user: &str) -> Result<CommandOutput, CommandFailure> {
    let Some(NewToken { token, line, .. }) = NewToken::of(user) else {
        return Err(CommandFailure::usage(format!("no name of a user: {user:?}"))
            .hint("letters, digits and . - _ @ +, at most 64"));
    };
    let text = format!("token for {user}: {token}\nline for --users: {line}");
    let value = json!({ "user": user, "token": token, "line": line });
    Ok(TextReport::new(text, value).names([token]).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_in_urls() {
        assert_eq!(own_host("10.0.0.7".parse().unwrap()).as_deref(), Some("10.0.0.7"));
        assert_eq!(own_host("::1".parse().unwrap()).as_deref(), Some("[::1]"));
        assert_eq!(own_host("0.0.0.0".parse().unwrap()), None);
        assert_eq!(own_host("::".parse().unwrap()), None);
    }
}
