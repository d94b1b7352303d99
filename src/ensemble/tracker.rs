use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zk_curator_client::WatchEnded;
use zk_curator_client::internal::sleep;

use super::EnsembleConfig;
use crate::core::{Core, Session};
use crate::error::{Error, ErrorKind};
use crate::state::Published;

const OP: &str = "ensemble_tracker";
/// The pause after a failed read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Follows the configuration of the ensemble while a session lives, and makes its members the
/// servers of this session and of later ones.
pub(crate) async fn track(core: &Core, session: &Arc<Session>) -> Infallible {
    tokio::select! {
        biased;
        never = read(core, session) => never,
        never = fall_back(core) => never,
    }
}

/// Adds the servers that the caller has given, whenever no member is reached for a connection
/// timeout. They stay until the configuration changes, because its members may be out of reach for
/// this client.
async fn fall_back(core: &Core) -> Infallible {
    let is_connected = |published: &Published| published.actual.state.is_connected();
    loop {
        core.status.until(|published| !is_connected(published)).await;
        let connected = || core.status.until(is_connected);
        if timeout(core.connection_timeout(), connected()).await.is_err() {
            let present = core.connect_string();
            if let Err(error) = core.set_connect_string(OP, &core.with_given_servers(&present)) {
                core.report_background_error(error);
            }
            connected().await;
        }
    }
}

async fn read(core: &Core, session: &Arc<Session>) -> Infallible {
    loop {
        let error = match session.raw.get_config_watched().await {
            Ok((config, watch)) => {
                let followed = match EnsembleConfig::parse(&config.data) {
                    Ok(config) => follow(core, &config),
                    Err(why) => Err(Error::new(ErrorKind::Malformed, OP, "").with_source(why)),
                };
                if let Err(error) = followed {
                    core.report_background_error(error);
                }
                match watch.await {
                    // The configuration has changed, or the watch was removed.
                    Ok(_) | Err(WatchEnded::Removed) => continue,
                    // The session is over, and so is this task.
                    Err(WatchEnded::SessionLost | WatchEnded::Closed) => pending().await,
                    Err(why) => Error::new(ErrorKind::Unsupported, OP, "").with_source(why),
                }
            }
            Err(error) => Error::raw(OP, "", error),
        };
        if !error.is_transient() {
            // The client has no permission, or the raw client does not support this.
            core.report_background_error(error);
            pending::<()>().await;
        }
        sleep(LOOK_AGAIN).await;
    }
}

fn follow(core: &Core, config: &EnsembleConfig) -> Result<(), Error> {
    // A standalone server has no members: the list of servers stays unchanged.
    let servers = match core.ensemble_addresses() {
        Some(address) => config.connect_string_by(|server| address(server)),
        None => config.connect_string(),
    };
    let Some(servers) = servers else {
        return Ok(());
    };
    let present = core.connect_string();
    let chroot = present.find('/').map_or("", |at| &present[at..]);
    let members = format!("{servers}{chroot}");
    // No member of this configuration was reached.
    if core.with_given_servers(&members) == present {
        return Ok(());
    }
    core.set_connect_string(OP, &members)
}
