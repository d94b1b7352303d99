//! `zkc discover register NAME -- COMMAND`.

use std::time::Duration;

use zk_curator::CuratorFramework;
use zk_curator_discovery::registration::{
    OnDeleted, Registration, RegistrationError, RegistrationEvents, RegistrationState,
};
use zk_curator_discovery::{ServiceDiscovery, ServiceInstance};

use super::membership::{Scene, Under, end};
use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::CommandOutput;
use crate::supervise::{
    InSession, Signals, SupervisedHold, Talk, Tenure, Unlimited, before_the_command,
    member_connection,
};

/// An instance before its registration.
#[derive(Debug)]
pub(super) struct Register {
    /// The node of all services.
    pub(super) base: String,
    pub(super) instance: ServiceInstance<()>,
    /// The time out of traffic before the command gets TERM.
    pub(super) drain: Duration,
}

impl Register {
    /// Registers the instance, and runs the command.
    pub(super) async fn run(
        self,
        app: &App,
        under: &Under,
    ) -> Result<CommandOutput, CommandFailure> {
        let zk = app.zk_to_change().await.map_err(before_the_command)?;
        let mut signals = Signals::catch()?;
        let talk = Talk::new(app.out());
        let registered = tokio::select! {
            biased;
            signal = signals.end() => return Ok(Exit::of_command(signal.code()).into()),
            registered = self.register(zk, under.rejoins()) => {
                registered.map_err(|error| before_the_command(error.into()))?
            }
        };
        let (mut registration, session) = registered;
        let node = registration.path();
        let mut environment = member_connection(app, zk);
        environment.extend([
            ("ZKC_SERVICE", registration.name().into()),
            ("ZKC_INSTANCE_ID", registration.id().into()),
            ("ZKC_INSTANCE_NODE", node.as_str().into()),
        ]);
        let mut scene = Scene { zk, environment, signals: &mut signals, talk: &talk };
        talk.say(format!("registered {node}"));
        let events = registration.events();
        let hold = SupervisedHold {
            asked: Box::pin(ended(events, session.as_ref())),
            drain: Box::pin(async {
                if let Err(error) = registration.drain().await {
                    talk.say(format!("still in traffic: {error}"));
                }
            }),
            ..SupervisedHold::of(tenure(session.as_ref()), "registration")
        };
        let ending = under.run(hold, Some(self.drain), &mut scene).await;
        if !tenure(session.as_ref()).is_over() {
            end(&scene, registration.unregister()).await;
        }
        drop(registration);
        let ending = ending?;
        under.after(&ending, &mut scene).await;
        Ok(Exit::of_command(ending.code).into())
    }

    /// Registers the instance: in one session, which is returned, or in every session.
    async fn register(
        &self,
        zk: &CuratorFramework,
        rejoins: bool,
    ) -> Result<(Registration<()>, Option<InSession>), RegistrationError> {
        if rejoins {
            let discovery = ServiceDiscovery::new(zk, self.base.as_str());
            return Ok((discovery.register(self.instance.clone()).await?, None));
        }
        loop {
            let session = InSession::present(zk)?;
            let discovery = ServiceDiscovery::new(session.framework(), self.base.as_str());
            let discovery = discovery.on_deleted(OnDeleted::End);
            let registered = tokio::select! {
                biased;
                registered = discovery.register(self.instance.clone()) => Some(registered?),
                () = session.over() => None,
            };
            match registered {
                Some(registration) => return Ok((registration, Some(session))),
                None => drop(zk.wait_connected().await?),
            }
        }
    }
}

fn tenure(session: Option<&InSession>) -> &dyn Tenure {
    match session {
        Some(session) => session,
        None => &Unlimited,
    }
}

/// Resolves when the registration has ended before its session.
async fn ended(mut events: RegistrationEvents, session: Option<&InSession>) {
    while let Some(state) = events.next().await {
        match state {
            RegistrationState::Superseded { .. }
            | RegistrationState::Refused { .. }
            | RegistrationState::Ended => break,
            RegistrationState::Deleted if session.is_some() => break,
            _ => {}
        }
    }
    if let Some(session) = session {
        session.end();
    }
}
