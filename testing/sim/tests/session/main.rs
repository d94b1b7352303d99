//! Whole sessions in simulated time: a client, its watches and its requests on a network that flaps
//! for hours, from a seed. `SIM_HOURS=1000 SIM_SEED=7 cargo test --profile quick -p zk-curator-sim
//! --test session hours` runs a long one.

mod simulation;

use std::time::Instant;

use simulation::{Report, simulate};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn hours_of_a_flapping_network_break_no_promise() {
    let hours = setting("SIM_HOURS", 2);
    let first = setting("SIM_SEED", 1);
    let seeds = setting("SIM_SEEDS", 1);
    for seed in first..first + seeds {
        let started = Instant::now();
        let Report { trace, stats } = simulate(seed, hours, false);
        let line = format!(
            "seed {seed}: {hours} simulated hours in {:.1} s, trace {:016x} of {} bytes, {stats:?}\n",
            started.elapsed().as_secs_f64(),
            trace.hash,
            trace.length
        );
        std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes())
            .expect("standard output");
        // A simulation without events proves nothing.
        assert!(stats.answered > 100 && stats.failed > 10 && stats.reconnects > 20, "{stats:?}");
        assert!(stats.fired > 100 && stats.rearmed > 10 && stats.expired > 0, "{stats:?}");
        assert!(stats.unchanged > 5, "{stats:?}");
    }
}

/// Two seeds and two hours in an optimised build.
#[test]
fn the_same_seed_is_the_same_trace_byte_for_byte() {
    let (seeds, hours) = if cfg!(debug_assertions) { (3..4, 1) } else { (3..5, 2) };
    for seed in seeds {
        let (one, two) = (simulate(seed, hours, true).trace, simulate(seed, hours, true).trace);
        if let Some(at) = one.log.iter().zip(&two.log).position(|(one, two)| one != two) {
            let from = one.log[at]
                .bytes()
                .zip(two.log[at].bytes())
                .take_while(|(one, two)| one == two)
                .count();
            let tail = |log: &[String]| {
                let line = log[at].get(from.saturating_sub(40)..).unwrap_or_default();
                line.chars().take(400).collect::<String>()
            };
            let before = one.log[..at]
                .iter()
                .rev()
                .take(5)
                .map(|line| line.chars().take(200).collect::<String>());
            let before = before.collect::<Vec<_>>();
            panic!(
                "seed {seed} differs at {at}:\n{}\n--\n{}\nbefore it, backwards: {before:#?}",
                tail(&one.log),
                tail(&two.log)
            );
        }
        assert_eq!((one.hash, one.length, one.log.len()), (two.hash, two.length, two.log.len()));
        assert_ne!(one.hash, simulate(seed + 10, hours, false).trace.hash);
    }
}
