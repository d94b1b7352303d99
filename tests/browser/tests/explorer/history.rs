//! The past of nodes, from logs that tell it.

use std::fs;

use zk_curator::{Acl, Permissions};
use zk_curator_browser::key::ENTER;
use zk_curator_browser::{Browser, BrowserError, Explorer};
use zk_curator_real::{Journal, TempDir};
use zk_curator_testing::Probe;
use zk_curator_web::WebOptions;

use super::explorer;
use super::steps::{open, status, took_statuses};
use super::way::{arrived, open_ready, says, until_texts};
use crate::in_browser;

const SERVICE: i64 = 0x1000_0000_0000_0001;
const SCRIPT: i64 = 0x1000_0000_0000_0002;
/// An identity of the scheme `digest`.
const DEPLOY: &str = "deploy:rSpU/XyHmx21xPS/a6gMkHIbvkE=";

/// The node that the script has deleted, and the address of its history.
const CONFIG: &str = "/shop/config";
const HISTORY: &str = "/history/shop/config";
const FLAGS: &str = "/shop/config/flags";

/// The facts about the last change.
const WHO: &str = "#who dd";
/// The values of the change in the address.
const VALUES: &str = "section[aria-label='Values of a change']";
const DATA: &str = "section[aria-labelledby='data-heading']";
const CHILDREN: &str = "section[aria-labelledby='children-heading'] li a";
const UNDELETE: &str = "section[aria-labelledby='undelete-heading'] button[type='submit']";

/// A script deletes the configuration of the shop.
fn past() -> Journal {
    let mut journal = Journal::new(1);
    journal.open(SERVICE, 30_000);
    journal.create(SERVICE, "/shop", "");
    journal.create(SERVICE, CONFIG, r#"{"limit":5}"#);
    journal.create(SERVICE, "/shop/config/db", "10.0.0.9:5432");
    journal.own("digest", DEPLOY);
    journal.create(SERVICE, "/shop/pin", "s3cret");
    journal.grant(1, "world", "anyone");
    journal.create(SERVICE, FLAGS, "a=1\nb=2\n");
    journal.own("world", "anyone");
    assert_eq!(journal.set(SERVICE, FLAGS, "a=1\nb=3\n"), 0x7);
    journal.create(SERVICE, "/workers", "");
    journal.open(SCRIPT, 30_000);
    assert_eq!(journal.ephemeral(SCRIPT, "/workers/deploy", "ci-7:22"), 0xa);
    journal.delete(SCRIPT, FLAGS);
    journal.delete(SCRIPT, "/shop/config/db");
    assert_eq!(journal.delete(SCRIPT, CONFIG), 0xd);
    journal
}

/// Starts an explorer of the nodes that are left, with the logs of their past.
async fn explore() -> Result<(Explorer, TempDir), BrowserError> {
    let folder = TempDir::new("history")?;
    past().write(folder.path());
    let options = WebOptions::new().write(true).history([folder.path()]);
    let explorer = explorer(options).await?;
    for path in ["/shop", "/workers"] {
        explorer.zk().create(path).await?;
    }
    Ok((explorer, folder))
}

/// Waits until each part is in one of the elements.
async fn tells(browser: &Browser, css: &str, parts: &[&str]) -> Result<(), BrowserError> {
    let are_told =
        |texts: &[String]| parts.iter().all(|part| texts.iter().any(|text| text.contains(part)));
    until_texts(browser, css, are_told).await.map(drop)
}

/// Goes to the node as it was after a transaction, by the form.
async fn go_to_moment(browser: &Browser, zxid: &str) -> Result<(), BrowserError> {
    browser.click("#at").await?;
    browser.keys(zxid).await?;
    browser.keys(ENTER).await?;
    says(browser, "main .lead", &format!("after transaction {zxid}")).await
}

/// Confirms the plan, and waits for the nodes.
async fn apply(browser: &Browser) -> Result<(), BrowserError> {
    browser.click("#confirm").await?;
    browser.click("#plan button.danger").await?;
    let are_listed = |names: &[String]| *names == ["db", "flags"];
    until_texts(browser, ".children tbody th bdi", are_listed).await.map(drop)
}

/// Fails unless the nodes have their last data and rights.
fn are_back(probe: &Probe) {
    for (path, data) in
        [(CONFIG, r#"{"limit":5}"#), ("/shop/config/db", "10.0.0.9:5432"), (FLAGS, "a=1\nb=3\n")]
    {
        assert_eq!(probe.data(path).expect("the node is there"), data, "{path}");
    }
    assert_eq!(probe.acl(CONFIG), Acl::open_unsafe());
    let of_deploy = Acl::new(Permissions::ALL, "digest", DEPLOY);
    assert_eq!(probe.acl(FLAGS), [of_deploy, Acl::new(Permissions::READ, "world", "anyone")]);
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_missing_node_leads_to_its_author() {
    in_browser(async |browser| {
        let (explorer, folder) = explore().await?;
        open_ready(browser, &explorer, "/node/shop/config").await?;
        says(browser, "h1", "No such node").await?;
        browser.click("main a[href='/history/shop/config']").await?;
        arrived(browser, HISTORY).await?;
        let facts = [
            "a client deleted it",
            "session 0x1000000000000002, request 1",
            "2026-11-30T14:02:01.300Z",
            "it deleted 3 nodes in 0.2 s",
            "ci-7:22",
        ];
        tells(browser, WHO, &facts).await?;
        tells(browser, "#who .sides del", &["\"limit\": 5"]).await?;
        browser.survey("history").await?;
        browser.click("#who a[href='/history/workers/deploy']").await?;
        arrived(browser, "/history/workers/deploy").await?;
        says(browser, "#history tbody", "create").await?;
        took_statuses(browser, &[404]).await?;
        Ok((explorer, folder))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_missing_node_leads_to_its_parent() {
    in_browser(async |browser| {
        let (explorer, folder) = explore().await?;
        open_ready(browser, &explorer, "/tree/shop/config").await?;
        says(browser, "h1", "No such node").await?;
        browser.click("main a[href='/tree/shop']").await?;
        arrived(browser, "/tree/shop").await?;
        took_statuses(browser, &[404]).await?;
        Ok((explorer, folder))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn old_and_new_values_are_side_by_side() {
    in_browser(async |browser| {
        let (explorer, folder) = explore().await?;
        open_ready(browser, &explorer, "/history/shop/config/flags").await?;
        let operations = browser.texts_of("#history tbody td:nth-child(4)").await?;
        assert_eq!(operations, ["delete", "set-data", "create"]);
        browser.click("#history a[href='/history/shop/config/flags?change=0x7']").await?;
        says(browser, &format!("{VALUES} h2"), "set-data in 0x7").await?;
        for (css, line) in [("del", "b=2"), ("ins", "b=3")] {
            let lines = browser.texts_of(&format!("{VALUES} {css}")).await?;
            assert_eq!(lines.iter().map(|line| line.trim()).collect::<Vec<_>>(), [line]);
        }
        browser.survey("history-value").await?;
        Ok((explorer, folder))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_node_is_shown_as_it_was() {
    in_browser(async |browser| {
        let (explorer, folder) = explore().await?;
        open_ready(browser, &explorer, HISTORY).await?;
        go_to_moment(browser, "0xa").await?;
        says(browser, &format!("{DATA} .json"), "\"limit\"").await?;
        assert_eq!(browser.texts_of(CHILDREN).await?, ["db", "flags"]);
        browser.survey("history-moment").await?;
        browser.click("main a[href='/history/shop/config/flags?at=0xa']").await?;
        arrived(browser, "/history/shop/config/flags").await?;
        says(browser, &format!("{DATA} .value"), "b=3").await?;
        let rights = browser.texts_of(".acl tbody tr").await?;
        assert!(rights[0].contains("digest:deploy") && rights[0].contains("all"), "{rights:?}");
        assert!(rights[1].contains("world:anyone") && rights[1].contains("read"), "{rights:?}");
        open(browser, &explorer, &format!("{HISTORY}?at=0xd")).await?;
        says(browser, "main .empty", "The node did not exist.").await?;
        Ok((explorer, folder))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn deleted_nodes_come_back_by_a_plan() {
    in_browser(async |browser| {
        let (explorer, folder) = explore().await?;
        open_ready(browser, &explorer, HISTORY).await?;
        browser.click(UNDELETE).await?;
        arrived(browser, "/data/shop/config").await?;
        let sentence = "The file has 3 nodes. They would be restored at /shop/config.";
        says(browser, "#plan .lead", sentence).await?;
        let counts = browser.texts_of("#plan .counts .number").await?;
        // Created, replaced, as in the file, deleted, and left out because they are ephemeral.
        assert_eq!(counts[..5], ["3", "0", "0", "0", "0"]);
        let mut changes = browser.texts_of("#plan .changes th bdi").await?;
        changes.sort_unstable();
        assert_eq!(changes, [CONFIG, "/shop/config/db", FLAGS]);
        browser.survey("history-plan").await?;
        let server = explorer.server();
        assert!(!server.probe().exists(CONFIG), "a plan changes nothing");
        apply(browser).await?;
        arrived(browser, "/tree/shop/config").await?;
        are_back(&server.probe());
        Ok((explorer, folder))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_value_without_the_right_to_read_is_hidden() {
    in_browser(async |browser| {
        let (explorer, folder) = explore().await?;
        let why = "The data are hidden: the rights of that time did not let everyone read them.";
        let note = format!("{VALUES} .hint");
        for (query, css) in [("change=0x5", note), ("at=0x5", format!("{DATA} .note"))] {
            open(browser, &explorer, &format!("/history/shop/pin?{query}")).await?;
            says(browser, &css, why).await?;
            let page = browser.execute("return document.documentElement.outerHTML", &[]).await?;
            assert!(!page.to_string().contains("s3cret"), "{query}: {page}");
        }
        Ok((explorer, folder))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_damaged_file_is_named_in_words() {
    in_browser(async |browser| {
        let (explorer, folder) = explore().await?;
        let log = folder.path().join("version-2/log.1");
        let mut bytes = fs::read(&log).expect("the log");
        let place = bytes.windows(8).position(|part| part == b"10.0.0.9").expect("the address");
        bytes[place] ^= 1;
        fs::write(&log, bytes).expect("the log");
        open_ready(browser, &explorer, HISTORY).await?;
        says(browser, "h1", "A file of the history is damaged").await?;
        assert_eq!(status(browser).await?, 500);
        tells(browser, "main .lead", &["log.1 is damaged at byte ", "Add damaged=skip"]).await?;
        browser.survey("history-damaged").await?;
        open(browser, &explorer, &format!("{HISTORY}?damaged=skip")).await?;
        tells(browser, WHO, &["a client deleted it"]).await?;
        tells(browser, "main .note", &["of log.1 were left out"]).await?;
        took_statuses(browser, &[500]).await?;
        Ok((explorer, folder))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_past_works_without_script() {
    in_browser(async |browser| {
        let (explorer, folder) = explore().await?;
        browser.set_script(false).await?;
        open(browser, &explorer, "/node/shop/config").await?;
        says(browser, "h1", "No such node").await?;
        browser.click("main a[href='/history/shop/config']").await?;
        tells(browser, WHO, &["a client deleted it", "ci-7:22"]).await?;
        go_to_moment(browser, "0xa").await?;
        assert_eq!(browser.texts_of(CHILDREN).await?, ["db", "flags"]);
        open(browser, &explorer, HISTORY).await?;
        tells(browser, WHO, &["a client deleted it"]).await?;
        browser.click(UNDELETE).await?;
        says(browser, "#plan .lead", "The file has 3 nodes.").await?;
        apply(browser).await?;
        are_back(&explorer.server().probe());
        took_statuses(browser, &[404]).await?;
        Ok((explorer, folder))
    });
}
