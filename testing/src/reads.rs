//! Requests to answers, on one server: everything that takes no transaction number.

use bytes::Bytes;
use zk_curator_proto::records::{
    AclResponse, AddWatchMode, AddWatchRequest, Children2Response, ClientInfo, DataResponse, EventType,
    ExistsRequest, GetAclRequest, GetChildrenRequest, GetDataRequest, Permissions, ReadOp, ReadResult,
    SetWatches2, WatcherType, WatchesRequest,
};
use zk_curator_proto::{ErrorCode, Request, Response};

use crate::ZooKeeperVersion;
use crate::access::{self, Identity};
use crate::member::Member;
use crate::tree::Node;
use crate::watch::{ConnectionId, WatchMode};

impl Member {
    pub(super) fn read(
        &mut self,
        id: ConnectionId,
        session: i64,
        who: &[Identity],
        request: Request,
    ) -> Result<Response, ErrorCode> {
        match request {
            Request::Sync(body) => Ok(Response::Path(body.path)),
            Request::Exists(body) => self.exists(id, who, &body),
            Request::GetData(body) => self.data(id, who, &body).map(Response::Data),
            Request::GetChildren(body) => {
                self.list(id, who, &body).map(|list| Response::Children(list.children))
            }
            Request::GetChildren2(body) => self.list(id, who, &body).map(Response::Children2),
            Request::MultiRead(ops) => self.read_many(id, who, ops),
            Request::GetAcl(body) => self.acl(who, &body),
            Request::GetAllChildrenNumber(body) => {
                self.readable(&body.path, who)?;
                let number = self.tree.count_below(&body.path);
                Ok(Response::Number(i32::try_from(number).unwrap_or(i32::MAX)))
            }
            Request::GetEphemerals(body) => Ok(Response::Children(self.ephemerals(session, &body.prefix))),
            Request::WhoAmI => {
                let info = |identity: &Identity| ClientInfo {
                    scheme: identity.scheme.clone(),
                    user: identity.user().to_owned(),
                };
                Ok(Response::Identities(who.iter().map(info).collect()))
            }
            Request::AddWatch(body) => self.add_watch(id, &body),
            Request::RemoveWatches(body) => {
                let kind = self.watcher_type(&body)?;
                found(self.watches.remove(&body.path, id, kind))
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
                found(self.watches.contains(&body.path, id, kind))
            }
            Request::SetWatches(body) => {
                let body = SetWatches2 {
                    relative_zxid: body.relative_zxid,
                    data_watches: body.data_watches,
                    exist_watches: body.exist_watches,
                    child_watches: body.child_watches,
                    ..SetWatches2::default()
                };
                self.set_watches(id, body);
                Ok(Response::Empty)
            }
            Request::SetWatches2(body) => {
                self.set_watches(id, body);
                Ok(Response::Empty)
            }
            _ => Err(ErrorCode::Unimplemented),
        }
    }

    fn exists(
        &mut self,
        id: ConnectionId,
        who: &[Identity],
        body: &ExistsRequest,
    ) -> Result<Response, ErrorCode> {
        if body.path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        if self.config.version != ZooKeeperVersion::V3_8
            && let Some(node) = self.tree.get(&body.path)
        {
            access::check(node.acl(), Permissions::READ, who)?;
        }
        if body.watch {
            self.watches.watch_data(&body.path, id);
        }
        self.node(&body.path).map(|node| Response::Stat(node.stat()))
    }

    fn data(
        &mut self,
        id: ConnectionId,
        who: &[Identity],
        body: &GetDataRequest,
    ) -> Result<DataResponse, ErrorCode> {
        let node = self.readable(&body.path, who)?;
        let response = DataResponse { data: node.data().map(Bytes::copy_from_slice), stat: node.stat() };
        if body.watch {
            self.watches.watch_data(&body.path, id);
        }
        Ok(response)
    }

    fn list(
        &mut self,
        id: ConnectionId,
        who: &[Identity],
        body: &GetChildrenRequest,
    ) -> Result<Children2Response, ErrorCode> {
        let node = self.readable(&body.path, who)?;
        let children = node.child_names().map(ToString::to_string).collect();
        let response = Children2Response { children, stat: node.stat() };
        if body.watch {
            self.watches.watch_children(&body.path, id);
        }
        Ok(response)
    }

    /// A short request can ask for very much. A client that asks for more than may wait for it is disconnected.
    fn read_many(
        &mut self,
        id: ConnectionId,
        who: &[Identity],
        ops: Vec<ReadOp>,
    ) -> Result<Response, ErrorCode> {
        let (mut results, mut bytes) = (Vec::new(), 0);
        for op in ops {
            let result = self.read_one(id, who, op);
            bytes += match &result {
                ReadResult::Data(body) => body.data.as_ref().map_or(0, Bytes::len),
                ReadResult::Children(names) => {
                    names.iter().map(|name| name.len() + size_of::<String>()).sum()
                }
                _ => 0,
            };
            if bytes > self.config.max_backlog {
                tracing::info!(bytes, "disconnected: the answer is too long");
                // The task of the connection ends by it, and takes it off the list.
                if let Some(connection) = self.connections.get(&id) {
                    connection.outbox.cut();
                }
                return Err(ErrorCode::MarshallingError);
            }
            results.push(result);
        }
        Ok(Response::ReadResults(results))
    }

    /// One operation of a multi read. Its watch flag has no effect.
    fn read_one(&mut self, id: ConnectionId, who: &[Identity], op: ReadOp) -> ReadResult {
        let result = match op {
            ReadOp::GetData(body) => {
                self.data(id, who, &GetDataRequest { watch: false, ..body }).map(ReadResult::Data)
            }
            ReadOp::GetChildren(body) => self
                .list(id, who, &GetChildrenRequest { watch: false, ..body })
                .map(|list| ReadResult::Children(list.children)),
            _ => Err(ErrorCode::Unimplemented),
        };
        result.unwrap_or_else(|code| ReadResult::Error(Some(code)))
    }

    /// Whoever may read a node may see its ACL; only who may change it sees the hashes in it.
    fn acl(&self, who: &[Identity], body: &GetAclRequest) -> Result<Response, ErrorCode> {
        let node = self.node(&body.path)?;
        access::check(node.acl(), Permissions::READ | Permissions::ADMIN, who)?;
        let acl = match access::check(node.acl(), Permissions::ADMIN, who) {
            Ok(()) => node.acl().to_vec(),
            Err(_) => access::without_hashes(node.acl()),
        };
        Ok(Response::Acl(AclResponse { acl, stat: node.stat() }))
    }

    /// The ephemeral nodes of a session whose paths begin with `prefix`; a blank one and `/` are all.
    fn ephemerals(&self, session: i64, prefix: &str) -> Vec<String> {
        let all = matches!(prefix.trim_matches(|c| c <= ' '), "" | "/");
        let paths = self.tree.ephemerals(session);
        paths.filter(|path| all || path.starts_with(prefix)).map(ToString::to_string).collect()
    }

    fn add_watch(&mut self, id: ConnectionId, body: &AddWatchRequest) -> Result<Response, ErrorCode> {
        let mode = match AddWatchMode::try_from(body.mode) {
            Ok(AddWatchMode::Persistent) => WatchMode::Persistent,
            Ok(AddWatchMode::PersistentRecursive) => WatchMode::Recursive,
            _ => return Err(ErrorCode::MarshallingError),
        };
        self.watches.watch_persistently(&body.path, id, mode);
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

    /// Sets watches again after a reconnect. What has changed since the client last looked fires at once.
    fn set_watches(&mut self, id: ConnectionId, body: SetWatches2) {
        let missed = body.relative_zxid;
        for path in body.data_watches {
            match self.tree.get(&path) {
                None => self.catch_up(id, EventType::NodeDeleted, &path),
                Some(node) if node.mzxid() > missed => self.catch_up(id, EventType::NodeDataChanged, &path),
                Some(_) => self.watches.watch_data(&path, id),
            }
        }
        for path in body.exist_watches {
            match self.tree.get(&path) {
                None => self.watches.watch_data(&path, id),
                Some(_) => self.catch_up(id, EventType::NodeCreated, &path),
            }
        }
        for path in body.child_watches {
            match self.tree.get(&path) {
                None => self.catch_up(id, EventType::NodeDeleted, &path),
                Some(node) if node.pzxid() > missed => {
                    self.catch_up(id, EventType::NodeChildrenChanged, &path);
                }
                Some(_) => self.watches.watch_children(&path, id),
            }
        }
        for path in body.persistent_watches {
            self.watches.watch_persistently(&path, id, WatchMode::Persistent);
        }
        for path in body.persistent_recursive_watches {
            self.watches.watch_persistently(&path, id, WatchMode::Recursive);
        }
    }

    /// An event of unknown date.
    fn catch_up(&mut self, id: ConnectionId, event: EventType, path: &str) {
        self.notify(id, event, path, -1);
    }

    fn readable(&self, path: &str, who: &[Identity]) -> Result<&Node, ErrorCode> {
        let node = self.node(path)?;
        access::check(node.acl(), Permissions::READ, who)?;
        Ok(node)
    }

    fn node(&self, path: &str) -> Result<&Node, ErrorCode> {
        self.tree.get(path).ok_or(ErrorCode::NoNode)
    }
}

fn found(found: bool) -> Result<Response, ErrorCode> {
    if found { Ok(Response::Empty) } else { Err(ErrorCode::NoWatcher) }
}
