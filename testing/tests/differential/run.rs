//! Runs steps on a server, and records the comparable results.
#![expect(clippy::unwrap_used, reason = "a helper of tests")]

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use zk_curator_client::{Connector, TcpConnector};
use zk_curator_proto::records::{
    Acl, ConnectRequest, CreateMode, EventType, MultiResult, ReadResult, ReplyHeader, SetWatches,
    SetWatches2, Stat, WatcherEvent,
};
use zk_curator_proto::{
    Decoder, Encoder, OpCode, Record, Request, Response, XID_AUTH, XID_NOTIFICATION, XID_PING,
    XID_SET_WATCHES,
};

use super::generator::{Action, BASE, ROOT, SESSIONS, SUPERUSER, Step};
use crate::common::{RawClient, auth, new_session};

/// The session timeout in milliseconds, longer than any test.
const TIMEOUT: i32 = 30_000;

/// Returns the results of every step, as lines that are the same for servers with the same
/// behaviour.
pub(crate) async fn run(address: &str, steps: &[Step]) -> Vec<Vec<String>> {
    clean(address).await;
    let mut run = Run::begin(address).await;
    let mut transcript = Vec::with_capacity(steps.len());
    for (index, step) in steps.iter().enumerate() {
        transcript.push(run.step(i32::try_from(index).unwrap(), step).await);
    }
    for slot in &mut run.slots {
        slot.call(Request::CloseSession).await.unwrap();
    }
    transcript
}

struct Run<'a> {
    address: &'a str,
    slots: Vec<RawClient>,
    /// The names of the sessions, which do not depend on the server.
    names: BTreeMap<i64, i64>,
    /// The zxid at the start.
    base: i64,
}

impl<'a> Run<'a> {
    async fn begin(address: &'a str) -> Self {
        let mut first = connect(address, new_session()).await.unwrap();
        for path in [BASE, ROOT, &format!("/zookeeper/quota{BASE}")] {
            first.create(path, CreateMode::Persistent).await.unwrap();
        }
        let mut run =
            Self { address, base: first.last_zxid, slots: vec![first], names: BTreeMap::new() };
        for _ in 1..SESSIONS {
            run.slots.push(connect(address, new_session()).await.unwrap());
        }
        for slot in 0..SESSIONS {
            run.name(slot);
        }
        run
    }

    fn name(&mut self, slot: usize) {
        let name = 1 + i64::try_from(self.names.len()).unwrap();
        self.names.insert(self.slots[slot].id(), name);
    }

    async fn step(&mut self, index: i32, step: &Step) -> Vec<String> {
        let slot = step.session;
        let mut lines = Vec::new();
        match &step.action {
            Action::Request(request) => {
                let mut body = Encoder::new();
                self.absolute(request.clone()).encode_body(&mut body);
                self.send(slot, index, request.opcode().code(), &body.finish(), &mut lines).await;
            }
            Action::Burst(requests) => self.burst(slot, index, requests, &mut lines).await,
            Action::Raw(opcode, body) => self.send(slot, index, *opcode, body, &mut lines).await,
            Action::Reattach => self.reattach(slot, &mut lines).await,
            Action::WrongPassword => {
                let wrong = ConnectRequest { password: new_session().password, ..self.again(slot) };
                let refused = connect(self.address, wrong).await.unwrap();
                lines.push(format!(
                    "refused: timeout {} id {}",
                    refused.session.timeout,
                    refused.id()
                ));
                self.slots[slot].closed().await;
                self.reattach(slot, &mut lines).await;
            }
            Action::Reopen => {
                self.send(slot, index, OpCode::CloseSession.code(), b"", &mut lines).await;
                self.slots[slot].closed().await;
                self.slots[slot] = connect(self.address, new_session()).await.unwrap();
                self.name(slot);
            }
        }
        let quiet = matches!(&step.action, Action::Request(request) if is_read(request));
        if !quiet {
            self.collect(&mut lines).await;
        }
        if matches!(step.action, Action::Reopen) {
            // The order in which ephemeral nodes are deleted is undefined.
            lines.sort_unstable();
        }
        lines
    }

    /// Sends a request and reads up to its response. If the connection ends, replaces it.
    async fn send(
        &mut self,
        slot: usize,
        index: i32,
        opcode: i32,
        body: &[u8],
        lines: &mut Vec<String>,
    ) {
        let xid = xid(opcode, index);
        self.slots[slot].write(&frame(xid, opcode, body)).await;
        self.read_until(slot, xid, opcode, "<", lines).await;
        let fatal =
            lines.last().is_some_and(|line| line.contains("err: -115") || line.contains("err: -6"));
        if fatal {
            self.slots[slot].closed().await;
            lines.push("closed".to_owned());
            self.reattach(slot, lines).await;
        }
    }

    /// Sends requests in one piece, and then reads up to the response of each.
    async fn burst(
        &mut self,
        slot: usize,
        index: i32,
        requests: &[Request],
        lines: &mut Vec<String>,
    ) {
        let mut sent = Vec::with_capacity(requests.len());
        let mut out = BytesMut::new();
        for (number, request) in (0..).zip(requests) {
            let opcode = request.opcode().code();
            let xid = xid(opcode, (index + 1) * 1000 + number);
            let mut body = Encoder::new();
            self.absolute(request.clone()).encode_body(&mut body);
            out.put(frame(xid, opcode, &body.finish()));
            sent.push((xid, opcode));
        }
        self.slots[slot].write(&out).await;
        for (xid, opcode) in sent {
            if !self.read_until(slot, xid, opcode, "<", lines).await {
                return;
            }
        }
    }

    /// Returns `true` if the response came before the end of the connection.
    async fn read_until(
        &mut self,
        slot: usize,
        xid: i32,
        opcode: i32,
        prefix: &str,
        lines: &mut Vec<String>,
    ) -> bool {
        loop {
            let Some(frame) = self.slots[slot].frame().await else {
                lines.push("closed without an answer".to_owned());
                self.reattach(slot, lines).await;
                return false;
            };
            let header = ReplyHeader::decode(&mut Decoder::new(frame.clone()), "header").unwrap();
            if header.zxid > 0 {
                self.slots[slot].last_zxid = header.zxid;
            }
            if header.xid == xid && opcode == OpCode::Ping.code() && prefix != "<" {
                return true;
            }
            lines.push(format!("{prefix} {}", self.describe(frame, opcode)));
            if header.xid == xid {
                return true;
            }
        }
    }

    /// Reads the events of every session, which come before the response to a ping.
    async fn collect(&mut self, lines: &mut Vec<String>) {
        for slot in &mut self.slots {
            slot.write(&frame(XID_PING, OpCode::Ping.code(), b"")).await;
        }
        for slot in 0..SESSIONS {
            self.read_until(
                slot,
                XID_PING,
                OpCode::Ping.code(),
                &format!("session {slot}:"),
                lines,
            )
            .await;
        }
    }

    fn again(&self, slot: usize) -> ConnectRequest {
        ConnectRequest { timeout: TIMEOUT, ..self.slots[slot].reattach_request() }
    }

    /// Reattaches the session. The server ends the old connection before it responds on the new
    /// one.
    async fn reattach(&mut self, slot: usize, lines: &mut Vec<String>) {
        let (before, last_zxid) = (self.slots[slot].session.clone(), self.slots[slot].last_zxid);
        let mut after = connect(self.address, self.again(slot)).await.expect("a response");
        let same = (after.id(), &after.session.password) == (before.session_id, &before.password);
        lines.push(format!("attached: {same} timeout {}", after.session.timeout));
        after.last_zxid = last_zxid;
        self.slots[slot] = after;
    }

    /// Converts the zxids of a request to those of this server.
    fn absolute(&self, request: Request) -> Request {
        let zxid = |relative: i64| relative.saturating_add(self.base);
        match request {
            Request::SetWatches(body) => {
                Request::SetWatches(SetWatches { relative_zxid: zxid(body.relative_zxid), ..body })
            }
            Request::SetWatches2(body) => Request::SetWatches2(SetWatches2 {
                relative_zxid: zxid(body.relative_zxid),
                ..body
            }),
            other => other,
        }
    }

    /// Describes a frame completely: the description is encoded again and compared.
    fn describe(&self, frame: Bytes, opcode: i32) -> String {
        let mut input = Decoder::new(frame.clone());
        let mut header = ReplyHeader::decode(&mut input, "header").unwrap();
        let mut again = Encoder::new();
        header.encode(&mut again);
        let is_event = header.xid == XID_NOTIFICATION;
        header.zxid = self.relative(header.zxid);
        let text = if is_event {
            let event = WatcherEvent::decode(&mut input, "event").unwrap();
            event.encode(&mut again);
            format!("{:?} {}", EventType::try_from(event.event_type).unwrap(), event.path)
        } else if header.err != 0 {
            String::new()
        } else {
            let mut response =
                Response::decode_body(opcode.try_into().unwrap(), &mut input).unwrap();
            response.encode_body(&mut again);
            self.make_comparable(&mut response);
            match &response {
                // Prints the identities too, which `Debug` hides.
                Response::Acl(body) => format!("{:?} {:?}", entries(&body.acl), body.stat),
                _ => format!("{response:?}"),
            }
        };
        assert_eq!(again.finish(), frame, "{text}");
        format!("{header:?} {text}")
    }

    fn make_comparable(&self, response: &mut Response) {
        match response {
            Response::Stat(stat) => self.stat(stat),
            Response::Created(body) => self.stat(&mut body.stat),
            Response::Data(body) => self.stat(&mut body.stat),
            Response::Acl(body) => self.stat(&mut body.stat),
            Response::Children2(body) => {
                self.stat(&mut body.stat);
                body.children.sort_unstable();
            }
            Response::Children(names) => names.sort_unstable(),
            Response::Multi(results) => {
                for result in results {
                    match result {
                        MultiResult::Create2(body) => self.stat(&mut body.stat),
                        MultiResult::SetData(stat) => self.stat(stat),
                        _ => {}
                    }
                }
            }
            Response::ReadResults(results) => {
                for result in results {
                    match result {
                        ReadResult::Data(body) => self.stat(&mut body.stat),
                        ReadResult::Children(names) => names.sort_unstable(),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn stat(&self, stat: &mut Stat) {
        for zxid in [&mut stat.czxid, &mut stat.mzxid, &mut stat.pzxid] {
            *zxid = self.relative(*zxid);
        }
        (stat.ctime, stat.mtime) = (0, 0);
        if let Some(name) = self.names.get(&stat.ephemeral_owner) {
            stat.ephemeral_owner = *name;
        }
    }

    const fn relative(&self, zxid: i64) -> i64 {
        if zxid > 0 { zxid - self.base } else { zxid }
    }
}

/// Returns sorted entries, because the server expands `auth` into the identities of a connection in
/// no order.
fn entries(acl: &[Acl]) -> Vec<String> {
    let mut entries: Vec<_> =
        acl.iter().map(|entry| format!("{:?} {:?}", entry, entry.id)).collect();
    entries.sort_unstable();
    entries
}

/// Returns `true` if the request sends no event to another session, or to its own session after the
/// response.
const fn is_read(request: &Request) -> bool {
    matches!(
        request,
        Request::Exists(_)
            | Request::GetData(_)
            | Request::GetChildren(_)
            | Request::GetChildren2(_)
            | Request::GetAcl(_)
            | Request::MultiRead(_)
            | Request::WhoAmI
            | Request::GetEphemerals(_)
            | Request::GetAllChildrenNumber(_)
            | Request::CheckWatches(_)
            | Request::Ping
    )
}

/// Returns the xid of a request with this index, unless its kind has a fixed xid.
fn xid(opcode: i32, index: i32) -> i32 {
    match OpCode::try_from(opcode) {
        Ok(OpCode::Ping) => XID_PING,
        Ok(OpCode::Auth) => XID_AUTH,
        Ok(OpCode::SetWatches | OpCode::SetWatches2) => XID_SET_WATCHES,
        _ => index,
    }
}

fn frame(xid: i32, opcode: i32, body: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i32(i32::try_from(8 + body.len()).unwrap());
    out.put_i32(xid);
    out.put_i32(opcode);
    out.put_slice(body);
    out.freeze()
}

async fn connect(address: &str, request: ConnectRequest) -> Option<RawClient> {
    let (host, port) = address.rsplit_once(':').unwrap();
    let stream = TcpConnector::default().connect(host, port.parse().unwrap()).await.unwrap();
    RawClient::open(stream, ConnectRequest { timeout: TIMEOUT, ..request }).await
}

/// Deletes the nodes of an earlier run.
async fn clean(address: &str) {
    let mut zk = connect(address, new_session()).await.unwrap();
    zk.call(auth("digest", SUPERUSER.as_bytes())).await.unwrap();
    let mut left = vec![BASE.to_owned(), format!("/zookeeper/quota{BASE}")];
    while let Some(path) = left.last().cloned() {
        match zk.children(&path, false).await {
            Ok(names) if !names.is_empty() => {
                left.extend(names.iter().map(|name| format!("{path}/{name}")));
            }
            Ok(_) => {
                zk.delete(&path).await.unwrap();
                left.pop();
            }
            Err(_) => {
                left.pop();
            }
        }
    }
    zk.call(Request::CloseSession).await.unwrap();
}
