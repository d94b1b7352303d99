//! A backup as a download.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use zk_curator_ops::transfer::{Backup, BackupConsistency};

use crate::problem::{Problem, RequestResult};
use crate::state::Web;
use crate::transfer::{DownloadHead, download, problem_of, until_gone};
use crate::visit::Visit;

/// The time to find a moment without a change, after the nodes were read.
const SETTLES: Duration = Duration::from_secs(10);

/// `GET /api/v1/backup/…`: the response begins when all nodes were read, into a file without a
/// name. Hidden nodes are left out, with everything below them.
pub(crate) async fn backup(State(web): State<Arc<Web>>, visit: Visit) -> RequestResult<Response> {
    let path = visit.node_below(&["/api/v1/backup"])?;
    let is_plain = visit.query.get("plain") == Some("true");
    let seat = web.streams.take(&visit.viewer.counted_as).ok_or_else(full)?;
    let (zk, redaction) = (web.zk.clone(), web.redaction.clone());
    let written = until_gone(web.transfers_of(&visit.viewer), move || async move {
        let hidden = |path: &str| redaction.hides(path);
        let mut backup = Backup::new(path).within(SETTLES).leaving_out(&hidden);
        if is_plain {
            backup = backup.plain();
        }
        backup.write_temporary(&zk).await
    });
    let (file, summary) = written.await?.map_err(|error| problem_of(&error))?;
    let file = file.ok_or_else(Problem::no_page)?;
    let head = DownloadHead {
        nodes: summary.trailer.nodes(),
        unreadable: summary.unreadable.len(),
        is_exact: summary.trailer.consistency == BackupConsistency::Exact,
    };
    download(file, head, seat).map_err(|why| {
        let detail = format!("The explorer cannot read a temporary file: {why}.");
        Problem::internal("No backup", detail)
    })
}

fn full() -> Problem {
    let detail = "Too many streams are open. Close other pages, or try again later.";
    Problem::no_place("Too many streams", detail)
}
