mod stops;

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use zk_curator::ensemble::EnsembleConfig;

use super::doubt::RollingDoubt;
use super::events::{RollingEffect, RollingInput, RollingRules};
use super::observation::Observation;
use super::plan::{RollingPlanner, STABLE};
use super::report::{RollingEnd, RollingOutcome, RollingRestartError};
use super::world::{EVERY, Fate, Fault, World, fates, faults};
use crate::ensemble::health::tests::serving;
use crate::ensemble::members::EnsembleMembers;
use crate::ensemble::probe::{ProbeReport, ProbedServer};
use crate::ensemble::trouble::ProbeTrouble;
use crate::ensemble::words::ServerMode;

const WAIT: Duration = Duration::from_secs(20);

/// More observations than any run takes.
const MOST: usize = 600;

fn rules(world: &World) -> RollingRules {
    RollingRules {
        targets: world.members().into_keys().collect(),
        least_age: None,
        wait: WAIT,
        pause: Duration::ZERO,
        is_dry_run: false,
    }
}

fn rolling(world: &World) -> RollingPlanner {
    RollingPlanner::new(&world.found(), rules(world))
}

/// The ids of the restarted servers, in their order, each with the leader before its restart.
type Restarted = Vec<(u64, u64)>;

/// Runs a restart to its end. The faults are those of the first observations, and the fates those
/// of the first commands. Checks every restart.
fn play(
    world: &mut World,
    rolling: &mut RollingPlanner,
    faults: &[Vec<Fault>],
    fates: &[Fate],
) -> Restarted {
    let targets: BTreeSet<u64> = rolling.rows().iter().filter_map(|row| row.server.id).collect();
    let (mut faults, mut fates) = (faults.iter(), fates.iter());
    let mut restarted = Restarted::new();
    let mut last_seen: Option<Observation> = None;
    let mut before = None;
    let mut effects = vec![RollingEffect::Observe { is_thorough: true }];
    for _ in 0..MOST {
        let last = effects.iter().rfind(|effect| !matches!(effect, RollingEffect::Report(_)));
        effects = match last.expect("an effect") {
            RollingEffect::Observe { is_thorough } => {
                let present = faults.next().map_or(&[][..], Vec::as_slice);
                before = last_seen.as_ref().and_then(greatest_zxid).max(before);
                let observed = world.observe(present, *is_thorough);
                last_seen = Some(observed.clone());
                rolling.step(RollingInput::Observed(observed))
            }
            RollingEffect::Restart(server) => {
                let seen = last_seen.as_ref().expect("an observation");
                check(world, seen, before, server, &restarted, &targets);
                let id = server.id.expect("a member");
                restarted.push((id, world.leader()));
                let fate = fates.next().copied().unwrap_or(Fate::Restarts(1));
                let (server, is_done) = (server.clone(), world.restart(id, fate));
                let failed = RollingRestartError::failed(&server, "exit status: 1");
                let result = if is_done { Ok(()) } else { Err(failed) };
                // The servers are also observed while the command runs.
                let during = world.observe(faults.next().map_or(&[][..], Vec::as_slice), false);
                before = greatest_zxid(seen).max(before);
                let waits = rolling.step(RollingInput::Observed(during.clone()));
                assert_eq!(waits.last(), Some(&RollingEffect::Observe { is_thorough: false }));
                last_seen = Some(during);
                rolling.step(RollingInput::RestartEnded { at: world.now, result })
            }
            RollingEffect::End => return restarted,
            effect => panic!("{effect:?}"),
        };
    }
    panic!("no end: {rolling:?}");
}

/// Returns the greatest transaction that a member has applied; `None` if none reports one.
fn greatest_zxid(seen: &Observation) -> Option<i64> {
    use ServerMode::{Follower, Leader, Observer};

    let zxid = |id: u64| {
        let state = seen.state(id).ok().filter(|state| state.id == Some(id))?;
        let serves = matches!(state.mode, Some(Leader | Follower | Observer));
        state.zxid.filter(|zxid| serves && zxid & 0xffff_ffff != 0)
    };
    seen.servers.iter().filter_map(|observed| zxid(observed.server.id?)).max()
}

/// Checks a restart against the last observation and the world, in words of their own.
fn check(
    world: &World,
    seen: &Observation,
    before: Option<i64>,
    server: &ProbedServer,
    restarted: &Restarted,
    targets: &BTreeSet<u64>,
) {
    let id = server.id.expect("a member");
    let members = world.members();
    assert!(restarted.iter().all(|(other, _)| *other != id), "{id} twice: {restarted:?}");
    assert!(world.is_up(), "a server is down: {world:?}");
    assert_eq!(seen.servers.len(), members.len());
    let is_serving = |member: u64| {
        let state = seen.state(member).expect("a response");
        assert_eq!(state.id, Some(member));
        assert!(state.zxid.is_some() && state.zxid >= before, "{member} is behind: {seen:?}");
        matches!(state.mode, Some(ServerMode::Leader | ServerMode::Follower))
    };
    let voters: Vec<_> = members.iter().filter(|(_, votes)| **votes).map(|(id, _)| *id).collect();
    let others = voters.iter().filter(|voter| **voter != id);
    let quorum = others.filter(|voter| is_serving(**voter)).count();
    assert!(quorum > voters.len() / 2, "{quorum} of {} without {id}", voters.len());
    assert_eq!(seen.leaders().count(), 1);
    assert!(seen.members.iter().all(|told| *told == members) && !seen.members.is_empty());
    assert!(seen.findings.is_empty() && !seen.is_weighted && seen.is_thorough);
    if seen.mode(id) == Some(&ServerMode::Leader) {
        assert_eq!(restarted.len() + 1, targets.len(), "the leader is not the last");
    }
    if !server.observer {
        let mut observers = members.iter().filter(|(_, votes)| !**votes);
        let is_done = |member: &u64| restarted.iter().any(|(other, _)| other == member);
        assert!(observers.all(|(member, _)| is_done(member)), "observers first");
    }
}

fn results(rolling: &RollingPlanner) -> Vec<(u64, RollingOutcome)> {
    let rows = rolling.rows().into_iter();
    rows.map(|row| (row.server.id.unwrap_or_default(), row.outcome)).collect()
}

proptest! {
    #[test]
    fn a_restart_needs_a_certain_quorum(
        (voters, observers) in (1..=5_usize, 0..=2_usize),
        (reports_uptime, is_idle, sends_snapshots) in any::<(bool, bool, bool)>(),
        calm in 0..30_usize,
        seen in prop::collection::vec(
            prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(faults(), 1..3)],
            0..60,
        ),
        commands in prop::collection::vec(fates(), 0..8),
    ) {
        let mut world = World::new(voters, observers, reports_uptime);
        (world.is_idle, world.sends_snapshots) = (is_idle, sends_snapshots);
        let mut rolling = rolling(&world);
        // Most faults would otherwise end the run at its start.
        let seen = [vec![Vec::new(); calm], seen].concat();
        let restarted = play(&mut world, &mut rolling, &seen, &commands);
        let results = results(&rolling);
        prop_assert_eq!(results.len(), voters + observers);
        match rolling.end().expect("an end") {
            RollingEnd::Done => {
                prop_assert!(results.iter().all(|(_, is)| *is == RollingOutcome::Restarted));
                prop_assert_eq!(restarted.len(), results.len());
            }
            RollingEnd::Doubtful(doubts) => prop_assert!(!doubts.is_empty()),
            RollingEnd::RestartFailed(_) => prop_assert!(commands.contains(&Fate::Fails)),
            end => panic!("{end:?}"),
        }
        let open = |is: RollingOutcome| {
            matches!(is, RollingOutcome::Failed | RollingOutcome::Unchecked)
        };
        prop_assert!(results.iter().filter(|(_, is)| open(*is)).count() <= 1);
        let begun = results.iter().filter(|(_, is)| *is != RollingOutcome::Left).count();
        prop_assert_eq!(begun, restarted.len());
    }

    #[test]
    fn an_ensemble_in_order_is_restarted_as_a_whole(
        (voters, observers) in (3..=5_usize, 0..=2_usize),
        (reports_uptime, is_idle, sends_snapshots) in any::<(bool, bool, bool)>(),
        elections in prop::collection::vec(prop::option::weighted(0.2, 0..7_usize), 0..40),
        downs in prop::collection::vec(0..5_u8, 0..8),
    ) {
        let mut world = World::new(voters, observers, reports_uptime);
        (world.is_idle, world.sends_snapshots) = (is_idle, sends_snapshots);
        // Each election delays the next restart.
        let rules = RollingRules { wait: EVERY * 60, ..rules(&world) };
        let mut rolling = RollingPlanner::new(&world.found(), rules);
        let elect = |to: &Option<usize>| to.map(Fault::Elect).into_iter().collect();
        let seen: Vec<Vec<Fault>> = elections.iter().map(elect).collect();
        let commands: Vec<_> = downs.into_iter().map(Fate::Restarts).collect();
        let restarted = play(&mut world, &mut rolling, &seen, &commands);
        // Without the age of roles, an election after a restart that was too quick hides it.
        if reports_uptime || elections.iter().all(Option::is_none) {
            prop_assert_eq!(rolling.end(), Some(&RollingEnd::Done));
            prop_assert_eq!(restarted.len(), voters + observers);
        }
    }

    #[test]
    fn a_restart_without_effect_is_noticed(
        voters in 3..=5_usize,
        (reports_uptime, has_counters, is_idle) in any::<(bool, bool, bool)>(),
        elections in prop::collection::vec(prop::option::weighted(0.2, 0..5_usize), 0..40),
        effective in 0..3_usize,
    ) {
        let mut world = World::new(voters, 0, reports_uptime);
        (world.is_idle, world.has_counters) = (is_idle, reports_uptime && has_counters);
        let mut rolling = rolling(&world);
        let elect = |to: &Option<usize>| to.map(Fault::Elect).into_iter().collect();
        let seen: Vec<Vec<Fault>> = elections.iter().map(elect).collect();
        let commands = [vec![Fate::Restarts(1); effective], vec![Fate::Nothing]].concat();
        let restarted = play(&mut world, &mut rolling, &seen, &commands);
        // Without counters of its process, a leader that is replaced seems to have restarted.
        let is_clear = |(id, leader): &&(u64, u64)| world.has_counters || id != leader;
        let idle = restarted.get(effective).filter(is_clear);
        if let Some((id, _)) = idle {
            prop_assert_eq!(restarted.len(), effective + 1);
            prop_assert!(results(&rolling).contains(&(*id, RollingOutcome::Failed)));
        }
    }
}

#[test]
fn observers_are_first_and_the_leader_is_last() {
    let mut world = World::new(3, 2, true);
    world.elect(1);
    let mut rolling = rolling(&world);
    let restarted = play(&mut world, &mut rolling, &[], &[]);
    let order: Vec<_> = restarted.iter().map(|(id, _)| *id).collect();
    assert_eq!(order, [4, 5, 1, 3, 2]);
    assert_eq!(rolling.end(), Some(&RollingEnd::Done));
    let numbers: Vec<_> = rolling.rows().into_iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=5).map(Some).collect::<Vec<_>>());
    assert!(rolling.rows().iter().all(|row| row.took.is_some()));
}

#[test]
fn the_order_adapts_when_the_leadership_moves() {
    let mut world = World::new(3, 0, true);
    let mut rolling = rolling(&world);
    // The second server leads as soon as the first one is restarted.
    let calm = vec![Vec::new(); 3];
    let faults = [calm, vec![vec![Fault::Elect(1)]]].concat();
    let restarted = play(&mut world, &mut rolling, &faults, &[]);
    assert_eq!(restarted, [(1, 3), (3, 2), (2, 2)]);
}

/// A new leader reports the begin of its epoch, and the others their last transaction.
#[test]
fn an_epoch_without_transactions_is_no_lag() {
    let mut world = World::new(3, 1, true);
    world.is_idle = true;
    world.elect(0);
    let mut rolling = rolling(&world);
    let restarted = play(&mut world, &mut rolling, &[], &[]);
    assert_eq!(restarted, [(4, 1), (2, 1), (3, 1), (1, 1)]);
    assert_eq!(rolling.end(), Some(&RollingEnd::Done));
}

#[test]
fn a_follower_behind_the_others_is_noticed_in_an_idle_epoch() {
    let mut world = World::new(3, 0, true);
    world.is_idle = true;
    world.elect(0);
    let mut rolling = rolling(&world);
    assert!(play(&mut world, &mut rolling, &[vec![], vec![Fault::Behind(1)]], &[]).is_empty());
    let behind = RollingDoubt::Behind(world.found().servers.remove(1));
    assert_eq!(rolling.end(), Some(&RollingEnd::Doubtful(vec![behind])));
}

#[test]
fn unknown_members_are_refused() {
    let mut world = World::new(3, 0, true);
    let rules = RollingRules { targets: [1, 7, 9].into(), ..rules(&world) };
    let mut rolling = RollingPlanner::new(&world.found(), rules);
    assert!(play_some(&mut world, &mut rolling).is_empty());
    let doubts = vec![RollingDoubt::NoSuchMember(vec![7, 9])];
    assert_eq!(rolling.end(), Some(&RollingEnd::Doubtful(doubts)));
    let reasons = rolling.report().end.reasons();
    assert_eq!(reasons, ["server.7, server.9: not in the configuration of the ensemble"]);
}

#[test]
fn each_doubt_at_the_start_ends_the_run() {
    for (fault, text) in [
        (Fault::Unreachable(0), "zk:1: unreachable: no route"),
        (Fault::Late(1), "zk:2: no response in time"),
        (Fault::Missing(1), "zk:2: not asked"),
        (Fault::NoId(0), "zk:1 does not report its id (conf)"),
        (Fault::OtherId(0), "zk:1 responds as member 99"),
        (Fault::NoRole(0), "zk:1 does not report its role"),
        (Fault::ReadOnly(0), "zk:1 has the role read-only"),
        (Fault::NoZxid(0), "zk:1 does not report its last transaction"),
        (Fault::AlsoLeads(0), "2 servers lead"),
        (Fault::NoLeader, "no server leads"),
        (Fault::OtherMembers, "the members of the ensemble have changed"),
        (Fault::NoMembers, "no server reports the members of the ensemble: the quorum is unknown"),
        (Fault::Weighted, "the quorum has groups or weights, which are not judged"),
        (Fault::Finding, "zk:1: unwell"),
    ] {
        let mut world = World::new(3, 0, true);
        let mut rolling = rolling(&world);
        assert!(play(&mut world, &mut rolling, &[vec![fault]], &[]).is_empty());
        let Some(RollingEnd::Doubtful(doubts)) = rolling.end() else { panic!("{fault:?}") };
        assert!(doubts.iter().any(|doubt| doubt.to_string() == text), "{fault:?}: {doubts:?}");
        assert!(!rolling.report().has_begun());
    }
    // These need an earlier response of the leader.
    for (fault, doubt) in [
        (Fault::Behind(0), RollingDoubt::Behind(World::new(3, 0, true).found().servers.remove(0))),
        (Fault::Back, RollingDoubt::WentBack { before: 0x1_0000_0066, now: 0x1_0000_005c }),
    ] {
        let mut world = World::new(3, 0, true);
        let mut rolling = rolling(&world);
        assert!(play(&mut world, &mut rolling, &[vec![], vec![fault]], &[]).is_empty());
        let Some(RollingEnd::Doubtful(doubts)) = rolling.end() else { panic!("{fault:?}") };
        assert!(doubts.contains(&doubt), "{fault:?}: {doubts:?}");
    }
}

#[test]
fn each_failed_restart_ends_the_run() {
    for (fate, text, result) in [
        (Fate::StaysDown, "zk:1: unreachable: connection refused", RollingOutcome::Unchecked),
        (Fate::Nothing, "nothing shows that zk:1 has restarted", RollingOutcome::Failed),
        (Fate::OtherMember, "zk:1 responds as member 51", RollingOutcome::Unchecked),
        (Fate::Older, "zk:1 came back with older data", RollingOutcome::Unchecked),
    ] {
        for reports_uptime in [false, true] {
            let mut world = World::new(3, 0, reports_uptime);
            let mut rolling = rolling(&world);
            assert_eq!(play(&mut world, &mut rolling, &[], &[fate]).len(), 1);
            let Some(RollingEnd::Doubtful(doubts)) = rolling.end() else { panic!("{fate:?}") };
            assert!(doubts.iter().any(|doubt| doubt.to_string() == text), "{fate:?}: {doubts:?}");
            let left = RollingOutcome::Left;
            assert_eq!(results(&rolling), [(1, result), (2, left), (3, left)], "{fate:?}");
        }
    }
    let mut world = World::new(3, 0, true);
    let mut rolling = rolling(&world);
    assert_eq!(play(&mut world, &mut rolling, &[], &[Fate::Fails]).len(), 1);
    let Some(RollingEnd::RestartFailed(error)) = rolling.end() else { panic!("{rolling:?}") };
    assert_eq!(error.to_string(), "the restart of zk:1 failed: exit status: 1");
    assert_eq!(results(&rolling)[0], (1, RollingOutcome::Failed));
}

#[test]
fn a_failed_restart_that_is_seen_is_unchecked() {
    let mut world = World::new(3, 0, true);
    let mut rolling = rolling(&world);
    let server = until_restart(&mut world, &mut rolling);
    world.restart(1, Fate::Restarts(1));
    rolling.step(RollingInput::Observed(world.observe(&[], false)));
    let result = Err(RollingRestartError::timed_out(&server, WAIT));
    rolling.step(RollingInput::RestartEnded { at: world.now, result });
    assert_eq!(results(&rolling)[0], (1, RollingOutcome::Unchecked));
    assert!(rolling.report().has_begun());
    let left: Vec<_> = rolling.report().to_do().filter_map(|row| row.server.id).collect();
    assert_eq!(left, [2, 3]);
}

#[test]
fn a_doubt_that_passes_delays_the_next_restart() {
    let mut world = World::new(3, 0, true);
    let mut rolling = rolling(&world);
    let late = vec![vec![Fault::Late(2)]; 10];
    let faults = [vec![Vec::new(); 2], late].concat();
    let restarted = play(&mut world, &mut rolling, &faults, &[]);
    assert_eq!(restarted.len(), 3);
    assert_eq!(rolling.end(), Some(&RollingEnd::Done));
}

#[test]
fn a_server_that_restarts_again_and_again_ends_the_run() {
    let mut world = World::new(3, 0, true);
    let mut rolling = rolling(&world);
    until_restart(&mut world, &mut rolling);
    world.restart(1, Fate::Restarts(0));
    let mut effects = rolling.step(RollingInput::RestartEnded { at: world.now, result: Ok(()) });
    while effects.last() != Some(&RollingEffect::End) {
        // No observation finds it down.
        world.restart(1, Fate::Restarts(0));
        let is_thorough = effects.last() == Some(&RollingEffect::Observe { is_thorough: true });
        effects = rolling.step(RollingInput::Observed(world.observe(&[], is_thorough)));
        assert!(!effects.iter().any(|effect| matches!(effect, RollingEffect::Restart(_))));
    }
    assert_eq!(rolling.end(), Some(&RollingEnd::Doubtful(vec![RollingDoubt::Unsettled])));
    assert_eq!(results(&rolling)[0], (1, RollingOutcome::Unchecked));
}

#[test]
fn a_slow_clock_of_a_server_is_no_restart() {
    for has_counters in [false, true] {
        let mut world = World::new(3, 0, true);
        (world.has_counters, world.lost_per_second) = (has_counters, 500);
        let mut idle = rolling(&world);
        assert_eq!(play(&mut world, &mut idle, &[], &[Fate::Nothing]).len(), 1);
        assert_eq!(results(&idle)[0], (1, RollingOutcome::Failed));
        let mut rolling = rolling(&world);
        assert_eq!(play(&mut world, &mut rolling, &[], &[]).len(), 3);
        assert_eq!(rolling.end(), Some(&RollingEnd::Done));
    }
}

#[test]
fn quorums_that_need_every_member_are_refused() {
    for voters in [1, 2] {
        let mut world = World::new(voters, 1, true);
        let mut rolling = rolling(&world);
        assert!(play(&mut world, &mut rolling, &[], &[]).is_empty());
        let doubts = vec![RollingDoubt::TooFewVoters(voters)];
        assert_eq!(rolling.end(), Some(&RollingEnd::Doubtful(doubts)));
        // Its observer has no vote.
        let targets = [voters as u64 + 1].into();
        let rules = RollingRules { targets, ..rules(&world) };
        let mut rolling = RollingPlanner::new(&world.found(), rules);
        let restarted = play_some(&mut world, &mut rolling);
        assert_eq!(restarted, [voters as u64 + 1]);
        assert_eq!(rolling.end(), Some(&RollingEnd::Done));
    }
}

/// Runs a restart of some servers to its end. Returns their ids, in their order.
fn play_some(world: &mut World, rolling: &mut RollingPlanner) -> Vec<u64> {
    let mut restarted = Vec::new();
    let mut effects = vec![RollingEffect::Observe { is_thorough: true }];
    for _ in 0..MOST {
        effects = match effects.pop().expect("an effect") {
            RollingEffect::Observe { is_thorough } => {
                rolling.step(RollingInput::Observed(world.observe(&[], is_thorough)))
            }
            RollingEffect::Restart(server) => {
                let id = server.id.expect("a member");
                restarted.push(id);
                world.restart(id, Fate::Restarts(1));
                rolling.step(RollingInput::RestartEnded { at: world.now, result: Ok(()) })
            }
            RollingEffect::End => return restarted,
            effect => panic!("{effect:?}"),
        };
    }
    panic!("no end: {rolling:?}");
}

#[test]
fn only_named_servers_are_restarted() {
    let mut world = World::new(3, 0, true);
    let rules = RollingRules { targets: [3, 1].into(), ..rules(&world) };
    let mut rolling = RollingPlanner::new(&world.found(), rules);
    assert_eq!(play_some(&mut world, &mut rolling), [1, 3]);
    assert_eq!(results(&rolling)[2], (2, RollingOutcome::LeftOut));
}

#[test]
fn servers_with_a_younger_role_are_left_out() {
    let mut world = World::new(3, 0, true);
    world.restart(1, Fate::Restarts(0));
    let least_age = Some(Duration::ZERO);
    // At the start, the time since the start of the run is that of the world.
    let rules = RollingRules { least_age, ..rules(&world) };
    let mut rolling = RollingPlanner::new(&world.found(), rules.clone());
    assert_eq!(play_some(&mut world, &mut rolling), [2, 3]);
    assert_eq!(results(&rolling)[2], (1, RollingOutcome::LeftOut));

    let mut old = World::new(3, 0, false);
    let mut rolling = RollingPlanner::new(&old.found(), rules);
    assert!(play_some(&mut old, &mut rolling).is_empty());
    let doubts = old.found().servers.into_iter().map(RollingDoubt::NoUptime).collect();
    assert_eq!(rolling.end(), Some(&RollingEnd::Doubtful(doubts)));
}

#[test]
fn a_dry_run_restarts_nothing() {
    let mut world = World::new(3, 1, true);
    let rules = RollingRules { is_dry_run: true, ..rules(&world) };
    let mut rolling = RollingPlanner::new(&world.found(), rules);
    assert!(play_some(&mut world, &mut rolling).is_empty());
    assert_eq!(rolling.end(), Some(&RollingEnd::Planned));
    let rows = rolling.rows();
    let order: Vec<_> = rows.iter().filter_map(|row| row.server.id.zip(row.number)).collect();
    assert_eq!(order, [(4, 1), (1, 2), (2, 3), (3, 4)]);
    assert!(rows.iter().all(|row| row.outcome == RollingOutcome::Left && row.role.is_some()));
}

#[test]
fn a_pause_and_several_observations_precede_the_next_restart() {
    for pause in [Duration::ZERO, EVERY * 30] {
        let mut world = World::new(3, 0, true);
        let rules = RollingRules { pause, ..rules(&world) };
        let mut rolling = RollingPlanner::new(&world.found(), rules);
        let mut begins = Vec::new();
        let mut effects = vec![RollingEffect::Observe { is_thorough: true }];
        while let Some(effect) = effects.pop().filter(|effect| *effect != RollingEffect::End) {
            effects = match effect {
                RollingEffect::Observe { is_thorough } => {
                    rolling.step(RollingInput::Observed(world.observe(&[], is_thorough)))
                }
                RollingEffect::Restart(server) => {
                    begins.push(world.now);
                    world.restart(server.id.expect("a member"), Fate::Restarts(0));
                    rolling.step(RollingInput::RestartEnded { at: world.now, result: Ok(()) })
                }
                effect => panic!("{effect:?}"),
            };
        }
        let least = pause.max(EVERY * STABLE);
        assert!(begins.windows(2).all(|two| two[1] - two[0] >= least), "{begins:?}");
        assert_eq!(begins.len(), 3);
    }
}

/// Steps with observations until the first restart begins.
fn until_restart(world: &mut World, rolling: &mut RollingPlanner) -> ProbedServer {
    let mut effects = vec![RollingEffect::Observe { is_thorough: true }];
    loop {
        match effects.pop() {
            Some(RollingEffect::Observe { is_thorough }) => {
                let seen = world.observe(&[], is_thorough);
                effects = rolling.step(RollingInput::Observed(seen));
            }
            Some(RollingEffect::Restart(server)) => return server,
            effect => panic!("{effect:?}"),
        }
    }
}

fn ended(found: &EnsembleMembers, reports: &[ProbeReport]) -> Vec<String> {
    let targets = found.servers.iter().filter_map(|server| server.id).collect();
    let rules = RollingRules { targets, ..rules(&World::new(3, 0, true)) };
    let mut rolling = RollingPlanner::new(found, rules);
    let seen = Observation::of((EVERY, EVERY), reports, found.config.as_ref(), Vec::new(), true);
    rolling.step(RollingInput::Observed(seen));
    match rolling.end() {
        Some(RollingEnd::Doubtful(doubts)) => doubts.iter().map(RollingDoubt::to_string).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn servers_that_are_no_ensemble_are_refused() {
    let alone = [serving(1, ServerMode::Standalone, 5)];
    let servers: Vec<_> = alone.iter().map(|report| report.server.clone()).collect();
    let config = Some(EnsembleConfig::default());
    let found = EnsembleMembers { servers: servers.clone(), config, ..Default::default() };
    assert_eq!(ended(&found, &alone), ["a single server: there is no quorum without it"]);

    let gone = ProbeReport { srvr: Err(ProbeTrouble::Late), ..serving(1, ServerMode::Follower, 5) };
    let found = EnsembleMembers { config: None, ..found };
    assert_eq!(
        ended(&found, &[gone]),
        [
            "no server reports the members of the ensemble: the quorum is unknown",
            "zk:1: no response in time",
        ]
    );

    let config = EnsembleConfig::parse(b"server.3=zk3:1:2;2181\nserver.4=zk4:1:2").ok();
    let found = EnsembleMembers { servers, config, unknown: vec![4, 5], displaced: vec![5] };
    let doubts = ended(&found, &alone);
    for text in [
        "zk:1 is not in the configuration of the ensemble",
        "server.4: no client address: name it in the connect string",
        "server.5: another server has its client address: check the ids of the servers (myid)",
    ] {
        assert!(doubts.iter().any(|doubt| doubt == text), "{doubts:?}");
    }
}
