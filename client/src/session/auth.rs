use zk_curator_proto::records::AuthPacket;
use zk_curator_proto::{Request, Response};

use super::{Answers, Reply};
use crate::Error;

/// The identities of the session, each once, in order: replayed on every connection.
#[derive(Debug, Default)]
pub(super) struct AuthBook {
    /// First those that a provider supplied for this connection.
    entries: Vec<Entry>,
    provided: usize,
    /// How many of them were sent on this connection, and how many of those were accepted.
    sent: usize,
    accepted: usize,
}

#[derive(Debug)]
struct Entry {
    packet: AuthPacket,
    waiting: Vec<Reply>,
}

impl AuthBook {
    /// Notes an identity. One that this connection has already is answered at once.
    pub(super) fn add(&mut self, packet: AuthPacket, reply: Reply, answers: &mut Answers) {
        // One that a provider supplied may be missing from the next connection.
        let same = (self.provided..self.entries.len()).find(|index| self.entries[*index].packet == packet);
        match same {
            Some(index) if index < self.accepted => answers.push(reply, Ok(Response::Empty)),
            Some(index) => self.entries[index].waiting.push(reply),
            None => self.entries.push(Entry { packet, waiting: vec![reply] }),
        }
    }

    /// Replaces the identities that a provider supplied, on a connection that has not been told any yet.
    pub(super) fn provide(&mut self, packets: Vec<AuthPacket>) {
        let count = packets.len();
        let provided = packets.into_iter().map(|packet| Entry { packet, waiting: Vec::new() });
        self.entries.splice(..self.provided, provided);
        self.provided = count;
    }

    /// Forgets what the last connection was told.
    pub(super) const fn reset(&mut self) {
        self.sent = 0;
        self.accepted = 0;
    }

    /// The packets that this connection has not been told yet.
    pub(super) fn unsent(&mut self) -> Vec<Request> {
        let unsent = &self.entries[self.sent..];
        let packets = unsent.iter().map(|entry| Request::Auth(entry.packet.clone())).collect();
        self.sent = self.entries.len();
        packets
    }

    /// Whether the server owes an answer.
    pub(super) const fn is_outstanding(&self) -> bool {
        self.accepted < self.sent
    }

    /// The server accepted the next one; answers come in order.
    pub(super) fn accepted(&mut self, answers: &mut Answers) {
        for reply in self.entries[self.accepted].waiting.drain(..) {
            answers.push(reply, Ok(Response::Empty));
        }
        self.accepted += 1;
    }

    /// The client ends: everybody who waits is told why.
    pub(super) fn end(&mut self, error: &Error, answers: &mut Answers) {
        for reply in self.entries.iter_mut().flat_map(|entry| entry.waiting.drain(..)) {
            answers.push(reply, Err(error.clone()));
        }
    }
}
