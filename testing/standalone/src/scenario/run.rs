//! Runs a scenario.

use std::io;

use super::file::{Scenario, Step};
use crate::control::{Call, CallError, Service, Target};

/// The end of a scenario before its last step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// A step failed, or its condition was not true in time.
    #[error("step {step}")]
    Step {
        /// The number of the step, from 1.
        step: usize,
        /// The error of the call or of the wait.
        source: CallError,
    },
    /// The program was asked to end.
    #[error("ended before step {step}")]
    Stopped {
        /// The number of the first step that is not complete, from 1.
        step: usize,
    },
    /// Standard output cannot be written.
    #[error("cannot print")]
    Output(#[from] io::Error),
}

impl Scenario {
    /// Installs the rules.
    ///
    /// # Errors
    /// The error of the first rule that cannot be installed, such as a name that is used twice.
    pub fn install<T: Target>(&mut self, service: &Service<T>) -> Result<(), CallError> {
        std::mem::take(&mut self.rules)
            .into_iter()
            .try_for_each(|rule| service.add_rule(rule).map(drop))
    }

    /// Returns the number of steps.
    #[must_use]
    pub const fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Runs the steps, one after another, and prints a line after each. Counts `completed` steps.
    ///
    /// # Errors
    /// [`ScenarioError`]
    ///
    /// # Cancel safety
    /// Dropping the future leaves the effects of the steps so far.
    pub async fn run<T: Target>(
        self,
        service: &Service<T>,
        completed: &mut usize,
        mut print: impl FnMut(&str) -> io::Result<()>,
    ) -> Result<(), ScenarioError> {
        for (step, number) in self.steps.into_iter().zip(1..) {
            let name = step.call.as_ref().map(Call::name);
            step.run(service)
                .await
                .map_err(|source| ScenarioError::Step { step: number, source })?;
            *completed = number;
            print(&name.map_or_else(
                || format!("step {number}"),
                |call| format!("step {number}: {call}"),
            ))?;
        }
        print("scenario ended")?;
        Ok(())
    }
}

impl Step {
    #[expect(clippy::disallowed_methods, reason = "the pause that a file demands")]
    async fn run<T: Target>(self, service: &Service<T>) -> Result<(), CallError> {
        if let Some(condition) = &self.until {
            service.until(condition, self.timeout).await?;
        }
        tokio::time::sleep(self.after).await;
        match self.call {
            Some(call) => service.call(call).await.map(drop),
            None => Ok(()),
        }
    }
}
