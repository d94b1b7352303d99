//! The options of commands that ask the servers, and the notes about those that do not respond.

use std::time::Duration;

use clap::Args;
use zk_curator_ops::ensemble::admin::AdminServer;
use zk_curator_ops::ensemble::probe::ProbeOptions;
use zk_curator_ops::ensemble::words::FourLetterWord;
use zk_curator_ops::ensemble::{EnsembleProbe, ProbeNote, whitelist_line};

use crate::app::App;
use crate::exit::CommandFailure;

/// How servers are asked.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProbeArguments {
    /// Admin servers, which are asked for what the four-letter words do not tell: a port, or
    /// `https://:PORT` for that port of every server, or `https://HOST:PORT` for that of one
    /// server. Repeatable. HTTPS uses --tls-ca, --tls-cert and --tls-key
    #[arg(long, value_name = "PORT|URL")]
    admin: Vec<AdminServer>,
    /// Time limit of each question to a server
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    within: Duration,
}

impl ProbeArguments {
    /// Returns the servers of the command line, which are asked with these options. A session begins
    /// only if a probe needs one.
    pub(crate) fn of<'a>(&self, app: &'a App) -> Result<EnsembleProbe<'a>, CommandFailure> {
        let options = self.options(app)?;
        Ok(EnsembleProbe::new(app.servers()).with_options(options).with_framework(app))
    }

    /// Returns these options, with the means for TLS of the command line or the context.
    pub(crate) fn options(&self, app: &App) -> Result<ProbeOptions, CommandFailure> {
        let options = ProbeOptions::new().admin(self.admin.clone()).within(self.within);
        Ok(match app.secure_connector()? {
            Some(connector) => options.connector(connector),
            None => options,
        })
    }
}

/// Returns a note, with the option that removes it.
pub(crate) fn note(note: &ProbeNote) -> String {
    match note {
        ProbeNote::Refused { server, words } => {
            let names: Vec<_> = words.iter().map(|word| word.text()).collect();
            format!("{server} refuses {}: {}", names.join(", "), whitelist(words))
        }
        ProbeNote::NotAsked { error } => CommandFailure::from(&**error).to_string(),
        note => note.to_string(),
    }
}

/// Returns the advice for refused words.
pub(crate) fn whitelist(refused: &[FourLetterWord]) -> String {
    format!("set {} in zoo.cfg, or pass --admin 8080", whitelist_line(refused))
}
