//! Clients whose connections are cut, and nodes that change during the outage.

use std::time::{Duration, Instant};

use bytes::Bytes;
use zk_curator_client::internal::sleep;
use zk_curator_proto::Request;
use zk_curator_proto::records::SetDataRequest;

use super::check::verify;
use super::distance::Distance;
use super::plan::{Case, reconnect};
use super::programs::Peer;
use super::results::Run;
use super::run::{PAYLOAD, Place, Talk, Told, first_response, path, ratio, result};
use crate::common::frames;
use crate::peer::Result;

/// Each byte that the harness writes. The programs write other ones.
const CHANGED: u8 = 9;
/// Clients are done when they have hardly sent anything for this long.
const QUIET: Duration = Duration::from_secs(2);
/// The pause between two questions to the server.
const STEP: Duration = Duration::from_millis(10);

impl Place<'_> {
    /// Cuts the connections of all clients of a program, and counts their requests afterwards.
    pub(super) async fn reconnect(
        &self,
        peer: &Peer,
        case: &Case,
        number: usize,
    ) -> Result<Vec<Run>> {
        let wanted = reconnect(case).ok_or("this workload has no connections to cut")?;
        let is_fleet = wanted.nodes == 0;
        let relay = Distance::to(self.connect, Duration::ZERO)?;
        let mut talk = Talk::begin(peer, case, relay.addr(), number)?;
        talk.hear("ready").await?;
        talk.say("go").await?;
        let (mut packets, mut took) = (0, Vec::new());
        for turn in 0..case.operations {
            let connected = self.connections().await?;
            relay.cut();
            let cut = Instant::now();
            while self.connections().await? + wanted.clients > connected {
                sleep(STEP).await;
            }
            sleep(wanted.outage.saturating_sub(cut.elapsed())).await;
            if wanted.changes > 0 {
                let nodes = (0..wanted.changes).map(|change| {
                    let turn_and_change = turn * wanted.changes + change;
                    turn_and_change * wanted.nodes / (case.operations * wanted.changes)
                });
                self.change(&path(case, number), nodes);
            }
            let (once, before) = (self.packets().await?, self.packets().await?);
            relay.heal();
            let healed = Instant::now();
            let mut seen = None;
            if wanted.changes > 0 || is_fleet {
                talk.hear("seen").await?;
                seen = Some(healed.elapsed());
            }
            let asking = Asking {
                place: self,
                once: before - once,
                before,
                clients: wanted.clients,
                connected,
            };
            let (last, count) = asking.until_quiet(healed).await?;
            took.push(seen.unwrap_or(last).as_secs_f64() * 1e6);
            // For caches only their reads count: every client opens its session again.
            let opened = if is_fleet { 0 } else { wanted.clients as u64 };
            packets += count.saturating_sub(opened);
        }
        talk.say("tell").await?;
        let told: Told = serde_json::from_str(&talk.line().await?)?;
        let memory = talk.memory()?;
        talk.end().await?;
        verify(case, PAYLOAD, told.operations, &told.check)?;
        took.sort_by(f64::total_cmp);
        Ok(vec![Run {
            requests: Some(ratio(packets, told.operations)),
            memory: Some(memory),
            per_operation_us: took.iter().sum::<f64>() / ratio(took.len() as u64, 1),
            p50_us: took.get(took.len() / 2).copied(),
            ..result(peer.client, case, &told)
        }])
    }

    /// Returns the number of connections, without the one of this query.
    async fn connections(&self) -> Result<usize> {
        Ok(usize::try_from(self.counted("Connections: ").await?)? - 1)
    }

    /// Writes to nodes, over a session that ends before this returns. Its end is a transaction too,
    /// and must not be counted.
    fn change(&self, path: &str, nodes: impl Iterator<Item = usize>) {
        let set = |node| {
            Request::SetData(SetDataRequest {
                path: format!("{path}/measured/{node:08}"),
                data: Some(Bytes::from_static(&[CHANGED; PAYLOAD])),
                version: -1,
            })
        };
        let requests: Vec<_> = nodes.map(set).chain([Request::CloseSession]).collect();
        let mut wire = first_response(self.server.addr());
        wire.write(&frames(requests.iter().cloned()));
        wire.read_frames(requests.len(), drop);
    }
}

/// Waits until all clients are connected and have sent their requests.
struct Asking<'a> {
    place: &'a Place<'a>,
    /// The packets of one question.
    once: u64,
    before: u64,
    clients: usize,
    connected: usize,
}

impl Asking<'_> {
    /// Returns the time until the last packet came, and the number of packets.
    async fn until_quiet(&self, since: Instant) -> Result<(Duration, u64)> {
        let mut asked = 0;
        let mut seen = vec![(Duration::ZERO, 0)];
        loop {
            let (connections, packets) =
                (self.place.connections().await?, self.place.packets().await?);
            asked += 2;
            let (now, count) =
                (since.elapsed(), (packets - self.before).saturating_sub(asked * self.once));
            if seen.last().is_none_or(|(_, last)| *last != count) {
                seen.push((now, count));
            }
            // With many clients, some send a ping in between.
            let recent =
                seen.iter().rev().find(|(at, _)| *at + QUIET < now).map(|(_, then)| count - then);
            if connections >= self.connected
                && recent.is_some_and(|recent| 2 * recent < self.clients as u64)
            {
                let last = seen.iter().find(|(_, then)| 2 * (count - then) < self.clients as u64);
                return Ok((last.map_or(now, |(at, _)| *at), count));
            }
            sleep(STEP).await;
        }
    }
}
