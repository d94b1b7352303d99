//! Growing numbers of sessions and watches: the memory of each, and the cost of an operation. And
//! the first session of a process.

use std::cell::Cell;
use std::time::Instant;

use futures_util::future::try_join_all;

use super::measure::{Outcome, Result, Samples, at_most, each};
use super::session::{Session, numbered};
use super::stage::{Stage, say};
use crate::common::resident;

const IN_FLIGHT: usize = 128;

pub(crate) async fn startup<S: Session>(stage: &mut Stage<S>) -> Result<()> {
    let zk = stage.client().await?;
    zk.get("/").await?;
    say("first");
    stage.hear("end").await?;
    zk.close().await
}

pub(crate) async fn sessions<S: Session>(stage: &mut Stage<S>) -> Result<()> {
    let (path, payload) = (stage.below("node"), stage.payload());
    let first = stage.client().await?;
    first.plant(&path, &payload).await?;
    let before = resident("self");
    let clients = stage.contenders().await?;
    let bytes = each(before, clients.len());
    let run = async |operations| {
        let bytes = Cell::new(0);
        let one = async |number: usize| {
            let data = clients[number % clients.len()].get(&path).await?;
            bytes.set(bytes.get() + data.as_ref().len());
            Ok(())
        };
        let latencies = at_most(IN_FLIGHT, operations, one).await?;
        Ok(Outcome { operations, latencies, check: format!("bytes={}", bytes.get()) })
    };
    stage.measure(bytes, run).await?;
    stage.clear().await
}

pub(crate) async fn watches<S: Session>(stage: &mut Stage<S>) -> Result<()> {
    let (watching, writing) = (stage.client().await?, stage.client().await?);
    let (path, payload, size) = (stage.below("nodes"), stage.payload(), stage.size);
    writing.plant_many(&path, size, &payload).await?;
    let node = |number: usize| numbered(&path, number);
    let before = resident("self");
    let mut watches = Vec::with_capacity(size);
    for first in (0..size).step_by(IN_FLIGHT) {
        let numbers = first..size.min(first + IN_FLIGHT);
        let watched = numbers.map(async |number| watching.watch(&node(number)).await);
        watches.extend(try_join_all(watched).await?.into_iter().map(|(_, watch)| Some(watch)));
    }
    let bytes = each(before, size);
    let run = async |operations| {
        let (mut latencies, mut events) = (Samples::new(), 0);
        // Evenly over all of them.
        for turn in 0..operations {
            let number = turn * size / operations;
            let watch = watches[number].take().ok_or("a watch fires once")?;
            let began = Instant::now();
            writing.set(&node(number), &payload).await?;
            watch.await?;
            latencies.push(began.elapsed());
            events += 1;
        }
        Ok(Outcome { operations: events, latencies, check: format!("events={events}") })
    };
    stage.measure(bytes, run).await?;
    drop(watches);
    stage.clear().await
}
