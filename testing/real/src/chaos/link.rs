//! The network of one client: a proxy in front of each server.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use zk_curator_client::SessionCredentials;

use super::schedule::{Fault, Reach};
use zk_curator_testing::{Direction, FaultProxy, Flow};

#[derive(Debug)]
pub(super) struct Link {
    proxies: Vec<FaultProxy>,
}

impl Link {
    pub(super) async fn start(servers: &[SocketAddr]) -> io::Result<Self> {
        let mut proxies = Vec::new();
        for server in servers {
            proxies.push(FaultProxy::start(&[*server]).await?);
        }
        Ok(Self { proxies })
    }

    pub(super) fn connect_string(&self) -> String {
        self.proxies.iter().map(FaultProxy::connect_string).collect::<Vec<_>>().join(",")
    }

    /// Returns the last sessions of the client, one of each proxy. At most one of them is alive.
    pub(super) fn sessions(&self) -> Vec<SessionCredentials> {
        let mut sessions: Vec<SessionCredentials> =
            self.proxies.iter().filter_map(FaultProxy::session).collect();
        sessions.sort_by_key(|session| session.id.get());
        sessions.dedup_by_key(|session| session.id);
        sessions
    }

    pub(super) fn inject(&self, fault: Fault) {
        match fault {
            Fault::Cut => self.proxies.iter().for_each(FaultProxy::cut),
            Fault::Refuse(reach) => self.within(reach).for_each(FaultProxy::down),
            Fault::Silence { direction, flow, reach } => {
                self.within(reach).for_each(|proxy| silence(proxy, direction, flow));
            }
            Fault::Delay(delay) => self.proxies.iter().for_each(|proxy| proxy.delay(delay)),
            _ => {}
        }
    }

    pub(super) fn heal(&self, fault: Fault) {
        match fault {
            Fault::Refuse(reach) => self.within(reach).for_each(FaultProxy::up),
            Fault::Silence { direction, flow, reach } => {
                for proxy in self.within(reach) {
                    if flow == Flow::Lost {
                        // A connection that has lost bytes must not continue.
                        proxy.cut();
                    }
                    silence(proxy, direction, Flow::Open);
                }
            }
            Fault::Delay(_) => self.proxies.iter().for_each(|proxy| proxy.delay(Duration::ZERO)),
            _ => {}
        }
    }

    fn within(&self, reach: Reach) -> impl Iterator<Item = &FaultProxy> {
        let of = move |number: usize| match reach {
            Reach::All => true,
            Reach::One(one) => one % self.proxies.len() == number,
        };
        self.proxies
            .iter()
            .enumerate()
            .filter(move |(number, _)| of(*number))
            .map(|(_, proxy)| proxy)
    }
}

fn silence(proxy: &FaultProxy, direction: Direction, flow: Flow) {
    if direction != Direction::ToClient {
        proxy.requests(flow);
    }
    if direction != Direction::ToServer {
        proxy.replies(flow);
    }
}
