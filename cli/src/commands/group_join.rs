//! `zkc group join GROUP -- COMMAND`.

use bytes::Bytes;
use zk_curator::op::Authorship;
use zk_curator::{CreateMode, CuratorFramework, Error, ErrorKind, OwnedNode};
use zk_curator_recipes::group::GroupMember;

use super::membership::{Scene, Under, end};
use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::CommandOutput;
use crate::path;
use crate::supervise::{
    Signals, SupervisedHold, Talk, Tenure, Unlimited, before_the_command, member_connection,
};

/// A member before it joins.
#[derive(Debug)]
pub(super) struct Join {
    pub(super) group: String,
    pub(super) id: String,
    pub(super) data: Bytes,
}

/// A member.
enum JoinedMember {
    /// For this session. A task that brings the node back would hide its loss.
    Once(OwnedNode),
    /// In every session.
    Kept(GroupMember),
}

impl Join {
    /// Joins the group, and runs the command.
    pub(super) async fn run(
        &self,
        app: &App,
        under: &Under,
    ) -> Result<CommandOutput, CommandFailure> {
        let zk = app.zk_to_change().await.map_err(before_the_command)?;
        let mut signals = Signals::catch()?;
        let talk = Talk::new(app.out());
        let member = tokio::select! {
            biased;
            signal = signals.end() => return Ok(Exit::of_command(signal.code()).into()),
            member = self.join(zk, under.rejoins(), &talk) => {
                member.map_err(|error| before_the_command(error.into()))?
            }
        };
        let mut environment = member_connection(app, zk);
        environment.extend([
            ("ZKC_GROUP", self.group.as_str().into()),
            ("ZKC_MEMBER_ID", self.id.as_str().into()),
            ("ZKC_MEMBER_NODE", path::join(&self.group, &self.id).into()),
        ]);
        let mut scene = Scene { zk, environment, signals: &mut signals, talk: &talk };
        talk.say(format!("joined {} as {}", self.group, self.id));
        let ending = under.run(member.hold(), None, &mut scene).await;
        member.leave(&scene).await;
        let ending = ending?;
        under.after(&ending, &mut scene).await;
        Ok(Exit::of_command(ending.code).into())
    }

    /// Joins, through every outage, when no other member has the id.
    async fn join(
        &self,
        zk: &CuratorFramework,
        rejoins: bool,
        talk: &Talk,
    ) -> Result<JoinedMember, Error> {
        let node = path::join(&self.group, &self.id);
        let is_taken = || talk.say(format!("waiting: another member has the id {}", self.id));
        if rejoins {
            // No node can be of a member that is not started. Errors are repeated below.
            if zk.exists(&node).await.is_ok_and(|found| found.is_some()) {
                is_taken();
            }
            let member = GroupMember::builder(zk, &self.group, &self.id).data(self.data.clone());
            let member = member.start();
            member.joined().await?;
            return Ok(JoinedMember::Kept(member));
        }
        let (author, mut is_waiting) = (Authorship::default(), false);
        loop {
            let create = zk.create(&node).mode(CreateMode::Ephemeral).data(self.data.clone());
            let create = create.creating_parents_as_containers().idempotent().authored_by(&author);
            let error = match create.owned().await {
                Ok(node) => return Ok(JoinedMember::Once(node)),
                Err(error) if error.kind() == ErrorKind::NodeExists => {
                    if !std::mem::replace(&mut is_waiting, true) {
                        is_taken();
                    }
                    match zk.wait_gone(&node).await {
                        Ok(()) => continue,
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            if error.is_transient() {
                talk.say(format!("not joined yet: {error}"));
            }
            zk.wait_for_recovery(error).await?;
        }
    }
}

impl JoinedMember {
    fn hold(&self) -> SupervisedHold<'_> {
        match self {
            Self::Once(node) => {
                let ownership = node.ownership();
                SupervisedHold {
                    asked: Box::pin(ownership.lost()),
                    ..SupervisedHold::of(ownership, "membership")
                }
            }
            Self::Kept(_) => SupervisedHold::of(&Unlimited, "membership"),
        }
    }

    async fn leave(self, scene: &Scene<'_>) {
        match self {
            Self::Once(node) if Tenure::is_over(node.ownership()) => {}
            Self::Once(node) => end(scene, node.delete()).await,
            Self::Kept(member) => end(scene, member.leave()).await,
        }
    }
}
