use zk_curator::{Acl, CuratorFramework};

use super::disks::{MAX_PACKET, max_packet, settings};
use super::*;
use crate::acl;
use crate::ensemble::admin::AdminSettings;
use crate::ensemble::doctor::examine::of_listed;
use crate::ensemble::doctor::locks::{LockAcls, directories, locks};
use crate::ensemble::health::tests::serving;
use crate::ensemble::trouble::ProbeTrouble;
use crate::ensemble::words::{self, ConfResponse, MntrResponse, WatchSummary};
use crate::tree::walk::ListedNode;

fn texts(findings: &[DoctorFinding]) -> Vec<String> {
    let line = |found: &DoctorFinding| {
        format!("{} {}: {}", found.severity.name(), found.subject, found.text)
    };
    findings.iter().map(line).collect()
}

#[test]
fn a_healthy_ensemble_has_no_findings() {
    let reports = [
        serving(1, ServerMode::Leader, 5),
        serving(2, ServerMode::Follower, 5),
        serving(3, ServerMode::Follower, 5),
    ];
    assert_eq!(servers(&reports, Some(3), 3, MAX_PACKET), []);
}

#[test]
fn members_are_judged() {
    let reports = [serving(1, ServerMode::Leader, 5), serving(2, ServerMode::Follower, 5)];
    assert_eq!(
        texts(&servers(&reports, Some(2), 1, MAX_PACKET)),
        [
            "warning ensemble: 2 voting servers tolerate as few failures as 1 do",
            "note ensemble: the connect string names 1 of 2 servers",
        ]
    );
    let alone = [serving(1, ServerMode::Standalone, 5)];
    assert_eq!(
        texts(&servers(&alone, None, 1, MAX_PACKET)),
        ["note ensemble: one server: no failure is tolerated"]
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn each_limit_is_a_finding() {
    let mntr = |text: &str| Ok(MntrResponse::parse(text).unwrap());
    let files = "zk_open_file_descriptor_count\t80\nzk_max_file_descriptor_count\t100\n";
    let base = || serving(1, ServerMode::Leader, 5);
    let srvr = |change: fn(&mut words::SrvrResponse)| {
        let mut report = base();
        change(report.srvr.as_mut().unwrap());
        report
    };
    let connections =
        " /10.0.0.7:1[1](recved=1)\n /10.0.0.7:2[1](recved=1)\n /10.0.0.8:1[1](recved=1)\n";
    let paths = (0..10_001).map(|n| format!("/{n}")).collect();
    let ephemerals = words::DumpResponse {
        ephemerals: [(0x11, paths)].into(),
        ..words::DumpResponse::default()
    };
    let watches = WatchSummary { connections: 1, paths: 1, watches: 500_001 };
    let conf = ConfResponse::parse("maxClientCnxns=2").unwrap();
    let one_folder = "dataDir=/data\ndataDirSize=12884901888\ndataLogDir=/data\n\
                      dataLogSize=12884901888\n";
    let cons = words::connections(connections);
    for (report, expected) in [
        (
            ProbeReport { cons: Err(ProbeTrouble::NotListed), ..base() },
            "warning zk:1: refuses cons",
        ),
        (
            ProbeReport { mntr: mntr(files), ..base() },
            "warning zk:1: 80 of 100 file descriptors are open",
        ),
        (
            ProbeReport { mntr: mntr("zk_p99_fsynctime\t180\n"), ..base() },
            "warning zk:1: 1 in 100 writes to the disk takes 180 ms or more",
        ),
        (
            ProbeReport {
                mntr: mntr("zk_avg_fsynctime\t25.5\nzk_max_fsynctime\t2000\n"),
                ..base()
            },
            "warning zk:1: a write to the disk takes 25.5 ms on average",
        ),
        (
            ProbeReport { mntr: mntr("zk_avg_fsynctime\t2.5\nzk_max_fsynctime\t2000\n"), ..base() },
            "warning zk:1: a write to the disk has taken 2000 ms since its start",
        ),
        (
            ProbeReport { mntr: mntr("zk_unrecoverable_error_count\t2\n"), ..base() },
            "error zk:1: 2 unrecoverable errors since its start",
        ),
        (
            ProbeReport { mntr: mntr("zk_large_requests_rejected\t3\n"), ..base() },
            "warning zk:1: has rejected 3 large requests since its start",
        ),
        (
            ProbeReport { conf: Ok(ConfResponse::parse(one_folder).unwrap()), ..base() },
            "warning zk:1: has 12.0 GiB of logs and snapshots in /data",
        ),
        (srvr(|srvr| srvr.outstanding = Some(101)), "warning zk:1: 101 requests are waiting"),
        (
            srvr(|srvr| srvr.latency = Some((250.5, 900.0))),
            "warning zk:1: the average latency is 250.5 ms",
        ),
        (ProbeReport { wchs: Ok(watches), ..base() }, "warning zk:1: 500001 watches"),
        (
            ProbeReport { mntr: mntr("zk_synced_followers\t1\n"), ..base() },
            "error ensemble: 1 of 2 followers are in sync with the leader",
        ),
        (
            ProbeReport { conf: Ok(conf), cons: Ok(cons), ..base() },
            "warning zk:1: 10.0.0.7 has 2 connections of 2 (maxClientCnxns)",
        ),
        (
            ProbeReport { dump: Ok(ephemerals), ..base() },
            "warning 0x11: has 10001 ephemeral nodes, whose paths have 88900 bytes",
        ),
    ] {
        let reports =
            [report, serving(2, ServerMode::Follower, 5), serving(3, ServerMode::Follower, 5)];
        assert_eq!(texts(&servers(&reports, Some(3), 3, MAX_PACKET)), [expected]);
    }
}

#[test]
fn the_end_of_a_session_is_judged_by_the_bytes_of_its_paths() {
    let path = |n: u64| format!("/{n:0>995}");
    let judged = |nodes: u64, limit| {
        let paths = (0..nodes).map(path).collect();
        let dump = words::DumpResponse {
            ephemerals: [(0x11, paths)].into(),
            ..words::DumpResponse::default()
        };
        let report = ProbeReport { dump: Ok(dump), ..serving(1, ServerMode::Leader, 5) };
        let reports =
            [report, serving(2, ServerMode::Follower, 5), serving(3, ServerMode::Follower, 5)];
        let found = servers(&reports, Some(3), 3, limit);
        found.iter().map(|finding| finding.severity).collect::<Vec<_>>()
    };
    assert_eq!(judged(524, MAX_PACKET), []);
    assert_eq!(judged(525, MAX_PACKET), [FindingSeverity::Warning]);
    assert_eq!(judged(1_049, MAX_PACKET), [FindingSeverity::Error]);
    assert_eq!(judged(1_049, 4 * MAX_PACKET), []);
}

#[test]
fn different_settings_are_a_finding() {
    let mut reports = [
        serving(1, ServerMode::Leader, 5),
        serving(2, ServerMode::Follower, 5),
        serving(3, ServerMode::Follower, 5),
    ];
    reports[0].conf = Ok(ConfResponse::parse("tickTime=2000\ndataDir=a").unwrap());
    reports[1].conf = Ok(ConfResponse::parse("tickTime=500\ndataDir=b").unwrap());
    assert_eq!(
        texts(&servers(&reports, Some(3), 3, MAX_PACKET)),
        ["warning ensemble: servers differ in tickTime: 2000, 500"]
    );
}

#[test]
fn clocks_are_compared_with_the_time_of_the_connect() {
    let server = serving(1, ServerMode::Leader, 5).server;
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
    let judged = |path: &str, stat: &Stat, list| of_node(path, path, stat, list, MAX_PACKET);
    let plain = Stat::default();
    assert_eq!(judged("/a", &plain, 0), []);
    let large = Stat { data_length: 600_000, num_children: 60_000, ..Stat::default() };
    assert_eq!(
        texts(&judged("/a", &large, 0)),
        ["warning /a: has 600000 bytes", "warning /a: has 60000 children"]
    );
    assert_eq!(texts(&of_node("/a", "/a", &large, 0, 4 << 20)), ["warning /a: has 60000 children"]);
    let names = vec!["n".repeat(600); 1_000];
    let long = Stat { num_children: 1_000, ..Stat::default() };
    assert_eq!(
        texts(&judged("/a", &long, list_bytes(&names))),
        ["warning /a: has 1000 children, whose names have 604000 bytes"]
    );
    let worn = Stat { cversion: -2, ..Stat::default() };
    assert_eq!(judged("/a", &worn, 0).len(), 1);
    assert_eq!(judged("/zookeeper", &worn, 0), []);
}

#[tokio::test]
async fn the_nodes_of_the_servers_are_known_below_a_chroot() {
    let built_in = |servers: &str, namespace: &str| {
        let builder = CuratorFramework::builder().connect_string(servers).namespace(namespace);
        let zk = builder.build().unwrap();
        let worn = Stat { cversion: -2, ..Stat::default() };
        let is_judged = |path: &&str| {
            let (path, children) = ((*path).to_owned(), Vec::new());
            let node = ListedNode { path, depth: 0, children, hidden: None };
            !of_listed(&zk, &node, &worn, MAX_PACKET).is_empty()
        };
        let paths = ["/", "/zookeeper", "/zookeeper/quota", "/quota"];
        paths.into_iter().filter(|path| !is_judged(path)).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(built_in("zk:2181", ""), ["/", "/zookeeper", "/zookeeper/quota"]);
    assert_eq!(built_in("zk:2181/app", ""), none);
    assert_eq!(built_in("zk:2181", "app"), none);
    assert_eq!(
        built_in("zk:2181/zookeeper", ""),
        ["/", "/zookeeper", "/zookeeper/quota", "/quota"]
    );
}

#[test]
fn settings_of_the_admin_server_are_judged() {
    let server = serving(1, ServerMode::Leader, 5).server;
    let of = |purge_hours| AdminSettings { max_packet: None, purge_hours };
    assert_eq!(settings(&server, &of(None)), None);
    assert_eq!(settings(&server, &of(Some(24))), None);
    let found = settings(&server, &of(Some(0))).unwrap();
    assert_eq!(found.line.as_deref(), Some("autopurge.purgeInterval=24"));
    let with = |max_packet| Ok(AdminSettings { max_packet, purge_hours: None });
    let large = [with(Some(4 << 20)), with(Some(2 << 20))];
    assert_eq!(max_packet(large.iter()), 2 << 20);
    // The others have the default, or it is not known what they have.
    for other in [with(None), Err(ProbeTrouble::Late)] {
        assert_eq!(max_packet([with(Some(4 << 20)), other].iter()), MAX_PACKET);
    }
    assert_eq!(max_packet([with(Some(1_000)), with(None)].iter()), 1_000);
    assert_eq!(max_packet([].iter()), MAX_PACKET);
}

fn lock_with(acl: &str, contenders: &[(&str, &str)]) -> LockAcls {
    let list = |text: &str| -> Vec<Acl> { acl::parse(text).unwrap() };
    let contenders = contenders.iter().map(|(name, acl)| ((*name).to_owned(), Some(list(acl))));
    LockAcls { path: "/l".to_owned(), acl: list(acl), contenders: contenders.collect() }
}

#[test]
fn contenders_must_see_and_delete_each_other() {
    let (ann, bob) = ("digest:ann:x:cdr", "digest:bob:y:cdr");
    let both = format!("{ann},{bob}");
    let own = [("lock-1", "digest:ann:x:cdrwa"), ("lock-2", "open")];
    for (acl, contenders, expected) in [
        (&*both, &[("lock-1", "read"), ("lock-2", "open")][..], &[][..]),
        (&both, &own, &["warning /l: digest:bob:y may not read 1 of 2 contenders, such as lock-1"]),
        ("digest:ann:x:cdr", &own, &[]),
        (
            "digest:ann:x:cr",
            &[],
            &["warning /l: digest:ann:x may create contenders, but not delete them"],
        ),
        (
            "digest:ann:x:cd",
            &[],
            &["warning /l: digest:ann:x may create contenders, but not list them"],
        ),
        // Everybody's permissions complete those of one client.
        ("digest:ann:x:c,world:anyone:r,digest:ann:x:d", &[], &[]),
        (
            "world:anyone:cdrwa",
            &own,
            &[
                "warning /l: world:anyone may not read 1 of 2 contenders, such as lock-1",
                "note locks: anyone may delete the contenders of /l (world:anyone)",
            ],
        ),
    ] {
        assert_eq!(texts(&locks(&[lock_with(acl, contenders)])), expected, "{acl}");
    }
    let mut hidden = lock_with("world:anyone:cdr,digest:ann:x:cdr", &[("lock-1", "read")]);
    hidden.contenders.insert("lock-2".to_owned(), None);
    assert_eq!(
        texts(&locks(&[hidden]))[0],
        "warning /l: world:anyone may not read 1 of 2 contenders, such as lock-2"
    );
    let open = [lock_with("open", &[]), lock_with("open", &[]), lock_with("read", &[])];
    assert_eq!(
        texts(&locks(&open)),
        ["note locks: anyone may delete the contenders of /l and 1 more (world:anyone)"]
    );
}

#[test]
fn contenders_belong_to_their_directories() {
    let found = directories(["/s/locks/a", "/s/leases/b", "/s/leases/c"].into_iter());
    let expected = [
        ("/s/leases".to_owned(), vec!["b".to_owned(), "c".to_owned()]),
        ("/s/locks".to_owned(), vec!["a".to_owned()]),
    ];
    assert_eq!(found, expected.into());
}
