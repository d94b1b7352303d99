//! Service discovery: registrations, queries, caches, and the instance for the next call.

use std::collections::BTreeSet;
use std::time::Instant;

use futures_util::future::try_join_all;
use zk_curator_discovery::{
    Registration, ServiceCache, ServiceDiscovery, ServiceEvent, ServiceInstance, ServiceProvider,
};

use super::stage::{Outcome, Result, Samples, Stage, each};
use crate::common::resident;

const ORDERS: &str = "orders";
/// The instances that are registered at a time.
const AT_ONCE: usize = 100;

/// Texts, which Curator reads as such.
type Orders = ServiceDiscovery<String>;

fn instance(number: usize, payload: &str) -> Result<ServiceInstance<String>> {
    let builder = ServiceInstance::builder(ORDERS).id(format!("{number:08}"));
    let builder = builder.address("10.0.0.1").port(8040).payload(payload.to_owned());
    Ok(builder.uri_spec("{scheme}://{address}:{port}").build()?)
}

fn text(stage: &Stage) -> String {
    "7".repeat(stage.payload)
}

async fn registered(
    discovery: &Orders,
    count: usize,
    payload: &str,
) -> Result<Vec<Registration<String>>> {
    let mut all = Vec::with_capacity(count);
    for first in (0..count).step_by(AT_ONCE) {
        let instances = (first..count.min(first + AT_ONCE)).map(|number| instance(number, payload));
        let instances: Vec<_> = instances.collect::<Result<_>>()?;
        all.extend(try_join_all(instances.into_iter().map(|at| discovery.register(at))).await?);
    }
    Ok(all)
}

/// A service with instances, which end with the second value.
async fn service(stage: &mut Stage, count: usize) -> Result<(Orders, Vec<Registration<String>>)> {
    let zk = stage.client().await?;
    let discovery = Orders::new(&zk, stage.below("services"));
    let all = registered(&discovery, count, &text(stage)).await?;
    Ok((discovery, all))
}

async fn loaded(cache: &ServiceCache<String>) -> Result<()> {
    cache.loaded().await?;
    let bad = cache.undecodable();
    if bad.is_empty() { Ok(()) } else { Err(format!("{bad:?} are no instances").into()) }
}

pub(crate) async fn register(stage: &mut Stage) -> Result<()> {
    let payload = text(stage);
    // The parents are there.
    let (discovery, _first) = service(stage, 1).await?;
    let run = async |operations: usize| {
        let (mut latencies, mut count) = (Samples::new(), 0);
        for number in 1..=operations {
            let instance = instance(number, &payload)?;
            let began = Instant::now();
            let mut registration = discovery.register(instance).await?;
            latencies.push(began.elapsed());
            count += usize::from(registration.is_registered());
            registration.unregister().await?;
        }
        Ok(Outcome { operations, latencies, check: format!("registered={count}") })
    };
    stage.run_plain(run).await
}

pub(crate) async fn query(stage: &mut Stage) -> Result<()> {
    let (discovery, _all) = service(stage, stage.size).await?;
    let run = async |operations: usize| {
        let (mut latencies, mut found) = (Samples::new(), 0);
        for _ in 0..operations {
            let began = Instant::now();
            found += discovery.instances(ORDERS).await?.instances.len();
            latencies.push(began.elapsed());
        }
        Ok(Outcome { operations, latencies, check: format!("instances={found}") })
    };
    stage.run_plain(run).await
}

pub(crate) async fn load(stage: &mut Stage) -> Result<()> {
    let (discovery, _all) = service(stage, stage.size).await?;
    let run = async |operations: usize| {
        let (mut latencies, mut found) = (Samples::new(), 0);
        for _ in 0..operations {
            let began = Instant::now();
            let cache = discovery.cache(ORDERS);
            loaded(&cache).await?;
            latencies.push(began.elapsed());
            found += cache.instances().len();
        }
        Ok(Outcome { operations, latencies, check: format!("instances={found}") })
    };
    stage.run_plain(run).await
}

pub(crate) async fn change(stage: &mut Stage) -> Result<()> {
    let (reading, writing) = (stage.client().await?, stage.client().await?);
    let (path, payload) = (stage.below("services"), text(stage));
    let mut all = registered(&Orders::new(&writing, &path), stage.size, &payload).await?;
    let cache = Orders::new(&reading, &path).cache(ORDERS);
    loaded(&cache).await?;
    let mut events = cache.events();
    for _ in 0..stage.size {
        events.next().await.ok_or("the cache has ended")?;
    }
    let mut turns = 0;
    let run = async |operations: usize| {
        let (mut latencies, mut seen) = (Samples::new(), 0);
        for _ in 0..operations {
            turns += 1;
            let (at, new) = (turns % all.len(), format!("{turns:0>width$}", width = payload.len()));
            let began = Instant::now();
            let written = new.clone();
            let update = all[at].update(move |orders| orders.payload.clone_from(&written));
            let (updated, told) = futures_util::future::join(update, events.next()).await;
            updated?;
            match told {
                Some(ServiceEvent::Changed { new: told, .. }) if told.payload == new => seen += 1,
                other => return Err(format!("{other:?} instead of {new}").into()),
            }
            latencies.push(began.elapsed());
        }
        Ok(Outcome { operations, latencies, check: format!("changes={seen}") })
    };
    stage.run_plain(run).await
}

pub(crate) async fn pick(stage: &mut Stage) -> Result<()> {
    let (discovery, _all) = service(stage, stage.size).await?;
    let provider = discovery.provider(ORDERS).start();
    provider.wait_ready(stage.size).await?;
    let size = stage.size;
    stage.run_plain(async |operations| picks(&provider, operations, size)).await
}

fn picks(provider: &ServiceProvider<String>, operations: usize, size: usize) -> Result<Outcome> {
    let (mut ids, mut picked) = (BTreeSet::new(), 0);
    for _ in 0..operations {
        let call = provider.get()?;
        picked += usize::from(!call.id.is_empty());
        if ids.len() < size && !ids.contains(&call.id) {
            ids.insert(call.id.clone());
        }
    }
    let check = format!("picked={picked} distinct={}", ids.len());
    Ok(Outcome { operations, latencies: Samples::new(), check })
}

/// Many registrations of one process: the memory of each, and an update.
pub(crate) async fn many(stage: &mut Stage) -> Result<()> {
    let (zk, payload, size) = (stage.client().await?, text(stage), stage.size);
    let discovery = Orders::new(&zk, stage.below("services"));
    let before = resident("self");
    let mut all = registered(&discovery, size, &payload).await?;
    let bytes = each(before, size);
    let run = async |operations: usize| {
        let (mut latencies, mut count) = (Samples::new(), 0);
        for turn in 0..operations {
            let new = format!("{turn:0>width$}", width = payload.len());
            let began = Instant::now();
            all[turn % size].update(move |orders| orders.payload.clone_from(&new)).await?;
            latencies.push(began.elapsed());
            count += 1;
        }
        Ok(Outcome { operations, latencies, check: format!("updates={count}") })
    };
    stage.measure(bytes, run).await?;
    stage.clear().await
}
