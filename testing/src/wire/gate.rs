//! [`Gate`]: blocks bytes of a held server or a partitioned network.

use std::sync::Arc;

use zk_curator_client::internal::Signal;

use super::link::{Direction, Link};

/// The blocks of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Blocked {
    /// The server is suspended.
    pub(crate) held: bool,
    /// The network is partitioned.
    pub(crate) partitioned: bool,
}

/// Waits while a server or its network is blocked.
#[derive(Debug)]
pub(super) struct Gate {
    blocked: Arc<Signal<Blocked>>,
    /// The link to the client, if it connects through memory.
    link: Option<Arc<Link>>,
}

impl Gate {
    pub(super) const fn new(blocked: Arc<Signal<Blocked>>, link: Option<Arc<Link>>) -> Self {
        Self { blocked, link }
    }

    /// Waits until the server receives bytes from the client.
    pub(super) async fn receives(&self) {
        self.opens(
            |blocked| !blocked.held && !blocked.partitioned,
            |cut| cut.is_none_or(is_to_client),
        )
        .await;
    }

    /// Waits until the client receives bytes from the server.
    pub(super) async fn sends(&self) {
        self.opens(
            |blocked| !blocked.held && !blocked.partitioned,
            |cut| cut.is_none_or(is_to_server),
        )
        .await;
    }

    /// Waits until the network carries bytes in both directions.
    pub(super) async fn connected(&self) {
        self.opens(|blocked| !blocked.partitioned, |cut| cut.is_none()).await;
    }

    /// Returns `true` if the network carries bytes in both directions.
    pub(super) fn is_connected(&self) -> bool {
        let is_cut = self.link.as_ref().is_some_and(|link| link.cut().look(Option::is_some));
        !is_cut && self.blocked.look(|blocked| !blocked.partitioned)
    }

    /// The link to the client, if it connects through memory.
    pub(super) const fn link(&self) -> Option<&Arc<Link>> {
        self.link.as_ref()
    }

    /// Waits until the server is not held.
    pub(super) async fn released(&self) {
        self.blocked.until(|blocked| !blocked.held).await;
    }

    /// Returns `true` if the server is held.
    pub(super) fn is_held(&self) -> bool {
        self.blocked.look(|blocked| blocked.held)
    }

    async fn opens(
        &self,
        server: impl Fn(&Blocked) -> bool,
        direction: impl Fn(Option<Direction>) -> bool,
    ) {
        loop {
            self.blocked.until(&server).await;
            let Some(link) =
                self.link.as_ref().filter(|link| !link.cut().look(|cut| direction(*cut)))
            else {
                return;
            };
            link.cut().until(|cut| direction(*cut)).await;
        }
    }
}

fn is_to_client(direction: Direction) -> bool {
    direction == Direction::ToClient
}

fn is_to_server(direction: Direction) -> bool {
    direction == Direction::ToServer
}
