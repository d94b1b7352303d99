//! Futures of two-phase commit, dropped at every point: the transaction is whole or not there,
//! the clients that come later end it with one outcome, and nothing stays behind.

use std::time::Duration;

use zk_curator::CuratorFramework;
use zk_curator_recipes::two_phase::{Coordinator, Error, Form, Outcome, Site, Vote};
use zk_curator_testing::wait::settled;
use zk_curator_tests::{all_close_clean, simulated_drops, two_in_memory};

const TX: &str = "/transactions/order-17";
const SITES: [&str; 2] = ["orders", "stock"];
const FORMS: [Form; 3] = [Form::Symmetric, Form::Coordinated, Form::Ephemeral];
const DEADLINE: Duration = Duration::from_secs(30);
async fn begin(zk: &CuratorFramework, form: Form) -> Coordinator {
    Coordinator::begin(zk, TX, SITES, "payload").form(form).deadline(DEADLINE).await.unwrap()
}

async fn vote(zk: &CuratorFramework, site: &str, vote: Vote) -> Site {
    let mut site = Site::join(zk, TX, site).await.unwrap();
    site.vote(vote).await.unwrap();
    site
}

/// Drops the future of `run` at every step until it completes. Other parties then end the
/// transaction. If they know the outcome, it must be the one that the dropped future may have
/// decided.
fn at_every_step<F, T>(more_than: usize, run: impl Fn(CuratorFramework, CuratorFramework) -> F)
where
    F: Future<Output = T>,
    T: Into<Option<Outcome>>,
{
    simulated_drops(
        more_than,
        two_in_memory,
        async |(_, zk, other)| run(zk.clone(), other.clone()).await,
        async |(server, zk, other), done| {
            let done: Option<Option<Outcome>> = done.map(Into::into);
            match Coordinator::resume(&other, TX).await {
                Err(Error::Gone { .. }) => {}
                Err(error) => panic!("{error:?}\n{}", server.probe()),
                Ok(mut coordinator) => {
                    let found = coordinator.outcome().await.unwrap();
                    if let Some(Some(told)) = done {
                        assert_eq!(told, found);
                    }
                    for site in SITES {
                        let mut site = Site::join(&other, TX, site).await.unwrap();
                        assert_eq!(site.outcome().await.unwrap(), found);
                        site.acknowledge().await.unwrap();
                    }
                    coordinator.clean_up().await.unwrap();
                }
            }
            all_close_clean(&server, [zk, other]).await;
        },
    );
}

#[test]
fn begins_leave_a_whole_transaction_or_none() {
    for form in FORMS {
        at_every_step(4, async |zk, _| {
            begin(&zk, form).await;
            None
        });
    }
}

#[test]
fn votes_are_cast_or_not() {
    for form in FORMS {
        at_every_step(6, async |zk, other| {
            begin(&other, form).await;
            vote(&other, SITES[0], Vote::Commit).await;
            vote(&zk, SITES[1], Vote::Commit).await;
            Outcome::Committed
        });
        at_every_step(0, async |zk, other| {
            begin(&other, form).await;
            vote(&zk, SITES[1], Vote::Abort).await;
            Outcome::Aborted
        });
    }
}

#[test]
fn outcomes_are_those_that_others_find() {
    for form in FORMS {
        at_every_step(8, async |zk, other| {
            let mut coordinator = begin(&zk, form).await;
            let votes = async {
                for site in SITES {
                    settled().await;
                    vote(&other, site, Vote::Commit).await;
                }
            };
            tokio::join!(coordinator.outcome(), votes).0.unwrap()
        });
        at_every_step(0, async |zk, other| {
            begin(&other, form).await;
            let mut site = vote(&zk, SITES[0], Vote::Commit).await;
            site.outcome().await.unwrap() // at the deadline
        });
        at_every_step(0, async |zk, _| begin(&zk, form).await.abort().await.unwrap());
    }
}

#[test]
fn acknowledgements_and_removals_are_done_or_not() {
    for form in FORMS {
        for discard in [false, true] {
            at_every_step(8, async |zk, other| {
                let mut coordinator = begin(&other, form).await;
                let mut sites = [
                    vote(&zk, SITES[0], Vote::Commit).await,
                    vote(&other, SITES[1], Vote::Commit).await,
                ];
                assert_eq!(coordinator.outcome().await.unwrap(), Outcome::Committed);
                if discard {
                    coordinator.discard().await.unwrap();
                    return None;
                }
                for site in &mut sites {
                    site.outcome().await.unwrap();
                    site.acknowledge().await.unwrap();
                }
                coordinator.clean_up().await.unwrap();
                None
            });
        }
    }
}
