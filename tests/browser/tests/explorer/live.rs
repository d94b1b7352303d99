//! Pages that update themselves, while other clients change what they show.

use serde_json::json;
use zk_curator::op::fan_out;
use zk_curator_browser::key::DOWN;
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_web::{WebOptions, router};

use super::explorer;
use super::steps::{client, is_away, is_live, open, open_live, took_statuses, typed};
use super::way::says;
use crate::in_browser;

const LOCK: &str = "/locks/orders";

/// Adds up the shifts of the layout that no key and no click has caused, those before too.
const OBSERVE: &str = "
window.shifted = 0;
new PerformanceObserver(list => {
    for (const shift of list.getEntries()) {
        if (!shift.hadRecentInput) window.shifted += shift.value;
    }
}).observe({type: 'layout-shift', buffered: true});
return PerformanceObserver.supportedEntryTypes.includes('layout-shift');";

/// Returns the sum after the next two frames, in which the observer has been called.
const SHIFTED: &str = "
return new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(
    () => setTimeout(() => resolve(window.shifted)))));";

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_tree_follows_other_clients() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        let other = client(&explorer).await?;
        other.create("/app").await?;
        open_live(browser, &explorer, "/tree/app").await?;
        says(browser, "#children", "The node has no children.").await?;
        other.create("/app/first").data("1").await?;
        says(browser, "#children tbody th", "first").await?;
        browser.wait_for(".tabs .count", "e => e.textContent === '1'").await?;
        other.set_data("/app/first", "22").await?;
        browser.wait_for("#children tbody .version", "e => e.textContent === '1'").await?;
        other.create("/app/first/child").await?;
        browser.wait_for("#children tbody .twig", "e => e.textContent === '▸'").await?;
        other.delete("/app/first/child").await?;
        browser.wait_for("#children tbody .twig", "e => e.textContent === '·'").await?;
        other.delete("/app/first").await?;
        says(browser, "#children", "The node has no children.").await?;
        Ok((explorer, other))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_node_follows_other_clients() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        let other = client(&explorer).await?;
        other.create("/app").data("one").await?;
        open_live(browser, &explorer, "/node/app").await?;
        says(browser, "#data", "one").await?;
        other.set_data("/app", "two").await?;
        says(browser, "#data", "two").await?;
        says(browser, "#facts", "version 1").await?;
        other.create("/app/child").await?;
        says(browser, "#facts", "The only child").await?;
        other.delete("/app/child").await?;
        says(browser, "#facts", "The node has no children.").await?;
        other.delete("/app").await?;
        browser.wait_for("#live-text", "e => e.textContent === 'deleted'").await?;
        // The last value can still be read.
        says(browser, "#data", "two").await?;
        other.create("/app").data("three").await?;
        says(browser, "#data", "three").await?;
        is_live(browser).await?;
        took_statuses(browser, &[404]).await?;
        Ok((explorer, other))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn an_update_keeps_what_a_user_types() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        let other = client(&explorer).await?;
        other.create("/app").data("one").await?;
        open_live(browser, &explorer, "/node/app").await?;
        browser.click("details:has(#edit-data) > summary").await?;
        browser.click("#edit-data").await?;
        browser.keys("mine ").await?;
        let before = typed(browser, "#edit-data").await?;
        assert!(before.contains("mine "), "{before}");
        other.set_data("/app", "two").await?;
        says(browser, "#data", "two").await?;
        assert_eq!(typed(browser, "#edit-data").await?, before);
        assert_eq!(browser.focused_name().await?, "New data");
        browser.keys("and more").await?;
        let after = typed(browser, "#edit-data").await?;
        assert_eq!(after.len(), before.len() + "and more".len(), "{after}");
        // The page asks before it is left with a text that was not sent.
        browser.execute("document.querySelector('#edit-data').form.reset()", &[]).await?;
        Ok((explorer, other))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn an_update_keeps_filter_focus_and_scroll_position() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        let other = client(&explorer).await?;
        other.create("/app").await?;
        let creates = (0..150).map(|n| other.create(format!("/app/child-{n:03}")).data("x"));
        for created in fan_out(32, creates).await {
            created?;
        }
        open_live(browser, &explorer, "/tree/app").await?;
        let updated = async |version: &'static str| {
            other.set_data("/app/child-000", version).await?;
            let has_version = format!("e => e.textContent === '{version}'");
            browser.wait_for("#children tbody .version", &has_version).await
        };
        browser.click("#filter").await?;
        browser.keys("child-1").await?;
        updated("1").await?;
        assert_eq!(typed(browser, "#filter").await?, "child-1");
        assert_eq!(browser.focused_name().await?, "Filter");
        // A row with the focus, far from the part of the page that is visible.
        browser.execute("document.activeElement.blur()", &[]).await?;
        browser.keys(DOWN).await?;
        browser.execute("scrollTo(0, 900)", &[]).await?;
        let place = "return [document.activeElement.getAttribute('href'), scrollY]";
        let before = browser.execute(place, &[]).await?;
        assert_eq!(before, json!(["/tree/app/child-000", 900]));
        updated("2").await?;
        assert_eq!(browser.execute(place, &[]).await?, before);
        Ok((explorer, other))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn updates_do_not_move_the_page() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        let other = client(&explorer).await?;
        other.create("/app/first").creating_parents().data("1").await?;
        open(browser, &explorer, "/tree/app").await?;
        assert_eq!(browser.execute(OBSERVE, &[]).await?, json!(true));
        is_live(browser).await?;
        for version in 1..=5 {
            other.set_data("/app/first", "x".repeat(1 << version)).await?;
            let has_version = format!("e => e.textContent === '{version}'");
            browser.wait_for("#children tbody .version", &has_version).await?;
        }
        other.create("/app/second").await?;
        says(browser, "#children tbody tr:nth-child(2) th", "second").await?;
        let shifted = browser.execute(SHIFTED, &[]).await?;
        assert!(shifted.as_f64().is_some_and(|shifted| shifted < 0.1), "{shifted}");
        // A shift would be seen.
        let shift = "
            const above = document.createElement('div');
            above.style.height = '500px';
            document.body.prepend(above);";
        browser.execute(shift, &[]).await?;
        browser.wait_for("body", "() => window.shifted > 0.1").await?;
        Ok((explorer, other))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_page_of_a_lock_follows_its_contenders() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        let (ann, ben) = (client(&explorer).await?, client(&explorer).await?);
        let lock = InterProcessMutex::new(&ann, LOCK).label("ann");
        let held = lock.acquire().await.unwrap();
        open_live(browser, &explorer, "/why/locks/orders").await?;
        says(browser, "#why", "1 holder, 0 waiting").await?;
        says(browser, "#why", "held by ann").await?;
        let lock = InterProcessMutex::new(&ben, LOCK).label("ben");
        let waiter = tokio::spawn(async move { lock.acquire().await });
        says(browser, "#why", "1 holder, 1 waiting").await?;
        held.release().await.unwrap();
        says(browser, "#why", "held by ben").await?;
        says(browser, "#why", "1 holder, 0 waiting").await?;
        waiter.await.unwrap().unwrap().release().await.unwrap();
        browser.wait_for("#why", "e => !e.innerText.includes('ben')").await?;
        Ok((explorer, ann, ben))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_change_is_shown_with_both_values() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        let other = client(&explorer).await?;
        other.create("/app").data("old value").await?;
        open_live(browser, &explorer, "/changes/app").await?;
        says(browser, "#changes", "Nothing has changed yet.").await?;
        other.set_data("/app", "new value").await?;
        says(browser, ".change ins", "new value").await?;
        says(browser, ".change del", "old value").await?;
        other.create("/app/child").data("x").await?;
        says(browser, ".record", "/app/child").await?;
        says(browser, "#changes > .summary", "1 created, 1 changed and 0 deleted").await?;
        other.delete("/app/child").await?;
        says(browser, "#changes > .summary", "1 created, 1 changed and 1 deleted").await?;
        Ok((explorer, other))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_page_reconnects_to_an_explorer_that_was_restarted() {
    in_browser(async |browser| {
        let mut explorer = explorer(WebOptions::new()).await?;
        let other = client(&explorer).await?;
        other.create("/app").await?;
        open_live(browser, &explorer, "/tree/app").await?;
        explorer.site().stop().await;
        is_away(browser, "no connection for").await?;
        other.create("/app/new").await?;
        let restarted = router(explorer.zk(), WebOptions::new());
        explorer.site().restart(restarted).await?;
        is_live(browser).await?;
        browser.wait_for("#live-age", "e => e.textContent === ''").await?;
        says(browser, "#children tbody th", "new").await?;
        // The end of the connection is an error of the console.
        let errors = browser.console_errors().await?;
        assert!(errors.iter().all(|error| error.message().contains("/app")), "{errors:?}");
        Ok((explorer, other))
    });
}
