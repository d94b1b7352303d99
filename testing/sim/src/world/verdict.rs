//! The checks at the end of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use zk_curator_client::internal::sleep;
use zk_curator_testing::WriteKind;
use zk_curator_testing::rule::path_matches;

use super::World;
use super::slot::ClientSlot;
use crate::checkers::Violation;
use crate::history::{Cache, Discovery, Name, Operator, ProcessId, Written};
use crate::options;
use crate::process::Process;

impl World<'_> {
    /// Records how the servers changed the nodes that the checkers ask for.
    pub(super) fn record_journal(&self) {
        if self.sim.journal.is_empty() && self.sim.instances.is_empty() {
            return;
        }
        let now = self.run.elapsed();
        for write in self.cluster.writes() {
            let Some(path) = write.path.strip_prefix(options::below(self.settings)) else {
                continue;
            };
            if self.sim.journal.iter().any(|pattern| path_matches(pattern, path)) {
                let czxid = (write.kind != WriteKind::Deleted).then_some(write.czxid);
                let (zxid, path) = (write.zxid, Name::from(path));
                self.run.record(ProcessId::World, Cache::Applied { zxid, path, czxid });
            }
            if self.sim.instances.iter().any(|pattern| path_matches(pattern, path)) {
                let how = match write.kind {
                    WriteKind::Created => Written::Created,
                    WriteKind::Deleted if write.ends_session => Written::Expired,
                    WriteKind::Deleted => Written::Deleted,
                    _ => continue,
                };
                let at = now.saturating_sub(write.at.elapsed());
                let (zxid, path, czxid) = (write.zxid, Name::from(path), write.czxid);
                let written = Discovery::Written { at, zxid, path, czxid, how };
                self.run.record(ProcessId::World, written);
            }
        }
    }

    /// Returns a hash of everything that the servers wrote.
    pub(super) fn hash_of_writes(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for write in self.cluster.writes() {
            let kind = std::mem::discriminant(&write.kind);
            (kind, write.zxid, &write.path, write.session).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Describes the clients that have not finished, and their last events.
    pub(super) fn hang(&self, patience: Duration) -> Violation {
        let history = self.run.history();
        let stuck: Vec<_> =
            self.seats.iter().filter(|seat| !seat.finished).map(ClientSlot::who).collect();
        let last =
            |who: &ProcessId| history.records().iter().rposition(|record| record.who == *who);
        let names: Vec<_> = stuck.iter().map(ToString::to_string).collect();
        let broken = format!(
            "{} not finished {patience:?} after the last fault; the servers:\n{}",
            names.join(", "),
            self.cluster.probe()
        );
        Violation::new("liveness", broken, stuck.iter().filter_map(last).collect::<Vec<_>>())
    }

    pub(super) async fn no_task_is_left(&self) -> Result<(), Violation> {
        let left = || {
            let of_seat = |seat: &ClientSlot| {
                let tasks: usize = seat.former.iter().map(Process::tasks).sum();
                (tasks > 0).then(|| format!("{tasks} of {}", seat.who()))
            };
            self.seats.iter().filter_map(of_seat).collect::<Vec<_>>()
        };
        if !left().is_empty() {
            sleep(self.sim.session_timeout * 2).await;
        }
        match left() {
            left if left.is_empty() => Ok(()),
            left => {
                let broken =
                    format!("clients have finished, but their tasks are left: {}", left.join(", "));
                Err(Violation::new("tasks", broken, Vec::new()))
            }
        }
    }

    /// Checks that an ephemeral node was deleted only with its session, or by the client that
    /// created it.
    pub(super) fn check_no_foreign_deletes(&self) -> Result<(), Violation> {
        let common: Vec<String> =
            self.sim.common.iter().map(|pattern| self.on_server(pattern)).collect();
        let mut clients = BTreeMap::new();
        for seat in &self.seats {
            let hosts = seat.former_hosts.iter().cloned().chain([seat.host()]);
            clients.extend(
                hosts.flat_map(|host| host.sessions()).map(|session| (session, seat.number)),
            );
        }
        let writes = self.cluster.writes();
        let created = writes.iter().filter(|write| write.kind == WriteKind::Created);
        let creators: BTreeMap<i64, i64> =
            created.map(|write| (write.czxid, write.session)).collect();
        let client = |session: i64| clients.get(&session).copied();
        let deleted =
            writes.iter().filter(|write| write.kind == WriteKind::Deleted && write.is_ephemeral);
        let mut overtaken = BTreeSet::new();
        for write in deleted.filter(|write| !write.ends_session) {
            let creator = creators.get(&write.czxid).and_then(|session| client(*session));
            let (Some(creator), Some(by)) = (creator, client(write.session)) else { continue };
            if creator == by || common.iter().any(|pattern| path_matches(pattern, &write.path)) {
                continue;
            }
            if self
                .looks
                .as_ref()
                .is_some_and(|looks| looks.excuse(write, &writes, &overtaken, &self.run))
            {
                overtaken.insert(write.czxid);
                self.run.record(ProcessId::World, Operator::Overtaken { token: write.czxid });
            } else {
                let broken = format!(
                    "c{by} has deleted {}, which c{creator} had created by {:#x}, by {:#x}",
                    write.path, write.czxid, write.zxid
                );
                return Err(Violation::new("ownership", broken, Vec::new()));
            }
        }
        Ok(())
    }

    pub(super) async fn nothing_is_left(&self) -> Result<(), Violation> {
        let sessions = || self.cluster.probe().latest().sessions().len();
        for _ in 0..8 {
            if sessions() == 0 {
                break;
            }
            sleep(self.sim.session_timeout / 2).await;
        }
        if sessions() > 0 {
            let broken = format!("sessions are left:\n{}", self.cluster.probe().latest());
            return Err(Violation::new("leftovers", broken, Vec::new()));
        }
        while !self.cluster.reap_containers().is_empty() {}
        let probe = self.cluster.probe();
        let probe = probe.latest();
        let never_used = |path: &String| {
            probe.is_container(path) && probe.stat(path).is_some_and(|stat| stat.cversion == 0)
        };
        let unused: Vec<String> = probe.paths().into_iter().filter(never_used).collect();
        let nodes = self.initial_nodes();
        let leaves: Vec<String> =
            self.sim.leaves.iter().map(|pattern| self.on_server(pattern)).collect();
        let may_stay = |path: &str| {
            let below = format!("{path}/");
            let is_declared = nodes.iter().any(|node| node == path || node.starts_with(&below))
                || leaves.iter().any(|pattern| path_matches(pattern, path));
            // Apache ZooKeeper too keeps a container that never had a child, and its parents.
            let is_unused =
                || unused.iter().any(|unused| unused == path || unused.starts_with(&below));
            is_declared || is_unused()
        };
        let left: Vec<_> = probe.paths().into_iter().filter(|path| !may_stay(path)).collect();
        if left.is_empty() {
            return Ok(());
        }
        let broken = format!("nodes are left: {}\n{probe}", left.join(", "));
        Err(Violation::new("leftovers", broken, Vec::new()))
    }
}
