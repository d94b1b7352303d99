//! Recipes and their contenders in words.

use std::fmt;

use zk_curator_ops::data::line;
use zk_curator_ops::holders::{SessionFacts, kind_words};
use zk_curator_ops::node::hex;
use zk_curator_recipes::inspect::{Contender, Details, Finding, RecipeKind, Role};

use super::count::grouped;
use super::group::RecipeGroup;
use super::text::visible;
use super::time::{When, duration, when};
use crate::paths::name_of;

/// The maximum number of characters of a label.
const LONGEST_LABEL: usize = 80;
/// The maximum number of characters of a sentence.
const LONGEST_SENTENCE: usize = 600;

/// A contender as a page shows it.
#[derive(Debug)]
pub(crate) struct ContenderView {
    /// The place among those of its table, from 1.
    pub(crate) place: usize,
    pub(crate) path: String,
    /// The name relative to the recipe.
    pub(crate) name: String,
    pub(crate) label: String,
    pub(crate) role: String,
    pub(crate) session: String,
    /// The state of the connection.
    pub(crate) state: String,
    /// The address of the client and its server; empty if they are not known.
    pub(crate) client: String,
    pub(crate) since: When,
    /// The fencing token; empty if the node was not read.
    pub(crate) token: String,
    /// The path of the node that it waits for; empty without one.
    pub(crate) waits_on: String,
    pub(crate) waits_on_name: String,
    pub(crate) is_persistent: bool,
    pub(crate) is_revoked: bool,
}

/// Returns contenders as a page shows them.
pub(crate) fn contender_views<'a>(
    contenders: impl Iterator<Item = &'a Contender>,
    facts: &SessionFacts,
    now: i64,
) -> Vec<ContenderView> {
    contenders.enumerate().map(|(place, one)| view(place + 1, one, facts, now)).collect()
}

fn view(place: usize, contender: &Contender, facts: &SessionFacts, now: i64) -> ContenderView {
    let words = facts.describe(contender.session);
    let state = match (contender.session, contender.is_persistent, contender.stat) {
        (None, _, None) => "unknown: the node was not read".to_owned(),
        (None, true, _) => "persistent: no session will ever remove it".to_owned(),
        _ => words.state,
    };
    let created = contender.created_ms();
    ContenderView {
        place,
        path: contender.path.clone(),
        name: visible(&contender.name).into_owned(),
        label: label_words(contender),
        role: contender.role.to_string(),
        session: contender.session.map_or_else(|| "none".to_owned(), |id| id.to_string()),
        state: visible(&state).into_owned(),
        client: visible(&words.client).into_owned(),
        since: created.map_or_else(unknown_time, |created| when(created, now)),
        token: contender.token().map(|token| hex(token.get())).unwrap_or_default(),
        waits_on_name: contender
            .waits_on
            .as_deref()
            .map(|path| visible(name_of(path)).into_owned())
            .unwrap_or_default(),
        waits_on: contender.waits_on.clone().unwrap_or_default(),
        is_persistent: contender.is_persistent,
        is_revoked: contender.is_revoked,
    }
}

fn unknown_time() -> When {
    let unknown = || "unknown".to_owned();
    When { ago: unknown(), absolute: unknown(), rfc3339: String::new() }
}

/// Returns the label of a contender.
fn label_words(contender: &Contender) -> String {
    match contender.label.as_ref() {
        [] => "no label".to_owned(),
        b"__REVOKE__" | b"unlock" => "the request to release it has replaced its label".to_owned(),
        label => visible(&line(label, LONGEST_LABEL)).into_owned(),
    }
}

/// Returns a sentence for a page: without invisible characters, and not longer than a paragraph.
pub(crate) fn sentence(text: &str) -> String {
    let mut shown = visible(text).into_owned();
    if let Some((end, _)) = shown.char_indices().nth(LONGEST_SENTENCE) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

/// Returns what a recipe is, and how many hold it and wait.
pub(crate) fn summary(finding: &Finding) -> String {
    if finding.kind == RecipeKind::Unknown {
        return "No recipe is recognised at this node.".to_owned();
    }
    let holders = match finding.holders.len() {
        1 => "1 holder".to_owned(),
        many => format!("{} holders", grouped(many)),
    };
    let kind = capital(&kind_words(finding));
    let details = details_words(&finding.details);
    let details = if details.is_empty() { details } else { format!(" {details}") };
    format!("{kind}: {holders}, {} waiting.{details}", grouped(finding.waiting.len()))
}

/// Returns what a node is in a recipe, such as `Contender 3 of 7 of the mutex (Curator) at /a: it
/// waits.`
pub(crate) fn place_sentence(finding: &Finding, path: &str) -> String {
    let kind = kind_words(finding);
    let at = visible(&finding.path);
    if finding.path == path {
        return if is_known(finding) { summary(finding) } else { format!("{}.", capital(&kind)) };
    }
    let mut all = finding.holders.iter().chain(&finding.waiting).enumerate();
    let total = finding.holders.len() + finding.waiting.len();
    match all.find(|(_, one)| one.path == path).filter(|_| is_known(finding)) {
        Some((place, one)) => {
            let stands = match one.role {
                Role::Member | Role::Site => "",
                _ if place < finding.holders.len() => ": it holds",
                _ => ": it waits",
            };
            let what = noun(one.role);
            let (place, total) = (grouped(place + 1), grouped(total));
            format!("{what} {place} of {total} of the {kind} at {at}{stands}.")
        }
        None => format!("A node of the {kind} at {at}."),
    }
}

/// Returns `true` if all contenders of a finding are known. Those of locks and elections are known
/// by the names of the children, also if these were not all read.
pub(crate) fn is_known(finding: &Finding) -> bool {
    let group = RecipeGroup::of(finding.kind);
    !finding.is_partial || matches!(group, RecipeGroup::Lock | RecipeGroup::Election)
}

const fn noun(role: Role) -> &'static str {
    match role {
        Role::Member => "Member",
        Role::Item => "Item",
        Role::Job => "Job",
        Role::Claim => "Claim",
        Role::Candidate => "Candidate",
        Role::Site => "Site",
        _ => "Contender",
    }
}

/// Returns a sentence about the facts that only recipes of one kind have; empty without one.
fn details_words(details: &Details) -> String {
    match details {
        Details::Semaphore { limit: Some(limit) } => {
            format!("At most {} leases.", grouped(limit))
        }
        Details::Semaphore { limit: None } => {
            "The nodes do not tell the maximum number of leases.".to_owned()
        }
        Details::DoubleBarrier { has_begun: true, gone } if gone.is_empty() => {
            "A round has begun.".to_owned()
        }
        Details::DoubleBarrier { has_begun: true, gone } => {
            format!("A round has begun, and {} of its members are gone.", grouped(gone.len()))
        }
        Details::DoubleBarrier { has_begun: false, .. } => "No round has begun.".to_owned(),
        Details::Queue { items, claimed, .. } => {
            format!("{} items, {} of them claimed.", grouped(items), grouped(claimed))
        }
        Details::Jobs { counts } => {
            let words: Vec<_> = counts
                .iter()
                .map(|(phase, count)| format!("{} {}", grouped(count), lower(phase)))
                .collect();
            format!("Jobs: {}.", words.join(", "))
        }
        Details::TwoPhaseCommit { outcome: Some(outcome), .. } => {
            format!("Decided: {}.", lower(outcome))
        }
        Details::TwoPhaseCommit { outcome: None, deadline, .. } => {
            format!("Not decided. Votes are awaited for {}.", duration(*deadline))
        }
        Details::ConfigStore { keys, .. } => format!("{} keys.", grouped(keys.len())),
        Details::Migrations { applied } => {
            format!("{} migrations are applied.", grouped(applied))
        }
        _ => String::new(),
    }
}

/// Returns the name of a variant in lower case.
fn lower(variant: &impl fmt::Debug) -> String {
    format!("{variant:?}").to_lowercase()
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use zk_curator_ops::ensemble::sessions::EnsembleSessions;
    use zk_curator_recipes::inspect::{Node, recognise};

    use super::*;

    fn lock() -> Finding {
        let lock =
            Node::new("/a").child("lock-0000000001", "ann\u{202e}").child("lock-0000000002", "");
        recognise(&lock)
    }

    #[test]
    fn a_node_has_a_place_in_its_recipe() {
        let lock = lock();
        assert_eq!(place_sentence(&lock, "/a"), "Mutex (Curator): 1 holder, 1 waiting.");
        assert_eq!(
            place_sentence(&lock, "/a/lock-0000000002"),
            "Contender 2 of 2 of the mutex (Curator) at /a: it waits."
        );
        assert_eq!(place_sentence(&lock, "/a/x"), "A node of the mutex (Curator) at /a.");
    }

    #[test]
    fn contenders_are_text() {
        let facts = SessionFacts::of(EnsembleSessions::default(), None);
        let lock = lock();
        let views = contender_views(lock.holders.iter().chain(&lock.waiting), &facts, 0);
        assert!(!views[0].label.contains('\u{202e}'), "{}", views[0].label);
        assert_eq!(
            (&*views[1].label, &*views[1].state),
            ("no label", "unknown: the node was not read")
        );
        assert_eq!((views[1].place, &*views[1].waits_on_name), (2, "lock-0000000001"));
    }

    #[test]
    fn sentences_are_cut() {
        assert_eq!(sentence("a\u{200b}"), "a⟨U+200B⟩");
        assert_eq!(sentence(&"ü".repeat(1_000)).chars().count(), LONGEST_SENTENCE + 1);
    }
}
