use std::future::ready;
use std::time::Duration;

use zk_curator::CreateMode;
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::cache::{CuratorCache, TypedCache};
use zk_curator_recipes::config::{ConfigStore, Snapshot};
use zk_curator_recipes::counter::{
    CountDownLatch, DistributedAtomicLong, DistributedAtomicValue, IdBlocks,
};
use zk_curator_recipes::group::{Group, GroupMember};
use zk_curator_recipes::inspect;
use zk_curator_recipes::migration::{MigrationManager, MigrationSet, Operations, Reads};
use zk_curator_recipes::name::NameService;
use zk_curator_recipes::node::{PersistentNode, PersistentTtlNode};
use zk_curator_recipes::partition::{Partition, SetPartitioner};
use zk_curator_recipes::schedule::{OncePer, Schedule, Slot};
use zk_curator_recipes::shared::{SharedCount, SharedValue};
use zk_curator_recipes::stm::{Stm, Tx, snapshot_of};
use zk_curator_recipes::two_phase::{self, Coordinator, Site, Vote};

use super::failure::Failure;
use super::row::list;
use super::stage::Stage;

const MINUTE: Duration = Duration::from_secs(60);

fn cache(stage: &Stage) -> CuratorCache {
    CuratorCache::tree(&stage.zk, stage.at()).start()
}

fn typed(stage: &Stage) -> TypedCache<u8> {
    cache(stage).typed()
}

fn config(stage: &Stage) -> ConfigStore {
    ConfigStore::new(&stage.zk, stage.at())
}

/// A setting, for `follow_as`.
struct Setting;

impl TryFrom<Snapshot> for Setting {
    type Error = std::fmt::Error;

    fn try_from(_: Snapshot) -> Result<Self, std::fmt::Error> {
        Ok(Self)
    }
}

fn counter(stage: &Stage) -> DistributedAtomicLong {
    DistributedAtomicLong::new(&stage.zk, stage.at())
}

fn value(stage: &Stage) -> DistributedAtomicValue<u8> {
    DistributedAtomicValue::new(&stage.zk, stage.at())
}

fn latch(stage: &Stage) -> CountDownLatch {
    CountDownLatch::new(&stage.zk, stage.at(), 1)
}

fn group(stage: &Stage) -> Group {
    Group::new(&stage.zk, stage.at())
}

fn member(stage: &Stage) -> GroupMember {
    GroupMember::builder(&stage.zk, stage.at(), "a").data("1").start()
}

async fn joined(stage: &Stage) -> Result<GroupMember, Failure> {
    let member = member(stage);
    member.joined().await?;
    Ok(member)
}

fn names(stage: &Stage) -> NameService {
    NameService::new(&stage.zk, stage.at())
}

fn node(stage: &Stage) -> PersistentNode {
    PersistentNode::builder(&stage.zk, stage.at(), CreateMode::Ephemeral).data("1").start()
}

fn ttl_node(stage: &Stage) -> PersistentTtlNode {
    PersistentTtlNode::builder(&stage.zk, stage.at(), MINUTE).data("1").start()
}

fn partitioner(stage: &Stage) -> SetPartitioner {
    SetPartitioner::new(&stage.zk, stage.at(), ["a"]).id("me")
}

fn schedule(stage: &Stage) -> OncePer {
    let schedule = OncePer::new(&stage.zk, stage.at(), Schedule::every(MINUTE)).id("me");
    schedule.clock(stage.now())
}

fn stm(stage: &Stage) -> Stm {
    Stm::space(&stage.zk, stage.at())
}

fn migrations(stage: &Stage) -> MigrationManager {
    MigrationManager::new(&stage.zk, stage.beside("lock"), stage.at())
}

fn set(stage: &Stage) -> Result<MigrationSet, Failure> {
    let node = stage.beside("node");
    Ok(MigrationSet::builder("a").migration("b", |to| to.create(node, "1")).build()?)
}

/// Applies a migration that reads a node.
async fn computed<F: Future<Output = zk_curator::Result<()>> + Send + 'static>(
    stage: &Stage,
    read: fn(Reads, String) -> F,
) -> Result<(), Failure> {
    let node = stage.beside("node");
    let set = MigrationSet::builder("a").computed("b", "1", move |reads| {
        let read = read(reads, node.clone());
        async move { read.await.map(|()| Operations::new()) }
    });
    migrations(stage).migrate(&set.build()?).await?;
    Ok(())
}

async fn begun(stage: &Stage) -> Result<Coordinator, Failure> {
    Ok(Coordinator::begin(&stage.zk, stage.at(), ["a"], "payload").await?)
}

/// A transaction with the vote of its only site.
async fn voted(stage: &Stage) -> Result<(Coordinator, Site), Failure> {
    let coordinator = begun(stage).await?;
    let mut site = Site::join(&stage.zk, stage.at(), "a").await?;
    site.vote(Vote::Commit).await?;
    Ok((coordinator, site))
}

async fn decided(stage: &Stage) -> Result<(Coordinator, Site), Failure> {
    let (mut coordinator, mut site) = voted(stage).await?;
    coordinator.outcome().await?;
    site.outcome().await?;
    Ok((coordinator, site))
}

list! {
    "cache::CuratorCache::loaded": |s| { s.make().await?; } => {
        let cache = cache(&s);
        cache.loaded().await?;
        cache
    };
    "cache::CuratorCache::get_through": |s| { s.make().await?; let cache = cache(&s); } => {
        drop(cache.get_through(&s.at()).await?);
        cache
    };
    "cache::CuratorCache::synced": |s| { s.make().await?; let cache = cache(&s); } => {
        cache.synced().await?;
        cache
    };
    "cache::CuratorCache::refresh": |s| {
        s.make().await?;
        let cache = cache(&s);
        cache.loaded().await?;
    } => {
        cache.refresh(s.at()).await?;
        cache
    };
    "cache::CuratorCache::rebuild": |s| {
        s.make().await?;
        let cache = cache(&s);
        cache.loaded().await?;
    } => {
        cache.rebuild().await?;
        cache
    };
    "cache::CuratorCache::reflects": |s| { s.make().await?; let cache = cache(&s); } => {
        cache.reflects(1).await?;
        cache
    };
    "cache::CuratorCache::wait_for": |s| {
        s.make().await?;
        let (cache, at) = (cache(&s), s.at());
    } => {
        cache.wait_for(|tree| tree.get(&at).present().map(drop)).await?;
        cache
    };
    "cache::CuratorCache::exact": |s| { s.make().await?; let cache = cache(&s); } => {
        drop(cache.exact(MINUTE).await?);
        cache
    };
    "cache::CuratorCache::close": |s| {
        s.make().await?;
        let cache = cache(&s);
        cache.loaded().await?;
    } => cache.close().await;
    "cache::CacheEvents::next": |s| { s.make().await?; let cache = cache(&s); } => {
        cache.events().next().await.ok_or_else(|| Failure::new("it ends"))?;
        cache
    };
    "cache::FreshnessWatch::next": |s| { s.make().await?; let cache = cache(&s); } => {
        cache.freshness_changes().next().await.ok_or_else(|| Failure::new("it ends"))?;
        cache
    };
    "cache::TypedCache::get_through": |s| { s.make().await?; let cache = typed(&s); } => {
        drop(cache.get_through(&s.at()).await?);
        cache
    };
    "cache::TypedCache::put": |s| { s.make().await?; let cache = typed(&s); } => {
        cache.put(s.at(), &1).await?;
        cache
    };
    "cache::TypedCache::modify": |s| { s.make().await?; let cache = typed(&s); } => {
        cache.modify(s.at(), |value| value + 1).await?;
        cache
    };
    "cache::TypedEvents::next": |s| { s.make().await?; let cache = typed(&s); } => {
        cache.events().next().await.ok_or_else(|| Failure::new("it ends"))?;
        cache
    };
    "config::Update::commit": |s| {} => config(&s).update().set("a", 1).commit().await?;
    "config::Update::commit, again": |s| {
        config(&s.there()).update().set("a", 1).commit().await?;
    } =>
        config(&s).update().set("a", 2).commit().await?;
    "config::ConfigStore::snapshot": |s| {
        config(&s.there()).update().set("a", 1).commit().await?;
    } =>
        config(&s).snapshot().await?;
    "config::ConfigStore::history": |s| {
        config(&s.there()).update().set("a", 1).commit().await?;
    } =>
        config(&s).history().await?;
    "config::ConfigStore::roll_back": |s| {
        let first = config(&s.there()).update().set("a", 1).commit().await?;
        config(&s.there()).update().set("a", 2).commit().await?;
    } => config(&s).roll_back(first).await?;
    "config::ConfigStore::follow_as": |s| {
        config(&s.there()).update().set("a", 1).commit().await?;
    } =>
        config(&s).follow_as::<Setting>().await?;
    "config::ConfigWatch::receive": |s| {
        config(&s.there()).update().set("a", 1).commit().await?;
    } =>
        config(&s).follow().receive::<Setting>().await?;
    "config::ConfigWatch::next": |s| { config(&s.there()).update().set("a", 1).commit().await?; } =>
        config(&s).follow().next().await?;
    "counter::Counter::get": |s| {
        counter(&s.there()).increment().await?;
    } => counter(&s).get().await?;
    "counter::Counter::get_relaxed": |s| { counter(&s.there()).increment().await?; } =>
        counter(&s).get_relaxed().await?;
    "counter::Counter::add": |s| {} => counter(&s).add(2).await?;
    "counter::Counter::add_once": |s| {} => counter(&s).add_once("id", 2).await?;
    "counter::Counter::subtract": |s| {} => counter(&s).subtract(2).await?;
    "counter::Counter::increment": |s| {} => counter(&s).increment().await?;
    "counter::Counter::decrement": |s| { counter(&s.there()).increment().await?; } =>
        counter(&s).decrement().await?;
    "counter::Counter::set": |s| {} => counter(&s).set(2).await?;
    "counter::Counter::compare_and_set": |s| { counter(&s.there()).increment().await?; } =>
        counter(&s).compare_and_set(1, 2).await?;
    "counter::Counter::initialize": |s| {} => counter(&s).initialize(2).await?;
    "counter::CounterWatch::next": |s| { counter(&s.there()).increment().await?; } =>
        counter(&s).follow().next().await?;
    "counter::IdBlocks::next": |s| {} => IdBlocks::new(&counter(&s), 10).next().await?;
    "counter::IdBlocks::take": |s| {} => IdBlocks::new(&counter(&s), 10).take(20).await?;
    "counter::CountDownLatch::count_down": |s| {} => latch(&s).count_down().await?;
    "counter::CountDownLatch::count_down_once": |s| {} => latch(&s).count_down_once("id").await?;
    "counter::CountDownLatch::count": |s| {} => latch(&s).count().await?;
    "counter::CountDownLatch::wait": |s| {
        latch(&s.there()).count_down().await?;
    } => latch(&s).wait().await?;
    "counter::DistributedAtomicValue::get": |s| {
        value(&s.there()).set(&1).await?;
    } => value(&s).get().await?;
    "counter::DistributedAtomicValue::set": |s| {} => value(&s).set(&1).await?;
    "counter::DistributedAtomicValue::compare_and_set": |s| { value(&s.there()).set(&1).await?; } =>
        value(&s).compare_and_set(&1, &2).await?;
    "counter::DistributedAtomicValue::initialize": |s| {} => value(&s).initialize(&1).await?;
    "counter::DistributedAtomicValue::modify": |s| {} =>
        value(&s).modify(|old| { s.call_back(); Some(old.unwrap_or(0) + 1) }).await?;
    "counter::AtomicValueWatch::next": |s| { value(&s.there()).set(&1).await?; } =>
        value(&s).follow().next().await?;
    "group::GroupMember::joined": |s| {} => {
        let member = member(&s);
        member.joined().await?;
        member
    };
    "group::GroupMember::set_data": |s| { let member = joined(&s).await?; } => {
        member.set_data("2").await?;
        member
    };
    "group::GroupMember::leave": |s| { let member = joined(&s).await?; } => member.leave().await?;
    "group::Group::create": |s| {} => group(&s).create().await?;
    "group::Group::members": |s| { let member = joined(&s).await?; } =>
        (group(&s).members().await?, member);
    "group::Group::wait_for": |s| { let member = joined(&s).await?; } =>
        (group(&s).wait_for(1).await?, member);
    "group::Group::delete": |s| { group(&s.there()).create().await?; } => group(&s).delete().await?;
    "group::GroupWatch::next": |s| { let member = joined(&s).await?; } =>
        (group(&s).follow().next().await?, member);
    "inspect::inspect": |s| { s.make().await?; } => inspect::inspect(&s.zk, s.at()).await?;
    "inspect::find": |s| { s.make().await?; } => inspect::find(&s.zk, s.at(), 10).await?;
    "inspect::find_within": |s| { s.make().await?; } => inspect::find_within(&s.zk, s.at(), 10, 1_000).await?;
    "inspect::glance": |s| { s.make().await?; } => inspect::glance(&s.zk, s.at()).await?;
    "migration::MigrationManager::plan": |s| {} => migrations(&s).plan(&set(&s)?).await?;
    "migration::MigrationManager::migrate": |s| {} => migrations(&s).migrate(&set(&s)?).await?;
    "migration::MigrationManager::wait_applied": |s| {
        migrations(&s.there()).migrate(&set(&s)?).await?;
    } =>
        migrations(&s).wait_applied(&set(&s)?).await?;
    "migration::MigrationManager::applied": |s| {
        migrations(&s.there()).migrate(&set(&s)?).await?;
    } =>
        migrations(&s).applied("a").await?;
    "name::NameService::bind": |s| {} => names(&s).bind("a", "1").await?;
    "name::NameService::bind_ephemeral": |s| {} => names(&s).bind_ephemeral("a", "1").await?;
    "name::NameService::rebind": |s| { let seen = names(&s.there()).bind("a", "1").await?; } =>
        names(&s).rebind("a", "2", seen).await?;
    "name::NameService::unbind": |s| { names(&s.there()).bind("a", "1").await?; } =>
        names(&s).unbind("a", None).await?;
    "name::NameService::resolve": |s| { names(&s.there()).bind("a", "1").await?; } =>
        names(&s).resolve("a").await?;
    "name::NameService::list": |s| {
        names(&s.there()).bind("a", "1").await?;
    } => names(&s).list().await?;
    "name::NameWatch::next": |s| { names(&s.there()).bind("a", "1").await?; } =>
        names(&s).follow("a").next().await?;
    "name::Binding::rebind": |s| { let bound = names(&s).bind_ephemeral("a", "1").await?; } => {
        bound.rebind("2").await?;
        bound
    };
    "name::Binding::unbind": |s| { let bound = names(&s).bind_ephemeral("a", "1").await?; } =>
        bound.unbind().await?;
    "name::Binding::lost": |s| { let bound = names(&s).bind_ephemeral("a", "1").await?; } =>
        s.and_delete(bound.lost(), &s.below("a")).await?;
    "name::KeptBinding::bound": |s| {} => {
        let kept = names(&s).keep_bound("a", "1");
        kept.bound().await?;
        kept
    };
    "name::KeptBinding::rebind": |s| {
        let kept = names(&s).keep_bound("a", "1");
        kept.bound().await?;
    } => {
        kept.rebind("2").await?;
        kept
    };
    "name::KeptBinding::unbind": |s| {
        let kept = names(&s).keep_bound("a", "1");
        kept.bound().await?;
    } => kept.unbind().await?;
    "node::PersistentNode::created": |s| {} => {
        let node = node(&s);
        node.created().await?;
        node
    };
    "node::PersistentNode::set_data": |s| { let node = node(&s); node.created().await?; } => {
        node.set_data("2").await?;
        node
    };
    "node::PersistentNode::close": |s| { let node = node(&s); node.created().await?; } =>
        node.close().await?;
    "node::PersistentTtlNode::created": |s| {} => {
        let node = ttl_node(&s);
        node.created().await?;
        node
    };
    "node::PersistentTtlNode::set_data": |s| {
        let node = ttl_node(&s);
        node.created().await?;
    } => {
        node.set_data("2").await?;
        node
    };
    "partition::SetPartitioner::run": |s| {} => {
        let stop = Shutdown::new();
        let body = async |_: Partition| {
            stop.begin();
            s.call_back();
            Ok::<_, Failure>(())
        };
        partitioner(&s).run(body).until(stop.clone()).await?;
    };
    "partition::SetPartitioner::view": |s| {} => partitioner(&s).view().await?;
    "partition::SetPartitioner::set_parts": |s| {} =>
        partitioner(&s).shared_parts().set_parts(["b"]).await?;
    "partition::PartitionWatch::next": |s| {} => {
        let mut parts = partitioner(&s).follow();
        parts.next().await.ok_or_else(|| Failure::new("it ends"))??;
        parts
    };
    "schedule::OncePer::run": |s| {} => {
        let stop = Shutdown::new();
        let body = |_: Slot| { stop.begin(); s.call_back(); ready(Ok::<_, Failure>(())) };
        schedule(&s).run(body).until(stop.clone().drain(Duration::MAX)).await?;
    };
    "schedule::OncePer::slots": |s| {} => schedule(&s).slots().await?;
    "shared::SharedCount::open": |s| {} => SharedCount::open(&s.zk, s.at(), 1).await?;
    "shared::SharedCount::set": |s| { let count = SharedCount::open(&s.zk, s.at(), 1).await?; } => {
        count.set(2).await?;
        count
    };
    "shared::SharedCount::try_set": |s| {
        let count = SharedCount::open(&s.zk, s.at(), 1).await?;
        let seen = count.get()?.unwrap();
    } => {
        count.try_set(&seen, 2).await?;
        count
    };
    "shared::CountWatch::next": |s| { let count = SharedCount::open(&s.zk, s.at(), 1).await?; } => {
        count.follow().next().await.ok_or_else(|| Failure::new("it ends"))?;
        count
    };
    "shared::SharedValue::open": |s| {} => SharedValue::<u8>::open(&s.zk, s.at(), &1).await?;
    "shared::SharedValue::set": |s| {
        let value = SharedValue::<u8>::open(&s.zk, s.at(), &1).await?;
    } => {
        value.set(&2).await?;
        value
    };
    "shared::SharedValue::try_set": |s| {
        let value = SharedValue::<u8>::open(&s.zk, s.at(), &1).await?;
        let seen = value.get()?.unwrap();
    } => {
        value.try_set(&seen, &2).await?;
        value
    };
    "shared::ValueWatch::next": |s| {
        let value = SharedValue::<u8>::open(&s.zk, s.at(), &1).await?;
    } => {
        value.follow().next().await.ok_or_else(|| Failure::new("it ends"))?;
        value
    };
    "stm::Stm::atomically": |s| {} => {
        let path = s.below("a");
        stm(&s).atomically(|tx: Tx| {
            s.call_back();
            let path = path.clone();
            async move {
                let old: Option<u8> = tx.get_typed(&path).await?;
                tx.put(&path, &(old.unwrap_or(0) + 1))
            }
        }).await?
    };
    "stm::Transaction::run": |s| {} => {
        let path = s.below("a");
        stm(&s).transaction().prefetch([path.clone()]).run(|tx: Tx| {
            s.call_back();
            let path = path.clone();
            async move {
                let old: Option<u8> = tx.get_typed(&path).await?;
                tx.put(&path, &(old.unwrap_or(0) + 1))
            }
        }).await?
    };
    "stm::Tx::get": |s| { s.make().await?; } => {
        let read = |tx: Tx| { let at = s.below("a"); async move { tx.get(at).await } };
        stm(&s).atomically(read).await?
    };
    "stm::Tx::get_all": |s| { s.make().await?; } => {
        let read = |tx: Tx| { let at = s.below("a"); async move { tx.get_all([at]).await } };
        stm(&s).atomically(read).await?
    };
    "stm::Tx::get_typed": |s| { s.make().await?; } => {
        let read = |tx: Tx| { let at = s.below("a"); async move { tx.get_typed::<u8>(at).await } };
        stm(&s).atomically(read).await?
    };
    "stm::Tx::exists": |s| { s.make().await?; } => {
        let read = |tx: Tx| { let at = s.below("a"); async move { tx.exists(at).await } };
        stm(&s).atomically(read).await?
    };
    "stm::Tx::children": |s| { s.make().await?; } => {
        let read = |tx: Tx| { let at = s.at(); async move { tx.children(at).await } };
        stm(&s).atomically(read).await?
    };
    "stm::Stm::audit": |s| { s.make().await?; } => stm(&s).audit().await?;
    "stm::snapshot_of": |s| { s.make().await?; } => snapshot_of(&s.zk, [s.at()]).await?;
    "two_phase::Begin::into_future": |s| {} => begun(&s).await?;
    "two_phase::Coordinator::resume": |s| { begun(&s.there()).await?; } =>
        Coordinator::resume(&s.zk, s.at()).await?;
    "two_phase::Coordinator::outcome": |s| { let (mut coordinator, site) = voted(&s).await?; } =>
        (coordinator.outcome().await?, site);
    "two_phase::Coordinator::abort": |s| { let mut coordinator = begun(&s).await?; } =>
        coordinator.abort().await?;
    "two_phase::Coordinator::clean_up": |s| {
        let (mut coordinator, mut site) = decided(&s).await?;
        site.acknowledge().await?;
    } => coordinator.clean_up().await?;
    "two_phase::Coordinator::discard": |s| { let (mut coordinator, _) = decided(&s).await?; } =>
        coordinator.discard().await?;
    "two_phase::inspect": |s| {
        begun(&s.there()).await?;
    } => two_phase::inspect(&s.zk, s.at()).await?;
    "two_phase::Sweep::into_future": |s| { begun(&s.there()).await?; } =>
        two_phase::sweep(&s.zk, s.at()).await?;
    "two_phase::Site::join": |s| {
        begun(&s.there()).await?;
    } => Site::join(&s.zk, s.at(), "a").await?;
    "two_phase::Site::vote": |s| {
        begun(&s.there()).await?;
        let mut site = Site::join(&s.zk, s.at(), "a").await?;
    } => site.vote(Vote::Commit).await?;
    "two_phase::Site::vote_cast": |s| { let (_, site) = voted(&s).await?; } =>
        site.vote_cast().await?;
    "two_phase::Site::outcome": |s| {
        let (mut coordinator, mut site) = voted(&s).await?;
        coordinator.outcome().await?;
    } => site.outcome().await?;
    "two_phase::Site::acknowledge": |s| { let (coordinator, mut site) = decided(&s).await?; } => {
        site.acknowledge().await?;
        coordinator
    };
    "config::ConfigValue::changed": |s| {
        config(&s.there()).update().set("a", 1).commit().await?;
        let mut setting = config(&s).follow_as::<Setting>().await?;
        ConfigStore::new(&s.other, s.at()).update().set("a", 2).commit().await?;
    } => setting.changed().await.ok_or_else(|| Failure::new("it ends"))?;
    "migration::Reads::find_data": |s| {} => {
        let read = |reads: Reads, at| async move { reads.find_data(at).await.map(drop) };
        computed(&s, read).await?;
    };
    "migration::Reads::get_data": |s| { s.zk.create(s.beside("node")).await?; } => {
        let read = |reads: Reads, at| async move { reads.get_data(at).await.map(drop) };
        computed(&s, read).await?;
    };
    "migration::Reads::exists": |s| {} => {
        let read = |reads: Reads, at| async move { reads.exists(at).await.map(drop) };
        computed(&s, read).await?;
    };
    "migration::Reads::children": |s| {} => {
        let read = |reads: Reads, at| async move { reads.children(at).await.map(drop) };
        computed(&s, read).await?;
    };
    "partition::Partition::revoked": |s| {} => {
        let stop = Shutdown::new();
        let body = async |part: Partition| {
            stop.begin();
            part.revoked().await;
            Ok::<_, Failure>(())
        };
        partitioner(&s).run(body).until(stop.clone().drain(Duration::MAX)).await?;
    };
}
