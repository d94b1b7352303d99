//! The recipe card on the page of a node.

use zk_curator_recipes::inspect::{Contender, Finding};

use super::head::{View, address};
use crate::paths::name_of;
use crate::reads::{CardRead, KnownSessions};
use crate::show::{grouped, is_known, place_sentence, sentence, visible};
use crate::state::Web;

/// The maximum number of sentences and of holders on a card. The page of the recipe has more.
const MOST: usize = 4;

/// The place of a node in a recipe.
pub(super) struct RecipeCard {
    pub(super) sentence: String,
    /// The same sentences as on the page of the recipe.
    pub(super) verdicts: Vec<String>,
    pub(super) why_url: String,
    pub(super) links: Vec<CardLink>,
    /// The age of the facts about sessions.
    pub(super) age: String,
}

/// A node that belongs to the recipe.
pub(super) struct CardLink {
    pub(super) title: &'static str,
    pub(super) url: String,
    pub(super) text: String,
    /// The client; empty for a node that is not a contender.
    pub(super) client: String,
}

/// Returns the card of a node, or a sentence why there is none; both are empty for most nodes.
pub(super) fn card_of(
    web: &Web,
    path: &str,
    read: &CardRead,
    known: Option<&KnownSessions>,
) -> (Option<RecipeCard>, String) {
    match read {
        CardRead::None => (None, String::new()),
        CardRead::Found(finding) => {
            (known.map(|known| card(web, path, finding, known)), String::new())
        }
        CardRead::Unreadable(kind) => {
            (None, format!("A recipe at this node cannot be recognised: {kind}."))
        }
    }
}

/// Returns the node whose changes the card shows, if it is another one.
pub(super) fn followed<'a>(path: &str, read: &'a CardRead) -> Option<&'a str> {
    match read {
        CardRead::Found(finding) if finding.path != path => Some(&finding.path),
        _ => None,
    }
}

fn card(web: &Web, path: &str, finding: &Finding, known: &KnownSessions) -> RecipeCard {
    let mut verdicts = Vec::new();
    if is_known(finding) {
        let all = known.facts.verdicts(finding);
        let more = all.len().saturating_sub(MOST);
        verdicts.extend(all.iter().take(MOST).map(|verdict| sentence(verdict)));
        if more > 0 {
            verdicts.push(format!("and {} more", grouped(more)));
        }
    }
    RecipeCard {
        sentence: place_sentence(finding, path),
        verdicts,
        why_url: address(web, View::Why, &finding.path),
        links: links(web, path, finding, known),
        age: known.words(),
    }
}

fn links(web: &Web, path: &str, finding: &Finding, known: &KnownSessions) -> Vec<CardLink> {
    let mut links = Vec::new();
    if finding.path != path {
        links.push(CardLink {
            title: "Recipe",
            url: address(web, View::Node, &finding.path),
            text: visible(&finding.path).into_owned(),
            client: String::new(),
        });
    }
    let link = |title, contender: &Contender| CardLink {
        title,
        url: address(web, View::Node, &contender.path),
        text: visible(name_of(&contender.path)).into_owned(),
        client: client_of(contender, known),
    };
    let holders = finding.holders.iter().filter(|holder| holder.path != path);
    links.extend(holders.take(MOST).map(|holder| link("Holder", holder)));
    let mut all = finding.holders.iter().chain(&finding.waiting);
    let waits_on = all.clone().find(|one| one.path == path).and_then(|one| one.waits_on.as_ref());
    let before = waits_on.and_then(|waits_on| all.find(|one| one.path == *waits_on));
    links.extend(before.map(|before| link("Waits for", before)));
    links
}

/// Returns the client of a contender: its address if it is known, and otherwise its session.
fn client_of(contender: &Contender, known: &KnownSessions) -> String {
    let client = known.facts.describe(contender.session).client;
    match contender.session {
        _ if !client.is_empty() => visible(&client).into_owned(),
        Some(session) => format!("session {session}"),
        None if contender.is_persistent => "persistent, no session".to_owned(),
        None => "no session is known".to_owned(),
    }
}
