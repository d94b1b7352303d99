//! The sessions of an ensemble, joined from the connections of all servers and the list of the
//! leader.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator_ops::ensemble::{EnsembleProbe, sessions};
//!
//! let found = sessions::sessions(&EnsembleProbe::of(&zk)).await?;
//! let own = &found.by_id[&zk.session().expect("connected").id];
//! assert!(own.address.is_some() && found.all_sessions);
//! # Ok(()) }
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use zk_curator::SessionId;

use super::health::leader;
use super::members::EnsembleMembers;
use super::notes::{ProbeNote, notes};
use super::probe::{self, ProbeReport};
use super::target::EnsembleProbe;
use super::trouble::ProbeTrouble;
use super::words::{self, FourLetterWord};
use crate::error::Error;

/// A session, with everything that the servers told of it.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct EnsembleSession {
    /// Address and port of the client; `None` if no server told a connection of it.
    pub address: Option<String>,
    /// The server with the connection.
    pub server: Option<String>,
    /// The session timeout.
    pub timeout: Option<Duration>,
    /// The last operation in four letters, such as `PING` or `GETD`.
    pub last_operation: Option<String>,
    /// The servers have not heard from the client for at least this long. A server tells only by
    /// its own clock when it responded, so this is counted from its last response to any client.
    pub silent: Option<Duration>,
    /// The leader expires it after this time at the latest, unless it hears of it.
    pub within: Option<Duration>,
    /// The time at which the leader expires it unless it hears of it, in the leader's words.
    pub expires: Option<String>,
    /// The time of the connect, in milliseconds since 1970.
    pub established: Option<i64>,
    /// The requests on its present connection.
    pub requests: Option<u64>,
    /// The requests without a response.
    pub queued: Option<u64>,
    /// The paths of its ephemeral nodes, as the servers know them: with the chroot.
    pub ephemerals: Vec<String>,
}

/// The sessions, with notes about the missing facts.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct EnsembleSessions {
    /// The sessions, by their ids.
    pub by_id: BTreeMap<SessionId, EnsembleSession>,
    /// A note for each server that did not tell something.
    pub notes: Vec<ProbeNote>,
    /// `true` if every server told its connections: a session without one is not connected.
    pub all_connections: bool,
    /// `true` if a server told all sessions: a session that is not here has ended.
    pub all_sessions: bool,
}

/// Asks all servers for their connections, and the leader for the sessions.
///
/// # Errors
/// As of [`EnsembleProbe::members`]. A server that does not respond is a note.
pub async fn sessions(probe: &EnsembleProbe<'_>) -> Result<EnsembleSessions, Error> {
    let members = probe.members().await?;
    // The settings have the tick, in which sessions expire.
    let words =
        [FourLetterWord::Srvr, FourLetterWord::Conf, FourLetterWord::Cons, FourLetterWord::Dump];
    let mut reports = probe::ask_all(&members.servers, &words, probe.options()).await;
    for report in reports.iter_mut().filter(|report| report.conf.is_err()) {
        // Without it, only an end is not known.
        report.conf = Err(ProbeTrouble::NotAsked);
    }
    Ok(of_members(&members, &reports))
}

/// Joins the responses of the servers of an ensemble, as [`join`] does. Members without a known
/// address were not asked, nor were others if the members are not known: there is a note about
/// them, and they may have connections.
#[must_use]
pub fn of_members(members: &EnsembleMembers, reports: &[ProbeReport]) -> EnsembleSessions {
    let mut sessions = join(reports);
    sessions.notes.extend(members.note_beside(reports));
    sessions.all_connections &= members.are_all(reports);
    sessions
}

/// Joins the responses of the servers to `srvr`, `conf`, `cons` and `dump`.
#[must_use]
pub fn join(reports: &[ProbeReport]) -> EnsembleSessions {
    let mut sessions = EnsembleSessions {
        notes: notes(reports),
        all_connections: reports.iter().all(|report| report.cons.is_ok()),
        ..EnsembleSessions::default()
    };
    // The leader knows the times, and every other server the timeouts.
    let others = reports.iter().filter(|report| !report.leads());
    for report in leader(reports).into_iter().chain(others) {
        let Ok(dump) = &report.dump else { continue };
        sessions.all_sessions = true;
        for (id, dumped) in &dump.sessions {
            let session = sessions.by_id.entry(SessionId::new(*id)).or_default();
            session.timeout = session.timeout.or_else(|| dumped.timeout.map(Duration::from_millis));
            session.expires = session.expires.take().or_else(|| dumped.expires.clone());
        }
        for (id, paths) in &dump.ephemerals {
            let session = sessions.by_id.entry(SessionId::new(*id)).or_default();
            if session.ephemerals.is_empty() {
                session.ephemerals.clone_from(paths);
            }
        }
    }
    for report in reports {
        add_connections(&mut sessions.by_id, report);
    }
    if let Some(leader) = leader(reports) {
        add_expiry(&mut sessions.by_id, leader);
    }
    sessions
}

/// Adds the times until sessions expire, by the clock of the leader. It is known from the sessions
/// themselves: when a leader hears of a session, it sets its end to the timeout later, rounded up
/// to the next tick. So now is at least the latest of all ends, less its timeout and a tick.
fn add_expiry(sessions: &mut BTreeMap<SessionId, EnsembleSession>, leader: &ProbeReport) {
    let tick = leader.conf.as_ref().ok().and_then(|conf| conf.number("tickTime"));
    let Some(tick) = tick.and_then(|tick| i64::try_from(tick).ok()) else { return };
    let ends: Vec<_> = sessions
        .iter()
        .filter_map(|(id, session)| {
            let (zone, end) = words::java_date(session.expires.as_deref()?)?;
            let timeout = session.timeout.and_then(|time| i64::try_from(time.as_millis()).ok());
            Some((*id, zone.to_owned(), end, timeout))
        })
        .collect();
    // The clock may be changed between two zones, as in spring.
    let Some(zone) = ends.first().map(|(_, zone, ..)| zone) else { return };
    if ends.iter().any(|(_, other, ..)| other != zone) {
        return;
    }
    let heard = ends.iter().filter_map(|(_, _, end, timeout)| {
        let heard = end.saturating_sub((*timeout)?);
        Some(heard.saturating_sub(tick))
    });
    let Some(now) = heard.max() else { return };
    let duration = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap_or_default());
    for (id, _, end, timeout) in &ends {
        let Some(session) = sessions.get_mut(id) else { continue };
        // Ends are told to the second.
        let latest = end + 999;
        session.within = Some(duration(latest.saturating_sub(now)));
        if let Some(timeout) = timeout {
            let silent = duration(now.saturating_sub(latest.saturating_sub(*timeout)));
            session.silent = session.silent.max(Some(silent));
        }
    }
}

fn add_connections(sessions: &mut BTreeMap<SessionId, EnsembleSession>, report: &ProbeReport) {
    let Ok(connections) = &report.cons else { return };
    let latest = connections.iter().filter_map(|connection| connection.last_response).max();
    for connection in connections {
        let Some(id) = connection.session else { continue };
        let session = sessions.entry(SessionId::new(id)).or_default();
        // After a move, the former server may still have its connection for a moment.
        if session.established > connection.established {
            continue;
        }
        let silent = latest.zip(connection.last_response);
        let silent =
            silent.and_then(|(latest, own)| u64::try_from(latest.saturating_sub(own)).ok());
        *session = EnsembleSession {
            address: Some(connection.address.clone()),
            server: Some(report.server.to_string()),
            timeout: connection.timeout.map(Duration::from_millis).or(session.timeout),
            last_operation: connection.last_operation.clone(),
            silent: silent.map(Duration::from_millis),
            within: None,
            expires: session.expires.take(),
            established: connection.established,
            requests: Some(connection.received),
            queued: Some(connection.queued),
            ephemerals: std::mem::take(&mut session.ephemerals),
        };
    }
}

#[cfg(test)]
mod tests {
    use zk_curator::ensemble::EnsembleConfig;

    use super::*;
    use crate::ensemble::health::tests::serving;
    use crate::ensemble::words::{ConfResponse, ServerMode};

    #[test]
    fn a_session_is_joined_from_all_servers() {
        let mut leader = serving(1, ServerMode::Leader, 9);
        leader.dump = Ok(words::dump(
            "SessionTracker dump:\nSession Sets (1)/(2):\n2 expire at Thu:\n\t0x11\n\t0x12\n\
             ephemeral nodes dump:\nSessions with Ephemerals (1):\n0x11:\n\t/a\n",
        ));
        leader.cons = Ok(Vec::new());
        let mut follower = serving(2, ServerMode::Follower, 9);
        follower.cons = Ok(words::connections(
            " /10.0.0.7:4000[1](queued=1,recved=8,sent=7,sid=0x11,lop=PING,est=5,to=30000,lresp=900)\n \
             /10.0.0.8:4000[1](queued=0,recved=1,sent=1,sid=0x13,lop=GETD,est=6,to=8000,lresp=1000)\n",
        ));
        let sessions = join(&[leader, follower]);
        assert!(sessions.all_connections && sessions.all_sessions);
        assert!(sessions.notes.is_empty(), "{:?}", sessions.notes);
        let held = &sessions.by_id[&SessionId::new(0x11)];
        assert_eq!(held.address.as_deref(), Some("10.0.0.7:4000"));
        assert_eq!(held.server.as_deref(), Some("zk:2"));
        assert_eq!(held.timeout, Some(Duration::from_secs(30)));
        assert_eq!(held.silent, Some(Duration::from_millis(100)));
        assert_eq!(held.expires.as_deref(), Some("Thu"));
        assert_eq!(held.ephemerals, ["/a"]);
        let away = &sessions.by_id[&SessionId::new(0x12)];
        assert_eq!((&away.address, away.expires.as_deref()), (&None, Some("Thu")));
        assert!(sessions.by_id.contains_key(&SessionId::new(0x13)));
        assert!(!sessions.by_id.contains_key(&SessionId::new(0x14)));
    }

    /// Session 0x11 is ours, which the leader has just heard of, 0x12 was silent, and 0x13 is gone.
    fn expiring(zone: &str, tick: &str) -> EnsembleSessions {
        let mut leader = serving(1, ServerMode::Leader, 9);
        leader.conf = Ok(ConfResponse::parse(tick).expect("settings"));
        leader.dump = Ok(words::dump(&format!(
            "SessionTracker dump:\nSession Sets (3)/(3):\n\
             1 expire at Thu Dec 31 23:59:58 UTC 2026:\n\t0x12\n\
             1 expire at Fri Jan 01 00:00:00 UTC 2027:\n\t0x13\n\
             1 expire at Fri Jan 01 00:00:04 {zone} 2027:\n\t0x11\n",
        )));
        leader.cons = Ok(words::connections(
            " /a:1[1](recved=1,sid=0x11,est=5,to=8000,lresp=900)\n \
             /b:1[1](recved=1,sid=0x12,est=5,to=30000,lresp=900)\n",
        ));
        join(&[leader])
    }

    #[test]
    fn the_end_of_a_session_is_known_from_the_others() {
        let sessions = expiring("UTC", "tickTime=2000");
        let of = |id: i64| &sessions.by_id[&SessionId::new(id)];
        // The leader has heard of 0x11 at 23:59:54 at the earliest.
        assert_eq!(of(0x12).within, Some(Duration::from_millis(4_999)));
        assert_eq!(of(0x12).silent, Some(Duration::from_millis(25_001)));
        assert_eq!(of(0x13).within, Some(Duration::from_millis(6_999)));
        assert_eq!((of(0x13).silent, of(0x11).silent), (None, Some(Duration::ZERO)));
    }

    #[test]
    fn an_end_that_cannot_be_computed_is_not_shown() {
        for sessions in [expiring("CEST", "tickTime=2000"), expiring("UTC", "clientPort=1")] {
            assert_eq!(sessions.by_id[&SessionId::new(0x12)].within, None);
            assert_eq!(sessions.by_id[&SessionId::new(0x12)].silent, Some(Duration::ZERO));
        }
    }

    #[test]
    fn every_time_of_a_server_is_possible() {
        let most = i64::MAX.to_string();
        let sessions = expiring("UTC", &format!("tickTime={most}"));
        assert!(sessions.by_id[&SessionId::new(0x12)].within.is_some());
        let mut leader = serving(1, ServerMode::Leader, 9);
        leader.conf = Ok(ConfResponse::parse(&format!("tickTime={most}")).expect("settings"));
        leader.dump = Ok(words::dump(
            "Session Sets (1)/(1):\n1 expire at Thu Dec 31 23:59:58 UTC 2026:\n\t0x12\n",
        ));
        leader.cons = Ok(words::connections(&format!(" /b:1[1](sid=0x12,to={most})\n")));
        assert!(join(&[leader]).by_id[&SessionId::new(0x12)].silent.is_some());
    }

    #[test]
    fn the_later_connection_of_a_session_counts() {
        let mut servers = [serving(1, ServerMode::Leader, 9), serving(2, ServerMode::Follower, 9)];
        servers[0].cons = Ok(words::connections(" /new:1[1](recved=1,sid=0x11,est=9)"));
        servers[1].cons = Ok(words::connections(" /old:1[1](recved=1,sid=0x11,est=5)"));
        let sessions = join(&servers);
        assert_eq!(sessions.by_id[&SessionId::new(0x11)].address.as_deref(), Some("new:1"));
    }

    #[test]
    fn servers_that_are_not_known_may_have_connections() {
        let answering = |mode| {
            let mut report = serving(1, mode, 9);
            report.cons = Ok(Vec::new());
            [report]
        };
        let (alone, follower) =
            (answering(ServerMode::Standalone), answering(ServerMode::Follower));
        let known =
            EnsembleMembers { config: Some(EnsembleConfig::default()), ..Default::default() };
        let unknown = EnsembleMembers::default();
        for (members, reports, are_all) in
            [(&known, &follower, true), (&unknown, &alone, true), (&unknown, &follower, false)]
        {
            let sessions = of_members(members, reports);
            assert_eq!(sessions.all_connections, are_all, "{reports:?}");
            assert_eq!(sessions.notes.is_empty(), are_all, "{:?}", sessions.notes);
        }
    }

    #[test]
    fn servers_that_do_not_tell_are_named() {
        let mut refusing = serving(1, ServerMode::Leader, 9);
        refusing.cons = Err(ProbeTrouble::NotListed);
        refusing.dump = Err(ProbeTrouble::NotListed);
        let mut gone = serving(2, ServerMode::Follower, 9);
        gone.srvr = Err(ProbeTrouble::Late);
        let sessions = join(&[refusing, gone]);
        assert!(!sessions.all_connections && !sessions.all_sessions);
        let notes: Vec<_> = sessions.notes.iter().map(ToString::to_string).collect();
        let [first, second] = &notes[..] else { panic!("{notes:?}") };
        assert!(
            first.starts_with("zk:1 refuses cons, dump: set 4lw.commands.whitelist=srvr, mntr,")
        );
        assert_eq!(second, "zk:2: no response in time");
    }
}
