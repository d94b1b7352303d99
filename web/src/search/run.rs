//! The results of a search as a stream.

use futures_util::stream::{Stream, unfold};
use tokio::sync::mpsc::{self, Sender};
use tokio::time::timeout_at;
use zk_curator::CuratorFramework;
use zk_curator::state::StateWatch;

use super::pattern::SearchHit;
use super::summary::SearchSummary;
use super::walk::SearchWalk;
use crate::security::StreamSeat;

/// The parts that wait for the client: the results of one step, and the end.
const WAITING: usize = 2;

/// A part of the results.
#[derive(Debug)]
pub(crate) enum SearchPart {
    /// Nodes that match, in the order in which they were compared.
    Hits(Vec<SearchHit>),
    /// The end, after which nothing follows.
    End(Box<SearchSummary>),
}

/// Returns the results of a search, beginning with those of its first step. The search runs in a
/// task, so it ends at its time limit and frees its seat even if the stream is never polled.
/// Dropping the stream ends the search.
pub(crate) fn search_parts(
    zk: &CuratorFramework,
    walk: SearchWalk,
    seat: StreamSeat,
    first: Vec<SearchHit>,
) -> impl Stream<Item = SearchPart> + Send + 'static + use<> {
    let (sender, parts) = mpsc::channel(WAITING);
    let states = zk.states();
    zk.spawn(async move {
        tokio::select! {
            biased;
            () = sender.closed() => {}
            () = run(walk, seat, first, &sender, states) => {}
        }
    });
    unfold(parts, |mut parts| async move {
        let part = parts.recv().await?;
        Some((part, parts))
    })
}

/// Sends each request when the client has taken the results of the one before. Ends at the time
/// limit of the search, whether the client has taken them or not.
async fn run(
    mut walk: SearchWalk,
    seat: StreamSeat,
    first: Vec<SearchHit>,
    sender: &Sender<SearchPart>,
    mut states: StateWatch,
) {
    // The end always has a place in the channel.
    let Ok(end) = sender.clone().reserve_owned().await else { return };
    let mut step = Some(first);
    while let Some(hits) = step {
        if !hits.is_empty() && sender.send(SearchPart::Hits(hits)).await.is_err() {
            return;
        }
        if walk.is_over() {
            break;
        }
        // Nothing else is sent, so the next results have this place.
        let place = tokio::select! {
            place = timeout_at(walk.ends(), sender.reserve()) => place,
            () = closed(&mut states) => return,
        };
        match place {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => return,
            Err(_) => {
                walk.late();
                break;
            }
        }
        step = walk.step().await.unwrap_or_else(|error| {
            walk.failed(&error);
            None
        });
    }
    let summary = Box::new(walk.summary().clone());
    // A client that knows the end can begin the next search.
    drop((walk, seat));
    drop(end.send(SearchPart::End(summary)));
}

/// Waits until the framework is closed.
async fn closed(states: &mut StateWatch) {
    while states.next().await.is_some() {}
}
