//! Rates: the differences of two responses of the same server. No counter of a server is reset.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let servers = server.connect_string();
//! use std::time::Instant;
//!
//! use zk_curator_ops::ensemble::EnsembleProbe;
//! use zk_curator_ops::ensemble::rates::RateBaseline;
//! use zk_curator_ops::ensemble::words::FourLetterWord;
//!
//! let probe = EnsembleProbe::new(servers);
//! let start = Instant::now();
//! let (_, before) = probe.survey(&[FourLetterWord::Srvr]).await?;
//! let (_, after) = probe.survey(&[FourLetterWord::Srvr]).await?;
//! let baseline = RateBaseline::new(&before, start.elapsed());
//! let requests = baseline.requests(&after[0]).expect("a counter that was not reset");
//! assert!(requests >= 0.0);
//! # Ok(()) }
//! ```

use std::collections::HashMap;
use std::time::Duration;

use super::probe::{ProbeReport, ProbedServer};
use super::words::ClientConnection;

/// Returns the growth of a counter a second; `None` if it was reset in between.
fn rate(before: u64, after: u64, passed: Duration) -> Option<f64> {
    let grown = after.checked_sub(before)?;
    let seconds = passed.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate is not exact")]
    let grown = grown as f64;
    (seconds > 0.0).then(|| grown / seconds)
}

/// The previous responses, by server and by connection.
#[derive(Debug, Clone, Default)]
pub struct RateBaseline {
    passed: Duration,
    requests: HashMap<String, u64>,
    connections: HashMap<(String, String), u64>,
}

impl RateBaseline {
    /// Remembers responses that were given `passed` before the present ones.
    #[must_use]
    pub fn new(reports: &[ProbeReport], passed: Duration) -> Self {
        let mut before = Self { passed, ..Self::default() };
        for report in reports {
            let server = report.server.to_string();
            if let Some(received) = report.received() {
                before.requests.insert(server.clone(), received);
            }
            for connection in report.cons.iter().flatten() {
                let key = (server.clone(), connection.address.clone());
                before.connections.insert(key, connection.received);
            }
        }
        before
    }

    /// Returns the requests a second to a server. `None` if it was restarted, or is new.
    #[must_use]
    pub fn requests(&self, report: &ProbeReport) -> Option<f64> {
        let before = self.requests.get(&report.server.to_string())?;
        rate(*before, report.received()?, self.passed)
    }

    /// Returns the requests a second of a connection. `None` if it is new.
    #[must_use]
    pub fn of_connection(
        &self,
        server: &ProbedServer,
        connection: &ClientConnection,
    ) -> Option<f64> {
        let key = (server.to_string(), connection.address.clone());
        rate(*self.connections.get(&key)?, connection.received, self.passed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ensemble::health::tests::serving;
    use crate::ensemble::words::ServerMode;

    #[test]
    fn rates_are_differences() {
        let second = Duration::from_secs(1);
        for (before, after, passed, expected) in [
            (0, 10, second, Some(10.0)),
            (5, 5, second, Some(0.0)),
            (0, 10, second * 4, Some(2.5)),
            (10, 3, second, None),
            (0, 10, Duration::ZERO, None),
        ] {
            assert_eq!(rate(before, after, passed), expected);
        }
    }

    #[test]
    fn a_new_server_and_a_new_connection_have_no_rate() {
        let mut report = serving(1, ServerMode::Leader, 1);
        let connection = ClientConnection {
            address: "a:1".to_owned(),
            received: 7,
            ..ClientConnection::default()
        };
        let before = RateBaseline::new(std::slice::from_ref(&report), Duration::from_secs(1));
        report.cons = Ok(vec![connection.clone()]);
        report.srvr.as_mut().unwrap().received = Some(5);
        assert_eq!(before.requests(&report), None);
        assert_eq!(before.of_connection(&report.server, &connection), None);
        let before = RateBaseline::new(std::slice::from_ref(&report), Duration::from_secs(1));
        assert_eq!(before.requests(&report), Some(0.0));
        assert_eq!(before.of_connection(&report.server, &connection), Some(0.0));
    }

    proptest! {
        #[test]
        fn a_rate_is_finite_and_not_negative(before: u64, after: u64, ms in 0..1_000_000_u64) {
            if let Some(rate) = rate(before, after, Duration::from_millis(ms)) {
                prop_assert!(rate.is_finite() && rate >= 0.0);
            }
        }
    }
}
