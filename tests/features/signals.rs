//! Signals that ask a process to end: `Shutdown::on_signals`.

use zk_curator_recipes::Shutdown;
use zk_curator_tests::real_time;

use crate::child::{self, Child};

const STOPS: [&str; 3] = ["TERM", "INT", "HUP"];

/// The process of these tests. It ends when it has read a line after the stop.
#[expect(clippy::print_stdout, reason = "the test reads it")]
fn stops() {
    real_time(async {
        let shutdown = Shutdown::on_signals().unwrap();
        println!("ready");
        shutdown.begun().await;
        println!("begun");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        println!("ended");
    });
}

#[test]
fn each_signal_stops_and_later_ones_have_no_effect() {
    if child::value().is_some() {
        return stops();
    }
    real_time(async {
        for signal in STOPS {
            let mut child =
                Child::start("signals::each_signal_stops_and_later_ones_have_no_effect", "");
            child.line("ready").await;
            child.signal(signal).await;
            child.line("begun").await;
            for again in STOPS {
                child.signal(again).await;
            }
            child.write("\n").await;
            child.line("ended").await;
            let status = child.ended().await;
            assert!(status.success(), "{signal}: {status}");
        }
    });
}

// Only Linux says which signals are ignored.
#[cfg(target_os = "linux")]
#[test]
fn ignored_signals_stay_ignored_except_term() {
    if child::value().is_some() {
        return stops();
    }
    real_time(async {
        let test = "signals::ignored_signals_stay_ignored_except_term";
        let mut child = Child::start_ignoring("HUP INT TERM", test);
        child.line("ready").await;
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
        let ignored = u64::from_str_radix(mask, 16).unwrap();
        let is_ignored = |signal: u32| ignored & 1 << (signal - 1) != 0;
        assert_eq!([1, 2, 15].map(is_ignored), [true, true, false], "HUP, INT and TERM: {mask}");
        child.signal("TERM").await;
        child.line("begun").await;
        child.write("\n").await;
        assert!(child.ended().await.success());
    });
}
