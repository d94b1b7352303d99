//! Labels of locks and records of services that attack the browser, or its user.

use serde_json::{Value, json};
use zk_curator_discovery::{ServiceDiscovery, ServiceInstance};
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_web::WebOptions;
use zk_curator_web::paths::url_of;

use super::explorer;
use super::steps::{client, is_unharmed, open};
use super::way::{says, still};
use crate::in_browser;

const ATTACK: &str = "<img src=x onerror=window.hacked=1>";

#[test]
#[ignore = "slow: scripts/test-all"]
fn labels_are_text() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        let other = client(&explorer).await?;
        let path = format!("/locks/{ATTACK}");
        let label = format!("{ATTACK}\u{202e}gpj");
        let held = InterProcessMutex::new(&other, &path).label(label).acquire().await.unwrap();
        let contender = held.path().to_owned();
        for (name, address, css) in [
            ("recipes", "/recipes".to_owned(), ".recipes .holder"),
            ("why", format!("/why{}", url_of(&path)), ".contenders tbody th"),
            ("card", format!("/node{}", url_of(&path)), "#card .verdicts"),
            ("contender", format!("/node{}", url_of(&contender)), "#card .verdicts"),
        ] {
            open(browser, &explorer, &address).await?;
            says(browser, css, ATTACK).await?;
            is_unharmed(browser, name).await?;
            assert!(browser.texts_of("main img").await?.is_empty(), "{name}");
            let text = browser.text_of("main").await?;
            assert!(!text.contains('\u{202e}'), "{name}: {text}");
            browser.survey(&format!("hostile-{name}")).await?;
        }
        held.release().await.unwrap();
        Ok((explorer, other))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn long_labels_and_paths_do_not_widen_the_page() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        let other = client(&explorer).await?;
        let path = format!("/{}", "x".repeat(300));
        let lock = InterProcessMutex::new(&other, &path).label("y".repeat(5_000));
        let held = lock.acquire().await.unwrap();
        for page in ["recipes", "why", "node", "tree", "search", "changes", "data", "services"] {
            open(browser, &explorer, &format!("/{page}{path}")).await?;
            is_unharmed(browser, page).await?;
        }
        open(browser, &explorer, "/recipes").await?;
        says(browser, "#recipes", "yyyy").await?;
        is_unharmed(browser, "all recipes").await?;
        held.release().await.unwrap();
        Ok((explorer, other))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn records_of_services_are_text() {
    in_browser(async |browser| {
        // An update would replace the payload that is about to be opened.
        let explorer = explorer(still()).await?;
        let discovery = ServiceDiscovery::<Value>::new(explorer.zk(), "/services");
        let payload = json!({ (ATTACK): "\u{202e}gpj", "long": "x".repeat(300) });
        let instance = ServiceInstance::builder(format!("orders {ATTACK}")).id(ATTACK);
        let instance = instance.address("javascript:window.hacked=1").port(8040);
        let instance = instance.uri_spec("javascript:window.hacked={port}").payload(payload);
        let registered = discovery.register(instance.build().unwrap()).await.unwrap();
        explorer.zk().create(format!("/services/orders {ATTACK}/foreign")).data(ATTACK).await?;
        open(browser, &explorer, "/services/services").await?;
        says(browser, "#services", "1 up, 0 drained, 1 undecodable.").await?;
        browser.click("#services summary").await?;
        says(browser, "#services pre", "⟨U+202E⟩gpj").await?;
        is_unharmed(browser, "services").await?;
        assert!(browser.texts_of("main img").await?.is_empty());
        let targets = "
            const links = [...document.querySelectorAll('main a')];
            return links.every(link => link.origin === location.origin);";
        assert_eq!(browser.execute(targets, &[]).await?, true);
        browser.survey("hostile-services").await?;
        drop(registered);
        Ok(explorer)
    });
}
