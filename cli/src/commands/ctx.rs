use clap::{Args, Subcommand};

use crate::app::App;
use crate::context::{ContextFile, NamedContext, SecretRef};
use crate::exit::CommandFailure;
use crate::output::{CommandOutput, OutputColumn, Rows, TextReport, text};

/// The arguments of `zkc ctx`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Ctx {
    /// Context to use from now on [default: list all]
    name: Option<String>,
    #[command(subcommand)]
    change: Option<ContextChange>,
}

#[derive(Debug, Subcommand)]
enum ContextChange {
    /// Add a context, or replace it, with the options of the command line
    Add(Add),
    /// Remove a context
    Rm {
        /// Context
        name: String,
    },
    /// Show a context
    Show {
        /// Context [default: the current one]
        name: Option<String>,
    },
}

#[derive(Debug, Args)]
struct Add {
    /// Context
    name: String,
    /// Ask for the name of the context before each change
    #[arg(long)]
    confirm_changes: bool,
}

const COLUMNS: &[OutputColumn] =
    &[text("name"), text("current"), text("servers"), text("namespace"), text("rules")];

impl Ctx {
    #[expect(clippy::unused_async, reason = "the signature of all commands")]
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let file = app.config_file();
        let file = file.ok_or_else(|| {
            CommandFailure::usage("no home directory").hint("pass --config FILE, or set ZKC_CONFIG")
        })?;
        let mut config = ContextFile::read(file)?;
        match (self.change, self.name) {
            (None, None) => return Ok(list(&config).into()),
            (None, Some(name)) => {
                known(&config, &name)?;
                config.current = Some(name);
            }
            (Some(ContextChange::Show { name }), _) => return show(&config, name),
            (Some(ContextChange::Rm { name }), _) => {
                known(&config, &name)?;
                config.contexts.remove(&name);
                config.current = config.current.filter(|current| *current != name);
            }
            (Some(ContextChange::Add(add)), _) => {
                let context = described(app, &add)?;
                config.current.get_or_insert_with(|| add.name.clone());
                config.contexts.insert(add.name, context);
            }
        }
        config.write(file)?;
        Ok(CommandOutput::nothing())
    }
}

fn known<'a>(config: &'a ContextFile, name: &str) -> Result<&'a NamedContext, CommandFailure> {
    let context = config.contexts.get(name);
    context.ok_or_else(|| {
        CommandFailure::usage(format!("no context {name}")).hint("`zkc ctx` lists them")
    })
}

/// Returns a context with the options of the command line.
fn described(app: &App, add: &Add) -> Result<NamedContext, CommandFailure> {
    let global = app.global();
    for reference in &global.auth {
        SecretRef::parse("--auth", reference)?;
    }
    #[cfg(feature = "sasl")]
    if let Some(reference) = &global.sasl {
        SecretRef::parse("--sasl", reference)?;
    }
    Ok(NamedContext {
        servers: global.servers.clone(),
        namespace: global.namespace.clone(),
        auth: global.auth.clone(),
        #[cfg(feature = "sasl")]
        sasl: global.sasl.clone(),
        #[cfg(not(feature = "sasl"))]
        sasl: None,
        #[cfg(feature = "kerberos")]
        kerberos: global.kerberos,
        #[cfg(feature = "kerberos")]
        kerberos_client: global.kerberos_client.clone(),
        #[cfg(feature = "kerberos")]
        kerberos_server: global.kerberos_server.clone(),
        #[cfg(not(feature = "kerberos"))]
        kerberos: false,
        #[cfg(not(feature = "kerberos"))]
        kerberos_client: None,
        #[cfg(not(feature = "kerberos"))]
        kerberos_server: None,
        #[cfg(feature = "tls")]
        tls_ca: global.tls_ca.clone(),
        #[cfg(feature = "tls")]
        tls_cert: global.tls_cert.clone(),
        #[cfg(feature = "tls")]
        tls_key: global.tls_key.clone(),
        #[cfg(not(feature = "tls"))]
        tls_ca: None,
        #[cfg(not(feature = "tls"))]
        tls_cert: None,
        #[cfg(not(feature = "tls"))]
        tls_key: None,
        jute_maxbuffer: global.jute_maxbuffer,
        read_only: global.read_only,
        confirm: add.confirm_changes,
    })
}

fn list(config: &ContextFile) -> Rows {
    let mut rows = Rows::new(COLUMNS);
    for (name, context) in &config.contexts {
        let rules = match (context.read_only, context.confirm) {
            (true, _) => "read-only",
            (false, true) => "confirm",
            (false, false) => "",
        };
        let is_current = config.current.as_ref() == Some(name);
        rows.push(vec![
            name.as_str().into(),
            if is_current { "*" } else { "" }.into(),
            context.servers.clone().into(),
            context.namespace.clone().into(),
            rules.into(),
        ]);
    }
    rows
}

/// Shows a context. Its secrets are references, so nothing has to be masked.
fn show(config: &ContextFile, name: Option<String>) -> Result<CommandOutput, CommandFailure> {
    let name = name.or_else(|| config.current.clone());
    let name = name.ok_or_else(|| CommandFailure::usage("no current context"))?;
    let context = known(config, &name)?;
    let text = toml::to_string_pretty(context)
        .map_err(|error| CommandFailure::usage(error.to_string()))?;
    let value =
        serde_json::to_value(context).map_err(|error| CommandFailure::usage(error.to_string()))?;
    Ok(TextReport::new(text, value).names([name]).into())
}
