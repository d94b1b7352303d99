//! The network of one client: a relay to each server.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use zk_curator_client::SessionCredentials;

use super::schedule::{Fault, Reach};
use zk_curator_testing::{Flow, Relay, Way};

#[derive(Debug)]
pub(super) struct Link {
    relays: Vec<Relay>,
}

impl Link {
    pub(super) async fn start(servers: &[SocketAddr]) -> io::Result<Self> {
        let mut relays = Vec::new();
        for server in servers {
            relays.push(Relay::start(&[*server]).await?);
        }
        Ok(Self { relays })
    }

    pub(super) fn connect_string(&self) -> String {
        self.relays.iter().map(Relay::connect_string).collect::<Vec<_>>().join(",")
    }

    /// The sessions that the client had last, one of each server. At most one of them is alive.
    pub(super) fn sessions(&self) -> Vec<SessionCredentials> {
        let mut sessions: Vec<SessionCredentials> = self.relays.iter().filter_map(Relay::session).collect();
        sessions.sort_by_key(|session| session.id.get());
        sessions.dedup_by_key(|session| session.id);
        sessions
    }

    pub(super) fn inject(&self, fault: Fault) {
        match fault {
            Fault::Cut => self.relays.iter().for_each(Relay::cut),
            Fault::Refuse(reach) => self.within(reach).for_each(Relay::down),
            Fault::Silence { way, flow, reach } => {
                self.within(reach).for_each(|relay| silence(relay, way, flow));
            }
            Fault::Delay(delay) => self.relays.iter().for_each(|relay| relay.delay(delay)),
            _ => {}
        }
    }

    pub(super) fn heal(&self, fault: Fault) {
        match fault {
            Fault::Refuse(reach) => self.within(reach).for_each(Relay::up),
            Fault::Silence { way, flow, reach } => {
                for relay in self.within(reach) {
                    if flow == Flow::Lost {
                        // A connection with a hole in it does not exist.
                        relay.cut();
                    }
                    silence(relay, way, Flow::Open);
                }
            }
            Fault::Delay(_) => self.relays.iter().for_each(|relay| relay.delay(Duration::ZERO)),
            _ => {}
        }
    }

    fn within(&self, reach: Reach) -> impl Iterator<Item = &Relay> {
        let of = move |number: usize| match reach {
            Reach::All => true,
            Reach::One(one) => one % self.relays.len() == number,
        };
        self.relays.iter().enumerate().filter(move |(number, _)| of(*number)).map(|(_, relay)| relay)
    }
}

fn silence(relay: &Relay, way: Way, flow: Flow) {
    if way != Way::ToClient {
        relay.requests(flow);
    }
    if way != Way::ToServer {
        relay.replies(flow);
    }
}
