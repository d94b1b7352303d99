//! The control port and the scenario of a program that serves clients.

use std::error::Error;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use crate::control::{CallError, Listener, Service, Target, Token};
use crate::option::TaskOptions;
use crate::program::{complain, end_of_input, print};
use crate::scenario::{Scenario, ScenarioError};

/// The exit code of a scenario with a step that failed, or that did not run.
const SCENARIO_FAILED: u8 = 3;

/// The control port with its token.
#[derive(Debug)]
pub struct Control {
    listener: Listener,
    token: Token,
}

impl Control {
    /// Opens the control port; 0 is any free one. The token comes from the environment.
    ///
    /// # Errors
    /// A text of one line: the token is missing or wrong, or the port cannot be bound.
    ///
    /// # Cancel safety
    /// Dropping the future opens nothing.
    pub async fn open(port: u16) -> Result<Self, String> {
        let token = Token::from_env().map_err(|error| format!("option '--control': {error}"))?;
        let listener = Listener::open(port).await.map_err(|error| error.to_string())?;
        Ok(Self { listener, token })
    }

    /// Prints the line with the address.
    ///
    /// # Errors
    /// The errors of standard output.
    pub fn announce(&self) -> io::Result<()> {
        print(&format!("control on {}", self.listener.addr()))
    }
}

/// The control port and the scenario of a program, and when it ends.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "the programs of this package construct it")]
pub struct Tasks {
    /// The name of the program.
    pub name: &'static str,
    /// The control port.
    pub control: Option<Control>,
    /// The scenario, whose rules are installed.
    pub scenario: Option<Scenario>,
    /// The program ends after the last step of the scenario.
    pub until_scenario_ends: bool,
    /// The program ends at the end of standard input.
    pub until_eof: bool,
}

impl Tasks {
    /// Opens the control port and reads the scenario, whose rules are not installed yet.
    ///
    /// # Errors
    /// Those of [`Control::open`] and [`Scenario::load`].
    ///
    /// # Cancel safety
    /// Dropping the future opens nothing.
    pub async fn open(name: &'static str, options: TaskOptions) -> Result<Self, Box<dyn Error>> {
        let TaskOptions { control, scenario, until_scenario_ends, until_eof } = options;
        let control = match control {
            Some(port) => Some(Control::open(port).await?),
            None => None,
        };
        let scenario = scenario.as_deref().map(Scenario::load).transpose()?;
        Ok(Self { name, control, scenario, until_scenario_ends, until_eof })
    }

    /// Installs the rules of the scenario, if there is one.
    ///
    /// # Errors
    /// Those of [`Scenario::install`].
    pub fn install<T: Target>(&mut self, service: &Service<T>) -> Result<(), CallError> {
        self.scenario.as_mut().map_or(Ok(()), |scenario| scenario.install(service))
    }

    /// Prints the line with the address of the control port, if there is one.
    ///
    /// # Errors
    /// The errors of standard output.
    pub fn announce(&self) -> io::Result<()> {
        self.control.as_ref().map_or(Ok(()), Control::announce)
    }

    /// Runs until the program ends: by `stopped`, the scenario, or the end of standard input. It
    /// fails if a step fails, or if the program should run every step and does not.
    ///
    /// # Cancel safety
    /// Dropping the future ends all connections of the control port, and calls that run.
    pub async fn run<T: Target>(
        self,
        service: &Arc<Service<T>>,
        stopped: impl Future<Output = ()>,
    ) -> ExitCode {
        let steps = self.scenario.as_ref().map_or(0, Scenario::steps);
        let mut completed = 0;
        let played = played(self.scenario, service, &mut completed, self.until_scenario_ends);
        let ended = tokio::select! {
            () = stopped => Ok(()),
            () = end_of_input(), if self.until_eof => Ok(()),
            () = controlled(self.control, service) => Ok(()),
            ended = played => ended,
        };
        let ended = ended.and_then(|()| match completed {
            completed if completed < steps && self.until_scenario_ends => {
                Err(ScenarioError::Stopped { step: completed + 1 })
            }
            _ => Ok(()),
        });
        ended.map_or_else(
            |error| complain(self.name, &error, SCENARIO_FAILED),
            |()| ExitCode::SUCCESS,
        )
    }
}

/// Serves the control port, if there is one.
async fn controlled<T: Target>(control: Option<Control>, service: &Arc<Service<T>>) {
    match control {
        Some(Control { listener, token }) => listener.serve(Arc::clone(service), token).await,
        None => std::future::pending().await,
    }
}

/// Runs the scenario. Returns when a step fails, or after the last one if `ends`.
async fn played<T: Target>(
    scenario: Option<Scenario>,
    service: &Service<T>,
    completed: &mut usize,
    ends: bool,
) -> Result<(), ScenarioError> {
    if let Some(scenario) = scenario {
        scenario.run(service, completed, print).await?;
        if ends {
            return Ok(());
        }
    }
    std::future::pending().await
}
