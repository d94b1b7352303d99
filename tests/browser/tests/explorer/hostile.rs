//! Names and data that attack the browser, or its user. Each attack sets `window.hacked`.

use bytes::Bytes;
use serde_json::json;
use zk_curator::compression::{CompressionProvider, GzipCompressionProvider};
use zk_curator_web::paths::url_of;
use zk_curator_web::{Limits, WebOptions};

use super::explorer;
use super::steps::{is_unharmed, open, open_live, replace_text};
use super::way::says;
use crate::in_browser;

/// Names that ZooKeeper accepts: it refuses slashes, control characters, and characters above
/// U+FFEF.
fn names() -> Vec<String> {
    let long = "x".repeat(300);
    let words = "several words ".repeat(30) + "and one";
    let mut names = vec![long, words];
    names.extend(
        [
            "<img src=x onerror=window.hacked=1>",
            "\"><script>window.hacked=1<script>",
            "'\" onmouseover='window.hacked=1' x=\"",
            "javascript:window.hacked=1",
            "{{window.hacked=1}}",
            "%2f..%2f..",
            "%00%0a%zz",
            "..;",
            "\\..\\..",
            "a;b=c?d#e&f+g",
            " spaces at the ends ",
            "line\u{2028}separator",
            "\u{202e}gpj.exe",
            "a\u{200b}b",
            "שלום עולם",
            "\u{2620}\u{fe0f}",
        ]
        .map(str::to_owned),
    );
    names
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn every_name_leads_to_its_node() {
    in_browser(async |browser| {
        // An update would replace a link that is about to be clicked.
        let limits = Limits::new().streams(0, 0).requests(10_000, 10_000);
        let explorer = explorer(WebOptions::new().write(true).limits(limits)).await?;
        explorer.zk().create("/hostile").await?;
        for (place, name) in names().iter().enumerate() {
            let data = format!("the data of {place}.");
            explorer.zk().create(format!("/hostile/{name}")).data(data).await?;
        }
        for (place, name) in names().iter().enumerate() {
            let path = format!("/hostile/{name}");
            let is_path = format!("e => e.dataset.path === {}", json!(path));
            open(browser, &explorer, "/tree/hostile").await?;
            browser.click(&format!("#children a[href=\"/tree{}\"]", url_of(&path))).await?;
            browser.wait_for("body", &is_path).await?;
            says(browser, "#children", "The node has no children.").await?;
            is_unharmed(browser, name).await?;
            browser.click(".tabs li:nth-child(2) a").await?;
            says(browser, "#data", &format!("the data of {place}.")).await?;
            browser.wait_for("body", &is_path).await?;
            is_unharmed(browser, name).await?;
        }
        open(browser, &explorer, "/tree/hostile").await?;
        is_unharmed(browser, "the list of all").await?;
        Ok(explorer)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn hostile_names_can_be_told_apart() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        explorer.zk().create("/hostile").await?;
        for name in names() {
            explorer.zk().create(format!("/hostile/{name}")).await?;
            // The paths that this browser has opened are listed, too.
            let path = format!("/hostile/{name}");
            open(browser, &explorer, &format!("/node{}", url_of(&path))).await?;
            is_unharmed(browser, &name).await?;
        }
        open_live(browser, &explorer, "/tree/hostile").await?;
        says(browser, "#children", "⟨U+202E⟩gpj.exe").await?;
        says(browser, "#children", "a⟨U+200B⟩b").await?;
        says(browser, "#children", "⟨U+0020⟩spaces at the ends⟨U+0020⟩").await?;
        says(browser, "#children", "<img src=x onerror=window.hacked=1>").await?;
        says(browser, "#recent", "☠⟨U+FE0F⟩").await?;
        browser.survey("hostile-tree").await?;
        // Names that the browser completes.
        replace_text(browser, "#goto", "/hostile/<").await?;
        let is_completed = "e => e.value === '/hostile/<img src=x onerror=window.hacked=1>'";
        browser.wait_for("#completions option", is_completed).await?;
        is_unharmed(browser, "the completion").await?;
        Ok(explorer)
    });
}

/// Data, and a text that their page shows.
fn values() -> Vec<(&'static str, Bytes, &'static str)> {
    let gzip = |data: &[u8]| {
        let compressed = GzipCompressionProvider::new().compress("/", data);
        compressed.expect("data in memory are compressed")
    };
    let html = "</pre></textarea><script>window.hacked=1</script><img src=x \
                onerror=window.hacked=1><!--";
    let json = r#"{"</summary><img src=x onerror=window.hacked=1>": ["<b>", {"x": "</div>"}]}"#;
    let deep = format!("{}1{}", "[".repeat(1_000), "]".repeat(1_000));
    vec![
        ("html", html.into(), "<script>window.hacked=1</script>"),
        ("json", json.into(), "</summary><img src=x onerror=window.hacked=1>"),
        ("deep", deep.into(), "[[[[[[[["),
        ("nul", Bytes::from_static(b"<b>\0\x01\x1b[31m"), "3c 62 3e 00 01 1b"),
        ("invalid", Bytes::from_static(b"<b>\xc3\x28\xff"), "3c 62 3e c3 28 ff"),
        ("direction", "\u{202e}gpj.exe\u{2066} שלום\n".into(), "⟨U+202E⟩gpj.exe⟨U+2066⟩ שלום"),
        ("emoji", "👩‍👩‍👧 \u{1f3f4}".into(), "⟨U+200D⟩"),
        ("large", vec![b'<'; 1_000_000].into(), "Only the first 64.0 KiB of 976.5 KiB"),
        ("line", "x".repeat(60_000).into(), "xxxxxxxx"),
        ("bomb", gzip(&vec![b'0'; 2 << 20]), "more than 64.0 KiB opened"),
        ("gzip", gzip(html.as_bytes()), "<script>window.hacked=1</script>"),
        ("false-gzip", Bytes::from_static(b"\x1f\x8b\x08<img src=x>"), "1f 8b 08 3c 69 6d 67"),
    ]
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn data_are_text() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        for (name, data, expected) in values() {
            explorer.zk().create(format!("/{name}")).data(data).await?;
            open(browser, &explorer, &format!("/node/{name}")).await?;
            says(browser, "#data", expected).await?;
            is_unharmed(browser, name).await?;
            let elements = browser.texts_of("#data script, #data img, #data b").await?;
            assert!(elements.is_empty(), "{name}: {elements:?}");
        }
        Ok(explorer)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn pages_of_hostile_data_are_accessible() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        for (name, data, expected) in values() {
            if matches!(name, "json" | "nul" | "direction" | "line") {
                explorer.zk().create(format!("/{name}")).data(data).await?;
                open(browser, &explorer, &format!("/node/{name}")).await?;
                says(browser, "#data", expected).await?;
                browser.survey(&format!("hostile-{name}")).await?;
            }
        }
        Ok(explorer)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn results_of_a_search_are_text() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        let name = "<b onmouseover=window.hacked=1>";
        let line = "<img src=x onerror=window.hacked=1>";
        let data = format!("{line} needle\n\u{202e}needle");
        explorer.zk().create(format!("/{name}")).data(data).await?;
        let seen = async |what: &str| {
            says(browser, "#hits td.line", &format!("{line} needle")).await?;
            is_unharmed(browser, what).await?;
            let elements = browser.texts_of("#results img, #results b").await?;
            assert!(elements.is_empty(), "{what}: {elements:?}");
            browser.click("#hits a").await?;
            let is_path = format!("e => e.dataset.path === {}", json!(format!("/{name}")));
            browser.wait_for("body", &is_path).await
        };
        // The page that the server makes, and the rows that the script adds.
        open(browser, &explorer, "/search?for=needle&in=text").await?;
        says(browser, "#search-end", "1 node matches.").await?;
        browser.survey("hostile-search").await?;
        seen("the page").await?;
        open(browser, &explorer, "/search?in=text").await?;
        browser.click("#search-for").await?;
        browser.keys("needle").await?;
        browser.click("#search button[type=submit]").await?;
        says(browser, "#search-state", "1 node matches.").await?;
        seen("the script").await?;
        Ok(explorer)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn changes_are_text() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        let (old, new) = ("<img src=x onerror=window.hacked=1>", "\u{202e}<b>new</b>\n\0");
        explorer.zk().create("/hostile").data(old).await?;
        open_live(browser, &explorer, "/changes/hostile").await?;
        says(browser, "#changes", "Nothing has changed yet.").await?;
        explorer.zk().set_data("/hostile", "\u{202e}<b>new</b>").await?;
        says(browser, ".change del", old).await?;
        says(browser, ".change ins", "⟨U+202E⟩<b>new</b>").await?;
        explorer.zk().create("/hostile/<b onmouseover=window.hacked=1>").data(new).await?;
        says(browser, ".record", "/hostile/<b onmouseover=window.hacked=1>").await?;
        let long = "x".repeat(300);
        explorer.zk().create(format!("/hostile/{long}")).data(long.clone()).await?;
        says(browser, ".record", &long).await?;
        is_unharmed(browser, "changes").await?;
        let elements = browser.texts_of("#changes img, #changes b").await?;
        assert!(elements.is_empty(), "{elements:?}");
        browser.survey("hostile-changes").await?;
        Ok(explorer)
    });
}
