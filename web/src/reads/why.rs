//! The recipe at a node: who holds it, and who waits.

use bytes::Bytes;
use tokio::time::timeout;
use zk_curator::{CuratorFramework, Error, ErrorKind};
use zk_curator_ops::holders::{DeletionObstacle, deletion_obstacles};
use zk_curator_recipes::inspect::{self, Contender, Details, Finding, RecipeKind};

use super::limits::{LONGEST_LABEL, WITHIN};
use crate::problem::{Problem, RequestResult};
use crate::security::Redaction;

/// The recipe at a node or above it.
#[derive(Debug)]
pub(crate) struct WhyRead {
    pub(crate) finding: Finding,
    /// Why the node cannot be deleted, if it belongs to no recipe.
    pub(crate) deletion: Vec<DeletionObstacle>,
}

/// The recipe of the page of a node.
#[derive(Debug)]
pub(crate) enum CardRead {
    /// The node belongs to no recipe, as far as that can be recognised.
    None,
    Found(Box<Finding>),
    /// The nodes above it, or next to it, cannot be read.
    Unreadable(ErrorKind),
}

/// Reads a recipe with all of its contenders: see [`inspect`](fn@inspect::inspect) for the cost.
pub(crate) async fn read_why(
    zk: &CuratorFramework,
    path: &str,
    redaction: &Redaction,
) -> RequestResult<WhyRead> {
    let read = async {
        let mut finding = inspect::inspect(zk, path).await?;
        let deletion = deletion_obstacles(zk, path, &finding).await?;
        tidy(&mut finding, redaction);
        Ok::<_, Error>(WhyRead { finding, deletion })
    };
    match timeout(WITHIN, read).await {
        Ok(read) => Ok(read?),
        Err(_) => Err(Problem::too_slow(path)),
    }
}

/// Reads the recipe of a node in two round trips.
pub(crate) async fn read_card(
    zk: &CuratorFramework,
    path: &str,
    redaction: &Redaction,
) -> CardRead {
    match inspect::glance(zk, path).await {
        Ok(mut finding) if is_recipe(&finding) => {
            tidy(&mut finding, redaction);
            CardRead::Found(Box::new(finding))
        }
        Ok(_) => CardRead::None,
        Err(error) if error.kind() == ErrorKind::NoNode => CardRead::None,
        Err(error) => CardRead::Unreadable(error.kind()),
    }
}

/// Returns `true` if it is a recipe rather than a guess: any empty node may be a barrier.
fn is_recipe(finding: &Finding) -> bool {
    let is_guess = finding.is_guess && finding.kind != RecipeKind::Group;
    finding.kind != RecipeKind::Unknown && !is_guess
}

/// Removes what the data of secrets tell, such as labels and outcomes, and cuts long labels. A
/// label may have megabytes, and is a part of sentences.
pub(super) fn tidy(finding: &mut Finding, redaction: &Redaction) {
    for contender in finding.holders.iter_mut().chain(&mut finding.waiting) {
        tidy_label(contender, redaction);
    }
    let mut contenders = finding.holders.iter().chain(&finding.waiting);
    let is_hidden =
        contenders.any(|one| redaction.hides(&one.path)) || redaction.hides(&finding.path);
    // The other details are numbers and names of nodes.
    let is_of_data = matches!(
        finding.details,
        Details::TimedLease { .. }
            | Details::Semaphore { .. }
            | Details::DoubleBarrier { .. }
            | Details::TwoPhaseCommit { .. }
    );
    if is_hidden && is_of_data {
        finding.details = Details::None;
    }
}

fn tidy_label(contender: &mut Contender, redaction: &Redaction) {
    if redaction.hides(&contender.path) {
        contender.label = Bytes::new();
        contender.within = None;
    } else if contender.label.len() > LONGEST_LABEL {
        // A part of the bytes would keep all of them in memory.
        contender.label = Bytes::copy_from_slice(beginning(&contender.label));
    }
}

/// Returns the beginning of a label. A character is not cut.
fn beginning(label: &[u8]) -> &[u8] {
    let cut = label.get(..LONGEST_LABEL).unwrap_or(label);
    match std::str::from_utf8(cut) {
        Err(error) if error.error_len().is_none() => &cut[..error.valid_up_to()],
        _ => cut,
    }
}

#[cfg(test)]
mod tests {
    use zk_curator_recipes::inspect::{Node, recognise};

    use super::*;

    #[test]
    fn secret_labels_are_removed_and_long_ones_are_cut() {
        let long = "ü".repeat(LONGEST_LABEL);
        let lock = Node::new("/secrets")
            .child("lock-0000000001", "hidden")
            .child("lock-0000000002", long.as_str().to_owned());
        let mut finding = recognise(&lock);
        tidy(&mut finding, &Redaction::new(["/secrets/*1"]).unwrap());
        assert_eq!(finding.holders[0].label, "");
        assert_eq!(finding.waiting[0].label, "ü".repeat(LONGEST_LABEL / 2));
        assert_eq!(beginning(b"short"), b"short");
    }

    #[test]
    fn what_the_data_of_secrets_tell_is_removed() {
        let semaphore = Node::new("/limits/s").data("2").child(&"a".repeat(32), "holder");
        for (pattern, expected) in [
            ("/other", Details::Semaphore { limit: Some(2) }),
            ("/limits/s", Details::None),
            ("/limits/**", Details::None),
        ] {
            let mut finding = recognise(&semaphore);
            tidy(&mut finding, &Redaction::new([pattern]).unwrap());
            assert_eq!(finding.details, expected, "{pattern}");
        }
    }

    #[test]
    fn guesses_are_no_recipes() {
        assert!(!is_recipe(&recognise(&Node::new("/a"))));
        assert!(is_recipe(&recognise(&Node::new("/a").child("lock-0000000001", ""))));
    }
}
