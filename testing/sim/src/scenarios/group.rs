//! [`group`](zk_curator_recipes::group): members come, go and say something else of themselves, and all follow. What one is
//! told has to make sense; and when there are no more faults everybody has to see itself come and go, all others who are
//! there, and nobody who is gone for longer than a session lasts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{sleep, timeout};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::group::{Group, GroupEvent, GroupMember, GroupWatch};

use super::Scenario;
use crate::checkers::GroupViews;
use crate::history::{Event, Name};
use crate::{Client, Failure};

const GROUP: &str = "/groups/workers";

pub(super) const SCENARIO: Scenario =
    Scenario::new("group", "group membership: who comes and goes", |client| Box::pin(work(client)))
        .checked_by(|| vec![Arc::new(GroupViews::default())])
        .operator(&["/groups/workers/*"])
        .crowd();

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let id = client.who().to_string();
    // What it says of itself begins with a number that tells this membership from others under the same id.
    let join = |round: u32| {
        let number = client.unique();
        let data = format!("{number}/{round}");
        client.record(Event::Joining { group: Name::from(GROUP), member: name(&id, number) });
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
    // What was refused by a server that was read-only is told until it is tried again.
    while !is_done(member.joined().await)? {
        sleep(Duration::from_millis(100)).await;
    }
    // Cancelled before it was polled, the last of these has changed nothing.
    member.set_data(data.clone()).await?;
    while view.watch.members().get(&id).is_none_or(|seen| *seen != data) {
        view.next().await?;
    }
    view.is_complete(&zk).await?;
    if !member.is_member() {
        return Err("a member that all see is none for itself".into());
    }
    leave(&client, member, number).await;
    while view.watch.members().contains_key(&id) {
        view.next().await?;
    }
    // By then whoever is gone is gone for everybody.
    sleep(client.session_timeout() * 4).await;
    viewed(&client, &Group::new(&zk, GROUP).members().await?);
    while let Ok(told) = timeout(Duration::from_secs(1), view.next()).await {
        told?;
    }
    viewed(&client, view.watch.members());
    Ok(())
}

/// Whether it is; not as long as the server is read-only.
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
        client.record(Event::Parted { group: Name::from(GROUP), member: member_name });
    }
}

fn viewed(client: &Client, members: &BTreeMap<String, Bytes>) {
    let member = |(id, data): (&String, &Bytes)| {
        let data = String::from_utf8_lossy(data);
        Name::from(format!("{id}#{}", data.split('/').next().unwrap_or_default()))
    };
    let members = members.iter().map(member).collect();
    // A session, and what it takes to see that it is over.
    client.record(Event::Viewed { group: Name::from(GROUP), members, lag: client.session_timeout() * 3 });
}

/// What one was told.
struct View {
    watch: GroupWatch,
    ids: BTreeSet<String>,
}

impl View {
    /// Follows until it knows of all members: as long as nobody else goes on, that is what one who asks is told.
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
            // It may be asked again.
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
            return Err(format!("{event:?} was told to somebody who knew of {:?}", self.ids).into());
        }
        Ok(())
    }
}
