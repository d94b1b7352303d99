//! The results of a search as a stream.

use futures_util::stream::{Stream, unfold};

use super::pattern::SearchHit;
use super::summary::SearchSummary;
use super::walk::SearchWalk;
use crate::security::StreamSeat;

/// A part of the results.
#[derive(Debug)]
pub(crate) enum SearchPart {
    /// Nodes that match, in the order in which they were compared.
    Hits(Vec<SearchHit>),
    /// The end, after which nothing follows.
    End(Box<SearchSummary>),
}

/// Returns the results of a search, beginning with those of its first step. Dropping the stream
/// ends the search and frees the seat.
pub(crate) fn search_parts(
    walk: SearchWalk,
    seat: StreamSeat,
    first: Vec<SearchHit>,
) -> impl Stream<Item = SearchPart> + Send + 'static {
    unfold(Some((walk, seat, first)), |state| async move {
        let (mut walk, seat, mut hits) = state?;
        while hits.is_empty() {
            match walk.step().await {
                Ok(Some(found)) => hits = found,
                Ok(None) => return Some((end(&walk), None)),
                Err(error) => {
                    walk.failed(&error);
                    return Some((end(&walk), None));
                }
            }
        }
        Some((SearchPart::Hits(hits), Some((walk, seat, Vec::new()))))
    })
}

fn end(walk: &SearchWalk) -> SearchPart {
    SearchPart::End(Box::new(walk.summary().clone()))
}
