//! What the workloads of the elections have in common.

use std::time::Duration;

use tokio::time::sleep;
use zk_curator::{ConnectionStateErrorPolicy, CuratorFramework, FencingToken};
use zk_curator_recipes::leader::Leadership;

use crate::history::{Event, Mode, Name};
use crate::{Client, Failure};

/// What the leader uses, and the election.
pub(super) const ORDERS: &str = "orders";

/// A framework with either policy.
pub(super) async fn connect(client: &Client) -> Result<CuratorFramework, Failure> {
    let policies = [ConnectionStateErrorPolicy::Standard, ConnectionStateErrorPolicy::Session];
    let policy = policies[client.rng().usize(..2)];
    client.note(format!("policy {policy:?}"));
    Ok(client.connect_with(client.framework().connection_state_error_policy(policy)).await?)
}

/// Begins to wait for leadership.
pub(super) fn acquiring(client: &Client) -> u64 {
    let hold = client.unique();
    client.record(Event::Acquiring { resource: ORDERS.into(), mode: Mode::Leader, hold });
    hold
}

/// The belief to lead, written down: dropped before it has [resigned](Self::resigns), it is lost.
pub(super) struct Term<'a> {
    client: &'a Client,
    hold: u64,
    token: FencingToken,
    lasts: bool,
}

impl<'a> Term<'a> {
    pub(super) fn begin(client: &'a Client, hold: u64, leadership: &Leadership) -> Self {
        let token = leadership.fencing_token();
        let event = Event::Acquired { resource: ORDERS.into(), mode: Mode::Leader, hold, token: token.get() };
        client.record(event);
        Self { client, hold, token, lasts: true }
    }

    /// Does what leaders do, for a while.
    pub(super) async fn work(&self) {
        let orders = Name::from(ORDERS);
        for _ in 0..self.client.rng().u8(..4) {
            sleep(self.client.moment(Duration::from_millis(20))).await;
            self.client.use_resource(&orders, Mode::Leader, self.hold, self.token).await;
        }
    }

    /// Does not believe any more to lead.
    pub(super) fn resigns(mut self) {
        self.lasts = false;
        self.client.record(Event::Releasing { hold: self.hold });
    }
}

impl Drop for Term<'_> {
    fn drop(&mut self) {
        if self.lasts {
            self.client.record(Event::Lost { hold: self.hold });
        }
    }
}
