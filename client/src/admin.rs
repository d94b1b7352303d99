//! Less frequent operations: ACLs, many reads in one request, identities, ephemeral nodes, the
//! configuration of the ensemble.

use zk_curator_proto::records::{
    Acl, ClientInfo, GetChildrenRequest, GetDataRequest, ReadOp, ReadResult, ReconfigRequest, Stat,
};
use zk_curator_proto::{OpCode, Request, Response};

use crate::answer::{Pending, PendingWatched, below, data, stat_of_response};
use crate::path::is_below;
use crate::session::WatchPlan;
use crate::{AclOf, Data, Error, Read, ReadResponse, Reconfiguration, Version, ZooKeeper};

/// The node with the configuration of the ensemble. The chroot does not apply to it.
const CONFIG_NODE: &str = "/zookeeper/config";

impl ZooKeeper {
    /// Returns the access control list of a node.
    ///
    /// If this client may not change the list, passwords of the scheme `digest` are shown as `x`.
    ///
    /// # Errors
    /// `NoNode`, `NoAuth`.
    pub fn get_acl(&self, path: &str) -> Pending<AclOf> {
        let decode = |response, _: &str| match response {
            Response::Acl(body) => Some(AclOf { acl: body.acl, stat: body.stat }),
            _ => None,
        };
        self.at(path, OpCode::GetAcl, decode, |_| {})
    }

    /// Replaces the access control list of a node, if its ACL version (`aversion`) is `version`.
    ///
    /// # Errors
    /// `NoNode`, `BadVersion`, `InvalidAcl`, `NoAuth`.
    pub fn set_acl(&self, path: &str, acl: &[Acl], version: impl Into<Version>) -> Pending<Stat> {
        match version.into().to_wire() {
            Ok(version) => self.at(path, OpCode::SetAcl, stat_of_response, |body| {
                body.vector(acl);
                body.i32(version);
            }),
            Err(error) => Pending::failed(error),
        }
    }

    /// Reads many nodes in one request; needs ZooKeeper 3.6. Each read has a result of its own.
    pub fn multi_read(&self, reads: &[Read]) -> Pending<Vec<Result<ReadResponse, Error>>> {
        let wire = |read: &Read| {
            Ok(match read {
                Read::Data(path) => {
                    ReadOp::GetData(GetDataRequest { path: self.absolute(path)?, watch: false })
                }
                Read::Children(path) => ReadOp::GetChildren(GetChildrenRequest {
                    path: self.absolute(path)?,
                    watch: false,
                }),
            })
        };
        match reads.iter().map(wire).collect::<Result<Vec<_>, Error>>() {
            Ok(reads) => self.submit(&Request::MultiRead(reads), read_results),
            Err(error) => Pending::failed(error),
        }
    }

    /// Returns the paths of the ephemeral nodes of this session that begin with `prefix`. With `/`
    /// it returns all paths below the chroot.
    pub fn get_ephemerals(&self, prefix: &str) -> Pending<Vec<String>> {
        // Servers compare strings, so below the chroot `/app` they also find `/application`.
        let decode = |response, chroot: &str| match response {
            Response::Children(paths) => {
                let ours =
                    paths.into_iter().filter(|path| chroot.is_empty() || is_below(chroot, path));
                Some(ours.map(|path| below(chroot, path)).collect())
            }
            _ => None,
        };
        self.at(prefix, OpCode::GetEphemerals, decode, |_| {})
    }

    /// Returns the number of nodes below a node, at any depth.
    ///
    /// # Errors
    /// `NoNode`.
    pub fn get_all_children_number(&self, path: &str) -> Pending<u32> {
        let decode = |response, _: &str| match response {
            Response::Number(number) => u32::try_from(number).ok(),
            _ => None,
        };
        self.at(path, OpCode::GetAllChildrenNumber, decode, |_| {})
    }

    /// Returns the identities of this connection; needs ZooKeeper 3.7. Every client has at least
    /// `ip`.
    pub fn who_am_i(&self) -> Pending<Vec<ClientInfo>> {
        self.submit(&Request::WhoAmI, |response, _| match response {
            Response::Identities(identities) => Some(identities),
            _ => None,
        })
    }

    /// Returns the configuration of the ensemble: one line for each server, and the version. The
    /// chroot does not apply.
    pub fn get_config(&self) -> Pending<Data> {
        let body = GetDataRequest { path: CONFIG_NODE.to_owned(), watch: false };
        self.submit(&Request::GetData(body), data)
    }

    /// Does the same as [`ZooKeeper::get_config`], and watches the configuration. The path of the
    /// event is the path on the server: the chroot is not removed from it.
    pub fn get_config_watched(&self) -> PendingWatched<Data> {
        self.watched_below("", CONFIG_NODE.into(), OpCode::GetData, WatchPlan::Data, data)
    }

    /// Changes the members of the ensemble, and returns the new configuration. The servers must
    /// have `reconfigEnabled`, and this client needs the permission to write the configuration
    /// node.
    ///
    /// # Errors
    /// `ReconfigDisabled`, `NoAuth`, `BadVersion`, `NewConfigNoQuorum`, `ReconfigInProgress`,
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

fn read_results(response: Response, chroot: &str) -> Option<Vec<Result<ReadResponse, Error>>> {
    let Response::ReadResults(results) = response else {
        return None;
    };
    let convert = |result| match result {
        ReadResult::Data(body) => {
            data(Response::Data(body), chroot).map(|data| Ok(ReadResponse::Data(data)))
        }
        ReadResult::Children(names) => Some(Ok(ReadResponse::Children(names))),
        ReadResult::Error(Some(code)) => Some(Err(Error::Refused(code))),
        _ => None,
    };
    results.into_iter().map(convert).collect()
}
