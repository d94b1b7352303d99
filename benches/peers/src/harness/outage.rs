//! Reads of a client during an outage.

use std::time::Duration;

use zk_curator_client::internal::sleep;

use super::check::verify;
use super::distance::Distance;
use super::matrix::Client;
use super::plan::Case;
use super::programs::Peer;
use super::results::Run;
use super::run::{PAYLOAD, Place, Talk, Told, result};
use crate::peer::Result;

/// The time of the reads before the outage.
const BEFORE: Duration = Duration::from_millis(500);

impl Place<'_> {
    /// Cuts the connection of a program for a time.
    pub(super) async fn outage(
        &self,
        peer: &Peer,
        case: &Case,
        number: usize,
        length: Duration,
    ) -> Result<Vec<Run>> {
        let relay = Distance::to(self.connect, Duration::ZERO)?;
        let mut talk = Talk::begin(peer, case, relay.addr(), number)?;
        talk.hear("ready").await?;
        talk.say("go").await?;
        sleep(BEFORE).await;
        relay.cut();
        sleep(length).await;
        let attempts = relay.refused();
        relay.heal();
        talk.say("healed").await?;
        let mut told: Told = serde_json::from_str(&talk.line().await?)?;
        let memory = talk.memory()?;
        talk.end().await?;
        verify(case, PAYLOAD, told.operations, &told.check)?;
        if peer.client == Client::Rust && !told.check.contains("works=1") {
            return Err(format!("ours works again by itself, not {}", told.check).into());
        }
        told.numbers.insert("connections tried in the outage".to_owned(), attempts.into());
        Ok(vec![Run { memory: Some(memory), ..result(peer.client, case, &told) }])
    }
}
