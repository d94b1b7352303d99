use super::*;
use crate::ensemble::flw::{self, Conf, Mntr, Mode, WatchSummary};
use crate::ensemble::health::tests::serving;

fn texts(findings: &[Finding]) -> Vec<String> {
    let line =
        |found: &Finding| format!("{} {}: {}", found.severity.name(), found.subject, found.text);
    findings.iter().map(line).collect()
}

#[test]
fn a_healthy_ensemble_has_no_findings() {
    let reports =
        [serving(1, Mode::Leader, 5), serving(2, Mode::Follower, 5), serving(3, Mode::Follower, 5)];
    assert_eq!(servers(&reports, Some(3), 3), []);
}

#[test]
fn members_are_judged() {
    let reports = [serving(1, Mode::Leader, 5), serving(2, Mode::Follower, 5)];
    assert_eq!(
        texts(&servers(&reports, Some(2), 1)),
        [
            "warning ensemble: 2 voting servers tolerate as few failures as 1 do",
            "note ensemble: the connect string names 1 of 2 servers",
        ]
    );
    let alone = [serving(1, Mode::Standalone, 5)];
    assert_eq!(
        texts(&servers(&alone, None, 1)),
        ["note ensemble: one server: no failure is tolerated"]
    );
}

#[test]
fn each_limit_is_a_finding() {
    let mntr = |text: &str| Ok(Mntr::parse(text).unwrap());
    let files = "zk_open_file_descriptor_count\t80\nzk_max_file_descriptor_count\t100\n";
    let base = || serving(1, Mode::Leader, 5);
    let srvr = |change: fn(&mut flw::Srvr)| {
        let mut report = base();
        change(report.srvr.as_mut().unwrap());
        report
    };
    let connections =
        " /10.0.0.7:1[1](recved=1)\n /10.0.0.7:2[1](recved=1)\n /10.0.0.8:1[1](recved=1)\n";
    let paths = (0..10_001).map(|n| format!("/{n}")).collect();
    let ephemerals = flw::Dump { ephemerals: [(0x11, paths)].into(), ..flw::Dump::default() };
    let watches = WatchSummary { connections: 1, paths: 1, watches: 500_001 };
    let conf = Conf::parse("maxClientCnxns=2").unwrap();
    let cons = flw::connections(connections);
    for (report, expected) in [
        (Report { cons: Err(Trouble::NotListed), ..base() }, "warning zk:1: refuses cons"),
        (
            Report { mntr: mntr(files), ..base() },
            "warning zk:1: 80 of 100 file descriptors are open",
        ),
        (
            Report { mntr: mntr("zk_p99_fsynctime\t180\n"), ..base() },
            "warning zk:1: 1 in 100 writes to the disk takes 180 ms or more",
        ),
        (srvr(|srvr| srvr.outstanding = Some(101)), "warning zk:1: 101 requests are waiting"),
        (
            srvr(|srvr| srvr.latency = Some((250.5, 900.0))),
            "warning zk:1: the average latency is 250.5 ms",
        ),
        (Report { wchs: Ok(watches), ..base() }, "warning zk:1: 500001 watches"),
        (
            Report { mntr: mntr("zk_synced_followers\t1\n"), ..base() },
            "error ensemble: 1 of 2 followers are in sync with the leader",
        ),
        (
            Report { conf: Ok(conf), cons: Ok(cons), ..base() },
            "warning zk:1: 10.0.0.7 has 2 connections of 2 (maxClientCnxns)",
        ),
        (Report { dump: Ok(ephemerals), ..base() }, "warning 0x11: has 10001 ephemeral nodes"),
    ] {
        let reports = [report, serving(2, Mode::Follower, 5), serving(3, Mode::Follower, 5)];
        assert_eq!(texts(&servers(&reports, Some(3), 3)), [expected]);
    }
}

#[test]
fn different_settings_are_a_finding() {
    let mut reports =
        [serving(1, Mode::Leader, 5), serving(2, Mode::Follower, 5), serving(3, Mode::Follower, 5)];
    reports[0].conf = Ok(Conf::parse("tickTime=2000\ndataDir=a").unwrap());
    reports[1].conf = Ok(Conf::parse("tickTime=500\ndataDir=b").unwrap());
    assert_eq!(
        texts(&servers(&reports, Some(3), 3)),
        ["warning ensemble: servers differ in tickTime: 2000, 500"]
    );
}

#[test]
fn clocks_are_compared_with_the_time_of_the_connect() {
    let server = serving(1, Mode::Leader, 5).server;
    let between = (100_000, 100_400);
    for (established, expected) in [
        (100_200, None),
        (101_400, None),
        (99_000, None),
        (106_400, Some("its clock is 6.0 s ahead of the clock here")),
        (40_000, Some("its clock is 1 m 0 s behind the clock here")),
    ] {
        let found = clock(&server, established, between).map(|found| found.text);
        assert_eq!(found.as_deref(), expected, "{established}");
    }
}

#[test]
fn nodes_are_judged_by_their_stats() {
    let plain = Stat::default();
    assert_eq!(node("/a", &plain), []);
    let large = Stat { data_length: 600_000, num_children: 60_000, ..Stat::default() };
    assert_eq!(
        texts(&node("/a", &large)),
        ["warning /a: has 600000 bytes", "warning /a: has 60000 children"]
    );
    let worn = Stat { cversion: -2, ..Stat::default() };
    assert_eq!(sequence(&worn), 2_147_483_647);
    assert_eq!(node("/a", &worn).len(), 1);
    assert_eq!(node("/zookeeper", &worn), []);
}
