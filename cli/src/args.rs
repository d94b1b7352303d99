//! The arguments that all commands have.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, ValueEnum};

/// The options of all commands.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options of all commands")]
pub(crate) struct Global {
    /// Servers, with an optional chroot: `host:port,host:port/chroot` [default: those of the
    /// context, else localhost:2181]
    #[arg(short, long, global = true, env = "ZK_CONNECT", value_name = "SERVERS")]
    pub(crate) servers: Option<String>,
    /// Context of the configuration file
    #[arg(short, long, global = true, env = "ZKC_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Prefix of all paths
    #[arg(long, global = true, env = "ZKC_NAMESPACE", value_name = "PATH")]
    pub(crate) namespace: Option<String>,
    /// Identity, as `SCHEME:@FILE` or `SCHEME:env:VARIABLE`; never the secret itself. Repeatable
    #[arg(long, global = true, value_name = "AUTH")]
    pub(crate) auth: Vec<String>,
    /// Identity for SASL DIGEST-MD5, as `USER:@FILE` or `USER:env:VARIABLE`
    #[cfg(feature = "sasl")]
    #[arg(long, global = true, value_name = "AUTH")]
    pub(crate) sasl: Option<String>,
    /// Authenticate with Kerberos (SASL GSSAPI), by the ticket cache or the client keytab
    #[cfg(feature = "kerberos")]
    #[cfg_attr(feature = "sasl", arg(conflicts_with = "sasl"))]
    #[arg(long, global = true)]
    pub(crate) kerberos: bool,
    /// Principal of this client [default: that of the ticket cache, or the first of the keytab]
    #[cfg(feature = "kerberos")]
    #[arg(long, global = true, value_name = "PRINCIPAL", requires = "kerberos")]
    pub(crate) kerberos_client: Option<String>,
    /// Principal of all servers [default: zookeeper/HOST for each]
    #[cfg(feature = "kerberos")]
    #[arg(long, global = true, value_name = "PRINCIPAL", requires = "kerberos")]
    pub(crate) kerberos_server: Option<String>,
    /// Connect with TLS, and check the servers with this CA (PEM)
    #[cfg(feature = "tls")]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Client certificate (PEM)
    #[cfg(feature = "tls")]
    #[arg(long, global = true, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Key of the client certificate (PEM)
    #[cfg(feature = "tls")]
    #[arg(long, global = true, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Configuration file [default: $XDG_CONFIG_HOME/zkc/config.toml]
    #[arg(long, global = true, env = "ZKC_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Format of the output
    #[arg(short, long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: OutputFormat,
    /// Time limit of each operation, with its retries
    #[arg(long, global = true, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
    /// Session timeout to request from the servers
    #[arg(long, global = true, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) session_timeout: Duration,
    /// Greatest request in bytes, the servers' jute.maxbuffer; responses may be four times as large
    /// [default: that of the context, else 1048575]
    #[arg(long, global = true, env = "ZKC_JUTE_MAXBUFFER", value_name = "BYTES", value_parser = max_buffer)]
    pub(crate) jute_maxbuffer: Option<u32>,
    /// Refuse every command that changes something
    #[arg(long, global = true, env = "ZKC_READ_ONLY", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) read_only: bool,
    /// Name of the context, which confirms a change where the context requires it
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) confirm: Option<String>,
    /// Answer all questions with yes
    #[arg(short, long, global = true)]
    pub(crate) yes: bool,
    /// When to use colour
    #[cfg(feature = "tui")]
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: Color,
    /// Print only data and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print the session, its timeout and the server on stderr
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

/// The smallest and the greatest limit of a request.
const BUFFERS: std::ops::RangeInclusive<u32> = 1_024..=0x7fff_ffff;

/// Parses a number of bytes: decimal, or hexadecimal as in the configurations of Java.
fn max_buffer(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let within = number.ok().filter(|bytes| BUFFERS.contains(bytes));
    within.ok_or_else(|| format!("not a number from {} to {}", BUFFERS.start(), BUFFERS.end()))
}

/// Parses a command line. Refuses one that ends with `--` where a command may follow it: a script
/// with an empty variable would hold a lock without an end.
pub(crate) fn parse(
    mut tree: clap::Command,
    words: &[OsString],
) -> Result<clap::ArgMatches, clap::Error> {
    let matches = tree.try_get_matches_from_mut(words)?;
    let mut deepest = &matches;
    while let Some((_, below)) = deepest.subcommand() {
        deepest = below;
    }
    let takes_command = deepest.try_contains_id("command").is_ok();
    let is_given = takes_command && deepest.contains_id("command");
    if takes_command && !is_given && words.last().is_some_and(|word| word == "--") {
        return Err(tree.error(ErrorKind::MissingRequiredArgument, "no command after `--`"));
    }
    Ok(matches)
}

/// The options that a line of the shell or the screens may have. All others are about the session.
#[cfg(any(feature = "shell", feature = "tui"))]
const OPTIONS_OF_A_LINE: [&str; 7] =
    ["output", "read_only", "confirm", "yes", "color", "quiet", "verbose"];

/// Returns `true` if the command line has an option.
#[cfg(any(feature = "shell", feature = "tui"))]
pub(crate) fn is_given(matches: &clap::ArgMatches, option: &str) -> bool {
    let source = matches.try_contains_id(option).ok().and_then(|_| matches.value_source(option));
    source == Some(clap::parser::ValueSource::CommandLine)
}

/// Returns the name of an option that is given and would need another session.
#[cfg(any(feature = "shell", feature = "tui"))]
pub(crate) fn of_another_session(matches: &clap::ArgMatches) -> Option<String> {
    let options = Global::augment_args(clap::Command::new("zkc"));
    let is_refused = |option: &&clap::Arg| {
        let id = option.get_id().as_str();
        !OPTIONS_OF_A_LINE.contains(&id) && is_given(matches, id)
    };
    let option = options.get_arguments().find(is_refused)?;
    Some(option.get_long().unwrap_or_default().to_owned())
}

/// A format of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Text for people
    #[default]
    Table,
    /// Text for people, with all columns
    Wide,
    /// One JSON document
    Json,
    /// One JSON document per line
    Jsonl,
    /// One YAML document
    Yaml,
    /// Names or paths only, one per line
    Name,
    /// The bytes of the data, unchanged
    Raw,
}

/// When to use colour.
#[cfg(feature = "tui")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}
