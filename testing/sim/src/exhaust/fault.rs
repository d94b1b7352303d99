//! The faults that can happen at a decision point.

use std::fmt;
use std::str::FromStr;

use super::point::{DecisionPoint, PointKind};

/// A fault at a [`DecisionPoint`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PointFault {
    /// The servers end the session of a client, as an administrator can.
    Expire {
        /// The number of the client.
        client: u32,
    },
    /// The connection of a client is reset.
    Disconnect {
        /// The number of the client.
        client: u32,
    },
    /// An operator deletes a node and everything below it.
    Operate {
        /// The place of the node among those that an operator may delete, in alphabetical order.
        node: usize,
    },
    /// All servers but the leader apply nothing for one session timeout.
    Lag,
    /// Another server becomes the leader.
    ChangeLeader,
    /// The request is lost, and its connection ends.
    LoseRequest,
    /// The request is executed, but its connection ends without the response.
    LoseReply,
    /// As [`LoseReply`](Self::LoseReply), and the client reaches no server for longer than its
    /// session lives.
    LoseReplyAndCut,
    /// As [`LoseRequest`](Self::LoseRequest), and the client reaches no server for longer than its
    /// session lives.
    LoseRequestAndCut,
    /// The server is overloaded, and refuses the request.
    Throttle,
    /// The request is late: requests of other clients that were sent later are handled first.
    Delay,
    /// The client reaches no server for longer than its session lives.
    Cut,
    /// The client reaches no server until its session is over by its own clock, but perhaps not for
    /// the servers, which count in ticks and from a later moment.
    CutToEnd,
    /// The task runs late. The other tasks of the process run in the meantime.
    Hesitate,
    /// The process stops for longer than its session lives (SIGSTOP, SIGCONT).
    Pause,
    /// The process stops until its session is over by its own clock, but perhaps not for the
    /// servers.
    PauseToEnd,
    /// The process is killed, and restarted.
    Kill,
    /// The machine of the process is gone. The process is restarted on another one.
    Vanish,
    /// The client closes its frameworks, and begins again.
    Close,
    /// The client closes its frameworks, drops what it has acquired only then, and begins again.
    CloseFirst,
    /// The whole world stands still for longer than a session lives.
    Jump,
    /// The future is dropped in place of being polled.
    Drop,
}

/// The faults with a name without a number.
const PLAIN: &[PointFault] = &[
    PointFault::Lag,
    PointFault::ChangeLeader,
    PointFault::LoseRequest,
    PointFault::LoseReply,
    PointFault::LoseReplyAndCut,
    PointFault::LoseRequestAndCut,
    PointFault::Throttle,
    PointFault::Delay,
    PointFault::Cut,
    PointFault::CutToEnd,
    PointFault::Hesitate,
    PointFault::Pause,
    PointFault::PauseToEnd,
    PointFault::Kill,
    PointFault::Vanish,
    PointFault::Close,
    PointFault::CloseFirst,
    PointFault::Jump,
    PointFault::Drop,
];

impl PointFault {
    /// Returns the names of all kinds.
    pub fn kinds() -> impl Iterator<Item = &'static str> {
        let numbered =
            [Self::Expire { client: 0 }, Self::Disconnect { client: 0 }, Self::Operate { node: 0 }];
        numbered.into_iter().chain(PLAIN.iter().copied()).map(Self::kind)
    }

    /// Returns the name of the kind of the fault.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Expire { .. } => "expire",
            Self::Disconnect { .. } => "disconnect",
            Self::Operate { .. } => "operate",
            Self::Lag => "lag",
            Self::ChangeLeader => "change-leader",
            Self::LoseRequest => "lose-request",
            Self::LoseReply => "lose-reply",
            Self::LoseReplyAndCut => "lose-reply-and-cut",
            Self::LoseRequestAndCut => "lose-request-and-cut",
            Self::Throttle => "throttle",
            Self::Delay => "delay",
            Self::Cut => "cut",
            Self::CutToEnd => "cut-to-end",
            Self::Hesitate => "hesitate",
            Self::Pause => "pause",
            Self::PauseToEnd => "pause-to-end",
            Self::Kill => "kill",
            Self::Vanish => "vanish",
            Self::Close => "close",
            Self::CloseFirst => "close-first",
            Self::Jump => "jump",
            Self::Drop => "drop",
        }
    }

    /// Returns `true` if the fault decides about the request at its point. A request has at most
    /// one such fault.
    pub(crate) const fn is_verdict(self) -> bool {
        matches!(
            self,
            Self::LoseRequest
                | Self::LoseReply
                | Self::LoseReplyAndCut
                | Self::LoseRequestAndCut
                | Self::Throttle
                | Self::Delay
        )
    }

    /// Returns the faults that can happen at a point, in their order.
    pub(super) fn at(point: &DecisionPoint) -> Vec<Self> {
        match &point.kind {
            PointKind::Request { throttlable, operable, open, .. } => {
                let mut faults = Vec::new();
                for &client in open {
                    faults.push(Self::Expire { client });
                    // The connection of this client is that of a lost request.
                    if client != point.client {
                        faults.push(Self::Disconnect { client });
                    }
                }
                faults.extend((0..*operable).map(|node| Self::Operate { node }));
                faults.extend([
                    Self::Lag,
                    Self::ChangeLeader,
                    Self::LoseRequest,
                    Self::LoseReply,
                    Self::LoseReplyAndCut,
                    Self::LoseRequestAndCut,
                    Self::Delay,
                ]);
                if *throttlable {
                    faults.push(Self::Throttle);
                }
                faults
            }
            PointKind::Wake => vec![
                Self::Expire { client: point.client },
                Self::Disconnect { client: point.client },
                Self::Cut,
                Self::CutToEnd,
                Self::Hesitate,
                Self::Pause,
                Self::PauseToEnd,
                Self::Kill,
                Self::Vanish,
                Self::Close,
                Self::CloseFirst,
                Self::Jump,
            ],
            PointKind::Turn { .. } => vec![Self::Hesitate, Self::Pause, Self::Kill],
            PointKind::Poll { .. } => vec![Self::Drop],
        }
    }
}

impl fmt::Display for PointFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match self {
            Self::Expire { client } | Self::Disconnect { client } => write!(f, "-{client}"),
            Self::Operate { node } => write!(f, "-{node}"),
            _ => Ok(()),
        }
    }
}

impl FromStr for PointFault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("there is no fault {text:?}");
        if let Some(plain) = PLAIN.iter().find(|fault| fault.kind() == text) {
            return Ok(*plain);
        }
        let (kind, number) = text.rsplit_once('-').ok_or_else(unknown)?;
        let number: u32 = number.parse().map_err(|_| unknown())?;
        match kind {
            "expire" => Ok(Self::Expire { client: number }),
            "disconnect" => Ok(Self::Disconnect { client: number }),
            "operate" => Ok(Self::Operate { node: number as usize }),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let numbered = [
            PointFault::Expire { client: 0 },
            PointFault::Disconnect { client: 12 },
            PointFault::Operate { node: 3 },
        ];
        for fault in PLAIN.iter().copied().chain(numbered) {
            assert_eq!(fault.to_string().parse(), Ok(fault));
        }
        for wrong in ["", "expire", "expire-", "expire-x", "lag-1", "drop-drop"] {
            assert!(wrong.parse::<PointFault>().is_err(), "{wrong}");
        }
    }
}
