//! [`zk_curator_discovery`]: clients register, change, drain and unregister instances, under ids of
//! their own and under a shared id. A second session checks the results, and writes into records
//! what the payload does not know. An instance has the data of the last successful change, every
//! change once, and what the other session has written. Its node is not replaced without a reason.
//! An unregistered instance does not come back. A payload that panics hides no other instance.
//! After the faults, queries, caches and providers find every instance.

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::resume_unwind;
use std::time::Duration;

use futures_util::FutureExt;
use serde::{Deserialize, Deserializer, Serialize};
use tokio::time::sleep;
use zk_curator::{CreateMode, ErrorKind, Stat};
use zk_curator_discovery::cache::{ServiceCache, ServiceEvents};
use zk_curator_discovery::json::read;
use zk_curator_discovery::provider::Unavailable;
use zk_curator_discovery::{
    Registration, RegistrationError, RegistrationState, ServiceDiscovery, ServiceEvent,
    ServiceInstance, ServiceProvider, ServiceType,
};

use zk_curator_recipes::cache::Freshness;

use super::Scenario;
use super::support::patience::patiently;
use crate::checkers::{GroupViews, Registered};
use crate::history::{Discovery, Group, Name};
use crate::{Client, Failure};

const BASE: &str = "/services";
const SERVICE: &str = "orders";
/// The id that all clients use.
const SHARED: &str = "shared";
/// The id of a record that cannot be decoded, and the number in it.
const POISONED: &str = "poisoned";
const POISON: u64 = u64::MAX;
/// What comes before the fields of a payload, and a field that this version does not know.
const PAYLOAD: &str = "\"payload\":{";
const NOTE: &str = "\"note\":";

pub(super) const SCENARIO: Scenario = Scenario::new(
    "discovery",
    "service discovery: instances have their data, stay, and do not come back",
    &["registrations", "views of members"],
    |sim| {
        sim.workload(work)
            .checker(GroupViews::default())
            .checker(Registered)
            .instances(["/services/orders/*"])
            .operator(["/services/orders/*"])
            .common(["/services/orders/shared"])
            .crowd()
    },
);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Payload {
    /// The number of the registration.
    #[serde(deserialize_with = "number")]
    number: u64,
    /// The number of the last change.
    change: u64,
    /// The number of all changes.
    count: u64,
}

/// Decodes the number of a registration, and panics with that of a poisoned record.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = u64::deserialize(deserializer)?;
    if number == POISON {
        // As a panic, but without a report.
        resume_unwind(Box::new("poison"));
    }
    Ok(number)
}

type Orders = ServiceDiscovery<Payload>;
type Instances = ServiceCache<Payload>;

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    // The second session. It reads after a `sync`, so it sees everything that was done before.
    let other = client.connect().await?;
    let (here, there): (Orders, Orders) =
        (ServiceDiscovery::new(&zk, BASE), ServiceDiscovery::new(&other, BASE));
    let provider = there.provider(SERVICE).start();
    let mut reported = Reported::new(&provider);
    let mut rng = client.rng();
    let mut guard: Option<Guard> = None;
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(300))).await;
        match (rng.u8(..8), guard.as_mut()) {
            (0..3, Some(guard)) => guard.change(&client, &there).await?,
            (3, Some(guard)) => guard.stays(&client, &there).await?,
            (4, _) => {
                reported.is_shown()?;
                picks(&provider)?;
            }
            (5, Some(_)) => guard.take().into_iter().for_each(|guard| guard.drop_it(&client)),
            (_, Some(_)) => {
                if let Some(guard) = guard.take() {
                    guard.unregister(&client, &there).await?;
                }
            }
            (_, None) => {
                let (id, kind) = match rng.u8(..6) {
                    0 | 1 => (SHARED.to_owned(), ServiceType::Dynamic),
                    2 => (client.who().to_string(), ServiceType::DynamicSequential),
                    _ => (client.who().to_string(), ServiceType::Dynamic),
                };
                if rng.u8(..8) == 0 {
                    poison(&client, &there).await;
                }
                guard = Guard::register(&client, &here, &there, id, kind).await?;
                if let Some(guard) = &guard {
                    guard.is_shown(&there, provider.cache()).await?;
                }
            }
        }
        if guard.as_ref().is_some_and(Guard::has_ended) {
            guard = None;
        }
    }
    guard.into_iter().for_each(|guard| guard.drop_it(&client));
    client.faults_are_over().await;
    found_by_all(&client, &here, &there, &provider).await
}

/// A registration, and the expected data of its instance.
struct Guard {
    number: u64,
    registration: Registration<Payload>,
    /// The changes that the record may contain: the last successful one, and all later ones.
    changes: BTreeSet<u64>,
    /// The number of changes that the record contains, and of those that it may contain.
    certain: u64,
    perhaps: u64,
    notes: Notes,
}

/// The notes that another session has written into the record of one node.
#[derive(Debug, Default)]
struct Notes {
    /// The transaction that created the node.
    czxid: i64,
    /// The last one that is certain, and all later ones.
    possible: BTreeSet<u64>,
}

impl Guard {
    async fn register(
        client: &Client,
        here: &Orders,
        there: &Orders,
        id: String,
        kind: ServiceType,
    ) -> Result<Option<Self>, Failure> {
        let number = client.unique();
        client.record(Group::Joining { group: Name::from(SERVICE), member: member(number) });
        let builder = ServiceInstance::builder(SERVICE).id(id).service_type(kind);
        let instance = builder
            .registration_time_utc(0)
            .payload(Payload { number, change: 0, count: 0 })
            .build()?;
        let registration = match client.maybe_cancel(here.register(instance)).await {
            Some(Ok(registration)) => registration,
            None
            | Some(Err(
                RegistrationError::Framework(_)
                | RegistrationError::Superseded { .. }
                | RegistrationError::Ended { .. },
            )) => return Ok(None),
            Some(Err(error)) => return Err(error.into()),
        };
        let (changes, notes) = (BTreeSet::from([0]), Notes::default());
        let guard = Self { number, registration, changes, certain: 0, perhaps: 0, notes };
        // Others may have the shared one.
        if guard.registration.id() != SHARED {
            let path = Name::from(guard.registration.path());
            client.record(Discovery::Serving { member: member(number), path });
        }
        guard.has_its_data(there).await?;
        Ok(Some(guard))
    }

    fn has_ended(&self) -> bool {
        matches!(
            self.registration.state(),
            RegistrationState::Superseded { .. } | RegistrationState::Ended
        )
    }

    /// Changes the data, or drains the instance.
    async fn change(&mut self, client: &Client, there: &Orders) -> Result<(), Failure> {
        let change = client.unique();
        self.changes.insert(change);
        let drains = client.rng().bool();
        let path = self.registration.path();
        let update = self.registration.update(move |instance| {
            instance.payload.change = change;
            instance.payload.count += 1;
            instance.enabled = !drains;
        });
        let note = async {
            if client.rng().bool() { note(client, there, &path, self.number).await } else { None }
        };
        let (updated, note) = tokio::join!(client.maybe_cancel(update), note);
        if let Some((czxid, note, is_certain)) = note {
            if is_certain {
                self.notes = Notes { czxid, possible: BTreeSet::new() };
            }
            self.notes.possible.insert(note);
        }
        match updated {
            Some(Ok(())) => {
                self.changes = BTreeSet::from([change]);
                self.certain += 1;
                self.has_its_data(there).await?;
            }
            Some(Err(RegistrationError::Framework(error))) if !error.may_have_applied() => {}
            _ => self.perhaps += 1,
        }
        Ok(())
    }

    /// Checks that the node, if it exists, has our data. It may be gone, for example with its
    /// session.
    async fn has_its_data(&self, there: &Orders) -> Result<(), Failure> {
        let Some((instance, _)) = self.look(there).await? else { return Ok(()) };
        let path = self.registration.path();
        let Payload { change, count, .. } = instance.payload;
        if !self.changes.contains(&change) {
            return Err(format!("{path} has {instance:?} after {:?}", self.changes).into());
        }
        if !(self.certain..=self.certain + self.perhaps).contains(&count) {
            let (certain, perhaps) = (self.certain, self.perhaps);
            return Err(format!("{path} has {count} changes of {certain} and {perhaps}").into());
        }
        // The record of a later node may lack a note that the registration has not seen.
        let Ok((data, stat)) = there.framework().get_data(&path).with_stat().await else {
            return Ok(());
        };
        let record = String::from_utf8_lossy(&data);
        let is_there = noted(&record).is_some_and(|(_, note)| self.notes.possible.contains(&note));
        if stat.czxid == self.notes.czxid && !is_there {
            return Err(format!("{path} has {record} after {:?}", self.notes).into());
        }
        Ok(())
    }

    /// Checks that the cache shows an instance that is older than what it says it shows.
    async fn is_shown(&self, there: &Orders, cache: &Instances) -> Result<(), Failure> {
        let fresh = cache.freshness();
        let shown = cache.instances();
        let Freshness::Fresh { zxid, .. } = fresh else { return Ok(()) };
        // It is there after it was not shown, so it was there all the time since its creation.
        let Some((instance, stat)) = self.look(there).await? else { return Ok(()) };
        if stat.czxid <= zxid && shown.iter().all(|shown| shown.id != instance.id) {
            return Err(format!("{fresh:?} without {instance:?} of {:x}", stat.czxid).into());
        }
        Ok(())
    }

    /// Checks that the node stays the same within one session, unless another client deletes it.
    async fn stays(&self, client: &Client, there: &Orders) -> Result<(), Failure> {
        // Under the shared id, another client may have replaced our node and left between the two
        // reads.
        let is_alone = self.registration.id() != SHARED;
        let RegistrationState::Registered { session } = self.registration.state() else {
            return Ok(());
        };
        let Some((_, before)) = self.look(there).await? else { return Ok(()) };
        sleep(client.moment(client.session_timeout() * 2)).await;
        let Some((_, after)) = self.look(there).await? else { return Ok(()) };
        // The last read reveals changes in between: after a lost session the session id differs,
        // and the node of another client has another owner.
        let is_same = before.ephemeral_owner == session.get()
            && after.ephemeral_owner == session.get()
            && before.czxid != after.czxid;
        let is_deleted = client.run().history().has_removed(before.czxid);
        if is_same && is_alone && !is_deleted {
            let path = self.registration.path();
            return Err(format!("{path} was created again in one session").into());
        }
        Ok(())
    }

    /// Reads our node in the second session.
    async fn look(
        &self,
        there: &Orders,
    ) -> Result<Option<(ServiceInstance<Payload>, Stat)>, Failure> {
        let path = self.registration.path();
        let id = path.rsplit('/').next().unwrap_or_default();
        if there.framework().sync(path.as_str()).await.is_err() {
            return Ok(None);
        }
        let is_ours = |(instance, _): &(ServiceInstance<Payload>, Stat)| {
            instance.payload.number == self.number
        };
        match there.instance(SERVICE, id).await {
            Ok(found) => Ok(found.filter(is_ours)),
            Err(error) if error.kind() == ErrorKind::Undecodable => Err(error.into()),
            Err(_) => Ok(None),
        }
    }

    fn drop_it(self, client: &Client) {
        client.record(Discovery::Ending { member: member(self.number) });
    }

    async fn unregister(mut self, client: &Client, there: &Orders) -> Result<(), Failure> {
        client.record(Discovery::Ending { member: member(self.number) });
        if let Some(Ok(())) = client.maybe_cancel(self.registration.unregister()).await {
            client
                .record(Group::Parted { group: Name::from(SERVICE), member: member(self.number) });
            if let Some((instance, _)) = self.look(there).await? {
                return Err(format!("{instance:?} exists after it was unregistered").into());
            }
        }
        Ok(())
    }
}

/// Registers an instance whose payload panics when it is decoded. It concerns no other instance.
async fn poison(client: &Client, there: &Orders) {
    let payload = format!("{PAYLOAD}\"number\":{POISON},\"change\":0,\"count\":0}}");
    let record = format!("{{\"name\":\"{SERVICE}\",\"id\":\"{POISONED}\",{payload}}}");
    let create = there.framework().create(format!("{BASE}/{SERVICE}/{POISONED}"));
    let create = create.mode(CreateMode::Ephemeral).data(record);
    drop(client.maybe_cancel(create.into_future()).await);
}

/// Writes what the payload does not know into the record of a registration. Returns the transaction
/// that created the node, the note, and whether it was certainly written.
async fn note(
    client: &Client,
    there: &Orders,
    path: &str,
    number: u64,
) -> Option<(i64, u64, bool)> {
    sleep(client.moment(Duration::from_millis(300))).await;
    let (data, stat) = there.framework().get_data(path).with_stat().await.ok()?;
    let is_ours = read::<Payload>(&data, "", "").is_ok_and(|read| read.payload.number == number);
    let mut record = String::from_utf8(data.to_vec()).ok().filter(|_| is_ours)?;
    if let Some((place, _)) = noted(&record) {
        record.replace_range(place, "");
    }
    let note = client.unique();
    let record = record.replace(PAYLOAD, &format!("{PAYLOAD}{NOTE}{note},"));
    let write = there.framework().set_data(path, record).version(stat.version);
    Some((stat.czxid, note, write.await.is_ok()))
}

/// Returns the place of the note in a record, and its number.
fn noted(record: &str) -> Option<(Range<usize>, u64)> {
    let (before, after) = record.split_once(NOTE)?;
    let digits = after.find(',')?;
    let place = before.len()..before.len() + NOTE.len() + digits + 1;
    Some((place, after[..digits].parse().ok()?))
}

fn member(number: u64) -> Name {
    Name::from(format!("#{number}"))
}

/// The instances that result from the events of a cache.
struct Reported {
    provider: ServiceProvider<Payload>,
    events: ServiceEvents<Payload>,
    /// The ids and payloads of the instances, according to the events.
    instances: Vec<(String, Payload)>,
}

impl Reported {
    fn new(provider: &ServiceProvider<Payload>) -> Self {
        let (events, instances) = (provider.cache().events(), Vec::new());
        Self { provider: provider.clone(), events, instances }
    }

    /// Checks that the received events add up to the contents of the cache.
    fn is_shown(&mut self) -> Result<(), Failure> {
        while let Some(Some(event)) = self.events.next().now_or_never() {
            let (old, new) = match event {
                ServiceEvent::Up(new) => (None, Some(new)),
                ServiceEvent::Changed { old, new } => (Some(old), Some(new)),
                ServiceEvent::Down(old) => (Some(old), None),
                ServiceEvent::Undecodable(at) if at.path.ends_with(POISONED) => continue,
                event => return Err(format!("{event:?}").into()),
            };
            if let Some(old) = old {
                let old = (old.id.clone(), old.payload);
                let at = self.instances.iter().position(|known| *known == old);
                let at = at.ok_or_else(|| format!("{old:?} was not reported"))?;
                self.instances.swap_remove(at);
            }
            self.instances.extend(new.map(|new| (new.id.clone(), new.payload)));
        }
        let shown = self.provider.cache().instances();
        let mut shown: Vec<_> = shown.iter().map(|at| (at.id.clone(), at.payload)).collect();
        shown.sort_unstable();
        self.instances.sort_unstable();
        if shown == self.instances {
            return Ok(());
        }
        Err(format!("{:?} were reported, and {shown:?} are shown", self.instances).into())
    }
}

/// Checks that a picked instance is enabled.
fn picks(provider: &ServiceProvider<Payload>) -> Result<(), Failure> {
    match provider.get() {
        Ok(call) if !call.enabled => Err(format!("{call:?} is drained, and was picked").into()),
        Ok(call) => {
            call.failed();
            Ok(())
        }
        Err(Unavailable::Loading { .. } | Unavailable::NoInstances { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Checks that, without faults, every instance is found, and no other.
async fn found_by_all(
    client: &Client,
    here: &Orders,
    there: &Orders,
    provider: &ServiceProvider<Payload>,
) -> Result<(), Failure> {
    let guard = loop {
        let id = client.who().to_string();
        let guard = Guard::register(client, here, there, id, ServiceType::Dynamic).await?;
        if let Some(guard) = guard.filter(|guard| !guard.has_ended()) {
            break guard;
        }
        sleep(Duration::from_millis(100)).await;
    };
    let ours = member(guard.number);
    loop {
        let found = there.instances(SERVICE).await?;
        if let Some(why) = found.undecodable.iter().find(|at| !at.path.ends_with(POISONED)) {
            return Err(format!("{why:?}").into());
        }
        let members: Vec<_> =
            found.instances.iter().map(|instance| member(instance.payload.number)).collect();
        let is_found = members.contains(&ours);
        viewed(client, members);
        provider.cache().synced().await?;
        let shown = provider.cache().instances();
        let is_shown = shown.iter().any(|instance| member(instance.payload.number) == ours);
        let is_picked = (0..shown.len())
            .any(|_| provider.get().is_ok_and(|call| member(call.payload.number) == ours));
        if is_found && is_shown && is_picked {
            break;
        }
        // The server of the second session may lag.
        let registered = guard.registration.registered();
        if patiently(client.session_timeout() * 4, registered).await.is_none() {
            return Err("not registered without faults".into());
        }
        sleep(Duration::from_millis(100)).await;
    }
    let mut guard = guard;
    guard.registration.update(|instance| instance.enabled = false).await?;
    provider.cache().synced().await?;
    let picked: Vec<_> = (0..20).filter_map(|_| provider.get().ok()).collect();
    if picked.iter().any(|call| member(call.payload.number) == ours) {
        return Err("a drained instance is picked".into());
    }
    drop(picked);
    let number = guard.number;
    guard.unregister(client, there).await?;
    // After this time, no session sees an instance that has ended.
    sleep(client.session_timeout() * 4).await;
    provider.cache().synced().await?;
    let shown = provider.cache().instances();
    if shown.iter().any(|instance| instance.payload.number == number) {
        return Err("an instance that is gone is shown".into());
    }
    viewed(client, shown.iter().map(|instance| member(instance.payload.number)).collect());
    Ok(())
}

fn viewed(client: &Client, members: Vec<Name>) {
    // The session timeout, and the time until other clients notice the end of the session.
    let lag = client.session_timeout() * 3;
    client.record(Group::Viewed { group: Name::from(SERVICE), members, lag });
}
