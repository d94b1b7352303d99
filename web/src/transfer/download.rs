//! Files as downloads.

use std::fs::File;
use std::io;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::stream::unfold;
use tokio::io::AsyncReadExt;

/// The bytes that are read at a time.
const CHUNK: usize = 64 << 10;
/// The names of the downloads. Nothing in them comes from a node.
const EXACT: &str = "attachment; filename=\"zookeeper-backup.zkb\"";
const FUZZY: &str = "attachment; filename=\"zookeeper-backup-fuzzy.zkb\"";

/// The facts about a backup that its response tells before the data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DownloadHead {
    pub(crate) nodes: u64,
    pub(crate) unreadable: usize,
    pub(crate) is_exact: bool,
}

/// Returns a backup as a download. `kept` is dropped when the download is over.
pub(crate) fn download(
    file: File,
    head: DownloadHead,
    kept: impl Send + 'static,
) -> io::Result<Response> {
    let length = file.metadata()?.len();
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, length.to_string()),
        (header::CONTENT_DISPOSITION, if head.is_exact { EXACT } else { FUZZY }.to_owned()),
    ];
    let facts = [
        ("zk-backup-consistency", if head.is_exact { "exact" } else { "fuzzy" }.to_owned()),
        ("zk-backup-nodes", head.nodes.to_string()),
        ("zk-backup-unreadable", head.unreadable.to_string()),
    ];
    let file = tokio::fs::File::from_std(file);
    let parts = unfold((file, kept), |(mut file, kept)| async move {
        let mut part = BytesMut::with_capacity(CHUNK);
        match file.read_buf(&mut part).await {
            Ok(0) => None,
            Ok(_) => Some((Ok::<Bytes, io::Error>(part.freeze()), (file, kept))),
            Err(why) => Some((Err(why), (file, kept))),
        }
    });
    Ok((headers, facts, Body::from_stream(parts)).into_response())
}
