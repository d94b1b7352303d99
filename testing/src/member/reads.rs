//! [`Reader`]: responds to requests that need no transaction.

use bytes::Bytes;
use zk_curator_proto::records::{
    AclResponse, AddWatchMode, AddWatchRequest, Children2Response, ClientInfo, DataResponse,
    EventType, ExistsRequest, GetAclRequest, GetChildrenRequest, GetDataRequest, Permissions,
    ReadOp, ReadResult, SetWatches2, WatcherType, WatchesRequest,
};
use zk_curator_proto::{ErrorCode, Request, Response};

use super::connections::Connections;
use crate::access::{self, Identity};
use crate::config::Config;
use crate::ids::ConnectionId;
use crate::tree::{Node, Tree};
use crate::version::ZooKeeperVersion;
use crate::watch::{WatchMode, WatchTable};

/// Responds to one request that needs no transaction, at one member.
pub(super) struct Reader<'a> {
    pub(super) config: &'a Config,
    pub(super) tree: &'a Tree,
    pub(super) watches: &'a mut WatchTable,
    pub(super) connections: &'a mut Connections,
    /// The connection of the request.
    pub(super) id: ConnectionId,
    pub(super) session: i64,
    /// The identities of the connection.
    pub(super) who: &'a [Identity],
}

impl<'a> Reader<'a> {
    /// Returns the response.
    pub(super) fn read(mut self, request: Request) -> Result<Response, ErrorCode> {
        match request {
            Request::Sync(body) => Ok(Response::Path(body.path)),
            Request::Exists(body) => self.exists(&body),
            Request::GetData(body) => self.data(&body).map(Response::Data),
            Request::GetChildren(body) => {
                self.list(&body).map(|list| Response::Children(list.children))
            }
            Request::GetChildren2(body) => self.list(&body).map(Response::Children2),
            Request::MultiRead(ops) => self.read_many(ops),
            Request::GetAcl(body) => self.acl(&body),
            Request::GetAllChildrenNumber(body) => {
                self.readable(&body.path)?;
                let number = self.tree.count_below(&body.path);
                Ok(Response::Number(i32::try_from(number).unwrap_or(i32::MAX)))
            }
            Request::GetEphemerals(body) => Ok(Response::Children(self.ephemerals(&body.prefix))),
            Request::WhoAmI => {
                let info = |identity: &Identity| ClientInfo {
                    scheme: identity.scheme.clone(),
                    user: identity.user().to_owned(),
                };
                Ok(Response::Identities(self.who.iter().map(info).collect()))
            }
            Request::AddWatch(body) => self.add_watch(&body),
            Request::RemoveWatches(body) => {
                let kind = self.watcher_type(&body)?;
                found(self.watches.remove(&body.path, self.id, kind))
            }
            Request::CheckWatches(body) => {
                let kind = self.watcher_type(&body)?;
                // 3.8 looks for the parent of every path.
                if self.config.version == ZooKeeperVersion::V3_8
                    && !body.path.is_empty()
                    && !body.path.contains('/')
                {
                    return Err(ErrorCode::MarshallingError);
                }
                found(self.watches.contains(&body.path, self.id, kind))
            }
            Request::SetWatches(body) => {
                let body = SetWatches2 {
                    relative_zxid: body.relative_zxid,
                    data_watches: body.data_watches,
                    exist_watches: body.exist_watches,
                    child_watches: body.child_watches,
                    ..SetWatches2::default()
                };
                self.set_watches(body);
                Ok(Response::Empty)
            }
            Request::SetWatches2(body) => {
                self.set_watches(body);
                Ok(Response::Empty)
            }
            _ => Err(ErrorCode::Unimplemented),
        }
    }

    fn exists(&mut self, body: &ExistsRequest) -> Result<Response, ErrorCode> {
        if body.path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        if self.config.version != ZooKeeperVersion::V3_8
            && let Some(node) = self.tree.get(&body.path)
        {
            access::check(node.acl(), Permissions::READ, self.who)?;
        }
        if body.watch {
            self.watches.watch_data(&body.path, self.id);
        }
        self.node(&body.path).map(|node| Response::Stat(node.stat()))
    }

    fn data(&mut self, body: &GetDataRequest) -> Result<DataResponse, ErrorCode> {
        let node = self.readable(&body.path)?;
        let response =
            DataResponse { data: node.data().map(Bytes::copy_from_slice), stat: node.stat() };
        if body.watch {
            self.watches.watch_data(&body.path, self.id);
        }
        Ok(response)
    }

    fn list(&mut self, body: &GetChildrenRequest) -> Result<Children2Response, ErrorCode> {
        let node = self.readable(&body.path)?;
        let children = node.child_names().map(ToString::to_string).collect();
        let response = Children2Response { children, stat: node.stat() };
        if body.watch {
            self.watches.watch_children(&body.path, self.id);
        }
        Ok(response)
    }

    /// Reads several nodes. A short request can have a very long response. A client whose response
    /// exceeds the backlog limit is disconnected.
    fn read_many(&mut self, ops: Vec<ReadOp>) -> Result<Response, ErrorCode> {
        let (mut results, mut bytes) = (Vec::new(), 0);
        for op in ops {
            let result = self.read_one(op);
            bytes += match &result {
                ReadResult::Data(body) => body.data.as_ref().map_or(0, Bytes::len),
                ReadResult::Children(names) => {
                    names.iter().map(|name| name.len() + size_of::<String>()).sum()
                }
                _ => 0,
            };
            if bytes > self.config.max_backlog {
                tracing::info!(bytes, "disconnected: the response is too long");
                // The cut ends the task of the connection, which removes the connection.
                if let Some(connection) = self.connections.get(self.id) {
                    connection.outbox().cut();
                }
                return Err(ErrorCode::MarshallingError);
            }
            results.push(result);
        }
        Ok(Response::ReadResults(results))
    }

    /// Reads one operation of a multi read. Its watch flag has no effect.
    fn read_one(&mut self, op: ReadOp) -> ReadResult {
        let result = match op {
            ReadOp::GetData(body) => {
                self.data(&GetDataRequest { watch: false, ..body }).map(ReadResult::Data)
            }
            ReadOp::GetChildren(body) => self
                .list(&GetChildrenRequest { watch: false, ..body })
                .map(|list| ReadResult::Children(list.children)),
            _ => Err(ErrorCode::Unimplemented),
        };
        result.unwrap_or_else(|code| ReadResult::Error(Some(code)))
    }

    /// Returns an ACL. It needs read permission, and admin permission to see the hashes.
    fn acl(&self, body: &GetAclRequest) -> Result<Response, ErrorCode> {
        let node = self.node(&body.path)?;
        access::check(node.acl(), Permissions::READ | Permissions::ADMIN, self.who)?;
        let acl = match access::check(node.acl(), Permissions::ADMIN, self.who) {
            Ok(()) => node.acl().to_vec(),
            Err(_) => access::without_hashes(node.acl()),
        };
        Ok(Response::Acl(AclResponse { acl, stat: node.stat() }))
    }

    /// Returns the ephemeral nodes of the session below `prefix`; all for a blank prefix and `/`.
    fn ephemerals(&self, prefix: &str) -> Vec<String> {
        let all = matches!(prefix.trim_matches(|c| c <= ' '), "" | "/");
        let paths = self.tree.ephemerals(self.session);
        paths.filter(|path| all || path.starts_with(prefix)).map(ToString::to_string).collect()
    }

    fn add_watch(&mut self, body: &AddWatchRequest) -> Result<Response, ErrorCode> {
        let mode = match AddWatchMode::try_from(body.mode) {
            Ok(AddWatchMode::Persistent) => WatchMode::Persistent,
            Ok(AddWatchMode::PersistentRecursive) => WatchMode::Recursive,
            _ => return Err(ErrorCode::MarshallingError),
        };
        self.watches.watch_persistently(&body.path, self.id, mode);
        Ok(Response::Code(0))
    }

    fn watcher_type(&self, body: &WatchesRequest) -> Result<WatcherType, ErrorCode> {
        match WatcherType::try_from(body.watcher_type) {
            Ok(WatcherType::Persistent | WatcherType::PersistentRecursive)
                if self.config.version == ZooKeeperVersion::V3_8 =>
            {
                Err(ErrorCode::MarshallingError)
            }
            Ok(kind) => Ok(kind),
            Err(_) => Err(ErrorCode::MarshallingError),
        }
    }

    /// Sets watches again after a reconnect. Watches on nodes that changed in between fire
    /// immediately.
    fn set_watches(&mut self, body: SetWatches2) {
        let missed = body.relative_zxid;
        for path in body.data_watches {
            match self.tree.get(&path) {
                None => self.catch_up(EventType::NodeDeleted, &path),
                Some(node) if node.mzxid() > missed => {
                    self.catch_up(EventType::NodeDataChanged, &path);
                }
                Some(_) => self.watches.watch_data(&path, self.id),
            }
        }
        for path in body.exist_watches {
            match self.tree.get(&path) {
                None => self.watches.watch_data(&path, self.id),
                Some(_) => self.catch_up(EventType::NodeCreated, &path),
            }
        }
        for path in body.child_watches {
            match self.tree.get(&path) {
                None => self.catch_up(EventType::NodeDeleted, &path),
                Some(node) if node.pzxid() > missed => {
                    self.catch_up(EventType::NodeChildrenChanged, &path);
                }
                Some(_) => self.watches.watch_children(&path, self.id),
            }
        }
        for path in body.persistent_watches {
            self.watches.watch_persistently(&path, self.id, WatchMode::Persistent);
        }
        for path in body.persistent_recursive_watches {
            self.watches.watch_persistently(&path, self.id, WatchMode::Recursive);
        }
    }

    /// Sends an event without a zxid.
    fn catch_up(&mut self, event: EventType, path: &str) {
        self.connections.notify(self.id, event, path, -1);
    }

    fn readable(&self, path: &str) -> Result<&'a Node, ErrorCode> {
        let node = self.node(path)?;
        access::check(node.acl(), Permissions::READ, self.who)?;
        Ok(node)
    }

    fn node(&self, path: &str) -> Result<&'a Node, ErrorCode> {
        self.tree.get(path).ok_or(ErrorCode::NoNode)
    }
}

fn found(found: bool) -> Result<Response, ErrorCode> {
    if found { Ok(Response::Empty) } else { Err(ErrorCode::NoWatcher) }
}
