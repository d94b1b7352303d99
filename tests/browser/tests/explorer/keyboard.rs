//! The explorer without a mouse.

use std::collections::BTreeSet;

use zk_curator_browser::key::{DOWN, ENTER, ESCAPE, LEFT, RIGHT, TAB, UP};
use zk_curator_browser::{Browser, BrowserError};

use super::way::{arrived, focused, open_ready, says, still, tab_to, until_texts};
use super::world::{HELD_SINCE, HOLDER, LOCK, SHOP, explore};
use crate::in_browser;

/// More than the elements of a page.
const ELEMENTS: usize = 300;
/// More than the rows of a table.
const ROWS: usize = 40;

#[test]
#[ignore = "slow: scripts/test-all"]
fn arrows_move_between_rows_and_nodes() {
    in_browser(async |browser| {
        let (explorer, world) = explore(still()).await?;
        open_ready(browser, &explorer, "/tree").await?;
        let names = browser.texts_of(".children tbody th bdi").await?;
        for (key, row) in [(DOWN, 0), (DOWN, 1), (DOWN, 2), (UP, 1)] {
            browser.keys(key).await?;
            assert_eq!(browser.focused_name().await?, names[row]);
        }
        open_ready(browser, &explorer, "/tree/locks").await?;
        browser.keys(DOWN).await?;
        browser.keys(RIGHT).await?;
        arrived(browser, "/tree/locks/orders").await?;
        browser.keys(LEFT).await?;
        arrived(browser, "/tree/locks").await?;
        browser.keys(DOWN).await?;
        browser.keys(ENTER).await?;
        arrived(browser, "/tree/locks/orders").await?;
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_slash_filters_the_children() {
    in_browser(async |browser| {
        let (explorer, world) = explore(still()).await?;
        open_ready(browser, &explorer, "/tree").await?;
        browser.keys("/").await?;
        focused(browser, "#filter").await?;
        browser.keys("lock").await?;
        browser.wait_for("#filter", "field => field.value === 'lock'").await?;
        browser.keys(ENTER).await?;
        let only = |names: &[String]| *names == ["locks"];
        until_texts(browser, ".children tbody th bdi", only).await?;
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn escape_leaves_a_field() {
    in_browser(async |browser| {
        let (explorer, world) = explore(still()).await?;
        open_ready(browser, &explorer, "/tree").await?;
        browser.keys("/").await?;
        focused(browser, "#filter").await?;
        // In a field, keys are characters.
        browser.keys("g?").await?;
        browser.wait_for("#filter", "field => field.value === 'g?'").await?;
        browser.keys(ESCAPE).await?;
        focused(browser, "body").await?;
        browser.keys("g").await?;
        focused(browser, "#goto").await?;
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_path_is_completed_and_opened() {
    in_browser(async |browser| {
        let (explorer, world) = explore(still()).await?;
        open_ready(browser, &explorer, "/tree/config").await?;
        browser.keys("g").await?;
        focused(browser, "#goto").await?;
        // The present path is selected, so that typing replaces it.
        browser.keys("/locks/o").await?;
        let completed = "option => option.value === '/locks/orders'";
        browser.wait_for("#completions option", completed).await?;
        browser.keys("rders").await?;
        browser.wait_for("#goto", "field => field.value === '/locks/orders'").await?;
        browser.keys(ENTER).await?;
        arrived(browser, "/tree/locks/orders").await?;
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_question_mark_shows_the_help() {
    in_browser(async |browser| {
        let (explorer, world) = explore(still()).await?;
        open_ready(browser, &explorer, "/tree").await?;
        browser.keys("?").await?;
        arrived(browser, "/help").await?;
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_first_tab_leads_past_the_navigation() {
    in_browser(async |browser| {
        let (explorer, world) = explore(still()).await?;
        for path in ["/tree", "/recipes", "/help"] {
            open_ready(browser, &explorer, path).await?;
            browser.keys(TAB).await?;
            assert_eq!(browser.focused_name().await?, "Skip to the content", "{path}");
            // It is visible while it has the focus.
            browser.wait_for(".skip", "e => e.getBoundingClientRect().top >= 0").await?;
            browser.keys(ENTER).await?;
            focused(browser, "#main").await?;
            browser.keys(TAB).await?;
            let in_content = "main => main !== document.activeElement \
                              && main.contains(document.activeElement)";
            browser.wait_for("#main", in_content).await?;
        }
        Ok((explorer, world))
    });
}

/// Describes the element with the focus; `null` at the end of the page. Remembers the elements.
const FOCUS: &str = "
const element = document.activeElement;
window.passed ??= new WeakSet();
if (element === null || element === document.body || window.passed.has(element)) return null;
window.passed.add(element);
const style = getComputedStyle(element);
const isShown = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
return [element.localName, isShown ? '' : element.outerHTML.slice(0, 200)];";

const UNFOLD: &str = "document.querySelectorAll('details').forEach(one => { one.open = true; })";

/// Passes all elements of a page with the tab key, and returns their kinds. Fails for an element
/// that does not show that it has the focus.
async fn pass(browser: &Browser) -> Result<BTreeSet<String>, BrowserError> {
    browser.execute(UNFOLD, &[]).await?;
    let mut kinds = BTreeSet::new();
    for _ in 0..ELEMENTS {
        browser.keys(TAB).await?;
        let element = browser.execute(FOCUS, &[]).await?;
        let (Some(kind), Some(hidden)) = (element[0].as_str(), element[1].as_str()) else { break };
        assert_eq!(hidden, "", "the focus is not visible");
        kinds.insert(kind.to_owned());
    }
    Ok(kinds)
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn every_element_shows_that_it_has_the_focus() {
    in_browser(async |browser| {
        let (explorer, world) = explore(still().write(true)).await?;
        let mut kinds = BTreeSet::new();
        let [node, why] = [format!("/node{SHOP}/routes.yaml"), format!("/why{LOCK}")];
        for path in ["/tree", &*node, &*why, "/search", "/data/config/shop"] {
            open_ready(browser, &explorer, path).await?;
            let of_page = pass(browser).await?;
            assert!(of_page.contains("a") && of_page.contains("button"), "{path}: {of_page:?}");
            kinds.extend(of_page);
        }
        for kind in ["a", "button", "input", "pre", "select", "summary", "textarea"] {
            assert!(kinds.contains(kind), "{kind}: {kinds:?}");
        }
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_holder_of_a_lock_is_found_without_a_mouse() {
    in_browser(async |browser| {
        let (explorer, world) = explore(still()).await?;
        browser.goto(&explorer.url("/")).await?;
        arrived(browser, "/tree").await?;
        tab_to(browser, "Recipes").await?;
        browser.keys(ENTER).await?;
        arrived(browser, "/recipes").await?;
        let mut row = String::new();
        for _ in 0..ROWS {
            browser.keys(DOWN).await?;
            row = browser.focused_name().await?;
            if row == LOCK {
                break;
            }
        }
        assert_eq!(row, LOCK);
        browser.keys(ENTER).await?;
        arrived(browser, &format!("/why{LOCK}")).await?;
        says(browser, "#why .verdicts li", &format!("held by {HOLDER} (")).await?;
        says(browser, "#holders-heading + table tbody tr", HELD_SINCE).await?;
        // The arrows also move between the contenders.
        browser.keys(DOWN).await?;
        assert_eq!(browser.focused_name().await?, HOLDER);
        Ok((explorer, world))
    });
}
