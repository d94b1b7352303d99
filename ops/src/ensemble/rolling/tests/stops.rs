use super::super::report::RollingProgress;
use super::*;

proptest! {
    #[test]
    fn no_restart_begins_after_a_stop(
        (voters, observers) in (3..=5_usize, 0..=2_usize),
        stop_at in 0..60_usize,
        is_repeated in any::<bool>(),
    ) {
        let mut world = World::new(voters, observers, true);
        let mut rolling = rolling(&world);
        let mut begun = Vec::new();
        let mut task = RollingEffect::Observe { is_thorough: true };
        for step in 0..MOST {
            let is_stop = step == stop_at || is_repeated && step == stop_at + 1;
            let input = match &task {
                RollingEffect::End => break,
                _ if is_stop => RollingInput::StopRequested,
                RollingEffect::Observe { is_thorough } => {
                    RollingInput::Observed(world.observe(&[], *is_thorough))
                }
                RollingEffect::Restart(_) => {
                    RollingInput::RestartEnded { at: world.now, result: Ok(()) }
                }
                RollingEffect::Drop => {
                    let server = world.found().servers.remove(0);
                    let result = Err(RollingRestartError::Stopped(server));
                    RollingInput::RestartEnded { at: world.now, result }
                }
                RollingEffect::Report(_) => unreachable!("the filter removes reports"),
            };
            // A report alone does not end the task.
            let is_task = |effect: &RollingEffect| !matches!(effect, RollingEffect::Report(_));
            let next = rolling.step(input).into_iter().rfind(is_task);
            task = next.unwrap_or(task);
            if let RollingEffect::Restart(server) = &task
                && !begun.contains(server)
            {
                prop_assert!(step < stop_at, "{:?} after the stop", server);
                world.restart(server.id.expect("a member"), Fate::Restarts(1));
                begun.push(server.clone());
            }
        }
        let report = rolling.report();
        let outcomes = report.rows.iter().map(|row| row.outcome);
        let left = outcomes.filter(|outcome| *outcome == RollingOutcome::Left).count();
        prop_assert_eq!(left, voters + observers - begun.len());
        match report.end {
            RollingEnd::Done => prop_assert_eq!(left, 0),
            RollingEnd::Stopped => {}
            RollingEnd::RestartFailed(RollingRestartError::Stopped(_)) => {
                prop_assert!(is_repeated);
            }
            end => prop_assert!(false, "{:?}", end),
        }
    }
}

#[test]
fn a_stop_between_restarts_ends_the_run() {
    let world = World::new(3, 0, true);
    let mut rolling = rolling(&world);
    assert_eq!(rolling.step(RollingInput::StopRequested), [RollingEffect::End]);
    assert_eq!(rolling.end(), Some(&RollingEnd::Stopped));
    assert!(!rolling.report().has_begun());
}

#[test]
fn a_stop_during_a_restart_waits_for_its_end() {
    let mut world = World::new(3, 0, true);
    let mut rolling = rolling(&world);
    let server = until_restart(&mut world, &mut rolling);
    let news = RollingProgress::Finishing(server);
    assert_eq!(rolling.step(RollingInput::StopRequested), [RollingEffect::Report(news)]);
    let ended = RollingInput::RestartEnded { at: world.now, result: Ok(()) };
    assert_eq!(rolling.step(ended), [RollingEffect::End]);
    assert_eq!(rolling.end(), Some(&RollingEnd::Stopped));
    assert_eq!(results(&rolling)[0], (1, RollingOutcome::Unchecked));
}

#[test]
fn a_second_stop_drops_the_restart() {
    let mut world = World::new(3, 0, true);
    let mut rolling = rolling(&world);
    let server = until_restart(&mut world, &mut rolling);
    rolling.step(RollingInput::StopRequested);
    assert_eq!(rolling.step(RollingInput::StopRequested), [RollingEffect::Drop]);
    let result = Err(RollingRestartError::Stopped(server.clone()));
    let effects = rolling.step(RollingInput::RestartEnded { at: world.now, result });
    assert_eq!(effects, [RollingEffect::End]);
    let error = RollingRestartError::Stopped(server);
    assert_eq!(rolling.end(), Some(&RollingEnd::RestartFailed(error)));
    assert_eq!(results(&rolling)[0], (1, RollingOutcome::Failed));
}
