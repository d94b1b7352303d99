use zk_curator_proto::records::AuthPacket;
use zk_curator_proto::{Request, Response};

use super::{QueuedAnswers, ReplySlot};
use crate::Error;

/// The identities of the session, each once, in order. They are sent on every connection.
#[derive(Debug, Default)]
pub(super) struct AuthBook {
    /// The identities that a provider supplied for this connection come first.
    entries: Vec<AuthEntry>,
    provided: usize,
    /// The number of identities sent on this connection, and the number accepted.
    sent: usize,
    accepted: usize,
}

#[derive(Debug)]
struct AuthEntry {
    packet: AuthPacket,
    waiting: Vec<ReplySlot>,
}

impl AuthBook {
    /// Adds an identity. If this connection already has it, the caller gets the response
    /// immediately.
    pub(super) fn add(
        &mut self,
        packet: AuthPacket,
        reply: ReplySlot,
        answers: &mut QueuedAnswers,
    ) {
        // An identity from a provider may be missing on the next connection.
        let same =
            (self.provided..self.entries.len()).find(|index| self.entries[*index].packet == packet);
        match same {
            Some(index) if index < self.accepted => answers.push(reply, Ok(Response::Empty)),
            Some(index) => self.entries[index].waiting.push(reply),
            None => self.entries.push(AuthEntry { packet, waiting: vec![reply] }),
        }
    }

    /// Replaces the identities from a provider, on a connection that has not received any yet.
    pub(super) fn provide(&mut self, packets: Vec<AuthPacket>) {
        let count = packets.len();
        let provided = packets.into_iter().map(|packet| AuthEntry { packet, waiting: Vec::new() });
        self.entries.splice(..self.provided, provided);
        self.provided = count;
    }

    /// Forgets what was sent on the last connection.
    pub(super) const fn reset(&mut self) {
        self.sent = 0;
        self.accepted = 0;
    }

    /// Returns the packets that were not sent on this connection yet.
    pub(super) fn unsent(&mut self) -> Vec<Request> {
        let unsent = &self.entries[self.sent..];
        let packets = unsent.iter().map(|entry| Request::Auth(entry.packet.clone())).collect();
        self.sent = self.entries.len();
        packets
    }

    /// Returns `true` if the server has not responded to all of them.
    pub(super) const fn is_outstanding(&self) -> bool {
        self.accepted < self.sent
    }

    /// Marks the next identity as accepted; responses come in order.
    pub(super) fn accepted(&mut self, answers: &mut QueuedAnswers) {
        for reply in self.entries[self.accepted].waiting.drain(..) {
            answers.push(reply, Ok(Response::Empty));
        }
        self.accepted += 1;
    }

    /// Fails all pending callers with `error`, because the client ends.
    pub(super) fn end(&mut self, error: &Error, answers: &mut QueuedAnswers) {
        for reply in self.entries.iter_mut().flat_map(|entry| entry.waiting.drain(..)) {
            answers.push(reply, Err(error.clone()));
        }
    }
}
