//! The chroot of the connect string: checked when the first server is reached, and created if
//! requested, also if it is deleted later.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};
use zk_curator_client::internal::{sleep, sleep_until};
use zk_curator_client::{Acl, CreateMode, Error as RawError, ErrorCode, Op};

use crate::core::{Core, read_behind_quorum, tell};
use crate::error::{ErrorKind, Result};
use crate::raw::RawClient;

const OP: &str = "start";
/// The pause after an attempt that failed with a transient error.
const PAUSE: Duration = Duration::from_secs(1);

/// Returns the reason of an error without the chroot: below it no node exists, and none can be
/// created.
pub(crate) fn why_missing(chroot: &str) -> String {
    format!("the chroot {chroot:?} does not exist; the builder's create_chroot creates it")
}

/// Checks the chroot, for the caller of `start` and for the followers of background errors. If it
/// is to be created, waits for [creates](restore) that find it missing, and creates it again.
pub(crate) async fn keep(core: Arc<Core>, chroot: String) {
    let acl = core.settings.create_chroot.as_deref();
    let kept = async {
        loop {
            let settled = settle(&core, &chroot, acl).await;
            let is_kept = settled.is_ok() && acl.is_some();
            if let Err(error) = &settled {
                core.report_background_error(error.clone());
            }
            core.chroot.set(Some(settled));
            if !is_kept {
                return;
            }
            let next = Instant::now() + PAUSE;
            core.chroot.until(Option::is_none).await;
            tell!(warn, core, core.status(), chroot, "the chroot was deleted");
            sleep_until(next).await;
        }
    };
    tokio::select! {
        biased;
        () = core.shutdown.cancelled() => {}
        () = kept => {}
    }
}

/// Has the missing chroot created again, at most once a second. Returns `false` if it is not to be
/// created, or not in time.
pub(crate) async fn restore(core: &Core, limit: Option<Duration>) -> bool {
    if !core.restores_chroot() {
        return false;
    }
    core.chroot.modify(|settled| {
        if matches!(settled, Some(Ok(()))) {
            *settled = None;
        }
    });
    let limit = limit.unwrap_or_else(|| core.connection_timeout());
    tokio::select! {
        biased;
        () = core.shutdown.cancelled() => false,
        settled = timeout(limit, core.chroot.find(Option::clone)) => matches!(settled, Ok(Ok(()))),
    }
}

/// Looks for the chroot until a server has responded, and creates it if `acl` is given.
pub(crate) async fn settle(core: &Core, chroot: &str, acl: Option<&[Acl]>) -> Result<()> {
    let failed = |error: RawError| core.error(OP, chroot, error).of_a_read();
    let mut epoch = 0;
    loop {
        let session = core.session_after(epoch).await;
        let error = match exists(&*session.raw).await {
            Ok(true) => return Ok(()),
            Ok(false) => match acl {
                None => {
                    let missing = failed(RawError::Refused(ErrorCode::NoNode));
                    return Err(missing.with_source(why_missing(chroot)));
                }
                Some(acl) => match create(core, chroot, acl).await {
                    Ok(()) => return Ok(()),
                    Err(error) => error,
                },
            },
            Err(error) => {
                if session.lost.is_cancelled() {
                    epoch = session.epoch;
                }
                error
            }
        };
        let error = failed(error);
        // A read-only server does not know the present state of the ensemble. Refused credentials
        // end the session, which is reported as such.
        if !error.is_transient()
            && !matches!(error.kind(), ErrorKind::AuthFailed | ErrorKind::Closed)
        {
            return Err(error);
        }
        sleep(PAUSE).await;
    }
}

/// Returns `true` if the chroot exists, which is the root of this session.
async fn exists(raw: &dyn RawClient) -> Result<bool, RawError> {
    // Another client may have created it at a server that is ahead of this one.
    match read_behind_quorum(raw, "/", |raw, path| raw.exists(path)).await {
        // NoAuth means that the node exists.
        Err(RawError::Refused(ErrorCode::NoAuth)) => Ok(true),
        Err(error @ RawError::Refused(ErrorCode::NotReadOnly)) => match raw.exists("/").await {
            // A read-only server that knows the node is sufficient proof of its existence.
            Ok(Some(_)) | Err(RawError::Refused(ErrorCode::NoAuth)) => Ok(true),
            Ok(None) => Err(error),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
        Ok(stat) => Ok(stat.is_some()),
    }
}

/// Creates the chroot in a session of its own, which has no chroot.
async fn create(core: &Core, chroot: &str, acl: &[Acl]) -> Result<(), RawError> {
    let raw = core.open_outside_chroot().await?;
    let result = create_all(&raw, chroot, acl).await;
    if let Err(error) = raw.close().await {
        tell!(debug, core, core.status(), %error, "the session that created the chroot was not closed");
    }
    result
}

async fn create_all(raw: &Arc<dyn RawClient>, chroot: &str, acl: &[Acl]) -> Result<(), RawError> {
    let ends = chroot.match_indices('/').map(|(at, _)| at).skip(1).chain([chroot.len()]);
    for end in ends {
        let path = chroot[..end].to_owned();
        let (data, acl, mode) = (Some(Bytes::new()), acl.to_vec(), CreateMode::Persistent);
        match raw.create(&Op::Create { path: path.clone(), data, acl, mode, ttl: None }).await {
            Ok(_) | Err(RawError::Refused(ErrorCode::NodeExists)) => {}
            // The server refuses this before it checks if the node exists.
            Err(RawError::Refused(ErrorCode::NoAuth)) if raw.exists(&path).await?.is_some() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
