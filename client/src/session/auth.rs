use zk_curator_proto::records::AuthPacket;
use zk_curator_proto::{Request, Response};

use super::Reply;
use crate::Error;

/// The identities of the session, in order: replayed on every connection.
#[derive(Debug, Default)]
pub(super) struct AuthBook {
    entries: Vec<(AuthPacket, Option<Reply>)>,
    /// How many of them were sent on this connection, and how many of those were answered.
    sent: usize,
    answered: usize,
}

impl AuthBook {
    pub(super) fn add(&mut self, packet: AuthPacket, reply: Reply) {
        self.entries.push((packet, Some(reply)));
    }

    /// Forgets what the last connection was told.
    pub(super) const fn reset(&mut self) {
        self.sent = 0;
        self.answered = 0;
    }

    /// The packets that this connection has not been told yet.
    pub(super) fn unsent(&mut self) -> Vec<Request> {
        let packets =
            self.entries[self.sent..].iter().map(|(packet, _)| Request::Auth(packet.clone())).collect();
        self.sent = self.entries.len();
        packets
    }

    /// The server accepted the next one. `false` when none was outstanding.
    pub(super) fn accepted(&mut self) -> bool {
        if self.answered >= self.sent {
            return false;
        }
        if let Some(reply) = self.entries[self.answered].1.take() {
            // A failure means that the caller no longer waits.
            drop(reply.send(Ok(Response::Empty)));
        }
        self.answered += 1;
        true
    }

    /// The client ends: everybody who waits is told why.
    pub(super) fn end(&mut self, error: &Error) {
        for (_, reply) in &mut self.entries {
            if let Some(reply) = reply.take() {
                // A failure means that the caller no longer waits.
                drop(reply.send(Err(error.clone())));
            }
        }
    }
}
