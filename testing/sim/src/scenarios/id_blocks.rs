//! [`IdBlocks`]: no process gets a number that another process has, or that another addition to the
//! same counter has used.

use std::time::Duration;

use tokio::time::sleep;
use zk_curator_recipes::counter::{DistributedAtomicLong, IdBlocks};

use super::Scenario;
use crate::checkers::IssuedOnce;
use crate::history::{Name, Shared};
use crate::{Client, Failure};

const COUNTER: &str = "/ids/orders";
/// The number of actions in a round.
const ACTS: usize = 4;

pub(super) const SCENARIO: Scenario =
    Scenario::new("id_blocks", "IdBlocks: no number twice", &["numbers issued"], |sim| {
        sim.workload(work)
            .checker(IssuedOnce)
            .operator(["/ids/orders/_r_*"])
            .leaves(["/ids", COUNTER])
    });

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let counter = DistributedAtomicLong::new(&zk, COUNTER);
    let ids = IdBlocks::new(&counter, rng.u32(1..8));
    let issued = |number| client.record(Shared::Issued { sequence: Name::from(COUNTER), number });
    let next = async || {
        if let Some(Ok(number)) = client.maybe_cancel(ids.next()).await {
            issued(number);
        }
    };
    while client.next_round().is_some() {
        for _ in 0..ACTS {
            sleep(client.moment(Duration::from_millis(50))).await;
            match rng.u8(..8) {
                0 => {
                    if let Some(Ok(number)) = client.maybe_cancel(counter.increment()).await {
                        issued(number);
                    }
                }
                1 => drop(ids.try_next().map(issued)),
                2 => drop(tokio::join!(biased; next(), next(), next())),
                3 => {
                    let count = rng.u32(..12);
                    if let Some(Ok(numbers)) = client.maybe_cancel(ids.take(count)).await {
                        assert_eq!(numbers.len(), count as usize, "the requested number of ids");
                        numbers.into_iter().for_each(issued);
                    }
                }
                _ => next().await,
            }
        }
    }
    client.faults_are_over().await;
    loop {
        match ids.next().await {
            Ok(number) => break issued(number),
            // An earlier reservation has failed, or a deadline has passed.
            Err(_) => sleep(client.moment(Duration::from_millis(100))).await,
        }
    }
    Ok(())
}
