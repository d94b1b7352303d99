//! Attempts to connect: many at once, and one connection.

use super::*;

const STAGGER: Duration = Duration::from_millis(250);

/// Returns the hosts of the attempts that have begun since the last call.
fn begun(rig: &mut Rig) -> Vec<HostPort> {
    let host = |effect| if let SessionEffect::Connect(host) = effect { Some(host) } else { None };
    rig.effects().into_iter().filter_map(host).collect()
}

fn three() -> Rig {
    let mut rig = Rig::with("a:1,b:1,c:1", |builder| builder);
    rig.pass(Duration::ZERO);
    rig
}

fn fail(rig: &mut Rig, host: &HostPort) {
    rig.machine.on_attempt_failed(host, io::ErrorKind::ConnectionRefused.into(), rig.now);
}

#[test]
fn hosts_are_tried_one_after_another_without_waiting_for_each() {
    let mut rig = three();
    let mut tried = begun(&mut rig);
    assert_eq!(tried.len(), 1);
    for _ in 0..2 {
        rig.pass(STAGGER - Duration::from_millis(1));
        assert_eq!(begun(&mut rig), []);
        rig.pass(Duration::from_millis(1));
        tried.extend(begun(&mut rig));
    }
    // Each host is tried once, and none twice while an attempt is pending.
    rig.pass(Duration::from_millis(700));
    assert_eq!(begun(&mut rig), []);
    tried.sort_by(|one, two| one.host.cmp(&two.host));
    assert_eq!(tried.iter().map(|host| host.host.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[test]
fn only_the_first_connection_asks_for_the_session() {
    let mut rig = three();
    rig.pass(STAGGER * 2);
    let tried = begun(&mut rig);
    rig.machine.on_connected(&tried[1], rig.now);
    assert!(!rig.machine.output().is_empty());
    rig.machine.output().clear();
    // The other attempts were already in progress.
    rig.machine.on_connected(&tried[0], rig.now);
    fail(&mut rig, &tried[2]);
    assert_eq!((rig.sent().len(), rig.effects()), (0, vec![]));
    rig.accept(TIMEOUT);
    assert_eq!(rig.states(), [SessionState::Connected(info(TIMEOUT))]);
    // After the connection is lost, the other hosts come first.
    rig.pass(Duration::from_secs(2));
    rig.sent();
    rig.cut();
    rig.pass(STAGGER * 2);
    let again = begun(&mut rig);
    assert_eq!((again[0].clone(), again[2].clone()), (tried[2].clone(), tried[1].clone()));
}

#[test]
fn a_failure_makes_room_for_the_next_host_at_once() {
    let mut rig = three();
    let first = begun(&mut rig).remove(0);
    rig.pass(STAGGER);
    let second = begun(&mut rig).remove(0);
    fail(&mut rig, &second);
    rig.pass(Duration::ZERO);
    let third = begun(&mut rig).remove(0);
    fail(&mut rig, &third);
    // A whole round has been tried. Pauses begin now, although the first host swallows its attempt.
    rig.pass(Duration::from_millis(20));
    assert_eq!(begun(&mut rig), []);
    rig.pass(Duration::from_millis(100));
    assert_eq!(begun(&mut rig), [second]);
    assert!(rig.machine.attempts.iter().any(|attempt| attempt.host == first));
    assert_eq!(rig.states(), []);
}

#[test]
fn an_attempt_that_hangs_is_given_up_after_its_share() {
    let mut rig = three();
    // A third of the time that requests wait, and of the session timeout later.
    let share = PATIENCE / 3;
    rig.pass(share - Duration::from_millis(1));
    assert!(!rig.effects().iter().any(|effect| matches!(effect, SessionEffect::Abandon(_))));
    rig.pass(Duration::from_millis(1));
    assert!(matches!(rig.effects()[..], [SessionEffect::Abandon(_), ..]));
    rig.pass(STAGGER * 3 + share * 2);
    rig.effects();
    let longest = rig.machine.attempts.iter().map(|attempt| attempt.deadline - rig.now).max();
    assert!(longest.is_some_and(|left| left > share && left <= TIMEOUT / 3), "{longest:?}");
}

#[test]
fn a_silent_server_is_left_after_its_share_of_the_time() {
    let mut rig = Rig::with("a:1,b:1,c:1", |builder| {
        builder
            .session_timeout(Duration::from_secs(60))
            .disconnected(DisconnectedPolicy::Wait(Duration::from_secs(15)))
    });
    rig.open();
    let silent = rig.host.clone();
    rig.pass(Duration::from_millis(4999));
    assert_eq!(rig.effects(), []);
    rig.pass(Duration::from_millis(1));
    let effects = rig.effects();
    let [SessionEffect::Disconnect, SessionEffect::Connect(next)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_ne!(*next, silent);
}

#[test]
fn attempts_to_hosts_that_are_no_longer_listed_are_given_up() {
    let mut rig = three();
    rig.pass(STAGGER);
    let tried = begun(&mut rig);
    let hosts: ConnectString = format!("{},d:1", tried[1]).parse().unwrap();
    rig.command(SessionCommand::ReplaceHosts { hosts: hosts.hosts });
    assert_eq!(rig.effects(), [SessionEffect::Abandon(tried[0].clone())]);
    rig.pass(STAGGER);
    assert_eq!(begun(&mut rig).iter().map(|host| host.host.as_str()).collect::<Vec<_>>(), ["d"]);
}

#[test]
fn the_last_failure_names_the_server() {
    let mut rig = Rig::new();
    let failure = |rig: &Rig| rig.machine.states.failure().unwrap().to_string();
    rig.until_connect();
    rig.machine.on_attempt_failed(&rig.host.clone(), io::Error::other("name not known"), rig.now);
    assert_eq!(failure(&rig), "connect h:1: name not known");
    rig.open();
    rig.receive_bytes(BytesMut::from(&b"HTTP/1.1 400 Bad Request"[..]));
    assert_eq!(failure(&rig), "h:1: the server speaks HTTP on this port");
    rig.open();
    rig.receive_bytes(BytesMut::from(&[0x15, 3, 3, 0, 2, 2, 80][..]));
    assert_eq!(failure(&rig), "h:1: the server speaks TLS on this port");
    rig.connect();
    rig.machine.on_io_error(rig.now, io::Error::other("cut"));
    assert_eq!(failure(&rig), "h:1: cut");
    rig.until_connect();
    rig.pass(TIMEOUT / 3);
    assert_eq!(failure(&rig), "connect h:1: timed out");
}
