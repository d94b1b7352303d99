use bytes::Bytes;
use clap::Args;
use futures_util::future::join_all;
use serde_json::{Value, json};
use zk_curator_ops::ensemble::ProbeTrouble;
use zk_curator_ops::ensemble::probe::{ProbedServer, ask};
use zk_curator_ops::ensemble::words::FourLetterWord;

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, TextReport};
use crate::probe::{ProbeArguments, whitelist};

/// The arguments of `zkc flw`.
#[derive(Debug, Args)]
pub(crate) struct Flw {
    /// Four-letter word that only reads, such as srvr, mntr, cons, dump
    #[arg(value_parser = parse)]
    word: FourLetterWord,
    /// Server, as host:port [default: each server of the connect string]
    server: Option<String>,
    #[command(flatten)]
    options: ProbeArguments,
}

impl Flw {
    /// Prints the response of one server unchanged, and those of several below their names.
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let probe = self.options.of(app)?;
        let servers = match &self.server {
            Some(server) => vec![ProbedServer::parse(server)?],
            None => probe.named()?,
        };
        let (word, options) = (self.word, probe.options());
        options.check()?;
        let responses = join_all(servers.iter().map(|server| ask(server, word, options))).await;
        if let ([server], [Err(trouble)]) = (&servers[..], &responses[..]) {
            let exit = if trouble.is_unreachable() { Exit::NO_CONNECTION } else { Exit::NO };
            let failure = CommandFailure::new(exit, format!("{server}: {trouble}"));
            return Err(match trouble {
                ProbeTrouble::NotListed => failure.hint(whitelist(&[word])),
                _ => failure,
            });
        }
        let mut text = String::new();
        let mut values = Vec::new();
        for (server, response) in servers.iter().zip(&responses) {
            let (shown, value) = match response {
                Ok(response) => (response.clone(), json!({ "response": response })),
                Err(trouble) => {
                    app.out().say(format!("{server}: {trouble}"));
                    (String::new(), json!({ "trouble": trouble.name() }))
                }
            };
            if servers.len() > 1 && response.is_ok() {
                text.push_str(&format!("# {server}\n"));
            }
            text.push_str(&shown);
            if !shown.is_empty() && !shown.ends_with('\n') {
                text.push('\n');
            }
            let mut value = value;
            value["server"] = Value::from(server.to_string());
            values.push(value);
        }
        let exit = if responses.iter().all(Result::is_ok) { Exit::DONE } else { Exit::NO };
        let raw = match &responses[..] {
            [Ok(response)] => response.clone(),
            _ => text.clone(),
        };
        Ok(CommandOutput::from(TextReport::new(text, values).raw(Bytes::from(raw))).with_exit(exit))
    }
}

fn parse(text: &str) -> Result<FourLetterWord, String> {
    FourLetterWord::parse(text).ok_or_else(|| {
        let words: Vec<_> = FourLetterWord::ALL.iter().map(|word| word.text()).collect();
        format!("not a word that only reads: those are {}", words.join(", "))
    })
}
