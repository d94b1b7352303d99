//! The response to one request is lost after the server has applied it.

use zk_curator_testing::Verdict;

use super::{as_usual, disturbed, each, same};

/// The item whose removal has an unknown outcome is not delivered, and there is no other.
const WAITS: &str = "queue::Consumer::run";

#[test]
fn a_lost_response_is_made_up_for_or_admitted() {
    each(async |row| {
        if row.name == WAITS {
            return Ok(());
        }
        disturbed(row, as_usual, (Verdict::LoseReply, 1), |played, expected| match &played.result {
            Ok(()) => same(played, expected),
            Err(failure) if failure.may_have_applied => Ok(()),
            Err(failure) => Err(failure.to_string()),
        })
        .await
    });
}
