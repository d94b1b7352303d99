use std::sync::Arc;

use zk_curator_client::{SessionId, SessionState};

use super::{ConnectionState, ConnectionStatus};

/// An event of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateInput {
    /// The framework has begun a session.
    Opened,
    /// The raw client of the present session has changed its state.
    Raw(SessionState),
    /// The framework was closed.
    Closed,
}

/// Turns the states of sessions into the states of the connection. Pure: the same inputs give the
/// same states.
#[derive(Debug)]
pub(crate) struct StateMachine {
    status: ConnectionStatus,
    last_session: Option<SessionId>,
}

impl StateMachine {
    pub(crate) const fn new() -> Self {
        let status = ConnectionStatus {
            state: ConnectionState::Connecting,
            epoch: 0,
            session_epoch: 0,
            session: None,
            server: None,
        };
        Self { status, last_session: None }
    }

    pub(crate) fn status(&self) -> ConnectionStatus {
        self.status.clone()
    }

    /// Sets the server of the present connection, if there is one.
    pub(crate) fn served_by(&mut self, server: Option<Arc<str>>) {
        self.status.server = server.filter(|_| self.status.state.is_connected());
    }

    /// Takes an input. Returns `true` if the state has changed.
    pub(crate) fn step(&mut self, input: StateInput) -> bool {
        let before = self.status.state;
        let state = match input {
            StateInput::Opened => {
                self.status.session_epoch += 1;
                return false;
            }
            StateInput::Closed => {
                self.status.session = None;
                ConnectionState::Closed
            }
            StateInput::Raw(_) if before == ConnectionState::Closed => before,
            StateInput::Raw(SessionState::Connected(session)) => {
                let last = self.last_session.replace(session.id);
                self.status.session = Some(session);
                match last {
                    // A read-only server may be replaced by another server without a notification.
                    _ if before.is_connected() && before != ConnectionState::ReadOnly => before,
                    None => ConnectionState::Connected,
                    Some(last) => ConnectionState::Reconnected { same_session: last == session.id },
                }
            }
            StateInput::Raw(SessionState::ConnectedReadOnly(session)) => {
                self.last_session = Some(session.id);
                self.status.session = Some(session);
                ConnectionState::ReadOnly
            }
            StateInput::Raw(SessionState::Disconnected) if before.is_connected() => {
                ConnectionState::Suspended
            }
            StateInput::Raw(over) if over.end().is_some() => {
                self.status.session = None;
                // A connection that never existed cannot be lost (CURATOR-72).
                if before == ConnectionState::Connecting { before } else { ConnectionState::Lost }
            }
            // The raw client is connecting, or has an additional state.
            StateInput::Raw(_) => before,
        };
        if state == before {
            return false;
        }
        self.status.server = None;
        self.status.state = state;
        self.status.epoch += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zk_curator_client::{ExpiredBy, SessionInfo};

    use super::*;

    const ON: fn(i64) -> StateInput = |id| {
        StateInput::Raw(SessionState::Connected(SessionInfo::new(
            SessionId::new(id),
            Duration::from_secs(1),
        )))
    };
    const OFF: StateInput = StateInput::Raw(SessionState::Disconnected);
    const EXPIRED: StateInput = StateInput::Raw(SessionState::Expired(ExpiredBy::Server));
    const CONNECTING: StateInput = StateInput::Raw(SessionState::Connecting);

    fn states(inputs: &[StateInput]) -> Vec<ConnectionState> {
        let mut machine = StateMachine::new();
        let mut seen = Vec::new();
        for input in inputs {
            let before = machine.status().epoch;
            if machine.step(*input) {
                assert_eq!(machine.status().epoch, before + 1);
                seen.push(machine.status().state);
            }
        }
        seen
    }

    #[test]
    fn a_session_is_connected_suspended_reconnected_and_lost() {
        use ConnectionState as S;
        let inputs = [
            StateInput::Opened,
            CONNECTING,
            ON(1),
            OFF,
            ON(1),
            OFF,
            EXPIRED,
            StateInput::Opened,
            ON(2),
            StateInput::Closed,
        ];
        let expected = [
            S::Connected,
            S::Suspended,
            S::Reconnected { same_session: true },
            S::Suspended,
            S::Lost,
            S::Reconnected { same_session: false },
            S::Closed,
        ];
        assert_eq!(states(&inputs), expected);
    }

    /// CURATOR-72: LOST before the first CONNECTED.
    #[test]
    fn curator_72_only_a_connected_client_is_suspended_or_lost() {
        assert_eq!(
            states(&[StateInput::Opened, CONNECTING, OFF, EXPIRED, StateInput::Opened, OFF]),
            []
        );
    }

    /// CURATOR-367: RECONNECTED came before LOST.
    #[test]
    fn curator_367_an_expiry_is_lost_before_it_is_reconnected() {
        use ConnectionState as S;
        assert_eq!(
            states(&[StateInput::Opened, ON(1), EXPIRED, StateInput::Opened, ON(2)]),
            [S::Connected, S::Lost, S::Reconnected { same_session: false }]
        );
    }

    #[test]
    fn lost_is_said_once_and_nothing_follows_closed() {
        use ConnectionState as S;
        assert_eq!(
            states(&[StateInput::Opened, ON(1), EXPIRED, EXPIRED, StateInput::Closed, ON(2), OFF]),
            [S::Connected, S::Lost, S::Closed]
        );
    }
}
