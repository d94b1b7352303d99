//! Two-phase commit: layout, the three forms, cost, and the effects of faults.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_curator::retry::RetryForever;
use zk_curator::{Acl, CuratorFramework, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_recipes::two_phase::Outcome::{self, Aborted, Committed};
use zk_curator_recipes::two_phase::{
    Coordinator, Error, Form, Site, SiteState, Vote, inspect, sweep,
};
use zk_curator_testing::wait::{idle, spend};
use zk_curator_testing::{ProbeWatch, TestServer, Verdict, WatchKind};
use zk_curator_tests::{
    assert_matches, builder, closes_clean, connected, cut_at_next_multi, expire, in_memory,
    join_all, once, pairs, server, session_id, simulated, simulated_each, simulated_each_on,
    simulated_on, simulated_with, start, try_join_all, two_in_memory, until,
};

const TX: &str = "/transactions/order-17";
const SITES: [&str; 3] = ["orders", "stock", "billing"];
const FORMS: [Form; 3] = [Form::Symmetric, Form::Coordinated, Form::Ephemeral];
const DEADLINE: Duration = Duration::from_secs(30);

async fn begin(zk: &CuratorFramework, form: Form) -> Coordinator {
    Coordinator::begin(zk, TX, SITES, "payload").form(form).deadline(DEADLINE).await.unwrap()
}

async fn join_all_sites(zk: &CuratorFramework) -> Vec<Site> {
    try_join_all(SITES.map(|site| Site::join(zk, TX, site))).await.unwrap()
}

async fn all_commit(sites: &mut [Site]) {
    for site in sites {
        site.vote(Vote::Commit).await.unwrap();
    }
}

/// The outcome, which all of them learn.
async fn outcome(parties: &mut [Site]) -> Outcome {
    let outcomes = join_all(parties.iter_mut().map(Site::outcome)).await;
    let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    assert!(outcomes.windows(2).all(|pair| pair[0] == pair[1]), "{outcomes:?}");
    outcomes[0]
}

/// Runs an operation whose next transaction gets this verdict.
async fn despite<T>(
    server: &TestServer,
    verdict: Verdict,
    operation: impl Future<Output = T>,
) -> T {
    let lost = once(server, OpCode::Multi, verdict);
    let output = operation.await;
    lost.fired().await;
    output
}

/// Acknowledges and removes a transaction, which leaves nothing behind.
async fn finish(server: &TestServer, mut coordinator: Coordinator, sites: Vec<Site>) {
    for mut site in sites {
        site.acknowledge().await.unwrap();
        site.acknowledge().await.unwrap();
    }
    coordinator.clean_up().await.unwrap();
    coordinator.clean_up().await.unwrap();
    assert!(!server.probe().exists(TX), "{}", server.probe());
}

#[test]
fn the_layout_is_that_of_the_recipe() {
    simulated_with(async |server, zk| {
        for form in FORMS {
            let mut coordinator = begin(&zk, form).await;
            let probe = server.probe();
            assert!(probe.is_container("/transactions"));
            let text = String::from_utf8(probe.data(TX).unwrap().to_vec()).unwrap();
            assert!(text.starts_with("two-phase commit 2\nstate preparing\n"), "{text}");
            assert!(text.ends_with("site orders\nsite stock\nsite billing\n\npayload"), "{text}");
            let children =
                if form == Form::Ephemeral { vec![] } else { vec!["billing", "orders", "stock"] };
            let (identity, others): (Vec<_>, Vec<_>) =
                probe.children(TX).into_iter().partition(|name| name.starts_with("_t_"));
            assert_eq!((identity.len(), others), (1, children));

            let mut sites = join_all_sites(&zk).await;
            for site in &mut sites {
                assert_eq!(
                    (site.payload(), site.form(), site.deadline()),
                    (&"payload".into(), form, DEADLINE)
                );
                site.vote(Vote::Commit).await.unwrap();
                let path = format!("{TX}/{}", site.site());
                let probe = server.probe();
                assert_eq!(probe.data(&path).unwrap(), "commit");
                let owner = probe.stat(&path).unwrap().ephemeral_owner;
                assert_eq!(owner != 0, form == Form::Ephemeral, "{probe}");
            }
            assert_eq!(coordinator.outcome().await.unwrap(), Committed);
            assert_eq!(outcome(&mut sites).await, Committed);
            assert!(
                server
                    .probe()
                    .data(TX)
                    .unwrap()
                    .starts_with(b"two-phase commit 2\nstate committed\n")
            );
            finish(&server, coordinator, sites).await;
        }
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn all_votes_commit_and_one_aborts_early() {
    simulated_each(FORMS, async |form, server, zk| {
        let mut coordinator = begin(&zk, form).await;
        let mut sites = join_all_sites(&zk).await;
        sites[0].vote(Vote::Commit).await.unwrap();
        let began = Instant::now();
        // No site waits for the third.
        let (aborted, vote) = tokio::join!(coordinator.outcome(), sites[1].vote(Vote::Abort));
        vote.unwrap();
        assert_eq!(aborted.unwrap(), Aborted);
        let late = sites[2].vote(Vote::Commit).await;
        assert!(matches!(late, Err(Error::Late { outcome: Aborted, .. })), "{late:?}");
        assert_eq!(outcome(&mut sites).await, Aborted);
        assert!(began.elapsed() < Duration::from_secs(1));
        finish(&server, coordinator, sites).await;
    });
}

#[test]
fn a_vote_is_cast_once() {
    simulated_each(FORMS, async |form, server, zk| {
        let _coordinator = begin(&zk, form).await;
        let mut site = Site::join(&zk, TX, "stock").await.unwrap();
        assert_eq!(site.vote_cast().await.unwrap(), None);
        site.vote(Vote::Commit).await.unwrap();
        let zxid = server.probe().zxid();
        site.vote(Vote::Commit).await.unwrap();
        for mut site in [site, Site::join(&zk, TX, "stock").await.unwrap()] {
            let refused = site.vote(Vote::Abort).await;
            assert_matches!(refused, Err(Error::AlreadyCast { vote: Vote::Commit, .. }));
            assert_eq!(site.vote_cast().await.unwrap(), Some(Vote::Commit));
        }
        assert_eq!(server.probe().data(&format!("{TX}/stock")).unwrap(), "commit");
        // Failed transactions, and the checks of linearizable reads.
        assert!(server.probe().zxid() - zxid <= 13, "{}", server.probe());
    });
}

#[test]
fn the_deadline_aborts_without_a_coordinator() {
    simulated_each(FORMS, async |form, _server, zk| {
        drop(begin(&zk, form).await);
        let mut sites = join_all_sites(&zk).await;
        let began = Instant::now();
        sites[0].vote(Vote::Commit).await.unwrap();
        assert_eq!(outcome(&mut sites).await, Aborted);
        assert!(began.elapsed() >= DEADLINE && began.elapsed() < DEADLINE * 2);
        let late = sites[1].vote(Vote::Commit).await;
        assert!(matches!(late, Err(Error::Late { outcome: Aborted, .. })), "{late:?}");
    });
}

/// The coordinator dies between the last vote and the decision.
#[test]
fn sites_finish_what_a_dead_coordinator_has_begun() {
    simulated_each(FORMS, async |form, server, zk| {
        let dead = connected(&server).await;
        drop(begin(&dead, form).await);
        dead.close().await.unwrap();
        let mut sites = join_all_sites(&zk).await;
        all_commit(&mut sites).await;
        // At the deadline, as the votes require.
        assert_eq!(outcome(&mut sites).await, Committed);
        let coordinator = Coordinator::resume(&zk, TX).await.unwrap();
        finish(&server, coordinator, sites).await;
    });
}

#[test]
fn a_new_coordinator_takes_over_at_once_and_an_old_one_wakes_up() {
    simulated_each(FORMS, async |form, server, zk| {
        let slow = connected(&server).await;
        let mut old = begin(&slow, form).await;
        let mut sites = join_all_sites(&zk).await;
        all_commit(&mut sites[..2]).await;
        // The session of the old one ends; the new one gives up on the third site.
        expire(&server, &slow).await;
        let mut new = Coordinator::resume(&zk, TX).await.unwrap();
        assert_eq!(new.payload(), "payload");
        assert_eq!(new.sites(), SITES);
        assert_eq!(new.abort().await.unwrap(), Aborted);
        assert_eq!(old.outcome().await.unwrap(), Aborted);
        assert_eq!(outcome(&mut sites).await, Aborted);
        finish(&server, new, sites).await;
        let gone = Coordinator::resume(&zk, TX).await;
        assert!(matches!(gone, Err(Error::Gone { .. })), "{gone:?}");
    });
}

#[test]
fn unanimous_votes_are_not_aborted_and_outcomes_not_reversed() {
    simulated_each(FORMS, async |form, _server, zk| {
        let mut coordinator = begin(&zk, form).await;
        let mut sites = join_all_sites(&zk).await;
        all_commit(&mut sites).await;
        assert_eq!(coordinator.abort().await.unwrap(), Committed);
        let mut other = Coordinator::resume(&zk, TX).await.unwrap();
        assert_eq!(other.abort().await.unwrap(), Committed);
        assert_eq!(outcome(&mut sites).await, Committed);
        // A site that returns learns it, too.
        assert_eq!(outcome(&mut join_all_sites(&zk).await).await, Committed);
    });
}

fn is_on_children(watch: &ProbeWatch) -> bool {
    watch.path == TX && watch.kind == WatchKind::Child
}

#[test]
fn a_site_that_dies_is_an_abort_where_its_vote_is_ephemeral() {
    simulated_on(two_in_memory, async |(server, zk, mortal)| {
        let mut coordinator = begin(&zk, Form::Ephemeral).await;
        let mut site = Site::join(&mortal, TX, "stock").await.unwrap();
        site.vote(Vote::Commit).await.unwrap();
        let began = Instant::now();
        let death = async {
            until(&server, |probe| probe.watches().iter().any(is_on_children)).await;
            expire(&server, &mortal).await;
        };
        let (outcome, ()) = tokio::join!(coordinator.outcome(), death);
        assert_eq!(outcome.unwrap(), Aborted);
        assert!(began.elapsed() < DEADLINE);
        // After the decision, the death of a site has no effect: it later learns the decision.
        assert_eq!(site.outcome().await.unwrap(), Aborted);
    });
}

/// The last vote exists when the commit is sent, but another vote is gone when it arrives.
#[test]
fn a_vote_that_vanishes_before_the_commit_aborts_at_once() {
    simulated_on(two_in_memory, async |(server, zk, mortal)| {
        let mut coordinator = begin(&zk, Form::Ephemeral).await;
        for site in ["orders", "stock"] {
            Site::join(&mortal, TX, site).await.unwrap().vote(Vote::Commit).await.unwrap();
        }
        let began = Instant::now();
        let death = async {
            until(&server, |probe| probe.watches().iter().any(is_on_children)).await;
            let late = once(&server, OpCode::Multi, Verdict::Delay(Duration::from_secs(1)));
            zk.create(format!("{TX}/billing")).data("commit").await.unwrap();
            late.fired().await;
            expire(&server, &mortal).await;
        };
        let (outcome, ()) = tokio::join!(coordinator.outcome(), death);
        assert_eq!(outcome.unwrap(), Aborted);
        assert!(began.elapsed() < DEADLINE / 2, "{:?}", began.elapsed());
    });
}

#[test]
fn a_dropped_look_does_not_forget_the_votes_it_saw() {
    simulated_on(two_in_memory, async |(server, zk, mortal)| {
        let mut coordinator = begin(&zk, Form::Ephemeral).await;
        Site::join(&mortal, TX, "stock").await.unwrap().vote(Vote::Commit).await.unwrap();
        let began = Instant::now();
        let give_up = async |coordinator: &mut Coordinator| {
            assert!(timeout(Duration::from_secs(1), coordinator.outcome()).await.is_err());
        };
        give_up(&mut coordinator).await;
        // The children change, and their read is abandoned.
        zk.create(format!("{TX}/billing")).data("commit").await.unwrap();
        let slow = once(&server, OpCode::GetChildren2, Verdict::Delay(Duration::from_secs(5)));
        give_up(&mut coordinator).await;
        assert_eq!(slow.hits(), 1);
        expire(&server, &mortal).await;
        assert_eq!(coordinator.outcome().await.unwrap(), Aborted);
        assert!(began.elapsed() < DEADLINE / 2, "{:?}", began.elapsed());
    });
}

/// All sites vote, carry it out, and it is swept.
async fn run_and_sweep(zk: &CuratorFramework) {
    let mut sites = join_all_sites(zk).await;
    all_commit(&mut sites).await;
    let mut coordinator = Coordinator::resume(zk, TX).await.unwrap();
    assert_eq!(coordinator.outcome().await.unwrap(), Committed);
    for mut site in sites {
        site.outcome().await.unwrap();
        site.acknowledge().await.unwrap();
    }
    assert_eq!(sweep(zk, "/transactions").await.unwrap(), [TX]);
}

/// The response to the begin is lost, and the coordinator away until all is over.
#[test]
fn a_transaction_that_was_swept_does_not_begin_again() {
    simulated_each_on(FORMS, two_in_memory, async |form, (server, zk, other)| {
        other.create_containers("/transactions").await.unwrap();
        let away = cut_at_next_multi(&server, &zk, Verdict::LoseReply);
        let meanwhile = async {
            until(&server, |probe| probe.exists(TX)).await;
            run_and_sweep(&other).await;
            drop(away);
        };
        let (mut coordinator, ()) = tokio::join!(begin(&zk, form), meanwhile);
        let outcome = coordinator.outcome().await;
        assert!(matches!(outcome, Err(Error::Gone { .. })), "{form:?}: {outcome:?}");
        assert!(!server.probe().exists(TX), "{}", server.probe());
    });
}

/// The response to the removal is lost, and the next transaction is already decided when the
/// coordinator reads again.
#[test]
fn a_repeated_removal_leaves_the_next_transaction_alone() {
    simulated_each_on(FORMS, two_in_memory, async |form, (server, zk, other)| {
        let mut first = begin(&other, form).await;
        first.abort().await.unwrap();
        let mut old = Coordinator::resume(&zk, TX).await.unwrap();
        let away = cut_at_next_multi(&server, &zk, Verdict::LoseReply);
        let meanwhile = async {
            until(&server, |probe| !probe.exists(TX)).await;
            begin(&other, form).await.abort().await.unwrap();
            drop(away);
        };
        let (removed, ()) = tokio::join!(old.discard(), meanwhile);
        removed.unwrap();
        assert!(server.probe().exists(TX), "{form:?}");
    });
}

#[test]
fn late_parties_do_not_act_in_the_next_transaction() {
    simulated_each_on(FORMS, two_in_memory, async |form, (server, zk, other)| {
        let mut first = begin(&zk, form).await;
        let mut sites = Vec::new();
        for zk in [&zk, &other] {
            sites.push(Site::join(zk, TX, "stock").await.unwrap());
        }
        let mut late = Coordinator::resume(&other, TX).await.unwrap();
        first.abort().await.unwrap();
        first.discard().await.unwrap();
        begin(&zk, form).await;
        let before = server.probe();
        for site in &mut sites {
            for vote in [Vote::Commit, Vote::Abort] {
                let voted = site.vote(vote).await;
                assert!(matches!(voted, Err(Error::Gone { .. })), "{form:?}: {voted:?}");
            }
            assert!(matches!(site.vote_cast().await, Err(Error::Gone { .. })));
        }
        assert!(matches!(late.abort().await, Err(Error::Gone { .. })), "{form:?}");
        late.discard().await.unwrap_err();
        first.discard().await.unwrap();
        first.clean_up().await.unwrap();
        let now = server.probe();
        assert_eq!(now.data(TX), before.data(TX));
        assert_eq!(now.children(TX), before.children(TX));
    });
}

#[test]
fn a_refused_vote_is_an_error_at_once() {
    simulated_with(async |server, zk| {
        let _coordinator = begin(&zk, Form::Coordinated).await;
        let mut site = Site::join(&zk, TX, "stock").await.unwrap();
        zk.set_acl(format!("{TX}/stock"), Acl::read_unsafe()).await.unwrap();
        let before = server.probe().requests(OpCode::Multi);
        let Err(Error::Framework(error)) = site.vote(Vote::Commit).await else { panic!("a vote") };
        assert_eq!((error.kind(), error.operation()), (ErrorKind::NoAuth, "vote"), "{error}");
        assert_eq!(error.path(), format!("{TX}/stock"));
        assert_eq!(server.probe().requests(OpCode::Multi), before + 1);
    });
}

#[test]
fn a_site_back_before_its_old_session_ends_keeps_its_vote() {
    simulated_on(two_in_memory, async |(server, zk, old)| {
        let mut coordinator = begin(&zk, Form::Ephemeral).await;
        let vote = async |zk: &CuratorFramework, site: &str| {
            let mut site = Site::join(zk, TX, site).await.unwrap();
            site.vote(Vote::Commit).await.unwrap();
        };
        vote(&old, "stock").await;
        vote(&zk, "stock").await;
        expire(&server, &old).await;
        let owner = server.probe().stat(&format!("{TX}/stock")).unwrap().ephemeral_owner;
        assert_eq!(owner, session_id(&zk).get());
        vote(&zk, "orders").await;
        vote(&zk, "billing").await;
        assert_eq!(coordinator.outcome().await.unwrap(), Committed);
    });
}

#[test]
fn every_lost_response_is_resolved() {
    let cases = pairs(FORMS, [Verdict::LoseReply, Verdict::LoseRequest]);
    simulated_each(cases, async |(form, verdict), server, zk| {
        // Creates, votes, decisions, acknowledgements and the removal are transactions.
        let mut coordinator = despite(&server, verdict, begin(&zk, form)).await;
        let mut sites = join_all_sites(&zk).await;
        for site in &mut sites {
            despite(&server, verdict, site.vote(Vote::Commit)).await.unwrap();
        }
        assert_eq!(despite(&server, verdict, coordinator.outcome()).await.unwrap(), Committed);
        assert_eq!(outcome(&mut sites).await, Committed);
        for mut site in sites {
            despite(&server, verdict, site.acknowledge()).await.unwrap();
        }
        despite(&server, verdict, coordinator.clean_up()).await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn votes_to_abort_and_deadlines_survive_lost_responses() {
    let cases = pairs(FORMS, [Verdict::LoseReply, Verdict::LoseRequest]);
    simulated_each(cases, async |(form, verdict), server, zk| {
        let mut coordinator = begin(&zk, form).await;
        let mut site = Site::join(&zk, TX, "stock").await.unwrap();
        despite(&server, verdict, site.vote(Vote::Abort)).await.unwrap();
        assert_eq!(coordinator.outcome().await.unwrap(), Aborted);
        coordinator.discard().await.unwrap();

        let mut coordinator = begin(&zk, form).await;
        assert_eq!(despite(&server, verdict, coordinator.outcome()).await.unwrap(), Aborted);
    });
}

/// All clients lose their connections, their sessions, and the server, again and again.
#[test]
fn sessions_that_end_while_all_sites_wait_change_nothing() {
    simulated_each_on([Form::Symmetric, Form::Coordinated], server, async |form, server| {
        let mut clients = Vec::new();
        for _ in 0..4 {
            let zk =
                start(builder(&server).retry(RetryForever::new(Duration::from_millis(50)))).await;
            clients.push(zk);
        }
        let mut coordinator = begin(&clients[0], form).await;
        let run = |zk: CuratorFramework, site: &'static str, at: u64| async move {
            let mut site = Site::join(&zk, TX, site).await.unwrap();
            spend(Duration::from_secs(at)).await;
            site.vote(Vote::Commit).await.unwrap();
            site.outcome().await.unwrap()
        };
        let faults = async {
            spend(Duration::from_secs(1)).await;
            for zk in &clients {
                expire(&server, zk).await;
            }
            spend(Duration::from_secs(4)).await;
            server.disconnect_all();
        };
        let [one, two, three] = [1, 2, 3].map(|index| clients[index].clone());
        let (decided, one, two, three, ()) = tokio::join!(
            coordinator.outcome(),
            run(one, "orders", 0),
            run(two, "stock", 3),
            run(three, "billing", 9),
            faults
        );
        let decided = decided.unwrap();
        assert_eq!([decided, one, two, three], [Committed; 4]);
    });
}

#[test]
fn mistakes_are_refused() {
    simulated_with(async |_server, zk| {
        let begin =
            |sites: &[&'static str]| Coordinator::begin(&zk, TX, sites.to_vec(), "").into_future();
        use std::future::IntoFuture;
        assert!(matches!(begin(&[]).await, Err(Error::NoSites { path }) if path == TX));
        assert!(
            matches!(begin(&["a", "a"]).await, Err(Error::Duplicate { site, .. }) if site == "a")
        );
        for name in ["", ".", "..", "a/b", "a\nb", "a\0"] {
            assert!(matches!(begin(&[name]).await, Err(Error::InvalidSite { .. })), "{name:?}");
        }
        let invalid = Coordinator::begin(&zk, "no-slash", ["a"], "").await.unwrap_err();
        assert_matches!(invalid, Error::Framework(error) if error.kind() == ErrorKind::InvalidPath);
        assert!(matches!(Site::join(&zk, TX, "a").await, Err(Error::Gone { .. })));
        assert!(inspect(&zk, TX).await.unwrap().is_none());

        let mut coordinator = begin(&["a", "b"]).await.unwrap();
        assert!(matches!(begin(&["a", "b"]).await, Err(Error::Exists { path }) if path == TX));
        assert!(matches!(Site::join(&zk, TX, "c").await, Err(Error::NotASite { .. })));
        assert!(matches!(coordinator.clean_up().await, Err(Error::Undecided { .. })));
        assert!(matches!(coordinator.discard().await, Err(Error::Undecided { .. })));
        let mut site = Site::join(&zk, TX, "a").await.unwrap();
        assert!(matches!(site.acknowledge().await, Err(Error::Undecided { .. })));

        zk.create("/transactions/other")
            .data(
                "two-phase commit 2

",
            )
            .await
            .unwrap();
        let other = Site::join(&zk, "/transactions/other", "a").await;
        assert!(matches!(other, Err(Error::NotATransaction { .. })), "{other:?}");
    });
}

#[test]
fn a_transaction_can_be_looked_at_and_swept_away() {
    simulated_each(FORMS, async |form, server, zk| {
        let mut coordinator = begin(&zk, form).await;
        let mut sites = join_all_sites(&zk).await;
        sites[0].vote(Vote::Commit).await.unwrap();
        let inspection = inspect(&zk, TX).await.unwrap().unwrap();
        assert_eq!((inspection.outcome, inspection.form), (None, form));
        assert_eq!(inspection.sites[0], ("orders".into(), SiteState::Voted(Vote::Commit)));
        assert_eq!(inspection.sites[1], ("stock".into(), SiteState::Pending));
        let text = inspection.to_string();
        assert!(text.starts_with(&format!("{TX}: preparing (")), "{text}");
        assert!(text.contains("\n  stock has not voted\n"), "{text}");
        sites[1].vote(Vote::Abort).await.unwrap();
        assert_eq!(inspect(&zk, TX).await.unwrap().unwrap().outcome, Some(Aborted));

        assert_eq!(coordinator.outcome().await.unwrap(), Aborted);
        zk.create("/transactions/other").await.unwrap();
        assert_eq!(sweep(&zk, "/transactions").await.unwrap(), [""; 0], "the sites are not done");
        for mut site in sites {
            site.acknowledge().await.unwrap();
        }
        assert!(inspect(&zk, TX).await.unwrap().unwrap().is_finished());
        assert_eq!(sweep(&zk, "/transactions").await.unwrap(), [TX]);
        assert_eq!(server.probe().children("/transactions"), ["other"]);
        assert_eq!(sweep(&zk, "/nothing").await.unwrap(), [""; 0]);
    });
}

#[test]
fn any_deadline_can_be_given() {
    simulated_with(async |server, zk| {
        for deadline in [Duration::MAX, Duration::from_nanos(1_500_001)] {
            let reply = once(&server, OpCode::Multi, Verdict::LoseReply);
            let begin = Coordinator::begin(&zk, TX, ["a"], "").deadline(deadline);
            let mut coordinator = begin.await.unwrap();
            assert_eq!(reply.hits(), 1);
            let mut site = Site::join(&zk, TX, "a").await.unwrap();
            site.vote(Vote::Commit).await.unwrap();
            assert_eq!(coordinator.outcome().await.unwrap(), Committed);
            coordinator.discard().await.unwrap();
            coordinator.discard().await.unwrap();
        }
        let mut coordinator =
            Coordinator::begin(&zk, TX, ["a"], "").deadline(Duration::ZERO).await.unwrap();
        assert_eq!(coordinator.outcome().await.unwrap(), Aborted);
    });
}

#[test]
fn the_coordinator_waits_for_all_acknowledgements() {
    simulated_each(FORMS, async |form, server, zk| {
        let mut coordinator = begin(&zk, form).await;
        let mut sites = join_all_sites(&zk).await;
        for site in &mut sites[1..] {
            site.vote(Vote::Commit).await.unwrap();
        }
        assert_eq!(coordinator.abort().await.unwrap(), Aborted);
        let acknowledge = async {
            for site in &mut sites {
                idle(Duration::from_secs(1)).await;
                assert!(server.probe().exists(TX));
                assert_eq!(site.outcome().await.unwrap(), Aborted);
                site.acknowledge().await.unwrap();
            }
        };
        let (cleaned, ()) = tokio::join!(coordinator.clean_up(), acknowledge);
        cleaned.unwrap();
        assert!(!server.probe().exists(TX));
        let gone = sites[0].acknowledge().await;
        assert!(gone.is_ok(), "{gone:?}");
    });
}

/// Requests and notifications from the begin until all know the outcome. All join concurrently, and
/// vote one after another.
async fn messages(form: Form, sites: usize) -> (u64, u64) {
    let (server, zk) = in_memory().await;
    zk.create_containers("/transactions").await.unwrap();
    let names: Vec<_> = (0..sites).map(|site| format!("site-{site}")).collect();
    let mut clients = Vec::new();
    for _ in 0..sites {
        clients.push(connected(&server).await);
    }
    let before = server.probe();
    let mut coordinator = Coordinator::begin(&zk, TX, names.clone(), "").form(form).await.unwrap();
    let sites = clients.iter().zip(&names).zip(1..).map(async |((zk, name), turn)| {
        let mut site = Site::join(zk, TX, name).await.unwrap();
        spend(Duration::from_millis(10 * turn)).await;
        site.vote(Vote::Commit).await.unwrap();
        assert_eq!(site.outcome().await.unwrap(), Committed);
    });
    let (decided, _) = tokio::join!(coordinator.outcome(), join_all(sites));
    assert_eq!(decided.unwrap(), Committed);
    let after = until(&server, |probe| {
        probe.data(TX).unwrap().starts_with(b"two-phase commit 2\nstate co")
    })
    .await;
    let pings = after.requests(OpCode::Ping) - before.requests(OpCode::Ping);
    let requests = after.total_requests() - before.total_requests() - pings;
    (requests, after.notifications() - before.notifications())
}

#[test]
fn a_commit_costs_the_documented_number_of_messages() {
    simulated(async {
        for (form, counts) in [
            (Form::Symmetric, [(34, 12), (167, 110), (2764, 2600)]),
            (Form::Coordinated, [(16, 7), (44, 21), (204, 101)]),
            (Form::Ephemeral, [(18, 7), (46, 21), (206, 101)]),
        ] {
            let mut counted = Vec::new();
            for sites in [3, 10, 50] {
                counted.push(messages(form, sites).await);
            }
            assert_eq!(counted, counts, "{form:?}");
        }
    });
}
