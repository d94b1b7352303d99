//! [`SetPartitioner`]: members come, go and die, while the list of parts changes. Each part has one
//! body at a time, and its tokens grow; a body is dropped only when its part is lost, or was
//! revoked for as long as it may drain. Members that nobody may read come and go, too. After the
//! last fault, each part comes to the member that it is assigned to, and a member that comes or
//! goes moves few of the others' parts.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zk_curator::observe::Held;
use zk_curator::{Acl, CreateMode, CuratorFramework, Permissions};
use zk_curator_client::internal::Locked;
use zk_curator_recipes::partition::{
    OwnedPartition, PartView, Partition, PartitionEvent, PartitionView, SetPartitioner,
};

use super::Scenario;
use super::support::driving::stopped_by;
use super::support::holding::Attempts;
use crate::checkers::{Exclusion, Movement};
use crate::history::{Division, Name};
use crate::{Client, Failure};

const SET: &str = "/shards/orders";
/// The highest number of parts.
const PARTS: usize = 6;
const SETTLE: Duration = Duration::from_millis(200);
const LEAVE_DELAY: Duration = Duration::from_millis(300);
const DRAIN: Duration = Duration::from_millis(400);
/// The interval at which a body looks if it is revoked. A body that is dropped earlier than it may
/// be is found if it is dropped earlier by more than this.
const LOOK: Duration = Duration::from_millis(DRAIN.as_millis() as u64 / 20);
/// The maximum time for which a member stays after the last fault, once the parts are settled.
const STAY: Duration = Duration::from_secs(4);
/// The maximum duration of a run in a round.
const RUN: Duration = Duration::from_secs(3);

pub(super) const SCENARIO: Scenario = Scenario::new(
    "partitioner",
    "SetPartitioner: one owner for each part, and each part with its owner in the end",
    &["acquisitions", "divisions", "uses"],
    |sim| {
        sim.workload(work)
            .checker(Exclusion::handed_over())
            .checker(Movement)
            .operator(["/shards/orders/members/*", "/shards/orders/parts/*/_c_*"])
            .leaves(["/shards", SET, "/shards/orders/list"])
            // Bodies use their parts for as long as there are faults.
            .faults_begin_within(RUN)
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let stranger = if rng.u8(..4) == 0 { Some(client.connect().await?) } else { None };
    let member = member(&client, &zk);
    // One way during one life.
    let follows = rng.u8(..4) == 0;
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(500))).await;
        if rng.u8(..4) == 0 {
            let parts = (0..rng.usize(2..=PARTS)).map(name);
            drop(client.maybe_cancel(member.set.set_parts(parts)).await);
        }
        if let Some(stranger) = &stranger {
            // Another one each time: nobody knows if it exists after a lost response.
            let path = format!("{SET}/members/{}", client.unique());
            let create = stranger.create(path).mode(CreateMode::Ephemeral).acl(unreadable());
            drop(client.maybe_cancel(create.into_future()).await);
        }
        if follows {
            follow(&client, &member).await?;
        } else {
            let stop = sleep(client.moment(RUN));
            run(&client, &member, stop, false).await?;
        }
    }
    if let Some(stranger) = stranger {
        drop(stranger.close().await);
    }
    client.faults_are_over().await;
    client.record(Division::Calm);
    // The members come and go one by one.
    sleep(client.moment(STAY)).await;
    if rng.bool() {
        // One that is back in time has its parts again.
        run(&client, &member, sleep(client.moment(STAY)), false).await?;
        sleep(client.moment(LEAVE_DELAY)).await;
    }
    run(&client, &member, stay(&client, &member.set), true).await
}

/// The ACL of a node that nobody may read. The node ends with its session.
fn unreadable() -> Vec<Acl> {
    vec![Acl::new(Permissions::READ, "digest", "nobody:nobody")]
}

struct Member {
    zk: CuratorFramework,
    id: String,
    set: SetPartitioner,
    /// `true` if its bodies are dropped when the connection is suspended.
    stops_early: bool,
}

fn member(client: &Client, zk: &CuratorFramework) -> Member {
    let mut rng = client.rng();
    // The id of its earlier lives, or a new one.
    let id = if rng.bool() { format!("w-{}", client.number()) } else { client.id() };
    let set = SetPartitioner::new(zk, SET, (0..PARTS).map(name)).id(&id).shared_parts();
    let set = set.settle(SETTLE).leave_delay(LEAVE_DELAY).drain(DRAIN);
    let set = set.weight(rng.u32(1..=2)).restart(Duration::from_millis(10), RUN / 10);
    let stops_early = rng.u8(..4) == 0;
    let set = if stops_early { set.stop_when_suspended() } else { set };
    Member { zk: zk.clone(), id, set, stops_early }
}

fn name(part: usize) -> String {
    format!("s{part}")
}

/// Waits until each part is owned by the member that it is assigned to, and for a while after that.
async fn stay(client: &Client, set: &SetPartitioner) {
    let mut end = None;
    let mut told: Option<(Instant, Division)> = None;
    while end.is_none_or(|end| Instant::now() < end) {
        sleep(client.moment(SETTLE)).await;
        match set.view().await {
            Ok(view) if is_settled(&view) => {
                let settled = settled(&view);
                let is_known = |(at, before): &(Instant, Division)| {
                    *before == settled && at.elapsed() < Duration::from_secs(1)
                };
                if !told.as_ref().is_some_and(is_known) {
                    client.record(settled.clone());
                    told = Some((Instant::now(), settled));
                }
                end.get_or_insert_with(|| Instant::now() + client.moment(STAY));
            }
            Ok(_) => {}
            Err(error) => client.note(format!("not read: {error}")),
        }
    }
}

fn settled(view: &PartitionView) -> Division {
    let members = view.members.iter().map(|(id, member)| (id.as_str().into(), member.weight));
    let part = |(name, part): (&String, &PartView)| {
        let (owner, token) = (part.owner.as_deref()?, part.fencing_token?);
        Some((name.as_str().into(), owner.into(), token.get()))
    };
    let parts = view.parts.iter().filter_map(part).collect();
    Division::Settled { members: members.collect(), parts }
}

fn is_settled(view: &PartitionView) -> bool {
    view.parts.values().all(|part| part.owner.is_some() && part.owner == part.assigned_to)
}

/// Runs a member, which may be dropped in the middle, until `stop` resolves.
async fn run(
    client: &Client,
    member: &Member,
    stop: impl Future<Output = ()>,
    is_last: bool,
) -> Result<(), Failure> {
    let claims = Claims::begin(client, member);
    let id = || Name::from(member.id.as_str());
    client.record(Division::Joining { member: id() });
    let set = &member.set;
    let body = |part: Partition| {
        let claims = &claims;
        async move { claims.work(part, is_last).await }
    };
    let member = stopped_by(stop, |stop| set.run(body).until(stop.drain(DRAIN)));
    let ended = if is_last { Some(member.await) } else { client.maybe_cancel(member).await };
    client.record(Division::Parted { member: id() });
    match ended {
        Some(Ok(())) => claims.dropped.lock().take().map_or(Ok(()), |early| Err(early.into())),
        Some(Err(error)) => Err(error.into()),
        // All bodies were dropped.
        None => Ok(()),
    }
}

/// Follows the parts as a stream for a while. Each part is worked on by a task.
async fn follow(client: &Client, member: &Member) -> Result<(), Failure> {
    let mut events = member.set.follow();
    let end = Instant::now() + client.moment(RUN);
    let claims = Claims::begin(client, member);
    let mut works = BTreeMap::new();
    loop {
        let event = tokio::select! {
            biased;
            event = events.next() => event,
            () = tokio::time::sleep_until(end) => break,
        };
        match event {
            Some(Ok(PartitionEvent::Acquired(part))) => {
                let held = claims.take(&part);
                let number = held.number();
                let work = client.spawn(hold_until_revoked(client.clone(), part, held));
                works.insert(number, work);
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.into()),
            None => break,
        }
    }
    drop(events);
    for work in works.into_values() {
        work.await;
    }
    Ok(())
}

/// Works on a part until it is revoked or lost, and gives it up then.
async fn hold_until_revoked(client: Client, part: OwnedPartition, held: Held<Client>) {
    let used = async {
        loop {
            sleep(client.moment(Duration::from_millis(100))).await;
            client.use_resource(&held).await;
        }
    };
    tokio::select! {
        biased;
        () = part.lost() => held.lost(),
        () = part.revoked() => held.releasing(),
        never = used => never,
    }
}

/// The attempts of a member to own parts, one for each part at a time.
struct Claims<'a> {
    client: &'a Client,
    of: &'a Member,
    attempts: BTreeMap<String, Attempts<Client>>,
    /// A body that was dropped too early, or too late.
    dropped: Locked<Option<String>>,
}

impl<'a> Claims<'a> {
    fn begin(client: &'a Client, of: &'a Member) -> Self {
        let attempts =
            (0..PARTS).map(name).map(|part| (part.clone(), Attempts::begin(client.clone(), &part)));
        Self { client, of, attempts: attempts.collect(), dropped: Locked::default() }
    }

    /// Records that a part is owned.
    fn take(&self, part: &Partition) -> Held<Client> {
        self.attempts[part.name()].take().acquired(part.fencing_token())
    }

    /// The body of a part.
    async fn work(&self, part: Partition, is_last: bool) -> Result<(), &'static str> {
        let (held, unrevoked) = (self.take(&part), Locked::default());
        let mut body =
            Body { claims: self, part: &part, held, unrevoked: &unrevoked, ended: false };
        let looks = async {
            loop {
                let before = Instant::now();
                if !part.is_revoked() {
                    *unrevoked.lock() = Some(before);
                }
                sleep(LOOK).await;
            }
        };
        tokio::select! {
            biased;
            never = looks => never,
            () = self.use_until_revoked(&part, &body.held, is_last) => {}
        }
        body.ended = true;
        drop(body);
        if is_last || self.client.rng().bool() { Ok(()) } else { Err("a body that fails") }
    }

    /// The present connection, as members are told of it.
    fn connection(&self) -> u64 {
        self.of.zk.states().current().epoch
    }

    async fn use_until_revoked(&self, part: &Partition, held: &Held<Client>, is_last: bool) {
        let (client, mut rng) = (self.client, self.client.rng());
        if rng.u8(..4) == 0 {
            part.accept_reprieve();
        }
        let since = self.connection();
        // A body that ends by itself gives its part up. When members come and go one by one, only
        // the assignment does.
        let stays = is_last || client.no_more_faults();
        for _ in 0..if stays { u32::MAX } else { rng.u32(1..40) } {
            tokio::select! {
                biased;
                () = part.revoked() => {
                    // Some bodies need longer than they have.
                    let longest = if is_last { DRAIN / 2 } else { DRAIN * 5 / 4 };
                    sleep(client.moment(longest)).await;
                    if part.is_revoked() {
                        return;
                    }
                }
                () = sleep(client.moment(Duration::from_millis(100))) => {
                    if self.of.stops_early && self.connection() != since {
                        let late = format!("the body of {} outlasts its connection", part.name());
                        self.dropped.lock().get_or_insert(late);
                    }
                    client.use_resource(held).await;
                    if part.is_over() {
                        // A service that sees its loss ends by itself.
                        return;
                    }
                }
            }
        }
    }
}

/// A body that runs. Dropped before it has ended, it was dropped by the member.
struct Body<'a> {
    claims: &'a Claims<'a>,
    part: &'a Partition,
    held: Held<Client>,
    /// The last time at which it was not revoked, if there was one. The member counts the time to
    /// drain from a later moment.
    unrevoked: &'a Locked<Option<Instant>>,
    ended: bool,
}

impl Drop for Body<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if self.part.is_over() {
            return self.held.lost();
        }
        self.held.releasing();
        let is_due = self.claims.of.stops_early
            || self.part.is_revoked()
                && self.unrevoked.lock().is_none_or(|before| before.elapsed() >= DRAIN);
        if !is_due {
            let early = format!("the body of {} was dropped early", self.part.name());
            self.claims.dropped.lock().get_or_insert(early);
        }
    }
}
