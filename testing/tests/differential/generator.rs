//! Random steps: requests of every kind from a few sessions to a few nodes, so that they interact.

use bytes::Bytes;
use fastrand::Rng;
use zk_curator_proto::records::{
    Acl, AddWatchRequest, AuthPacket, CheckVersionRequest, CreateRequest, CreateTtlRequest,
    DeleteRequest, ExistsRequest, GetAclRequest, GetAllChildrenNumberRequest, GetChildrenRequest,
    GetDataRequest, GetEphemeralsRequest, MultiOp, Permissions, ReadOp, ReconfigRequest, SaslToken,
    SetAclRequest, SetDataRequest, SetWatches, SetWatches2, SyncRequest, WatchesRequest,
};
use zk_curator_proto::{OpCode, Request};

/// The number of simultaneous sessions.
pub(crate) const SESSIONS: usize = 4;

/// The node that is removed before every run, together with its quota.
pub(crate) const BASE: &str = "/zk-curator-differential";

/// The node that all steps work on, with the nodes below it and its quota.
pub(crate) const ROOT: &str = "/zk-curator-differential/r";

/// Credentials of the super user.
pub(crate) const SUPERUSER: &str = "super:secret";

/// A step of one session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    pub(crate) session: usize,
    pub(crate) action: Action,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Sends a request. The zxid in `setWatches` is relative to that at the start.
    Request(Request),
    /// Sends all requests together, then reads the responses and notifications.
    Burst(Vec<Request>),
    /// Sends malformed bytes.
    Raw(i32, &'static [u8]),
    /// Continues the session on another connection.
    Reattach,
    /// Continues the session with a wrong password, and then with the right one.
    WrongPassword,
    /// Closes the session and opens another one.
    Reopen,
}

impl Step {
    /// Returns the number of requests of the step.
    pub(crate) fn operations(&self) -> u64 {
        match &self.action {
            Action::Burst(requests) => requests.len() as u64,
            _ => 1,
        }
    }
}

/// Returns a sequence of steps, which is the same for the same seed.
pub(crate) fn steps(seed: u64, count: usize) -> Vec<Step> {
    let mut rng = Rng::with_seed(seed);
    let quotas = rng.u32(..3) == 0;
    let mut generator = Generator { rng, quotas };
    let mut steps = if quotas { generator.quotas() } else { Vec::new() };
    steps.resize_with(count, || generator.step());
    steps
}

struct Generator {
    rng: Rng,
    /// `true` if the steps use quotas and no bursts. For a limit, Apache ZooKeeper does not count
    /// requests in flight.
    quotas: bool,
}

impl Generator {
    fn step(&mut self) -> Step {
        let session = self.rng.usize(..SESSIONS);
        let action = match self.rng.u32(..1000) {
            0..8 => Action::Reattach,
            8..11 => Action::WrongPassword,
            11..18 => Action::Reopen,
            18..26 => self.raw(),
            26..126 if !self.quotas => Action::Burst(self.burst()),
            _ => Action::Request(self.request()),
        };
        Step { session, action }
    }

    /// Creates the nodes of two nested quotas, which random steps seldom create.
    fn quotas(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for name in [
            "",
            "/zookeeper_limits",
            "/zookeeper_stats",
            "/a",
            "/a/zookeeper_limits",
            "/a/zookeeper_stats",
        ] {
            let path = format!("/zookeeper/quota{ROOT}{name}");
            let data = self.data(&path);
            let body = CreateRequest { path, data, acl: Acl::open_unsafe(), flags: 0 };
            let session = self.rng.usize(..SESSIONS);
            steps.push(Step { session, action: Action::Request(Request::Create(body)) });
        }
        steps
    }

    fn raw(&mut self) -> Action {
        let opcodes = [
            OpCode::Create,
            OpCode::Create2,
            OpCode::CreateContainer,
            OpCode::CreateTtl,
            OpCode::Delete,
            OpCode::Exists,
            OpCode::GetData,
            OpCode::SetData,
            OpCode::GetAcl,
            OpCode::SetAcl,
            OpCode::GetChildren,
            OpCode::GetChildren2,
            OpCode::Sync,
            OpCode::Multi,
            OpCode::MultiRead,
            OpCode::Reconfig,
            OpCode::CheckWatches,
            OpCode::RemoveWatches,
            OpCode::AddWatch,
            OpCode::GetEphemerals,
            OpCode::GetAllChildrenNumber,
        ];
        match self.rng.u32(..20) {
            0 => Action::Raw(9999, b""),
            1 => Action::Raw(0, b"\0\0\0\0"),
            // A multi with reads, and a multi read with both kinds.
            2 => Action::Raw(
                14,
                b"\0\0\0\x04\0\xff\xff\xff\xff\0\0\0\x02/x\0\xff\xff\xff\xff\x01\xff\xff\xff\xff",
            ),
            3 => Action::Raw(
                22,
                b"\0\0\0\x04\0\xff\xff\xff\xff\0\0\0\x02/x\0\0\0\0\x0d\0\xff\xff\xff\xff\0\0\0\x02/x\0\0\0\0\
                  \xff\xff\xff\xff\x01\xff\xff\xff\xff",
            ),
            4..8 => Action::Raw(self.one_of(&opcodes).code(), b"\0\0\x10\0abc"),
            _ => Action::Raw(self.one_of(&opcodes).code(), b"\0\0\0"),
        }
    }

    /// Draws requests to which Apache ZooKeeper responds in the same way whether it has applied the
    /// earlier ones or only prepared them. Between these two phases it knows new credentials too
    /// early and new ACLs too late, and it forgets changes of `cversion` by a delete or by a failed
    /// multi. A multi that it cannot decode completely has changed versions.
    fn burst(&mut self) -> Vec<Request> {
        let count = self.rng.usize(2..=16);
        let structural = self.rng.u32(..3);
        let mut multis = 0;
        let mut requests = Vec::with_capacity(count);
        while requests.len() < count {
            let request = self.request();
            let fits = match &request {
                Request::Auth(_) | Request::Sasl(_) | Request::SetAcl(_) => false,
                Request::Create(_) | Request::Create2(_) => structural == 0,
                Request::CreateContainer(body) => structural == 0 && body.flags == 4,
                Request::CreateTtl(body) => structural == 0 && matches!(body.flags, 5 | 6),
                Request::Delete(_) => structural == 1,
                Request::Multi(_) => {
                    multis += 1;
                    structural == 2 && multis == 1
                }
                Request::SetData(_) => structural != 2 || multis == 0,
                _ => true,
            };
            if fits {
                requests.push(request);
            }
        }
        requests
    }

    fn request(&mut self) -> Request {
        match self.rng.u32(..100) {
            0..13 => Request::Create(self.create()),
            13..17 => Request::Create2(self.create()),
            17..19 => Request::CreateContainer(self.create()),
            19..21 => Request::CreateTtl(self.create_ttl()),
            21..30 => Request::Delete(self.delete()),
            30..35 => Request::Exists(ExistsRequest { path: self.path(), watch: self.rng.bool() }),
            35..40 => {
                Request::GetData(GetDataRequest { path: self.readable(), watch: self.rng.bool() })
            }
            40..49 => Request::SetData(self.set_data()),
            49..52 => Request::GetAcl(GetAclRequest { path: self.readable() }),
            52..55 => Request::SetAcl(SetAclRequest {
                path: self.path(),
                acl: self.acl(),
                version: self.version(),
            }),
            55..58 => Request::GetChildren(self.get_children()),
            58..61 => Request::GetChildren2(self.get_children()),
            61 => Request::Sync(SyncRequest { path: self.path() }),
            62..71 => Request::Multi(self.multi()),
            71..74 => Request::MultiRead(self.multi_read()),
            74..79 => Request::AddWatch(AddWatchRequest {
                path: self.path(),
                mode: self.one_of(&[0, 0, 1, 1, 2, -1]),
            }),
            79..83 => Request::RemoveWatches(self.watches()),
            83..86 => Request::CheckWatches(self.watches()),
            86..88 => Request::GetEphemerals(GetEphemeralsRequest { prefix: self.prefix() }),
            88..90 => {
                Request::GetAllChildrenNumber(GetAllChildrenNumberRequest { path: self.path() })
            }
            90 => Request::WhoAmI,
            91..95 => Request::Auth(self.auth()),
            95 => Request::Reconfig(ReconfigRequest { version: -1, ..ReconfigRequest::default() }),
            96 => Request::Sasl(SaslToken { token: Some(Bytes::from_static(b"token")) }),
            97 => Request::SetWatches(SetWatches {
                relative_zxid: self.seen(),
                data_watches: self.paths(),
                exist_watches: self.paths(),
                child_watches: self.paths(),
            }),
            98 => Request::SetWatches2(SetWatches2 {
                relative_zxid: self.seen(),
                data_watches: self.paths(),
                exist_watches: self.paths(),
                child_watches: self.paths(),
                persistent_watches: self.paths(),
                persistent_recursive_watches: self.paths(),
            }),
            _ => Request::Ping,
        }
    }

    fn create(&mut self) -> CreateRequest {
        let flags = self.one_of(&[0, 0, 0, 0, 1, 1, 2, 3, 3, 4, 5, 6, 7, -1]);
        let path = self.path();
        let data = self.data(&path);
        CreateRequest { path, data, acl: self.acl(), flags }
    }

    /// Draws a TTL that is too long to pass during the test, or invalid. The process of Apache
    /// ZooKeeper ends on a negative TTL with flags that ask for none.
    fn create_ttl(&mut self) -> CreateTtlRequest {
        let CreateRequest { path, data, acl, .. } = self.create();
        let ttl = self.one_of(&[1 << 39, 1 << 39, (1 << 40) - 1, 1 << 40, 0, -1]);
        let flags = if ttl < 0 { 5 } else { self.one_of(&[5, 5, 6, 0, 4]) };
        CreateTtlRequest { path, data, acl, flags, ttl }
    }

    fn delete(&mut self) -> DeleteRequest {
        DeleteRequest { path: self.path(), version: self.version() }
    }

    fn set_data(&mut self) -> SetDataRequest {
        let (path, version) = (self.path(), self.version());
        let data = self.data(&path);
        SetDataRequest { path, data, version }
    }

    fn get_children(&mut self) -> GetChildrenRequest {
        GetChildrenRequest { path: self.readable(), watch: self.rng.bool() }
    }

    fn watches(&mut self) -> WatchesRequest {
        WatchesRequest {
            path: self.path(),
            watcher_type: self.one_of(&[1, 2, 3, 3, 3, 4, 5, 0, 9]),
        }
    }

    fn multi(&mut self) -> Vec<MultiOp> {
        let op = |this: &mut Self| match this.rng.u32(..20) {
            0..6 => MultiOp::Create(this.create()),
            6..8 => MultiOp::Create2(this.create()),
            8 => MultiOp::CreateContainer(this.create()),
            9 => MultiOp::CreateTtl(this.create_ttl()),
            10..14 => MultiOp::Delete(this.delete()),
            14..18 => MultiOp::SetData(this.set_data()),
            _ => MultiOp::Check(CheckVersionRequest { path: this.path(), version: this.version() }),
        };
        let count = self.one_of(&[0, 1, 1, 2, 2, 2, 3, 4]);
        (0..count).map(|_| op(self)).collect()
    }

    fn multi_read(&mut self) -> Vec<ReadOp> {
        let op = |this: &mut Self| match this.rng.bool() {
            true => ReadOp::GetData(GetDataRequest { path: this.path(), watch: true }),
            false => ReadOp::GetChildren(GetChildrenRequest { path: this.path(), watch: true }),
        };
        let count = self.rng.usize(..4);
        (0..count).map(|_| op(self)).collect()
    }

    fn auth(&mut self) -> AuthPacket {
        let (scheme, credentials): (_, Option<&'static str>) = self.one_of(&[
            ("digest", Some("alice:1")),
            ("digest", Some("alice:1")),
            ("digest", Some("bob:2")),
            ("digest", Some("bob:2")),
            ("digest", Some("no-colon")),
            ("digest", Some("")),
            ("digest", None),
            ("digest", Some(SUPERUSER)),
            ("ip", Some("")),
            ("world", Some("anyone")),
            ("kerberos", Some("x")),
        ]);
        let auth = credentials.map(|text| Bytes::from_static(text.as_bytes()));
        AuthPacket { scheme: scheme.to_owned(), auth }
    }

    fn acl(&mut self) -> Vec<Acl> {
        match self.rng.u32(..20) {
            0..12 => Acl::open_unsafe(),
            12 => Vec::new(),
            _ => {
                let count = self.rng.usize(1..4);
                (0..count).map(|_| self.acl_entry()).collect()
            }
        }
    }

    fn acl_entry(&mut self) -> Acl {
        let permissions = match self.rng.u32(..3) {
            0 => Permissions::ALL,
            1 => Permissions::READ,
            _ => Permissions::from_bits(self.rng.i32(0..32)),
        };
        let (alice, bob) =
            (zk_curator_testing::digest("alice:1"), zk_curator_testing::digest("bob:2"));
        let (scheme, id) = self.one_of(&[
            ("world", "anyone"),
            ("world", "anyone"),
            ("auth", ""),
            ("auth", "ignored"),
            ("digest", &alice),
            ("digest", &alice),
            ("digest", &bob),
            ("ip", "127.0.0.1"),
            ("ip", "127.0.0.0/8"),
            ("ip", "10.0.0.1"),
            ("ip", "128.0.0.1/1"),
            ("world", "somebody"),
            ("digest", "no-colon"),
            ("ip", "localhost"),
            ("x509", "CN=a"),
        ]);
        Acl::new(permissions, scheme, id)
    }

    /// Draws data that a quota node may have. The process of Apache ZooKeeper ends on other data.
    fn data(&mut self, path: &str) -> Option<Bytes> {
        let text = self.one_of(&[
            None,
            Some(""),
            Some("count=3,bytes=10"),
            Some("count=-1,bytes=-1=;countHardLimit=4;byteHardLimit=20"),
        ]);
        let text = text.or_else(|| path.starts_with("/zookeeper/quota").then_some(""));
        text.map(|text| Bytes::from_static(text.as_bytes()))
    }

    fn version(&mut self) -> i32 {
        self.one_of(&[-1, -1, -1, 0, 0, 1, 2, -2])
    }

    fn seen(&mut self) -> i64 {
        if self.rng.u32(..8) == 0 { i64::MAX } else { self.rng.i64(0..400) }
    }

    fn paths(&mut self) -> Vec<String> {
        let count = self.rng.usize(..3);
        (0..count).map(|_| self.path()).collect()
    }

    fn prefix(&mut self) -> String {
        if self.rng.bool() {
            self.path()
        } else {
            self.one_of(&["", " ", "/", "/zk", "x"]).to_owned()
        }
    }

    /// Draws a node to read. The configuration can be read, but only a super user can change it.
    fn readable(&mut self) -> String {
        if self.rng.u32(..20) == 0 { "/zookeeper/config".to_owned() } else { self.path() }
    }

    fn path(&mut self) -> String {
        match self.rng.u32(..100) {
            0..4 => self.one_of(&["no-slash", "//", "/a\0b"]).to_owned(),
            4..7 => format!(
                "{ROOT}{}",
                self.one_of(&["/", "/a/", "//a", "/a/..", "/.", "/\u{1}", "/\u{e000}", "/none/x"])
            ),
            7..12 if self.quotas => {
                let quota = self.one_of(&[
                    "",
                    "/a",
                    "/a/zookeeper_limits",
                    "/a/zookeeper_stats",
                    "/zookeeper_limits",
                    "/zookeeper_stats",
                ]);
                format!("/zookeeper/quota{ROOT}{quota}")
            }
            12..18 => ROOT.to_owned(),
            _ => {
                let depth = self.one_of(&[1, 1, 1, 2, 2, 3]);
                let names =
                    (0..depth).map(|_| self.one_of(&["a", "a", "b", "c", "s-", "s-0000000001"]));
                names.fold(ROOT.to_owned(), |path, name| format!("{path}/{name}"))
            }
        }
    }

    fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.rng.usize(..choices.len())].clone()
    }
}
