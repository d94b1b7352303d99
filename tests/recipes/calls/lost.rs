//! One request is lost, or its response after the server has applied it.

use zk_curator_testing::Verdict;

use zk_curator_tests::size;

use super::{AS_USUAL, disturbed, each, same};

/// The item whose removal has an unknown outcome is not delivered, and there is no other.
const WAITS: &str = "queue::Consumer::run";

#[test]
fn a_lost_request_or_response_is_made_up_for_or_admitted() {
    each(async |row| {
        if row.name == WAITS {
            return Ok(());
        }
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest].into_iter().take(size(1, 2)) {
            disturbed(row, AS_USUAL, (verdict, 1), |played, expected| match &played.result {
                Ok(()) => same(played, expected),
                Err(failure) if failure.may_have_applied => Ok(()),
                Err(failure) => Err(failure.to_string()),
            })
            .await?;
        }
        Ok(())
    });
}
