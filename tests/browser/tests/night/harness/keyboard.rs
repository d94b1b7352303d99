//! Pages that are used with the keyboard.

use zk_curator_browser::key::{DOWN, ENTER, ESCAPE, LEFT, RIGHT, SHIFT, TAB, UP};

use super::pages;
use crate::in_browser;

const BODY: &str = "<main><h1>Keys</h1><a href=\"#one\">First</a>
<button>Second</button><label>Third <input></label><output></output></main>";
/// Shows the keys that are pressed, and counts clicks.
const SCRIPT: &str = "
const output = document.querySelector('output');
document.addEventListener('keydown', event => { output.textContent += event.key + ' '; });
document.querySelector('button').addEventListener('click', event => {
    event.target.dataset.clicks = Number(event.target.dataset.clicks ?? 0) + 1;
});";

#[test]
#[ignore = "night: scripts/night"]
fn tab_follows_the_order_of_the_page() {
    in_browser(async |browser| {
        let site = pages::site(BODY, SCRIPT)?;
        browser.goto(&site.url("/")).await?;
        let mut order = Vec::new();
        for _ in 0..3 {
            browser.keys(TAB).await?;
            order.push(browser.focused_name().await?);
        }
        assert_eq!(order, ["First", "Second", "Third"]);
        browser.chord(&[SHIFT, TAB]).await?;
        assert_eq!(browser.focused_name().await?, "Second");
        browser.keys(ENTER).await?;
        browser.keys(" ").await?;
        browser.wait_for("button", "button => button.dataset.clicks === '2'").await?;
        browser.click("button").await?;
        browser.wait_for("button", "button => button.dataset.clicks === '3'").await?;
        Ok(site)
    });
}

#[test]
#[ignore = "night: scripts/night"]
fn keys_arrive_in_their_order() {
    in_browser(async |browser| {
        let site = pages::site(BODY, SCRIPT)?;
        browser.goto(&site.url("/")).await?;
        browser.click("input").await?;
        browser.keys("g/é").await?;
        browser.wait_for("input", "input => input.value === 'g/é'").await?;
        browser.keys(&[UP, DOWN, LEFT, RIGHT, ESCAPE].concat()).await?;
        let all = "g / é ArrowUp ArrowDown ArrowLeft ArrowRight Escape ";
        browser.wait_for("output", &format!("e => e.textContent === '{all}'")).await?;
        Ok(site)
    });
}
