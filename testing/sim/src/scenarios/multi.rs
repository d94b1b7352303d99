//! [`InterProcessMultiLock`]: some of four locks, in any order.

use std::sync::Arc;

use tokio::time::sleep;
use zk_curator_recipes::lock::InterProcessMultiLock;

use super::Scenario;
use super::holding::{Attempt, Holding, Pauses, acquire, ends, last_visit, write};
use crate::checkers::Exclusion;
use crate::history::{Mode, Name};
use crate::{Client, Failure};

const LOCKS: [&str; 4] = ["/accounts/a/lock", "/accounts/b/lock", "/accounts/c/lock", "/accounts/d/lock"];
const NODES: [&str; 4] = ["/data/a", "/data/b", "/data/c", "/data/d"];

pub(super) const SCENARIO: Scenario =
    Scenario::new("multi", "InterProcessMultiLock: two or three of four locks", |client| {
        Box::pin(transfer(client))
    })
    .checked_by(|| vec![Arc::new(Exclusion::mutual())])
    .nodes(&NODES)
    .sequences(&LOCKS);

async fn transfer(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let pauses = Pauses::of(&client);
    loop {
        let mut some = [0, 1, 2, 3];
        rng.shuffle(&mut some);
        let some = &some[..rng.usize(2..4)];
        let locks = InterProcessMultiLock::of_mutexes(&zk, some.iter().map(|&lock| LOCKS[lock]));
        let mut some = some.to_vec();
        some.sort_unstable();
        let begin = |&lock: &usize| Attempt::begin(&client, &LOCKS[lock].into(), Mode::Exclusive);
        let last = client.next_round().is_none();
        pauses.wait(&client).await;
        let attempts: Vec<Attempt> = some.iter().map(begin).collect();
        let guard = if last {
            last_visit(&client, locks.acquire()).await?
        } else {
            acquire(&client, locks.acquire(), locks.try_acquire()).await
        };
        if let Some(guard) = guard {
            let acquired = attempts.into_iter().zip(guard.guards());
            let holdings: Vec<Holding> =
                acquired.map(|(attempt, guard)| attempt.acquired(guard.fencing_token())).collect();
            let nodes: Vec<Name> = some.iter().map(|&node| NODES[node].into()).collect();
            let work = async {
                for holding in &holdings {
                    holding.use_it().await;
                }
                sleep(client.moment(client.session_timeout() / 10)).await;
                write(&holdings.iter().collect::<Vec<_>>(), &nodes, guard.fenced()).await;
            };
            tokio::select! {
                biased;
                () = guard.lost() => holdings.iter().for_each(Holding::lost),
                () = work => {
                    holdings.iter().for_each(Holding::releasing);
                    if ends(&client, guard.release()).await {
                        holdings.iter().for_each(Holding::released);
                    }
                }
            }
        } else {
            attempts.into_iter().for_each(Attempt::missed);
        }
        if last {
            return Ok(());
        }
    }
}
