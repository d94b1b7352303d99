//! Files that a form sends, and files that a person downloads.

use std::fs;

use axum::http::header::CONTENT_DISPOSITION;
use axum::routing::get;
use zk_curator_browser::Site;
use zk_curator_real::TempDir;
use zk_curator_testing::wait;

use super::pages;
use crate::in_browser;

#[test]
#[ignore = "night: scripts/night"]
fn a_field_has_the_attached_file() {
    in_browser(async |browser| {
        let folder = TempDir::new("files")?;
        let file = folder.path().join("a b.txt");
        fs::write(&file, "hello").expect("the file is written");
        let body = "<main><h1>A page</h1><label>File <input type=\"file\"></label>\
                    <output></output></main>";
        let script = "
document.querySelector('input').addEventListener('change', async event => {
    const [file] = event.target.files;
    document.querySelector('output').textContent = `${file.name}: ${await file.text()}`;
});";
        let site = pages::site(body, script)?;
        browser.goto(&site.url("/")).await?;
        browser.attach("input", &file).await?;
        browser.wait_for("output", "e => e.textContent === 'a b.txt: hello'").await?;
        Ok((site, folder))
    });
}

#[test]
#[ignore = "night: scripts/night"]
fn a_download_is_in_the_folder() {
    in_browser(async |browser| {
        let folder = TempDir::new("files")?;
        let body = "<main><h1>A page</h1><a href=\"/file\" download>Download</a></main>";
        let attachment = [(CONTENT_DISPOSITION, "attachment; filename=\"hello.txt\"")];
        let router = pages::router(body, "");
        let site =
            Site::serve(router.route("/file", get(move || async move { (attachment, "hello") })))?;
        browser.download_to(folder.path()).await?;
        browser.goto(&site.url("/")).await?;
        browser.click("a").await?;
        let file = folder.path().join("hello.txt");
        wait::until(async || file.is_file()).await;
        assert_eq!(fs::read_to_string(&file).expect("the file is read"), "hello");
        Ok((site, folder))
    });
}
