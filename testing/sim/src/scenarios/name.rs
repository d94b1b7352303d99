//! [`name`](zk_curator_recipes::name): clients rebind one name by version, and bind another one for
//! as long as they live. After the last fault, every follower must end with the present binding.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator_recipes::name::{Binding, Bound, Error, NameService, NameWatch, Version};

use super::Scenario;
use crate::checkers::Linearizable;
use crate::history::{Answer, Name, Operation, Shared};
use crate::{Client, Failure};

const NAMES: &str = "/names";
/// The name that is bound to increasing numbers.
const LASTING: &str = "persistent";
/// The number that stands for an unbound name.
const UNBOUND: i64 = 0;
/// The name that is bound to the client that binds it.
const PASSING: &str = "passing";
/// The number of actions in a round.
const ACTS: usize = 4;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "name",
    "name service: rebound by version, and followed",
    &["responses"],
    |sim| {
        sim.workload(work)
            .checker(Linearizable::from(UNBOUND).deleted_with(LASTING, "/names/persistent"))
            .leaves(["/names", "/names/persistent", "/names/persistent/_b_*"])
            .operator(["/names/persistent", "/names/passing"])
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let names = NameService::new(&client.connect().await?, NAMES);
    let mut follower = Follower { watch: names.follow(LASTING), told: None };
    let mut binding: Option<Binding> = None;
    while client.next_round().is_some() {
        for _ in 0..ACTS {
            sleep(client.moment(Duration::from_millis(50))).await;
            act(&client, &names, &mut binding, &mut follower).await?;
        }
    }
    client.faults_are_over().await;
    drop(binding);
    // Every client gets the name once.
    let kept = names.keep_bound(PASSING, client.who().to_string());
    kept.bound().await?;
    if !kept.is_bound() {
        return Err("a client that has bound a name does not see its binding".into());
    }
    kept.unbind().await?;
    follower.ends_with_the_newest(&names).await
}

/// Does one random action of a client.
async fn act(
    client: &Client,
    names: &NameService,
    binding: &mut Option<Binding>,
    follower: &mut Follower,
) -> Result<(), Failure> {
    match client.rng().u8(..6) {
        0 | 1 => rebind(client, names).await?,
        2 => drop(binding.take()),
        3 => {
            if let Some(binding) = binding.take() {
                drop(client.maybe_cancel(binding.unbind()).await);
            } else {
                let bind = names.bind_ephemeral(PASSING, client.who().to_string());
                *binding = client.maybe_cancel(bind).await.and_then(Result::ok);
            }
        }
        4 => {
            if let Some(binding) = binding {
                drop(client.maybe_cancel(binding.rebind(client.who().to_string())).await);
            }
        }
        _ => {
            let most = client.moment(Duration::from_millis(500));
            drop(client.maybe_cancel(timeout(most, follower.next())).await);
        }
    }
    Ok(())
}

/// Binds the name to the next number, if it still has the seen binding, or is still unbound.
async fn rebind(client: &Client, names: &NameService) -> Result<(), Failure> {
    swap(client, UNBOUND, |new| names.bind(LASTING, new)).await?;
    let Some(Ok(Some(seen))) = client.maybe_cancel(names.resolve(LASTING)).await else {
        return Ok(());
    };
    swap(client, seen.value()?, |new| names.rebind(LASTING, new, seen.version)).await
}

/// Replaces the number of the name by a unique one.
async fn swap<F>(client: &Client, expected: i64, swap: impl FnOnce(i64) -> F) -> Result<(), Failure>
where
    F: Future<Output = Result<Version, Error>>,
{
    let id = client.unique();
    let new = i64::try_from(id)? + 1;
    let (object, operation) = (Name::from(LASTING), Operation::CompareAndSet { expected, new });
    client.record(Shared::Call { id, object, operation });
    let answer = match client.maybe_cancel(swap(new)).await {
        Some(Ok(_)) => Answer::Done,
        Some(Err(Error::Taken { .. } | Error::NotBound { .. } | Error::Rebound { .. })) => {
            Answer::Differs
        }
        Some(Err(Error::Framework(error))) if !error.may_have_applied() => Answer::Failed,
        _ => Answer::Unknown,
    };
    client.record(Shared::Return { id, answer });
    Ok(())
}

/// A follower of the name, with its last notification.
struct Follower {
    watch: NameWatch,
    told: Option<Option<Bound>>,
}

impl Follower {
    async fn next(&mut self) -> Result<(), Error> {
        self.told = Some(self.watch.next().await?);
        Ok(())
    }

    async fn ends_with_the_newest(&mut self, names: &NameService) -> Result<(), Failure> {
        // Other clients may still change the name.
        while self.told != Some(names.resolve(LASTING).await?) {
            match timeout(Duration::from_secs(1), self.next()).await {
                Ok(Err(Error::Framework(error))) if error.is_retryable() => {}
                Ok(told) => told?,
                Err(_) => {}
            }
        }
        Ok(())
    }
}
