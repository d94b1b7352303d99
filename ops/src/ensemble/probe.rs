//! Asks the servers of an ensemble, each for itself.
//!
//! A word is asked on the client port. If the server refuses it, its admin server is asked, if the
//! options have one.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zk_curator_client::{ConnectString, Connector, HostPort};

use super::admin::{self, AdminServer, AdminSettings};
use super::trouble::ProbeTrouble;
use super::words::{
    self, ClientConnection, ConfResponse, DumpResponse, FourLetterWord, MntrResponse, ServerMode,
    SrvrResponse, WatchLists, WatchSummary,
};
use crate::error::Error;

/// The longest response that is read, in bytes.
const LONGEST: u64 = 64 << 20;

/// How servers are asked.
#[derive(Debug, Clone)]
pub struct ProbeOptions {
    admin: Vec<AdminServer>,
    connector: Option<Arc<dyn Connector>>,
    within: Duration,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self { admin: Vec::new(), connector: None, within: Duration::from_secs(1) }
    }
}

impl ProbeOptions {
    /// Asks each server without TLS for at most a second, and no admin server.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the admin servers, which are asked for what the four-letter words do not tell. Default:
    /// none.
    #[must_use]
    pub fn admin(mut self, admin: impl IntoIterator<Item = AdminServer>) -> Self {
        self.admin = admin.into_iter().collect();
        self
    }

    /// Sets the connector for TLS, with which all four-letter words and the requests to admin
    /// servers over HTTPS are sent. Default: none, words are sent without TLS.
    #[must_use]
    pub fn connector(mut self, connector: Arc<dyn Connector>) -> Self {
        self.connector = Some(connector);
        self
    }

    /// Sets the time limit of each question to a server. Default: 1 s.
    #[must_use]
    pub const fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    /// Checks that the options are complete, without a request.
    ///
    /// # Errors
    /// [`UncheckedAdminServer`](Error::UncheckedAdminServer) if an admin server is asked over HTTPS
    /// and there is no connector.
    pub fn check(&self) -> Result<(), Error> {
        if self.connector.is_none() && self.admin.iter().any(AdminServer::is_secure) {
            return Err(Error::UncheckedAdminServer);
        }
        Ok(())
    }

    fn admin_of(&self, server: &ProbedServer) -> Option<&AdminServer> {
        self.admin.iter().find(|admin| admin.is_of(&server.host))
    }
}

/// A response, or the reason why there is none.
pub type ProbeResult<T> = Result<T, ProbeTrouble>;

/// A server of the ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ProbedServer {
    /// A name or a literal address, without brackets.
    pub host: String,
    /// The client port.
    pub port: u16,
    /// The id in the configuration of the ensemble, if that is known.
    pub id: Option<u64>,
    /// `true` for a server without a vote.
    pub observer: bool,
}

impl ProbedServer {
    /// Returns a server that is not in a configuration.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port, id: None, observer: false }
    }

    /// Parses one server: `host:port`. The port defaults to 2181.
    ///
    /// # Errors
    /// [`InvalidConnectString`](Error::InvalidConnectString), or
    /// [`NotOneServer`](Error::NotOneServer) for several servers.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let parsed: ConnectString = text.parse()?;
        match &parsed.hosts[..] {
            [host] => Ok(Self::named(host)),
            _ => Err(Error::NotOneServer { text: text.to_owned() }),
        }
    }

    pub(super) fn named(host: &HostPort) -> Self {
        Self::new(host.host.as_str(), host.port)
    }
}

impl fmt::Display for ProbedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The responses of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProbeReport {
    /// The server.
    pub server: ProbedServer,
    /// The state of the server.
    pub srvr: ProbeResult<SrvrResponse>,
    /// The metrics.
    pub mntr: ProbeResult<MntrResponse>,
    /// The configuration.
    pub conf: ProbeResult<ConfResponse>,
    /// The connections.
    pub cons: ProbeResult<Vec<ClientConnection>>,
    /// The sessions.
    pub dump: ProbeResult<DumpResponse>,
    /// The number of watches.
    pub wchs: ProbeResult<WatchSummary>,
    /// The watches by path.
    pub wchp: ProbeResult<WatchLists>,
    /// The watches by session.
    pub wchc: ProbeResult<WatchLists>,
    /// The first reason why the admin server did not help.
    pub admin: Option<ProbeTrouble>,
}

impl ProbeReport {
    /// Returns a report without responses.
    #[must_use]
    pub const fn empty(server: ProbedServer) -> Self {
        Self {
            server,
            srvr: Err(ProbeTrouble::NotAsked),
            mntr: Err(ProbeTrouble::NotAsked),
            conf: Err(ProbeTrouble::NotAsked),
            cons: Err(ProbeTrouble::NotAsked),
            dump: Err(ProbeTrouble::NotAsked),
            wchs: Err(ProbeTrouble::NotAsked),
            wchp: Err(ProbeTrouble::NotAsked),
            wchc: Err(ProbeTrouble::NotAsked),
            admin: None,
        }
    }

    /// Returns the role of the server.
    #[must_use]
    pub fn mode(&self) -> Option<ServerMode> {
        let of_mntr = || self.mntr.as_ref().ok()?.text("server_state").map(ServerMode::parse);
        self.srvr.as_ref().ok().and_then(|srvr| srvr.mode.clone()).or_else(of_mntr)
    }

    /// Returns the role of the server, or why it is not known, in one word.
    #[must_use]
    pub fn role(&self) -> String {
        match (self.mode(), &self.srvr) {
            (Some(mode), _) => mode.to_string(),
            (None, Err(trouble)) => trouble.name().to_owned(),
            (None, Ok(_)) => "unknown".to_owned(),
        }
    }

    /// Returns `true` if the server orders the writes.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.mode().is_some_and(|mode| mode.leads())
    }

    /// Returns the number of the version, without the build.
    #[must_use]
    pub fn release(&self) -> Option<&str> {
        let of_mntr = || self.mntr.as_ref().ok()?.text("version").map(words::release);
        self.srvr.as_ref().ok().and_then(SrvrResponse::release).or_else(of_mntr)
    }

    /// Returns the last transaction that the server has applied.
    #[must_use]
    pub fn zxid(&self) -> Option<i64> {
        self.srvr.as_ref().ok()?.zxid
    }

    /// Returns a metric of `mntr`, by its name without the prefix `zk_`.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.mntr.as_ref().ok()?.number(name)
    }

    /// Returns a metric of `mntr` that is a count.
    #[must_use]
    pub fn count(&self, name: &str) -> Option<u64> {
        self.mntr.as_ref().ok()?.count(name)
    }

    /// Returns the requests received since the start of the server.
    #[must_use]
    pub fn received(&self) -> Option<u64> {
        let of_srvr = self.srvr.as_ref().ok().and_then(|srvr| srvr.received);
        of_srvr.or_else(|| self.count("packets_received"))
    }

    /// Returns the words that are not in the whitelist of the server.
    pub(crate) fn unlisted(&self) -> Vec<FourLetterWord> {
        let refused = self.refused().into_iter();
        let unlisted = refused.filter(|(_, trouble)| **trouble == ProbeTrouble::NotListed);
        unlisted.map(|(word, _)| word).collect()
    }

    /// Returns the words without a response, with the reasons.
    #[must_use]
    pub fn refused(&self) -> Vec<(FourLetterWord, &ProbeTrouble)> {
        [
            (FourLetterWord::Srvr, self.srvr.as_ref().err()),
            (FourLetterWord::Mntr, self.mntr.as_ref().err()),
            (FourLetterWord::Conf, self.conf.as_ref().err()),
            (FourLetterWord::Cons, self.cons.as_ref().err()),
            (FourLetterWord::Dump, self.dump.as_ref().err()),
            (FourLetterWord::Wchs, self.wchs.as_ref().err()),
            (FourLetterWord::Wchp, self.wchp.as_ref().err()),
            (FourLetterWord::Wchc, self.wchc.as_ref().err()),
        ]
        .into_iter()
        .filter_map(|(word, trouble)| Some((word, trouble?)))
        .filter(|(_, trouble)| **trouble != ProbeTrouble::NotAsked)
        .collect()
    }
}

/// Asks all servers these words, in parallel. Returns a report for each server, in their order.
pub async fn ask_all(
    servers: &[ProbedServer],
    words: &[FourLetterWord],
    options: &ProbeOptions,
) -> Vec<ProbeReport> {
    join_all(servers.iter().map(|server| report(server, words, options))).await
}

/// Asks one server, all words at a time. A server that is not reachable has one trouble.
async fn report(
    server: &ProbedServer,
    words: &[FourLetterWord],
    options: &ProbeOptions,
) -> ProbeReport {
    let question = Question { server, words, options, admin: OnceLock::new() };
    let mut report = ProbeReport::empty(server.clone());
    (
        report.srvr,
        report.mntr,
        report.conf,
        report.cons,
        report.dump,
        report.wchs,
        report.wchp,
        report.wchc,
    ) = tokio::join!(
        question.ask(FourLetterWord::Srvr, SrvrResponse::parse, admin::srvr),
        question.ask(FourLetterWord::Mntr, MntrResponse::parse, admin::mntr),
        question.ask(FourLetterWord::Conf, ConfResponse::parse, admin::conf),
        question.ask(
            FourLetterWord::Cons,
            |text| Some(words::connections(text)),
            admin::connections
        ),
        question.ask(FourLetterWord::Dump, |text| Some(words::dump(text)), admin::dump),
        question.ask(FourLetterWord::Wchs, WatchSummary::parse, admin::watch_summary),
        question.ask(FourLetterWord::Wchp, |text| Some(words::lists(text)), admin::watches_by_path),
        question.ask(
            FourLetterWord::Wchc,
            |text| Some(words::lists(text)),
            admin::watches_by_session
        ),
    );
    if let Err(trouble) = &report.srvr
        && trouble.is_unreachable()
    {
        return ProbeReport { srvr: Err(trouble.clone()), ..ProbeReport::empty(server.clone()) };
    }
    report.admin = question.admin.into_inner();
    report
}

/// The questions to a server.
struct Question<'a> {
    server: &'a ProbedServer,
    words: &'a [FourLetterWord],
    options: &'a ProbeOptions,
    /// The first trouble of the admin server.
    admin: OnceLock<ProbeTrouble>,
}

impl Question<'_> {
    /// Asks a word, if it is one of the questions; then the admin server, where the word is
    /// refused.
    async fn ask<T>(
        &self,
        word: FourLetterWord,
        of_text: impl Fn(&str) -> Option<T>,
        of_json: impl Fn(&Value) -> Option<T>,
    ) -> ProbeResult<T> {
        if !self.words.contains(&word) {
            return Err(ProbeTrouble::NotAsked);
        }
        let server = self.server;
        let asked = ask(server, word, self.options).await;
        let asked = asked.and_then(|text| of_text(&text).ok_or(ProbeTrouble::Unknown));
        match (asked, self.options.admin_of(server), admin::command(word)) {
            (Err(trouble), Some(admin), Some(command)) => {
                let value = command_of(server, admin, command, self.options).await;
                match value.and_then(|value| of_json(&value).ok_or(ProbeTrouble::Unknown)) {
                    Ok(value) => Ok(value),
                    Err(other) => {
                        self.admin.get_or_init(|| other);
                        Err(trouble)
                    }
                }
            }
            (asked, ..) => asked,
        }
    }
}

/// Asks an admin server a command.
async fn command_of(
    server: &ProbedServer,
    admin: &AdminServer,
    command: &str,
    options: &ProbeOptions,
) -> ProbeResult<Value> {
    let host = server.host.as_str();
    let request = admin.request(host, command);
    let unreachable = |error: io::Error| ProbeTrouble::Unreachable(describe(&error));
    let asked = async {
        if !admin.is_secure() {
            let stream = TcpStream::connect((host, admin.port())).await.map_err(unreachable)?;
            return exchange(stream, &request).await;
        }
        let Some(secure) = &options.connector else { return Err(ProbeTrouble::NotAsked) };
        let stream = secure.connect(host, admin.port()).await.map_err(unreachable)?;
        exchange(stream, &request).await
    };
    let response = timeout(options.within, asked).await.unwrap_or(Err(ProbeTrouble::Late))?;
    // JSON that was cut is not valid.
    admin::body(&response.text).ok_or(ProbeTrouble::Unknown)
}

/// Asks the admin server of a server for the settings that no word tells.
pub(crate) async fn settings(
    server: &ProbedServer,
    options: &ProbeOptions,
) -> ProbeResult<AdminSettings> {
    let admin = options.admin_of(server).ok_or(ProbeTrouble::NotAsked)?;
    let asked = admin::SETTINGS.map(|command| command_of(server, admin, command, options));
    let answers = join_all(asked).await;
    let told = |place: usize| answers.get(place).and_then(|answer| answer.as_ref().ok());
    match answers.first() {
        Some(Err(trouble)) if told(1).is_none() => Err(trouble.clone()),
        _ => Ok(admin::own_settings([told(0), told(1)])),
    }
}

/// Asks a server a four-letter word, and returns the text of its response.
///
/// # Errors
/// The reason why there is no response. A refusal is one, and a response that was cut is
/// [`ProbeTrouble::Unknown`].
pub async fn ask(
    server: &ProbedServer,
    word: FourLetterWord,
    options: &ProbeOptions,
) -> ProbeResult<String> {
    let unreachable = |error: io::Error| ProbeTrouble::Unreachable(describe(&error));
    let asked = async {
        let (host, port) = (server.host.as_str(), server.port);
        match &options.connector {
            Some(secure) => {
                let stream = secure.connect(host, port).await.map_err(unreachable)?;
                exchange(stream, word.text()).await
            }
            None => {
                let stream = TcpStream::connect((host, port)).await.map_err(unreachable)?;
                exchange(stream, word.text()).await
            }
        }
    };
    let response = timeout(options.within, asked).await.unwrap_or(Err(ProbeTrouble::Late))?;
    let ReceivedText { text, may_be_cut } = response;
    match words::refusal(&text) {
        Some(refusal) => Err(refusal.into()),
        // A session behind the cut would look as if it had ended.
        None if may_be_cut && !word.is_whole(&text) => Err(ProbeTrouble::Unknown),
        None => Ok(text),
    }
}

/// A response of a server.
#[derive(Debug)]
struct ReceivedText {
    text: String,
    /// `true` if the connection failed after the last byte that was received.
    may_be_cut: bool,
}

/// Sends a request, and reads the response up to its end.
async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &str,
) -> ProbeResult<ReceivedText> {
    let unsent = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => ProbeTrouble::Silent,
        _ => ProbeTrouble::Unreachable(describe(&error)),
    };
    stream.write_all(request.as_bytes()).await.map_err(unsent)?;
    stream.flush().await.map_err(unsent)?;
    let mut bytes = Vec::new();
    let read = (&mut stream).take(LONGEST + 1).read_to_end(&mut bytes).await;
    match read {
        _ if bytes.len() as u64 > LONGEST => Err(ProbeTrouble::TooLong),
        // Some servers reset the connection after the response.
        Err(_) if bytes.is_empty() => Err(ProbeTrouble::Silent),
        read => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Ok(ReceivedText { text, may_be_cut: read.is_err() })
        }
    }
}

/// Returns the reason of a failed connection, without the number of the operating system.
fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.as_str(), |(reason, _)| reason).to_lowercase()
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;

    use super::*;

    /// A response, and then a reset.
    struct Cut(&'static [u8]);

    impl AsyncRead for Cut {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let bytes = std::mem::take(&mut self.0);
            buffer.put_slice(bytes);
            let reset = || Err(io::ErrorKind::ConnectionReset.into());
            Poll::Ready(if bytes.is_empty() { reset() } else { Ok(()) })
        }
    }

    #[tokio::test]
    async fn a_reset_after_a_response_is_noticed() {
        let word = FourLetterWord::Srvr.text();
        let stream = |bytes| tokio::io::join(Cut(bytes), tokio::io::sink());
        let cut = exchange(stream(b"Mode: leader\n"), word).await.expect("a response");
        assert!(cut.may_be_cut);
        assert_eq!(cut.text, "Mode: leader\n");
        let silent = exchange(stream(b""), word).await;
        assert!(matches!(silent, Err(ProbeTrouble::Silent)), "{silent:?}");
        let stream = tokio::io::join(&b"Mode: leader\n"[..], tokio::io::sink());
        let whole = exchange(stream, word).await.expect("a response");
        assert!(!whole.may_be_cut);
    }
}
