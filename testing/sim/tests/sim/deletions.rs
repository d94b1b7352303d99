//! Deletions of nodes by an operator and by other clients.

use zk_curator::CreateMode;
use zk_curator_sim::history::{Hold, HoldMode, Name, Operator};
use zk_curator_sim::{Client, Event, Failure, FaultAction, Faults, Sim};
use zk_curator_testing::wait::spend;

use crate::engine::{fault, one_client, secs, times_of, violation};
use crate::seeds;

#[test]
fn an_operator_deletes_what_it_may_and_it_is_written_down() {
    let workload = |client: Client| async move {
        let zk = client.connect().await?;
        zk.create("/kept").mode(CreateMode::Ephemeral).await?;
        let node = zk.create("/lock").mode(CreateMode::Ephemeral).owned().await?;
        node.ownership().lost().await;
        client.note(format!("lost {}", node.ownership().fencing_token().get()));
        client.note(format!("keeps the other one: {}", zk.exists("/kept").await?.is_some()));
        Ok(())
    };
    let operate = fault(500, 0, FaultAction::Operate { place: 0 });
    let outcome = one_client([operate]).workload(workload).operator(["/lock"]).run();
    let history = outcome.history.to_string();
    assert_eq!(violation(&outcome), "none", "{history}");
    let removed = outcome.history.records().iter().find_map(|record| match &record.event {
        Event::Operator(Operator::Removed { path, tokens }) => {
            Some((path.to_string(), tokens.clone()))
        }
        _ => None,
    });
    let (path, tokens) = removed.unwrap();
    assert_eq!((path.as_str(), tokens.len()), ("/lock", 1));
    assert_eq!(times_of(&outcome.history, &format!("lost {}", tokens[0])).len(), 1, "{history}");
    assert_eq!(times_of(&outcome.history, "keeps the other one: true").len(), 1, "{history}");
}

/// The second client deletes the node of the first one.
async fn meddle(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    if client.number() == 0 {
        zk.create("/theirs").mode(CreateMode::Ephemeral).await?;
    }
    spend(secs(1)).await;
    if client.number() == 1 {
        zk.delete("/theirs").await?;
    }
    spend(secs(1)).await;
    Ok(())
}

#[test]
fn a_deletion_of_another_clients_node_is_found() {
    for settings in [false, true] {
        for seed in seeds(10, 10) {
            let sim = Sim::seed(seed)
                .clients(2)
                .settings(settings)
                .faults(Faults::none())
                .workload(meddle);
            let outcome = sim.clone().run();
            let Some(found) = outcome.violation else { panic!("{}", outcome.history) };
            assert_eq!(found.checker, "ownership");
            assert!(found.broken.starts_with("c1 has deleted /"), "{found}");
            assert_eq!(violation(&sim.common(["/theirs"]).run()), "none");
        }
    }
}

/// The nodes that the first client deletes together with the claim of the second one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Settles {
    Nothing,
    TheItem,
    /// The item, which the second client has written.
    WhatWasWritten,
    /// The item, which the second client holds.
    WhatIsHeld,
}

/// The first client has a claim, which an operator deletes. The second client then creates a claim,
/// and the first one deletes it.
async fn settle(client: Client, what: Settles) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let claim =
        || zk.create("/claims/x").mode(CreateMode::Ephemeral).creating_parents_as_containers();
    if client.number() == 0 {
        zk.create("/items/x").creating_parents_as_containers().await?;
        claim().await?;
    }
    spend(secs(1)).await;
    if client.number() == 1 {
        let claim = claim().owned().await?;
        if what == Settles::WhatWasWritten {
            zk.set_data("/items/x", "").await?;
        }
        if what == Settles::WhatIsHeld {
            let (resource, mode) = (Name::from("x"), HoldMode::Exclusive);
            let (hold, token) = (client.unique(), claim.ownership().fencing_token().get());
            client.record(Hold::Acquired { resource, mode, hold, token });
        }
        drop(claim.leak());
    }
    spend(secs(1)).await;
    if client.number() == 0 {
        let settled = zk.transaction().delete("/claims/x");
        let settled = if what == Settles::Nothing { settled } else { settled.delete("/items/x") };
        settled.commit().await?;
    }
    spend(secs(1)).await;
    Ok(())
}

#[test]
fn claims_of_others_may_be_deleted_with_what_they_are_claims_to() {
    let run = |what, settled: &[(&str, &str)]| {
        let operate = fault(500, 0, FaultAction::Operate { place: 0 });
        let sim =
            one_client([operate]).clients(2).operator(["/claims/x"]).leaves(["/items", "/items/x"]);
        let sim = sim.settled(settled.iter().copied());
        let outcome = sim.workload(move |client| settle(client, what)).run();
        violation(&outcome).to_owned()
    };
    let declared = [("/claims/*", "/items")];
    assert_eq!(run(Settles::TheItem, &declared), "none");
    assert_eq!(run(Settles::TheItem, &[]), "ownership");
    assert_eq!(run(Settles::TheItem, &[("/claims/*", "/others")]), "ownership");
    assert_eq!(run(Settles::TheItem, &[("/claims/*", "..")]), "ownership");
    assert_eq!(run(Settles::Nothing, &declared), "ownership");
    assert_eq!(run(Settles::WhatWasWritten, &declared), "ownership");
    assert_eq!(run(Settles::WhatIsHeld, &declared), "ownership");
}
