//! Operations beyond the everyday: ACLs, many reads at once, identities, ephemeral nodes, the ensemble.

use zk_curator_proto::records::{
    Acl, ClientInfo, GetChildrenRequest, GetDataRequest, ReadOp, ReadResult, ReconfigRequest, Stat,
};
use zk_curator_proto::{OpCode, Request, Response};

use crate::answer::{Pending, PendingWatched, below, data, stat_of_answer};
use crate::path::is_below;
use crate::session::WatchPlan;
use crate::{AclOf, Data, Error, Read, ReadAnswer, Reconfiguration, Version, ZooKeeper};

/// The node that holds the configuration of the ensemble. The chroot does not apply to it.
const CONFIG_NODE: &str = "/zookeeper/config";

impl ZooKeeper {
    /// Answers the access control list of a node. Fails with `NoNode`, `NoAuth`.
    ///
    /// To those who may not change it, passwords of the scheme `digest` are shown as `x`.
    pub fn get_acl(&self, path: &str) -> Pending<AclOf> {
        let decode = |response, _: &str| match response {
            Response::Acl(body) => Some(AclOf { acl: body.acl, stat: body.stat }),
            _ => None,
        };
        self.at(path, OpCode::GetAcl, decode, |_| {})
    }

    /// Replaces the access control list of a node. `version` is the ACL version (`aversion`) it must have.
    ///
    /// Fails with `NoNode`, `BadVersion`, `InvalidAcl`, `NoAuth`.
    pub fn set_acl(&self, path: &str, acl: &[Acl], version: impl Into<Version>) -> Pending<Stat> {
        match version.into().to_wire() {
            Ok(version) => self.at(path, OpCode::SetAcl, stat_of_answer, |body| {
                body.vector(acl);
                body.i32(version);
            }),
            Err(error) => Pending::failed(error),
        }
    }

    /// Reads many nodes in one request; since ZooKeeper 3.6. Each read succeeds or fails for itself.
    pub fn multi_read(&self, reads: &[Read]) -> Pending<Vec<Result<ReadAnswer, Error>>> {
        let wire = |read: &Read| {
            Ok(match read {
                Read::Data(path) => {
                    ReadOp::GetData(GetDataRequest { path: self.absolute(path)?, watch: false })
                }
                Read::Children(path) => {
                    ReadOp::GetChildren(GetChildrenRequest { path: self.absolute(path)?, watch: false })
                }
            })
        };
        match reads.iter().map(wire).collect::<Result<Vec<_>, Error>>() {
            Ok(reads) => self.submit(&Request::MultiRead(reads), read_results),
            Err(error) => Pending::failed(error),
        }
    }

    /// Answers the paths of the ephemeral nodes of this session that begin with `prefix`; `/` for all below the chroot.
    pub fn get_ephemerals(&self, prefix: &str) -> Pending<Vec<String>> {
        // Servers compare strings: below the chroot `/app` they find `/application` as well.
        let decode = |response, chroot: &str| match response {
            Response::Children(paths) => {
                let ours = paths.into_iter().filter(|path| chroot.is_empty() || is_below(chroot, path));
                Some(ours.map(|path| below(chroot, path)).collect())
            }
            _ => None,
        };
        self.at(prefix, OpCode::GetEphemerals, decode, |_| {})
    }

    /// Answers how many nodes are below a node, at any depth. Fails with `NoNode`.
    pub fn get_all_children_number(&self, path: &str) -> Pending<u32> {
        let decode = |response, _: &str| match response {
            Response::Number(number) => u32::try_from(number).ok(),
            _ => None,
        };
        self.at(path, OpCode::GetAllChildrenNumber, decode, |_| {})
    }

    /// Answers the identities of this connection; since ZooKeeper 3.7. Everybody is at least `ip`.
    pub fn who_am_i(&self) -> Pending<Vec<ClientInfo>> {
        self.submit(&Request::WhoAmI, |response, _| match response {
            Response::Identities(identities) => Some(identities),
            _ => None,
        })
    }

    /// Answers the configuration of the ensemble: one line for each server, and the version. The chroot does not
    /// apply.
    pub fn get_config(&self) -> Pending<Data> {
        let body = GetDataRequest { path: CONFIG_NODE.to_owned(), watch: false };
        self.submit(&Request::GetData(body), data)
    }

    /// [`ZooKeeper::get_config`], and a watch for its change. The path of the event is the server's, whatever the
    /// chroot.
    pub fn get_config_watched(&self) -> PendingWatched<Data> {
        self.watched_below("", CONFIG_NODE.into(), OpCode::GetData, WatchPlan::Data, data)
    }

    /// Changes the members of the ensemble, and answers the new configuration. The servers must have
    /// `reconfigEnabled`, and this client permission to write to the node of the configuration.
    ///
    /// Fails with `ReconfigDisabled`, `NoAuth`, `BadVersion`, `NewConfigNoQuorum`, `ReconfigInProgress`,
    /// `BadArguments`.
    pub fn reconfig(&self, change: &Reconfiguration) -> Pending<Data> {
        let list = |servers: &[String]| servers.join(",");
        let (joining, leaving, members, version) = match change {
            Reconfiguration::Incremental { joining, leaving, version } => {
                (list(joining), list(leaving), String::new(), version)
            }
            Reconfiguration::Members { members, version } => {
                (String::new(), String::new(), list(members), version)
            }
        };
        match version.to_wire() {
            Ok(version) => {
                let body = ReconfigRequest { joining, leaving, members, version };
                self.submit(&Request::Reconfig(body), data)
            }
            Err(error) => Pending::failed(error),
        }
    }
}

fn read_results(response: Response, chroot: &str) -> Option<Vec<Result<ReadAnswer, Error>>> {
    let Response::ReadResults(results) = response else {
        return None;
    };
    let convert = |result| match result {
        ReadResult::Data(body) => data(Response::Data(body), chroot).map(|data| Ok(ReadAnswer::Data(data))),
        ReadResult::Children(names) => Some(Ok(ReadAnswer::Children(names))),
        ReadResult::Error(Some(code)) => Some(Err(Error::Refused(code))),
        _ => None,
    };
    results.into_iter().map(convert).collect()
}
