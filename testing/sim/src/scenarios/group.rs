//! [`group`](zk_curator_recipes::group): members join, leave and change their data, and all clients
//! follow the group. The notifications must be consistent. After the last fault, every client must
//! see itself join and leave, must see all present members, and must see no member that has been
//! gone for longer than a session lasts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{sleep, timeout};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::group::{Group, GroupEvent, GroupMember, GroupWatch};

use super::Scenario;
use crate::checkers::GroupViews;
use crate::history::{self, Name};
use crate::{Client, Failure};

const GROUP: &str = "/groups/workers";

pub(super) const SCENARIO: Scenario =
    Scenario::new("group", "group membership: joins and leaves", &["views of members"], |sim| {
        sim.workload(work).checker(GroupViews::default()).operator(["/groups/workers/*"]).crowd()
    });

#[expect(clippy::too_many_lines, reason = "one scenario")]
async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let id = client.who().to_string();
    // The data of a member begin with a number that tells this membership from others with the same
    // id.
    let join = |round: u32| {
        let number = client.unique();
        let data = format!("{number}/{round}");
        let (group, member) = (Name::from(GROUP), name(&id, number));
        client.record(history::Group::Joining { group, member });
        let member = GroupMember::builder(&zk, GROUP, id.as_str()).data(data.clone()).start();
        Ok::<_, Failure>((member, number, data))
    };
    let mut rng = client.rng();
    let mut view = View { watch: Group::new(&zk, GROUP).follow(), ids: BTreeSet::new() };
    let (mut member, mut number, mut data) = join(0)?;
    while let Some(round) = client.next_round() {
        sleep(client.moment(Duration::from_millis(300))).await;
        match rng.u8(..6) {
            0 => {
                if rng.bool() {
                    leave(&client, member, number).await;
                } else {
                    drop(member);
                }
                (member, number, data) = join(round)?;
            }
            1 => {
                data = format!("{number}/again {round}");
                drop(client.maybe_cancel(member.set_data(data.clone())).await);
            }
            2 => {
                if let Some(Ok(members)) = client.maybe_cancel(member.group().members()).await {
                    viewed(&client, &members);
                }
            }
            _ => {
                let most = client.moment(Duration::from_millis(500));
                if let Some(Ok(told)) = client.maybe_cancel(timeout(most, view.next())).await {
                    told?;
                }
            }
        }
    }
    client.faults_are_over().await;
    // The error of a read-only server is returned until the create is retried.
    while !is_done(member.joined().await)? {
        sleep(Duration::from_millis(100)).await;
    }
    // The last call has changed nothing if it was cancelled before its first poll.
    member.set_data(data.clone()).await?;
    while view.watch.members().get(&id).is_none_or(|seen| *seen != data) {
        view.next().await?;
    }
    view.is_complete(&zk).await?;
    if !member.is_member() {
        return Err("a member that all clients see does not see itself".into());
    }
    leave(&client, member, number).await;
    while view.watch.members().contains_key(&id) {
        view.next().await?;
    }
    // After this time, no client may see a departed member.
    sleep(client.session_timeout() * 4).await;
    viewed(&client, &Group::new(&zk, GROUP).members().await?);
    while let Ok(told) = timeout(Duration::from_secs(1), view.next()).await {
        told?;
    }
    viewed(&client, view.watch.members());
    Ok(())
}

/// Returns `true` if the operation succeeded, and `false` if the server was read-only.
fn is_done<T>(answer: Result<T, zk_curator::Error>) -> Result<bool, zk_curator::Error> {
    match answer {
        Err(error) if error.kind() == ErrorKind::ReadOnly => Ok(false),
        answer => answer.map(|_| true),
    }
}

fn name(id: &str, number: u64) -> Name {
    Name::from(format!("{id}#{number}"))
}

async fn leave(client: &Client, member: GroupMember, number: u64) {
    let member_name = name(member.id(), number);
    if let Some(Ok(())) = client.maybe_cancel(member.leave()).await {
        client.record(history::Group::Parted { group: Name::from(GROUP), member: member_name });
    }
}

fn viewed(client: &Client, members: &BTreeMap<String, Bytes>) {
    let member = |(id, data): (&String, &Bytes)| {
        let data = String::from_utf8_lossy(data);
        Name::from(format!("{id}#{}", data.split('/').next().unwrap_or_default()))
    };
    let members = members.iter().map(member).collect();
    // The lag is a session timeout, and the time to see that the session is over.
    client.record(history::Group::Viewed {
        group: Name::from(GROUP),
        members,
        lag: client.session_timeout() * 3,
    });
}

/// The notifications that a client has received.
struct View {
    watch: GroupWatch,
    ids: BTreeSet<String>,
}

impl View {
    /// Follows until it knows of all members. If no member joins or leaves, these are the members
    /// that a read returns.
    async fn is_complete(&mut self, zk: &CuratorFramework) -> Result<(), Failure> {
        let group = Group::new(zk, GROUP);
        while *self.watch.members() != group.members().await? {
            while let Ok(told) = timeout(Duration::from_millis(100), self.next()).await {
                told?;
            }
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<(), Failure> {
        let event = match self.watch.next().await {
            Ok(event) => event,
            // The call may be repeated.
            Err(error) if error.is_retryable() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let makes_sense = match &event {
            GroupEvent::Joined { id, .. } => self.ids.insert(id.clone()),
            GroupEvent::Left { id } => self.ids.remove(id),
            GroupEvent::Changed { id, .. } => self.ids.contains(id),
            _ => true,
        };
        if !makes_sense || !self.ids.iter().eq(self.watch.members().keys()) {
            return Err(
                format!("{event:?} was notified to a client that knew of {:?}", self.ids).into()
            );
        }
        Ok(())
    }
}
