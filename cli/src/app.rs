//! What a command runs with: the target, the connection, and the output.

use std::fmt;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
#[cfg(any(feature = "shell", feature = "tui"))]
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

#[cfg(any(feature = "shell", feature = "tui"))]
use clap::ArgMatches;
use tokio::sync::OnceCell;
use zk_curator::retry::ExponentialBackoffRetry;
use zk_curator::state::ConnectionStateErrorPolicy;
use zk_curator::{CuratorFramework, CuratorFrameworkBuilder, ErrorKind};
use zk_curator_client::Connector;
use zk_curator_ops::ensemble::{FrameworkFuture, FrameworkSource};

use crate::args::Global;
use crate::context::{self, ContextFile, NamedContext, SecretRef};
use crate::exit::{CommandFailure, Exit};
#[cfg(any(feature = "shell", feature = "tui"))]
use crate::output::CommandOutput;
use crate::output::{Out, shell_word};
use crate::path;
#[cfg(feature = "tls")]
use crate::private;
use crate::stdin;

/// The command tree, for the commands that need all others: the shell, completions and manual.
pub(crate) trait Grammar: fmt::Debug + Sync {
    /// Returns the command tree.
    fn command(&self) -> clap::Command;

    /// Runs a parsed line.
    #[cfg(any(feature = "shell", feature = "tui"))]
    fn run<'a>(
        &self,
        app: &'a App,
        matches: &ArgMatches,
    ) -> Pin<Box<dyn Future<Output = Result<CommandOutput, CommandFailure>> + 'a>>;
}

/// The environment of a command.
#[derive(Debug, Clone)]
pub(crate) struct App {
    global: Global,
    /// The configuration file; `None` if there is no place for one.
    config: Option<PathBuf>,
    target: Arc<ServerTarget>,
    out: Out,
    zk: Arc<OnceCell<CuratorFramework>>,
    grammar: &'static dyn Grammar,
    /// Questions can be asked on the terminal.
    asks: bool,
}

/// The servers, and the rules of the context.
#[derive(Debug)]
struct ServerTarget {
    servers: String,
    /// The name of the context, if there is one.
    context: Option<String>,
    /// `false` if only the rules of the context apply, because other servers were named.
    is_used: bool,
    settings: NamedContext,
}

impl App {
    /// Reads the configuration. Connects when a command needs it.
    pub(crate) fn new(
        global: Global,
        grammar: &'static dyn Grammar,
    ) -> Result<Self, CommandFailure> {
        let config = context::config_path(&global);
        let contexts = config.as_deref().map(ContextFile::read).transpose()?.unwrap_or_default();
        let selected = contexts.select(&global)?;
        let (name, mut settings) =
            selected.map_or_else(Default::default, |(name, context)| (Some(name), context));
        let is_used = global.context.is_some() || global.servers.is_none();
        if !is_used {
            // The identities of the current context are not for other servers; its rules are.
            let NamedContext { read_only, confirm, .. } = settings;
            settings = NamedContext { read_only, confirm, ..NamedContext::default() };
        }
        let servers = global.servers.clone().or_else(|| settings.servers.clone());
        let servers = servers.unwrap_or_else(|| "localhost:2181".to_owned());
        let target = Arc::new(ServerTarget { servers, context: name, is_used, settings });
        let out = Out::new(&global);
        Ok(Self { global, config, target, out, zk: Arc::default(), grammar, asks: true })
    }

    /// Returns the environment of a line of the shell: the same session, with the options of the
    /// line for output and confirmation. `is_given` tells if the line has an option.
    #[cfg(any(feature = "shell", feature = "tui"))]
    pub(crate) fn with_options_of(&self, line: &Global, is_given: impl Fn(&str) -> bool) -> Self {
        let mut app = self.clone();
        if is_given("output") {
            app.global.output = line.output;
        }
        #[cfg(feature = "tui")]
        if is_given("color") {
            app.global.color = line.color;
        }
        app.global.quiet |= line.quiet;
        app.global.verbose |= line.verbose;
        app.global.read_only |= line.read_only;
        app.global.yes |= line.yes;
        app.global.confirm = line.confirm.clone().or(app.global.confirm);
        app.out = Out::new(&app.global);
        app
    }

    /// Returns the same environment, in which nothing may be changed.
    #[cfg(feature = "tui")]
    pub(crate) fn read_only(&self) -> Self {
        let mut app = self.clone();
        app.global.read_only = true;
        app
    }

    /// Returns the same environment, in which questions are answered as without a terminal.
    #[cfg(feature = "tui")]
    pub(crate) fn without_questions(&self) -> Self {
        Self { asks: false, ..self.clone() }
    }

    fn can_ask(&self) -> bool {
        self.asks && std::io::stdin().is_terminal()
    }

    pub(crate) fn grammar(&self) -> &'static dyn Grammar {
        self.grammar
    }

    /// Returns the state of the connection.
    #[cfg(feature = "shell")]
    pub(crate) fn connection(&self) -> Option<String> {
        self.zk.get().map(|zk| zk.state().to_string())
    }

    /// Returns an environment for another context, without the options that are about servers.
    pub(crate) fn of_context(&self, context: &str) -> Result<Self, CommandFailure> {
        let global = Global {
            context: Some(context.to_owned()),
            config: self.config.clone(),
            output: self.global.output,
            timeout: self.global.timeout,
            session_timeout: self.global.session_timeout,
            quiet: self.global.quiet,
            verbose: self.global.verbose,
            read_only: true,
            ..Global::default()
        };
        Self::new(global, self.grammar)
    }

    pub(crate) const fn out(&self) -> &Out {
        &self.out
    }

    pub(crate) const fn global(&self) -> &Global {
        &self.global
    }

    /// Returns the path of the configuration file.
    pub(crate) fn config_file(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// Returns the servers, as a connect string.
    pub(crate) fn servers(&self) -> &str {
        &self.target.servers
    }

    /// Returns the name of the context, if one is used.
    pub(crate) fn context(&self) -> Option<&str> {
        self.target.context.as_deref()
    }

    /// Returns the name of the context whose servers and identities are used.
    #[cfg(unix)]
    pub(crate) fn used_context(&self) -> Option<&str> {
        self.context().filter(|_| self.target.is_used)
    }

    /// Returns `true` if changes are refused.
    pub(crate) fn is_read_only(&self) -> bool {
        self.global.read_only || self.target.settings.read_only
    }

    /// Returns the connection, for reads.
    pub(crate) async fn zk(&self) -> Result<&CuratorFramework, CommandFailure> {
        self.zk.get_or_try_init(|| self.connect()).await
    }

    /// Returns the connection, for a change: refused in a context that is read-only, and confirmed
    /// where the context requires it.
    pub(crate) async fn zk_to_change(&self) -> Result<&CuratorFramework, CommandFailure> {
        self.allow_change().await?;
        self.zk().await
    }

    /// Checks that changes are allowed here, for a change without a session; see
    /// [`zk_to_change`](Self::zk_to_change).
    pub(crate) async fn allow_change(&self) -> Result<(), CommandFailure> {
        if self.is_read_only() {
            return Err(CommandFailure::new(Exit::NO_PERMISSION, "read-only: nothing was changed")
                .hint("--read-only, ZKC_READ_ONLY or the context forbids changes"));
        }
        let Some(name) = self.context().filter(|_| self.target.settings.confirm) else {
            return Ok(());
        };
        let given = match &self.global.confirm {
            Some(given) => given.clone(),
            None if self.can_ask() => {
                self.out.warn(format!("This changes {name}. Type its name to continue:"));
                stdin::line().await?
            }
            None => {
                return Err(CommandFailure::usage(format!(
                    "the context {name} asks for confirmation"
                ))
                .hint(format!("pass --confirm {}", shell_word(name))));
            }
        };
        if given == name {
            return Ok(());
        }
        Err(CommandFailure::usage(format!("not confirmed: the context is {name}")))
    }

    /// Asks a question of yes or no. Without a terminal, only `--yes` is yes.
    pub(crate) async fn agree(&self, question: &str) -> Result<(), CommandFailure> {
        if self.global.yes {
            return Ok(());
        }
        if !self.can_ask() {
            return Err(CommandFailure::usage(format!("not done: {question}")).hint("pass --yes"));
        }
        self.out.warn(format!("{question} [y/N]"));
        match stdin::line().await?.to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(CommandFailure::usage("not done")),
        }
    }

    /// Asks a question until the answer is one of these letters. `None` at the end of the input.
    pub(crate) async fn choose(
        &self,
        question: &str,
        letters: &str,
    ) -> Result<Option<char>, CommandFailure> {
        loop {
            self.out.warn(question);
            let Some(line) = stdin::line_or_end().await? else { return Ok(None) };
            let mut chars = line.chars();
            match (chars.next(), chars.next()) {
                (Some(letter), None) if letters.contains(letter) => return Ok(Some(letter)),
                _ => {}
            }
        }
    }

    /// Returns a builder with the servers and without any identity, for the sessions of others.
    #[cfg(feature = "web")]
    pub(crate) fn anonymous_builder(&self) -> Result<CuratorFrameworkBuilder, CommandFailure> {
        #[cfg(feature = "kerberos")]
        let is_principal = kerberos(&self.global, &self.target.settings).is_some();
        #[cfg(not(feature = "kerberos"))]
        let is_principal = false;
        #[cfg(feature = "tls")]
        let has_certificate =
            self.global.tls_cert.is_some() || self.target.settings.tls_cert.is_some();
        #[cfg(not(feature = "tls"))]
        let has_certificate = false;
        if is_principal || has_certificate {
            let text = "refused: every user would also have the identity of this program";
            return Err(CommandFailure::usage(text)
                .hint("it comes from the Kerberos ticket or the client certificate"));
        }
        self.encrypted(self.common_builder()?)
    }

    /// Returns a framework with the options of the command line, which is not started yet.
    pub(crate) fn framework(&self) -> Result<CuratorFramework, CommandFailure> {
        let (global, settings) = (&self.global, &self.target.settings);
        let mut builder = self.common_builder()?;
        let references = if global.auth.is_empty() { &settings.auth } else { &global.auth };
        for reference in references {
            let secret = SecretRef::parse("--auth", reference)?;
            builder = builder.authorization(&secret.name, secret.read()?);
        }
        #[cfg(feature = "sasl")]
        if let Some(reference) = global.sasl.as_ref().or(settings.sasl.as_ref()) {
            let secret = SecretRef::parse("--sasl", reference)?;
            builder = builder.sasl_digest_md5(&secret.name, secret.read()?);
        }
        #[cfg(feature = "kerberos")]
        if let Some(kerberos) = kerberos(global, settings) {
            builder = builder.sasl_kerberos(kerberos);
        }
        Ok(self.encrypted(builder)?.build()?)
    }

    /// Returns a builder with the options that are not about identities.
    fn common_builder(&self) -> Result<CuratorFrameworkBuilder, CommandFailure> {
        let (global, settings) = (&self.global, &self.target.settings);
        settings.check_features()?;
        let mut builder = CuratorFramework::builder()
            .connect_string(&self.target.servers)
            .session_timeout(global.session_timeout)
            .connection_timeout(global.timeout)
            .retry(ExponentialBackoffRetry::new(Duration::from_millis(50), 10))
            .read_only(true)
            // `elect` decides itself when to stop a leader without a connection.
            .connection_state_error_policy(ConnectionStateErrorPolicy::Session)
            .name("zkc");
        if let Some(namespace) = global.namespace.as_ref().or(settings.namespace.as_ref()) {
            builder = builder.namespace(namespace.trim_matches('/'));
        }
        if let Some(bytes) = global.jute_maxbuffer.or(settings.jute_maxbuffer) {
            builder = builder.max_frame(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        Ok(builder)
    }

    /// Adds TLS, if the command line or the context has it.
    fn encrypted(
        &self,
        builder: CuratorFrameworkBuilder,
    ) -> Result<CuratorFrameworkBuilder, CommandFailure> {
        match self.secure_connector()? {
            Some(connector) => Ok(builder.connector(connector)),
            None => Ok(builder),
        }
    }

    /// Returns the means for encrypted connections, if the command line or the context has them.
    pub(crate) fn secure_connector(&self) -> Result<Option<Arc<dyn Connector>>, CommandFailure> {
        #[cfg(feature = "tls")]
        let connector = tls(&self.global, &self.target.settings)?;
        #[cfg(not(feature = "tls"))]
        let connector: Option<zk_curator_client::TcpConnector> = None;
        Ok(connector.map(|connector| Arc::new(connector) as Arc<dyn Connector>))
    }

    async fn connect(&self) -> Result<CuratorFramework, CommandFailure> {
        let zk = self.framework()?;
        if let Err(error) = zk.start().await {
            let failure = match error.kind() {
                ErrorKind::ConnectionLoss => {
                    let within = humantime::format_duration(self.global.timeout);
                    let text = format!("no connection: {} within {within}", self.servers());
                    CommandFailure::new(Exit::NO_CONNECTION, text)
                }
                _ => error.into(),
            };
            return Err(match zk.last_failure() {
                Some(why) => failure.hint(why.to_string()),
                None => failure,
            });
        }
        self.tell_session(&zk);
        Ok(zk.with_deadline(self.global.timeout))
    }

    fn tell_session(&self, zk: &CuratorFramework) {
        let Some(session) = zk.session() else { return };
        let timeout = humantime::format_duration(session.timeout);
        self.out.detail(format!("session {} at {}, timeout {timeout}", session.id, self.servers()));
    }

    /// Adds what the servers know about a failure: the deepest ancestor of a missing node.
    pub(crate) async fn explain(&self, failure: CommandFailure) -> CommandFailure {
        let (Some(missing), Some(zk)) = (failure.missing(), self.zk.get()) else { return failure };
        let ancestors = path::ancestors(missing);
        let answers = zk.children_of_each(ancestors.iter().map(String::as_str)).await;
        let exists = answers.ok().and_then(|answers| answers.iter().rposition(Option::is_some));
        match exists.and_then(|place| ancestors.get(place)) {
            Some(deepest) => failure.hint(format!("deepest that exists: {deepest}")),
            None => failure,
        }
    }

    /// Ends the session, if there is one.
    pub(crate) async fn close(&self) -> Result<(), CommandFailure> {
        let Some(zk) = self.zk.get() else { return Ok(()) };
        match zk.close().await {
            Err(error) if error.kind() == ErrorKind::LeftBehind => Err(error.into()),
            // The session then ends by itself.
            _ => Ok(()),
        }
    }
}

/// A probe of the servers connects only if it needs a session.
impl FrameworkSource for App {
    fn started(&self) -> Option<&CuratorFramework> {
        self.zk.get()
    }

    fn framework(&self) -> FrameworkFuture<'_> {
        Box::pin(async { self.zk().await.ok() })
    }
}

/// Returns the settings of Kerberos, if the command line or the context asks for it. Another
/// mechanism on the command line comes before that of the context.
#[cfg(feature = "kerberos")]
fn kerberos(global: &Global, settings: &NamedContext) -> Option<zk_curator::kerberos::Kerberos> {
    #[cfg(feature = "sasl")]
    let is_other = global.sasl.is_some();
    #[cfg(not(feature = "sasl"))]
    let is_other = false;
    if !(global.kerberos || settings.kerberos && !is_other) {
        return None;
    }
    let mut kerberos = zk_curator::kerberos::Kerberos::new();
    if let Some(principal) = global.kerberos_client.as_ref().or(settings.kerberos_client.as_ref()) {
        kerberos = kerberos.client_principal(principal);
    }
    if let Some(principal) = global.kerberos_server.as_ref().or(settings.kerberos_server.as_ref()) {
        kerberos = kerberos.server_principal(principal);
    }
    Some(kerberos)
}

#[cfg(feature = "tls")]
fn tls(
    global: &Global,
    settings: &NamedContext,
) -> Result<Option<zk_curator::tls::TlsConnector>, CommandFailure> {
    let Some(ca) = global.tls_ca.as_ref().or(settings.tls_ca.as_ref()) else { return Ok(None) };
    let mut builder = zk_curator::tls::TlsConnector::builder().ca_file(ca);
    let certificate = global.tls_cert.as_ref().or(settings.tls_cert.as_ref());
    let key = global.tls_key.as_ref().or(settings.tls_key.as_ref());
    if let (Some(certificate), Some(key)) = (certificate, key) {
        private::check(key)?;
        builder = builder.client_certificate_file(certificate, key);
    }
    builder.build().map(Some).map_err(|error| CommandFailure::usage(format!("TLS: {error}")))
}
