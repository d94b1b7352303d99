//! Asks the servers of an ensemble, each for itself.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::Args;
use futures_util::future::join_all;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zk_curator_client::Connector;

use super::admin::{self, Admin, ServerSettings};
use super::flw::{
    self, ClientConnection, Conf, Dump, Lists, Mntr, ServerMode, Srvr, WatchSummary, Word,
};
use crate::exit::CommandFailure;

pub(crate) use super::trouble::Trouble;

/// The longest response that is read, in bytes.
const LONGEST: u64 = 64 << 20;

/// How servers are asked.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProbeOptions {
    /// Admin servers, which are asked for what the four-letter words do not tell: a port, or
    /// `https://:PORT` for that port of every server, or `https://HOST:PORT` for that of one
    /// server. Repeatable. HTTPS uses --tls-ca, --tls-cert and --tls-key
    #[arg(long, value_name = "PORT|URL")]
    pub(crate) admin: Vec<Admin>,
    /// The means for TLS, if it is used.
    #[arg(skip)]
    secure: Arc<OnceLock<Arc<dyn Connector>>>,
    /// Time limit of each question to a server
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    pub(crate) within: Duration,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self { admin: Vec::new(), secure: Arc::default(), within: Duration::from_secs(1) }
    }
}

impl ProbeOptions {
    /// Sets the means for TLS. `None` if the command line does not tell how to check servers.
    pub(crate) fn secure_with(
        &self,
        connector: Option<Arc<dyn Connector>>,
    ) -> Result<(), CommandFailure> {
        match connector {
            Some(connector) => drop(self.secure.get_or_init(|| connector)),
            None if self.admin.iter().any(|admin| admin.is_secure) => {
                let failure = CommandFailure::usage("the admin server cannot be checked");
                return Err(failure.hint("HTTPS needs --tls-ca"));
            }
            None => {}
        }
        Ok(())
    }

    fn admin_of(&self, server: &Server) -> Option<&Admin> {
        self.admin.iter().find(|admin| admin.is_of(&server.host))
    }
}

/// A response, or the reason why there is none.
pub(crate) type ProbeAnswer<T> = Result<T, Trouble>;

/// A server of the ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The id in the configuration of the ensemble.
    pub(crate) id: Option<u64>,
    /// Without a vote.
    pub(crate) observer: bool,
}

impl fmt::Display for Server {
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
pub(crate) struct ProbeReport {
    pub(crate) server: Server,
    pub(crate) srvr: ProbeAnswer<Srvr>,
    pub(crate) mntr: ProbeAnswer<Mntr>,
    pub(crate) conf: ProbeAnswer<Conf>,
    pub(crate) cons: ProbeAnswer<Vec<ClientConnection>>,
    pub(crate) dump: ProbeAnswer<Dump>,
    pub(crate) wchs: ProbeAnswer<WatchSummary>,
    pub(crate) wchp: ProbeAnswer<Lists>,
    pub(crate) wchc: ProbeAnswer<Lists>,
    /// Why the admin server did not help.
    pub(crate) admin: Option<Trouble>,
}

impl ProbeReport {
    /// Returns a report without responses.
    pub(crate) const fn empty(server: Server) -> Self {
        Self {
            server,
            srvr: Err(Trouble::NotAsked),
            mntr: Err(Trouble::NotAsked),
            conf: Err(Trouble::NotAsked),
            cons: Err(Trouble::NotAsked),
            dump: Err(Trouble::NotAsked),
            wchs: Err(Trouble::NotAsked),
            wchp: Err(Trouble::NotAsked),
            wchc: Err(Trouble::NotAsked),
            admin: None,
        }
    }

    /// Returns the role of the server.
    pub(crate) fn mode(&self) -> Option<ServerMode> {
        let of_mntr = || self.mntr.as_ref().ok()?.text("server_state").map(ServerMode::parse);
        self.srvr.as_ref().ok().and_then(|srvr| srvr.mode.clone()).or_else(of_mntr)
    }

    /// Returns the role of the server, or why it is not known, in one word.
    pub(crate) fn role(&self) -> String {
        match (self.mode(), &self.srvr) {
            (Some(mode), _) => mode.to_string(),
            (None, Err(trouble)) => trouble.name().to_owned(),
            (None, Ok(_)) => "unknown".to_owned(),
        }
    }

    /// Returns `true` if the server orders the writes.
    pub(crate) fn leads(&self) -> bool {
        self.mode().is_some_and(|mode| mode.leads())
    }

    /// Returns the number of the version.
    pub(crate) fn release(&self) -> Option<&str> {
        let of_mntr = || self.mntr.as_ref().ok()?.text("version").map(flw::release);
        self.srvr.as_ref().ok().and_then(Srvr::release).or_else(of_mntr)
    }

    /// Returns the last transaction of the server.
    pub(crate) fn zxid(&self) -> Option<i64> {
        self.srvr.as_ref().ok()?.zxid
    }

    /// Returns a metric of `mntr`, by its name without the prefix.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        self.mntr.as_ref().ok()?.number(name)
    }

    /// Returns a metric of `mntr` that is a count.
    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        self.mntr.as_ref().ok()?.count(name)
    }

    /// Returns the requests received since the start.
    #[cfg(feature = "tui")]
    pub(crate) fn received(&self) -> Option<u64> {
        let of_srvr = self.srvr.as_ref().ok().and_then(|srvr| srvr.received);
        of_srvr.or_else(|| self.count("packets_received"))
    }

    /// Returns the words that the server refused, with the reasons.
    pub(crate) fn refused(&self) -> Vec<(Word, &Trouble)> {
        [
            (Word::Srvr, self.srvr.as_ref().err()),
            (Word::Mntr, self.mntr.as_ref().err()),
            (Word::Conf, self.conf.as_ref().err()),
            (Word::Cons, self.cons.as_ref().err()),
            (Word::Dump, self.dump.as_ref().err()),
            (Word::Wchs, self.wchs.as_ref().err()),
            (Word::Wchp, self.wchp.as_ref().err()),
            (Word::Wchc, self.wchc.as_ref().err()),
        ]
        .into_iter()
        .filter_map(|(word, trouble)| Some((word, trouble?)))
        .filter(|(_, trouble)| **trouble != Trouble::NotAsked)
        .collect()
    }
}

/// Asks all servers, in parallel, these words.
pub(crate) async fn ask_all(
    servers: &[Server],
    words: &[Word],
    options: &ProbeOptions,
) -> Vec<ProbeReport> {
    join_all(servers.iter().map(|server| report(server, words, options))).await
}

/// Asks one server, all words at a time. A server that is not reachable has one trouble.
async fn report(server: &Server, words: &[Word], options: &ProbeOptions) -> ProbeReport {
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
        question.ask(Word::Srvr, Srvr::parse, admin::srvr),
        question.ask(Word::Mntr, Mntr::parse, admin::mntr),
        question.ask(Word::Conf, Conf::parse, admin::conf),
        question.ask(Word::Cons, |text| Some(flw::connections(text)), admin::connections),
        question.ask(Word::Dump, |text| Some(flw::dump(text)), admin::dump),
        question.ask(Word::Wchs, WatchSummary::parse, admin::watch_summary),
        question.ask(Word::Wchp, |text| Some(flw::lists(text)), admin::watches_by_path),
        question.ask(Word::Wchc, |text| Some(flw::lists(text)), admin::watches_by_session),
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
    server: &'a Server,
    words: &'a [Word],
    options: &'a ProbeOptions,
    /// The first trouble of the admin server.
    admin: OnceLock<Trouble>,
}

impl Question<'_> {
    /// Asks a word, if it is one of the questions; then the admin server, where the word is
    /// refused.
    async fn ask<T>(
        &self,
        word: Word,
        of_text: impl Fn(&str) -> Option<T>,
        of_json: impl Fn(&Value) -> Option<T>,
    ) -> ProbeAnswer<T> {
        if !self.words.contains(&word) {
            return Err(Trouble::NotAsked);
        }
        let server = self.server;
        let asked = ask(server, word, self.options).await;
        let asked = asked.and_then(|text| of_text(&text).ok_or(Trouble::Unknown));
        match (asked, self.options.admin_of(server), admin::command(word)) {
            (Err(trouble), Some(admin), Some(command)) => {
                let value = command_of(server, admin, command, self.options).await;
                match value.and_then(|value| of_json(&value).ok_or(Trouble::Unknown)) {
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
    server: &Server,
    admin: &Admin,
    command: &str,
    options: &ProbeOptions,
) -> ProbeAnswer<Value> {
    let host = server.host.as_str();
    let request = admin.request(host, command);
    let unreachable = |error: io::Error| Trouble::Unreachable(describe(&error));
    let asked = async {
        if !admin.is_secure {
            let stream = TcpStream::connect((host, admin.port)).await.map_err(unreachable)?;
            return exchange(stream, &request).await;
        }
        let Some(secure) = options.secure.get() else { return Err(Trouble::NotAsked) };
        let stream = secure.connect(host, admin.port).await.map_err(unreachable)?;
        exchange(stream, &request).await
    };
    let response = timeout(options.within, asked).await.unwrap_or(Err(Trouble::Late))?;
    admin::body(&response).ok_or(Trouble::Unknown)
}

/// Asks the admin server of a server for the settings that no word tells.
pub(crate) async fn settings(
    server: &Server,
    options: &ProbeOptions,
) -> ProbeAnswer<ServerSettings> {
    let admin = options.admin_of(server).ok_or(Trouble::NotAsked)?;
    let asked = admin::SETTINGS.map(|command| command_of(server, admin, command, options));
    let answers = join_all(asked).await;
    let told = |place: usize| answers.get(place).and_then(|answer| answer.as_ref().ok());
    match answers.first() {
        Some(Err(trouble)) if told(1).is_none() => Err(trouble.clone()),
        _ => Ok(admin::own_settings([told(0), told(1)])),
    }
}

/// Asks a server a four-letter word, and returns the text of its response.
pub(crate) async fn ask(
    server: &Server,
    word: Word,
    options: &ProbeOptions,
) -> ProbeAnswer<String> {
    let unreachable = |error: io::Error| Trouble::Unreachable(describe(&error));
    let asked = async {
        let (host, port) = (server.host.as_str(), server.port);
        match options.secure.get() {
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
    let text = timeout(options.within, asked).await.unwrap_or(Err(Trouble::Late))?;
    match flw::refusal(&text) {
        Some(refusal) => Err(refusal.into()),
        None => Ok(text),
    }
}

/// Sends a request, and reads the response up to its end.
async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &str,
) -> ProbeAnswer<String> {
    let unsent = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Trouble::Silent,
        _ => Trouble::Unreachable(describe(&error)),
    };
    stream.write_all(request.as_bytes()).await.map_err(unsent)?;
    stream.flush().await.map_err(unsent)?;
    let mut bytes = Vec::new();
    let read = (&mut stream).take(LONGEST + 1).read_to_end(&mut bytes).await;
    match read {
        _ if bytes.len() as u64 > LONGEST => Err(Trouble::TooLong),
        // Some servers reset the connection after the response.
        Err(_) if bytes.is_empty() => Err(Trouble::Silent),
        _ => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// Returns the reason of a failed connection, without the number of the operating system.
fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.as_str(), |(reason, _)| reason).to_lowercase()
}
