use clap::{Args, Subcommand};
use serde_json::json;
use zk_curator_discovery::registration::RegistrationEvents;
use zk_curator_discovery::{
    RegistrationError, RegistrationState, ServiceDiscovery, ServiceInstance,
};

#[cfg(unix)]
use super::discover_register::Register;
#[cfg(unix)]
use super::membership::Under;
use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, Out, OutputColumn, Rows, TextReport, number, text, time};
use crate::stop::{Handled, Stops};
use crate::{node, path};

/// The arguments of `zkc discover`.
#[derive(Debug, Args)]
pub(crate) struct Discover {
    #[command(subcommand)]
    verb: DiscoverVerb,
    /// Node of all services
    #[arg(long, value_name = "PATH", default_value = "/services", global = true, value_parser = path::parse)]
    base: String,
}

#[derive(Debug, Subcommand)]
enum DiscoverVerb {
    /// List the services, with the numbers of their instances
    Ls,
    /// List the instances of a service
    Show {
        /// Service
        name: String,
    },
    /// Register an instance while a command runs, or until Ctrl-C
    #[cfg_attr(unix, command(after_help = super::membership::help(&[
        ("ZKC_SERVICE", "the service"),
        ("ZKC_INSTANCE_ID", "the id of the instance"),
        ("ZKC_INSTANCE_NODE", "its node"),
    ], &[(Exit::CONFLICT, "without a command: another process has registered the instance")])))]
    Register {
        /// Service
        name: String,
        /// Port
        #[arg(long, value_name = "PORT")]
        port: u16,
        /// Address [default: the address of this host]
        #[arg(long, value_name = "HOST")]
        address: Option<String>,
        /// Id [default: a UUID]
        #[arg(long)]
        id: Option<String>,
        /// When zkc gets TERM, time for which the instance is out of traffic before the command
        /// gets TERM; a second signal ends it
        #[cfg(unix)]
        #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
        drain: std::time::Duration,
        #[cfg(unix)]
        #[command(flatten)]
        under: Under,
    },
}

const SERVICES: &[OutputColumn] =
    &[text("name"), number("instances"), number("drained"), number("undecodable")];
const INSTANCES: &[OutputColumn] = &[
    text("id"),
    text("address"),
    number("port"),
    text("state"),
    text("registered"),
    text("session"),
    text("path").wide(),
];

impl Discover {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let base = self.base;
        match self.verb {
            DiscoverVerb::Ls => list(&ServiceDiscovery::new(app.zk().await?, base)).await,
            DiscoverVerb::Show { name } => {
                show(&ServiceDiscovery::new(app.zk().await?, base), &name).await
            }
            DiscoverVerb::Register {
                name,
                port,
                address,
                id,
                #[cfg(unix)]
                drain,
                #[cfg(unix)]
                under,
            } => {
                let mut instance = ServiceInstance::builder(name).port(port);
                if let Some(address) = address {
                    instance = instance.address(address);
                }
                if let Some(id) = id {
                    instance = instance.id(id);
                }
                let instance =
                    instance.build().map_err(|why| CommandFailure::usage(why.to_string()))?;
                #[cfg(unix)]
                let early = |failure| match under.is_given() {
                    true => crate::supervise::before_the_command(failure),
                    false => failure,
                };
                #[cfg(not(unix))]
                let early = |failure| failure;
                agree_to_replace(app, &base, &instance).await.map_err(early)?;
                #[cfg(unix)]
                if under.is_given() {
                    return Register { base, instance, drain }.run(app, &under).await;
                }
                register(app, &base, instance).await
            }
        }
    }
}

/// Asks whether an instance takes the id of another one, whose command is then stopped.
async fn agree_to_replace(
    app: &App,
    base: &str,
    instance: &ServiceInstance<()>,
) -> Result<(), CommandFailure> {
    // Another one cannot have a UUID that is not chosen yet.
    if instance.id.is_empty() {
        return Ok(());
    }
    let node = path::join(&path::join(base, &instance.name), &instance.id);
    let Some(stat) = app.zk().await?.exists(&node).await? else { return Ok(()) };
    let owner = node::owner(&stat).map_or_else(String::new, |owner| format!(" by session {owner}"));
    let question =
        format!("{node} is registered{owner}; replace it, which ends the other instance?");
    app.agree(&question).await
}

/// Registers an instance until a signal.
async fn register(
    app: &App,
    base: &str,
    instance: ServiceInstance<()>,
) -> Result<CommandOutput, CommandFailure> {
    let discovery = ServiceDiscovery::<()>::new(app.zk_to_change().await?, base);
    let (mut stops, _handled) = (Stops::catch()?, Handled::begin());
    let mut registration = tokio::select! {
        biased;
        stop = stops.next() => return Ok(Exit::of_command(stop.code()).into()),
        registered = discovery.register(instance) => registered?,
    };
    let path = registration.path();
    let report = TextReport::new(path.as_str(), json!({ "path": path }));
    app.out().print(&report.names([path.clone()]).in_one_line().into())?;
    tokio::select! {
        biased;
        _ = stops.next() => {}
        why = ended(path, registration.events(), app.out()) => return Err(why.into()),
    }
    registration.unregister().await?;
    Ok(CommandOutput::nothing())
}

/// Waits for the end of a registration. Returns the cause.
async fn ended(path: String, mut events: RegistrationEvents, out: &Out) -> RegistrationError {
    while let Some(state) = events.next().await {
        match state {
            RegistrationState::Deleted => {
                out.say("another client has deleted the node; it is created again");
            }
            RegistrationState::Failed(error) => out.say(format!("not registered: {error}")),
            state => {
                if let Some(error) = state.error(&path) {
                    return error;
                }
            }
        }
    }
    RegistrationError::Ended { path }
}

async fn list(discovery: &ServiceDiscovery<()>) -> Result<CommandOutput, CommandFailure> {
    let mut rows = Rows::new(SERVICES);
    for service in discovery.inspect().await? {
        let drained = service.instances.iter().filter(|one| !one.instance.enabled).count();
        rows.push(vec![
            service.name.into(),
            service.instances.len().into(),
            drained.into(),
            service.undecodable.len().into(),
        ]);
    }
    Ok(rows.into())
}

async fn show(
    discovery: &ServiceDiscovery<()>,
    name: &str,
) -> Result<CommandOutput, CommandFailure> {
    let services = discovery.inspect().await?;
    let service = services.into_iter().find(|service| service.name == name);
    let service = service.ok_or_else(|| CommandFailure::no_node(name))?;
    let mut rows = Rows::new(INSTANCES);
    for one in service.instances {
        let instance = &one.instance;
        rows.push(vec![
            instance.id.as_str().into(),
            instance.address.clone().into(),
            instance.port.map(i64::from).into(),
            if instance.enabled { "up" } else { "drained" }.into(),
            time::cell(one.stat.mtime),
            node::owner(&one.stat).into(),
            one.path.into(),
        ]);
    }
    for other in service.undecodable {
        let mut cells = vec![path::split(&other.path).1.into()];
        cells.extend((0..2).map(|_| None::<String>.into()));
        cells.push(format!("undecodable: {}", other.reason).into());
        cells.extend((0..2).map(|_| None::<String>.into()));
        cells.push(other.path.into());
        rows.push(cells);
    }
    Ok(rows.into())
}
