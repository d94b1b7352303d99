//! A backup as a download, and its restore by a plan.

use zk_curator_browser::{Browser, BrowserError, Explorer};
use zk_curator_real::TempDir;
use zk_curator_testing::wait;
use zk_curator_web::WebOptions;

use super::way::{arrived, open_ready, says, until_texts};
use super::world::{SHOP, explore};
use crate::in_browser;

/// The name of a backup that is of one moment.
const FILE: &str = "zookeeper-backup.zkb";

/// Downloads a backup of the shop into a folder.
async fn download(
    browser: &Browser,
    explorer: &Explorer,
    folder: &TempDir,
) -> Result<(), BrowserError> {
    browser.download_to(folder.path()).await?;
    open_ready(browser, explorer, &format!("/data{SHOP}")).await?;
    browser.click("a.action[download]").await?;
    let file = folder.path().join(FILE);
    wait::until(async || file.is_file()).await;
    Ok(())
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_backup_brings_nodes_back_by_a_plan() {
    in_browser(async |browser| {
        let (explorer, world) = explore(WebOptions::new().write(true)).await?;
        let folder = TempDir::new("downloads")?;
        download(browser, &explorer, &folder).await?;

        let (zk, server) = (explorer.zk(), explorer.server());
        let [routes, logo] = ["routes.yaml", "logo.png"].map(|name| format!("{SHOP}/{name}"));
        let before = server.probe();
        zk.delete(&routes).await?;
        zk.set_data(&logo, "no picture").await?;

        browser.click("#choice-existing option[value='replace']").await?;
        browser.attach("#restore-file", &folder.path().join(FILE)).await?;
        browser.click("section[aria-labelledby='restore-heading'] button[type='submit']").await?;
        says(browser, "#plan .lead", "The file has 5 nodes. They would be restored at").await?;
        let counts = browser.texts_of("#plan .counts .number").await?;
        // Created, replaced, as in the file, deleted, and left out because they are ephemeral.
        assert_eq!(counts[..5], ["1", "1", "3", "0", "0"]);
        let changes = browser.texts_of("#plan .changes th bdi").await?;
        assert_eq!(changes.len(), 2, "{changes:?}");
        assert!(changes.contains(&routes) && changes.contains(&logo), "{changes:?}");
        browser.survey("plan").await?;
        assert!(!server.probe().exists(&routes), "a plan changes nothing");

        browser.click("#confirm").await?;
        browser.click("#plan button.danger").await?;
        arrived(browser, &format!("/tree{SHOP}")).await?;
        says(browser, "#done", "Restored: 2 nodes changed.").await?;
        let is_back = |names: &[String]| names.iter().any(|name| name == "routes.yaml");
        until_texts(browser, ".children tbody th bdi", is_back).await?;
        let after = server.probe();
        for path in [&routes, &logo] {
            assert!(before.data(path).is_some(), "{path}");
            assert_eq!(after.data(path), before.data(path), "{path}");
        }
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_backup_is_compared_with_the_present_nodes() {
    in_browser(async |browser| {
        let (explorer, world) = explore(WebOptions::new()).await?;
        let folder = TempDir::new("downloads")?;
        download(browser, &explorer, &folder).await?;
        explorer.zk().create(format!("{SHOP}/new")).await?;
        browser.attach("#compare-file", &folder.path().join(FILE)).await?;
        browser.click("form[enctype='multipart/form-data'] button[type='submit']").await?;
        says(browser, "#diff .summary", "1 difference between /config/shop and the file").await?;
        assert_eq!(browser.texts_of("#diff tbody th").await?, ["/config/shop/new"]);
        Ok((explorer, world))
    });
}
