use proptest::prelude::*;

use super::*;

macro_rules! golden {
    ($name:literal) => {
        include_str!(concat!("goldens/", $name, ".txt"))
    };
}

fn srvr(text: &str) -> SrvrResponse {
    SrvrResponse::parse(text).expect("a response to srvr")
}

#[test]
fn servers_of_each_release_tell_their_state() {
    let cases = [
        (golden!("apache-3.5-srvr"), "3.5.9", ServerMode::Observer, 0x2_0000_0005, (2.0, 41.0), 27),
        (
            golden!("apache-3.7-read-only-srvr"),
            "3.7.1",
            ServerMode::ReadOnly,
            0x4_0000_0001,
            (0.0, 0.0),
            5,
        ),
        (
            golden!("apache-3.8-srvr"),
            "3.8.0",
            ServerMode::Follower,
            0x1_0000_000d,
            (4.3077, 15.0),
            14,
        ),
        (
            golden!("apache-3.8-srvr-leader"),
            "3.8.0",
            ServerMode::Leader,
            0x1_0000_000d,
            (0.0, 0.0),
            14,
        ),
        (
            golden!("apache-3.9-srvr"),
            "3.9.3",
            ServerMode::Follower,
            0x1_0000_000d,
            (4.8462, 15.0),
            14,
        ),
        (
            golden!("apache-3.9-srvr-leader"),
            "3.9.3",
            ServerMode::Leader,
            0x1_0000_000d,
            (0.0, 0.0),
            14,
        ),
        (golden!("keeper-srvr"), "v23.8.2.7", ServerMode::Leader, 5012, (1.0, 7.0), 340),
    ];
    for (text, release, mode, zxid, latency, nodes) in cases {
        let read_only = mode == ServerMode::ReadOnly;
        let srvr = srvr(text);
        assert_eq!(srvr.release(), Some(release));
        assert_eq!(
            (srvr.mode, srvr.zxid, srvr.latency, srvr.nodes, srvr.read_only),
            (Some(mode), Some(zxid), Some(latency), Some(nodes), read_only),
            "{release}"
        );
        assert!(srvr.received.is_some() && srvr.sent.is_some() && srvr.connections.is_some());
    }
}

#[test]
fn metrics_are_found_by_name() {
    for text in [golden!("apache-3.8-mntr"), golden!("apache-3.9-mntr")] {
        let mntr = MntrResponse::parse(text).expect("metrics");
        assert_eq!(mntr.text("server_state"), Some("follower"));
        assert_eq!(mntr.text("peer_state"), Some("following - broadcast"));
        assert_eq!(mntr.count("znode_count"), Some(14));
        assert_eq!(mntr.count("max_file_descriptor_count"), Some(20_000));
        assert!(mntr.number("avg_latency").is_some_and(|latency| latency > 4.0));
        assert_eq!(mntr.number("server_state"), None);
        assert_eq!(mntr.number("missing"), None);
    }
    let keeper = MntrResponse::parse(golden!("keeper-mntr")).expect("metrics");
    assert_eq!(keeper.count("synced_followers"), Some(2));
}

#[test]
fn connections_name_their_sessions() {
    for (text, session) in [
        (golden!("apache-3.8-cons"), 0x0100_0011_4414_0000),
        (golden!("apache-3.9-cons"), 0x0100_0011_50e3_0000),
    ] {
        let all = connections(text);
        assert_eq!(all.len(), 2);
        let of_session: Vec<_> = all.iter().filter(|c| c.session == Some(session)).collect();
        let [connection] = of_session[..] else { panic!("{all:?}") };
        assert!(connection.address.starts_with("127.0.0.1:"));
        assert_eq!(connection.last_operation.as_deref(), Some("EXIS"));
        assert_eq!((connection.received, connection.sent), (13, 13));
        assert_eq!(connection.timeout, Some(8_000));
        assert!(connection.established.is_some() && connection.last_response.is_some());
    }
    let keeper = connections(golden!("keeper-cons"));
    let sessions: Vec<_> = keeper.iter().map(|connection| connection.session).collect();
    assert_eq!(sessions, [None, Some(0x11)]);
    assert_eq!(keeper[1].address, "10.0.3.18:52042");
    assert_eq!(keeper[0].last_operation, None);
}

#[test]
fn a_cut_response_is_not_whole() {
    use FourLetterWord::{Conf, Cons, Dump, Mntr, Srvr};

    for (word, text) in [
        (Srvr, golden!("apache-3.9-srvr")),
        (Srvr, golden!("keeper-srvr")),
        (Mntr, golden!("apache-3.9-mntr")),
        (Conf, golden!("apache-3.6-conf")),
        (Conf, golden!("apache-3.9-conf")),
        (Conf, golden!("keeper-conf")),
        (Cons, golden!("apache-3.8-cons")),
        (Cons, golden!("apache-3.9-cons")),
        (Cons, golden!("keeper-cons")),
        (Dump, golden!("apache-3.5-dump-leader")),
        (Dump, golden!("apache-3.8-dump")),
        (Dump, golden!("keeper-dump")),
    ] {
        assert!(word.is_whole(text), "{text}");
        let half = text.trim_end();
        assert!(!word.is_whole(&half[..half.len() / 2]), "{text}");
    }
    // Between two lines.
    let cons = golden!("apache-3.9-cons");
    for (at, _) in cons.match_indices('\n').filter(|(at, _)| at + 1 < cons.len()) {
        assert!(!Cons.is_whole(&cons[..=at]), "{at}");
    }
    let dump = golden!("apache-3.9-dump-leader");
    let connections = dump.find("Connections dump").expect("connections");
    for (at, _) in dump[..connections].match_indices('\n') {
        assert!(!Dump.is_whole(&dump[..=at]), "{at}");
    }
}

#[test]
fn ipv6_addresses_keep_their_brackets() {
    for line in [
        " /[0:0:0:0:0:0:0:1]:52042[1](queued=2,recved=3)",
        " [0:0:0:0:0:0:0:1]:52042(queued=2,recved=3)",
    ] {
        let all = connections(line);
        assert_eq!(all[0].address, "[0:0:0:0:0:0:0:1]:52042");
        assert_eq!((all[0].queued, all[0].received), (2, 3));
    }
}

#[test]
fn a_leader_tells_when_sessions_expire() {
    for (text, session, expires) in [
        (golden!("apache-3.8-dump-leader"), 0x0100_0013_e734_0000, "Thu Nov 26 10:20:06 UTC 2026"),
        (golden!("apache-3.5-dump-leader"), 0x0100_00a3_f210_0001, "Wed Jan 06 20:11:30 GMT 2021"),
    ] {
        let dump = dump(text);
        assert_eq!(dump.sessions[&session].expires.as_deref(), Some(expires));
        assert_eq!(dump.sessions[&session].timeout, None);
    }
    let dump = dump(golden!("apache-3.5-dump-leader"));
    assert_eq!(dump.sessions.len(), 2);
    assert_eq!(dump.ephemerals[&0x0200_00a3_f210_0004], ["/members/a b", "/members/c:"]);
}

#[test]
fn a_follower_tells_the_timeouts_of_sessions() {
    for text in [golden!("apache-3.8-dump"), golden!("apache-3.9-dump")] {
        let dump = dump(text);
        assert_eq!(dump.sessions.len(), 2);
        assert!(dump.sessions.values().all(|session| session.timeout == Some(8_000)));
        assert!(dump.ephemerals.values().all(|paths| paths.len() == 3));
        assert!(dump.sessions.keys().eq(dump.ephemerals.keys()));
    }
    let keeper = dump(golden!("keeper-dump"));
    assert_eq!(keeper.sessions.len(), 2);
    assert_eq!(keeper.ephemerals[&0x11], ["/clickhouse/queue/ddl"]);
}

#[test]
fn configurations_name_the_server_and_the_members() {
    for (text, id, members) in [
        (golden!("apache-3.6-conf"), 2, 2),
        (golden!("apache-3.8-conf"), 1, 3),
        (golden!("apache-3.9-conf"), 1, 3),
        (golden!("keeper-conf"), 3, 0),
    ] {
        let conf = ConfResponse::parse(text).expect("settings");
        assert_eq!(conf.server_id(), Some(id));
        assert_eq!(conf.membership().lines().count(), members);
    }
}

#[test]
fn watches_are_counted_and_listed() {
    for (summary, by_path, by_session) in [
        (golden!("apache-3.8-wchs"), golden!("apache-3.8-wchp"), golden!("apache-3.8-wchc")),
        (golden!("apache-3.9-wchs"), golden!("apache-3.9-wchp"), golden!("apache-3.9-wchc")),
    ] {
        let expected = WatchSummary { connections: 1, paths: 2, watches: 2 };
        assert_eq!(WatchSummary::parse(summary), Some(expected));
        let [(path, sessions), _] = &lists(by_path)[..] else { panic!("two paths") };
        assert_eq!((path.as_str(), sessions.len()), ("/locks", 1));
        let [(session, paths)] = &lists(by_session)[..] else { panic!("one session") };
        assert_eq!((session, paths.len()), (&sessions[0], 2));
    }
    assert_eq!(lists(golden!("keeper-wchp"))[0].1, ["0x0000000000000011"]);
}

#[test]
fn refusals_are_not_data() {
    for (text, expected) in [
        ("", Some(WordRefusal::Silent)),
        (
            "mntr is not executed because it is not in the whitelist.\n",
            Some(WordRefusal::NotListed),
        ),
        (
            "This ZooKeeper instance is not currently serving requests\n",
            Some(WordRefusal::NotServing),
        ),
        ("This instance is not currently serving requests", Some(WordRefusal::NotServing)),
        ("imok", None),
        ("\n", None),
        (golden!("apache-3.9-srvr"), None),
    ] {
        assert_eq!(refusal(text), expected, "{text:?}");
        if expected.is_some() {
            assert!(SrvrResponse::parse(text).is_none() && MntrResponse::parse(text).is_none());
            assert!(ConfResponse::parse(text).is_none() && WatchSummary::parse(text).is_none());
            assert!(connections(text).is_empty() && dump(text) == DumpResponse::default());
        }
    }
}

#[test]
fn words_that_change_the_server_are_not_known() {
    for word in ["srst", "crst", "stmk", "csnp", "rqld", "SRVR", ""] {
        assert_eq!(FourLetterWord::parse(word), None);
    }
    for word in FourLetterWord::ALL {
        assert_eq!(FourLetterWord::parse(word.text()), Some(*word));
    }
}

fn parse_all(text: &str) {
    let _ = (
        refusal(text),
        SrvrResponse::parse(text),
        MntrResponse::parse(text),
        ConfResponse::parse(text),
    );
    let _ = (connections(text), WatchSummary::parse(text), lists(text), dump(text));
}

proptest! {
    #[test]
    fn any_text_is_parsed(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        parse_all(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn damaged_responses_are_parsed(which in 0..6_usize, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let golden = [
            golden!("apache-3.9-srvr"), golden!("apache-3.9-mntr"), golden!("apache-3.9-cons"),
            golden!("apache-3.9-dump"), golden!("apache-3.9-conf"), golden!("keeper-cons"),
        ][which];
        let mut bytes = golden.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        parse_all(&String::from_utf8_lossy(&bytes));
        bytes.truncate(at);
        parse_all(&String::from_utf8_lossy(&bytes));
    }
}
