//! The ensemble, and the commands that change it.

use std::collections::BTreeSet;

use zk_curator_real::{RealEnsemble, RealError};
use zk_curator_testing::with_causes;

use crate::command::{Action, COMMANDS, Command, Member, ParseError};

/// An ensemble, and its paused members.
#[derive(Debug)]
pub(crate) struct Console {
    ensemble: RealEnsemble,
    paused: BTreeSet<usize>,
}

/// The response to a line.
#[derive(Debug)]
pub(crate) enum Response {
    /// A text for standard output.
    Print(String),
    /// The same, and the program ends.
    Quit(String),
}

/// A command that could not be executed.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error(transparent)]
    Parse(#[from] ParseError),
    #[error("member {0} is stopped")]
    Stopped(usize),
    #[error("member {0} runs")]
    Runs(usize),
    #[error("member {0} is paused already")]
    Paused(usize),
    #[error("member {0} is paused")]
    StillPaused(usize),
    #[error("member {0} is not paused")]
    NotPaused(usize),
    #[error("it applies to no member")]
    NoMember,
    #[error("no member serves without a majority: {running} of {members} run")]
    NoMajority { members: usize, running: usize },
    #[error(transparent)]
    Failed(#[from] RealError),
}

impl Console {
    pub(crate) const fn new(ensemble: RealEnsemble) -> Self {
        Self { ensemble, paused: BTreeSet::new() }
    }

    /// Executes a line. Returns `None` for an empty one.
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may have been applied to some of its members.
    pub(crate) async fn execute(&mut self, line: &str) -> Option<Response> {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() {
            return None;
        }
        let result = match Command::parse(&words, self.members()) {
            Ok(Command::Quit) => return Some(Response::Quit("ok quit".to_owned())),
            Ok(Command::Help) => Ok(COMMANDS.to_owned()),
            Ok(Command::Synced) => self.synced().await,
            Ok(Command::Status) => self.status().await,
            Ok(Command::Leader) => {
                self.leader().await.map(|leader| format!("ok leader {}", leader + 1))
            }
            Ok(Command::Change(action, members)) => self.change(action, &members).await,
            Err(error) => Err(error.into()),
        };
        Some(Response::Print(result.unwrap_or_else(|error| {
            // The log of a server has many lines, and the response has one.
            let reason = with_causes(&error).lines().collect::<Vec<_>>().join(" | ");
            format!("error {}: {reason}", words.join(" "))
        })))
    }

    fn members(&self) -> usize {
        self.ensemble.servers().len()
    }

    /// Returns `true` if a member has a process, which may be paused.
    fn runs(&self, member: usize) -> bool {
        self.ensemble.server(member).process_id().is_some()
    }

    async fn status(&self) -> Result<String, CommandError> {
        let mut line = "ok status".to_owned();
        for (member, role) in self.ensemble.roles().await?.into_iter().enumerate() {
            let number = member + 1;
            line += &match self.paused.contains(&member) {
                true => format!(" {number}=paused"),
                false => format!(" {number}={role}"),
            };
        }
        Ok(line)
    }

    /// Waits for a leader, unless there cannot be one.
    async fn leader(&self) -> Result<usize, CommandError> {
        self.check_majority(&BTreeSet::new())?;
        Ok(self.ensemble.leader().await?)
    }

    /// Waits until the members that run have what the leader has, unless they cannot.
    async fn synced(&self) -> Result<String, CommandError> {
        self.check_majority(&BTreeSet::new())?;
        if let Some(paused) = self.paused.iter().find(|member| self.runs(**member)) {
            return Err(CommandError::StillPaused(paused + 1));
        }
        self.ensemble.wait_until_synced().await?;
        Ok("ok synced".to_owned())
    }

    /// Fails without a majority of members that run when those of `starting` do, because then no
    /// member serves.
    fn check_majority(&self, starting: &BTreeSet<usize>) -> Result<(), CommandError> {
        let members = self.members();
        let runs = |member: &usize| {
            starting.contains(member) || (self.runs(*member) && !self.paused.contains(member))
        };
        let running = (0..members).filter(runs).count();
        match running > members / 2 {
            true => Ok(()),
            false => Err(CommandError::NoMajority { members, running }),
        }
    }

    async fn change(&mut self, action: Action, members: &[Member]) -> Result<String, CommandError> {
        let members = self.chosen(action, members).await?;
        let is_start = matches!(action, Action::Start | Action::Restart);
        if is_start {
            self.check_majority(&members)?;
        }
        if action == Action::Pause {
            self.paused.extend(&members);
        } else {
            self.paused.retain(|member| !members.contains(member));
        }
        let each: Vec<usize> = members.iter().copied().collect();
        if is_start {
            self.ensemble.restart_all(&each).await?;
        }
        for member in each {
            match action {
                Action::Kill => self.ensemble.kill(member).await?,
                Action::Stop => self.ensemble.stop(member).await?,
                Action::Pause => self.ensemble.pause(member).await?,
                Action::Resume => self.ensemble.resume(member).await?,
                // All of them together, above.
                Action::Start | Action::Restart => {}
            }
        }
        let mut line = format!("ok {action}");
        for member in members {
            line += &format!(" {}", member + 1);
        }
        Ok(line)
    }

    /// Returns the members that a command names.
    async fn chosen(
        &self,
        action: Action,
        members: &[Member],
    ) -> Result<BTreeSet<usize>, CommandError> {
        let mut chosen = BTreeSet::new();
        for member in members {
            let member = match member {
                Member::Index(member) => *member,
                Member::Leader => self.leader().await?,
                Member::Follower => {
                    self.check_majority(&BTreeSet::new())?;
                    self.ensemble.follower().await?
                }
                Member::All => {
                    let all = 0..self.members();
                    chosen.extend(all.filter(|member| self.applies(action, *member).is_ok()));
                    continue;
                }
            };
            self.applies(action, member)?;
            chosen.insert(member);
        }
        if chosen.is_empty() { Err(CommandError::NoMember) } else { Ok(chosen) }
    }

    /// Fails if an action would not change a member.
    fn applies(&self, action: Action, member: usize) -> Result<(), CommandError> {
        let (runs, paused) = (self.runs(member), self.paused.contains(&member));
        let number = member + 1;
        match action {
            Action::Kill | Action::Stop | Action::Pause if !runs => {
                Err(CommandError::Stopped(number))
            }
            Action::Start if runs => Err(CommandError::Runs(number)),
            Action::Pause if paused => Err(CommandError::Paused(number)),
            Action::Resume if !paused => Err(CommandError::NotPaused(number)),
            _ => Ok(()),
        }
    }
}
