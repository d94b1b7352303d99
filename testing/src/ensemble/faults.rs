//! Actions of tests and administrators. The journal records the faults among them.

use std::time::Duration;

use zk_curator_proto::ErrorCode;
use zk_curator_proto::records::{DeleteRequest, MultiOp, Stat};

use super::journal::Fault;
use super::state::State;
use crate::access::Identity;
use crate::ids::MemberId;
use crate::quorum::{Action, membership};
use crate::session::Session;
use crate::version::SequenceOverflow;

/// Starts all members of an ensemble together, before any client connects.
pub(crate) fn assemble(state: &mut State) {
    if !state.is_alone() {
        let list = membership(state.members.iter().map(|member| member.port()));
        for member in &mut state.members {
            member.set_membership(&list);
        }
    }
    for at in 0..state.members.len() {
        state.quorum.set_up(at, true);
    }
    state.settle();
}

/// Marks a member as started. A single server gives every session its full timeout again.
pub(crate) fn started(state: &mut State, at: MemberId) {
    if state.is_alone() {
        let now = state.clock.now();
        state.sessions.renew(state.quorum.is_read_only(0), now);
        state.held_since = state.held_since.map(|_| now);
    }
    state.in_role_since[at] = state.clock.now();
    state.quorum.set_up(at, true);
    state.settle();
}

/// Marks a member as stopped.
pub(crate) fn stopped(state: &mut State, at: MemberId) {
    state.quorum.set_up(at, false);
    state.settle();
}

/// Cuts the links between sets of members. Members in no set form one more set.
pub(crate) fn split(state: &mut State, sides: &[Vec<MemberId>]) {
    state.record(None, Fault::Split(sides.to_vec()));
    state.quorum.split(sides);
    state.settle();
}

/// Restores all links between members.
pub(crate) fn heal(state: &mut State) {
    state.record(None, Fault::Heal);
    state.quorum.split(&[]);
    state.settle();
}

/// Replaces the leader by this member, or by the winner of an election. Returns the new leader.
pub(crate) fn change_leader(state: &mut State, to: Option<MemberId>) -> Option<MemberId> {
    let next = state.quorum.successor(to)?;
    state.record(Some(next), Fault::ChangeLeader);
    let settlement = state.quorum.elect(next);
    state.carry_out(settlement);
    Some(next)
}

/// Makes a member lag, by this many milliseconds or until the lag ends. Returns the number of the
/// lag.
pub(crate) fn begin_lag(state: &mut State, at: MemberId, delay: Option<u64>) -> u64 {
    let number = state.quorum.begin_lag(at, delay);
    state.record(Some(at), Fault::Lag(delay.map(Duration::from_millis)));
    number
}

/// Ends a lag.
pub(crate) fn end_lag(state: &mut State, at: MemberId, number: u64) {
    state.quorum.end_lag(at, number);
    state.record(Some(at), Fault::LagEnd);
    state.catch_up_all();
}

/// Suspends a member. The others continue without it.
pub(crate) fn hold(state: &mut State, at: MemberId) {
    if state.is_alone() {
        return hold_all(state);
    }
    state.record(Some(at), Fault::Hold);
    state.quorum.set_held(at, true);
    state.settle();
}

/// Resumes a member.
pub(crate) fn release(state: &mut State, at: MemberId) {
    if state.is_alone() {
        return release_all(state);
    }
    state.record(Some(at), Fault::Release);
    resume_clock(state);
    state.quorum.set_held(at, false);
    state.settle();
}

/// Continues the clock of sessions, if it stopped because all members were suspended.
fn resume_clock(state: &mut State) {
    if let Some(since) = state.held_since.take() {
        state.sessions.postpone(state.clock.now() - since);
    }
}

/// Suspends all members. The clock of sessions stops.
pub(crate) fn hold_all(state: &mut State) {
    state.record(None, Fault::Hold);
    let now = state.clock.now();
    state.held_since.get_or_insert(now);
    state.quorum.set_all_held(true);
}

/// Resumes all members. The clock of sessions continues from where it stopped.
pub(crate) fn release_all(state: &mut State) {
    state.record(None, Fault::Release);
    resume_clock(state);
    state.quorum.set_all_held(false);
    state.settle();
}

/// Makes a member enter or leave read-only mode, which ends its connections.
pub(crate) fn set_read_only(state: &mut State, at: MemberId, read_only: bool) {
    if state.quorum.is_apart(at) == read_only {
        return;
    }
    state.record(Some(at), Fault::ReadOnly(read_only));
    state.quorum.set_apart(at, read_only);
    if !state.is_alone() {
        state.settle();
        return;
    }
    state.cut_all(at);
    if read_only {
        state.sessions.suspend_global();
    } else {
        state.sessions.remove_local(at);
        // The start of a stopped server renews its sessions.
        if state.quorum.is_up(at) {
            started(state, at);
        }
    }
}

/// Advances the clock of sessions and the wall clock, and does everything that is due.
pub(crate) fn advance(state: &mut State, by: Duration) {
    state.record(None, Fault::Advance(by));
    state.clock.advance(by);
    state.do_overdue();
    state.reap();
}

/// Moves the wall clock of a member; other clocks stay.
pub(crate) fn shift_wall_clock(state: &mut State, member: MemberId, by: i64) {
    state.record(Some(member), Fault::ShiftWallClock(by));
    state.wall_ahead[member] = state.wall_ahead[member].saturating_add(by);
}

/// Expires a session; returns `true` if it existed.
pub(crate) fn expire(state: &mut State, session: i64) -> bool {
    let number = state.sessions.number(session);
    let expired = state.expire(session);
    if expired {
        state.record(None, Fault::Expire { session: number });
    }
    expired
}

/// Cuts the connection of a session; returns `true` if it had one.
pub(crate) fn disconnect(state: &mut State, session: i64) -> bool {
    let Some(place) = state.sessions.get(session).and_then(Session::connection) else {
        return false;
    };
    let session = state.sessions.number(session);
    state.record(Some(place.member), Fault::Disconnect { session });
    state.cut(place);
    true
}

/// Cuts every connection of a member. Returns their number.
pub(crate) fn disconnect_all(state: &mut State, at: MemberId) -> usize {
    state.record(Some(at), Fault::DisconnectAll);
    state.cut_all(at)
}

/// Deletes a node and everything below it, regardless of ACLs and versions. Returns their stats.
pub(crate) fn remove(state: &mut State, path: &str) -> Result<Vec<Stat>, ErrorCode> {
    let writer = state.quorum.writer().filter(|at| !state.quorum.is_read_only(*at));
    let tree = state.members[writer.ok_or(ErrorCode::NotReadOnly)?].tree();
    let node = tree.get(path).filter(|_| path != "/").ok_or(ErrorCode::NoNode)?;
    let below: Vec<_> = node.walk(path).map(|(path, node)| (path, node.stat())).collect();
    let superuser = Identity { scheme: "super".to_owned(), id: String::new() };
    // `walk` returns a node before its children.
    for (path, _) in below.iter().rev() {
        let delete = MultiOp::Delete(DeleteRequest { path: path.clone(), version: -1 });
        state.commit(0, [superuser.clone()].into(), Action::Write(delete), None);
    }
    state.record(None, Fault::Remove { path: path.to_owned() });
    Ok(below.into_iter().map(|(_, stat)| stat).collect())
}

/// Sets the number of the next sequential child of `path`.
pub(crate) fn set_sequence(state: &mut State, path: &str, next: i32) -> Result<(), ErrorCode> {
    must_exist(state, path)?;
    state.commit(0, [].into(), Action::SetSequence { path: path.to_owned(), next }, None);
    state.record(None, Fault::SetSequence { path: path.to_owned(), next });
    Ok(())
}

/// Sets the version of the data of `path`.
pub(crate) fn set_version(state: &mut State, path: &str, version: i32) -> Result<(), ErrorCode> {
    must_exist(state, path)?;
    state.commit(0, [].into(), Action::SetVersion { path: path.to_owned(), version }, None);
    state.record(None, Fault::SetVersion { path: path.to_owned(), version });
    Ok(())
}

fn must_exist(state: &State, path: &str) -> Result<(), ErrorCode> {
    let writer = state.quorum.writer().ok_or(ErrorCode::NotReadOnly)?;
    state.members[writer].tree().get(path).map(drop).ok_or(ErrorCode::NoNode)
}

/// Sets the behaviour after the highest sequence number.
pub(crate) fn set_sequence_overflow(state: &mut State, overflow: SequenceOverflow) {
    for member in &mut state.members {
        member.set_sequence_overflow(overflow);
    }
}
