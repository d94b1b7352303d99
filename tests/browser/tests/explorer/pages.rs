//! Every page in its ordinary state: what it says, the way between pages, and its looks.

use zk_curator_browser::key::ENTER;
use zk_curator_web::WebOptions;

use super::explorer;
use super::sampled::SampledEnsemble;
use super::steps::{is_live, open_live, took_statuses};
use super::way::{arrived, click_live, open_ready, says, still, until_texts};
use super::world::{HELD_SINCE, HOLDER, LOCK, SHOP, WAITERS, explore};
use crate::in_browser;

/// The first holder of a recipe.
const HOLDERS: &str = "#holders-heading + table tbody tr";

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_tree_lists_children_with_their_kinds() {
    in_browser(async |browser| {
        let (explorer, world) = explore(WebOptions::new()).await?;
        open_live(browser, &explorer, "/tree").await?;
        let names = browser.texts_of(".children tbody th bdi").await?;
        for name in ["config", "locks", "queues", "services", "zookeeper"] {
            assert!(names.iter().any(|shown| shown == name), "{name}: {names:?}");
        }
        assert!(names.is_sorted(), "{names:?}");
        browser.survey("tree").await?;
        open_ready(browser, &explorer, "/tree/presence").await?;
        let kinds = browser.texts_of(".children td.kind").await?;
        assert_eq!(kinds, ["◌ephemeral", "◌ephemeral"]);
        assert_eq!(browser.texts_of(".children td.time").await?, ["3 h ago", "3 h ago"]);
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_node_shows_data_stat_rights_and_quota() {
    in_browser(async |browser| {
        let (explorer, world) = explore(WebOptions::new()).await?;
        open_live(browser, &explorer, &format!("/node{SHOP}")).await?;
        says(browser, "#data .summary", "JSON, ").await?;
        says(browser, "#data .json", "\"timeout_ms\"").await?;
        says(browser, "#facts .summary", "Created 3 h ago, and never changed: version 0.").await?;
        let rights = browser.texts_of(".acl tbody th").await?;
        assert_eq!(rights, ["world:anyone", "digest:deploy", "ip:10.0.0.7"]);
        assert_eq!(browser.texts_of(".quota tbody th").await?, ["nodes", "bytes"]);
        browser.survey("node").await?;
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn data_of_every_form_are_named() {
    in_browser(async |browser| {
        let (explorer, world) = explore(WebOptions::new()).await?;
        for (name, form, part) in [
            ("routes.yaml", "text that looks like YAML, ", "service: billing"),
            ("catalogue.json.gz", "JSON in gzip, ", "\"books\""),
            ("logo.png", "binary data, ", "89 50 4e 47"),
            ("session.ser", "Java-serialised object, ", "ac ed 00 05"),
        ] {
            open_ready(browser, &explorer, &format!("/node{SHOP}/{name}")).await?;
            says(browser, "#data .summary", form).await?;
            says(browser, "#data .value", part).await?;
        }
        says(browser, "#data .summary", "of the class com.shop.Session").await?;
        open_ready(browser, &explorer, &format!("/node{SHOP}/routes.yaml")).await?;
        click_live(browser, "#data a[href$='?as=hex']").await?;
        says(browser, "#data .dump", "72 6f 75 74 65 73").await?;
        open_ready(browser, &explorer, "/node/config/mail/password").await?;
        says(browser, "#data .note", "The data are hidden").await?;
        assert!(!browser.text_of("body").await?.contains("s3cret"));
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn recipes_of_all_kinds_are_listed() {
    in_browser(async |browser| {
        let (explorer, world) = explore(WebOptions::new()).await?;
        open_live(browser, &explorer, "/recipes").await?;
        let paths = browser.texts_of(".recipes tbody th bdi").await?;
        for path in [
            LOCK,
            "/barriers/import",
            "/elections/scheduler",
            "/jobs/thumbnails",
            "/leases/report",
            "/permits/exports",
            "/queues/mails",
            "/services/billing",
            "/services/orders",
            "/shards/orders",
        ] {
            assert!(paths.iter().any(|shown| shown == path), "{path}: {paths:?}");
        }
        let kinds = browser.texts_of(".kinds a").await?;
        assert!(kinds.iter().any(|kind| kind.starts_with("migration sets")), "{kinds:?}");
        // The clients of the lock wait longest.
        assert_eq!(paths[0], LOCK);
        let first = ".recipes tbody tr:first-child";
        says(browser, &format!("{first} .holder"), HOLDER).await?;
        says(browser, &format!("{first} .time"), HELD_SINCE).await?;
        let numbers = browser.texts_of(&format!("{first} .number")).await?;
        assert_eq!(numbers[..2], ["2", "1 h"]);
        browser.survey("recipes").await?;
        click_live(browser, ".kinds a[href='/recipes?kind=queue']").await?;
        let only = |texts: &[String]| *texts == ["/queues/mails"];
        until_texts(browser, ".recipes tbody th bdi", only).await?;
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_recipe_names_holders_waiters_and_next_steps() {
    in_browser(async |browser| {
        let (explorer, world) = explore(WebOptions::new()).await?;
        open_live(browser, &explorer, &format!("/why{LOCK}")).await?;
        says(browser, "#why .lead", "Mutex (Curator): 1 holder, 2 waiting.").await?;
        says(browser, "#why .verdicts li", &format!("held by {HOLDER} (")).await?;
        says(browser, HOLDERS, HELD_SINCE).await?;
        // The address of the client is that of its connection, which the server has told.
        says(browser, HOLDERS, "127.0.0.1:").await?;
        let waiting = browser.texts_of("#waiting-heading + table tbody th bdi:first-child").await?;
        for waiter in WAITERS {
            assert!(waiting.iter().any(|shown| shown == waiter), "{waiter}: {waiting:?}");
        }
        let commands = browser.texts_of("#why .command").await?;
        let revoke = format!("zkc revoke {LOCK}/_c_");
        assert!(commands.iter().any(|command| command.starts_with(&revoke)), "{commands:?}");
        browser.survey("why").await?;
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_ensemble_shows_servers_charts_and_sessions() {
    in_browser(async |browser| {
        let ensemble = SampledEnsemble::start().await;
        browser.goto(&ensemble.url()).await?;
        is_live(browser).await?;
        let verdict = format!("There is a quorum, and {} leads.", ensemble.leader());
        says(browser, "#verdict .verdict", &verdict).await?;
        let mut roles = browser.texts_of("#servers tbody .role").await?;
        roles.sort_unstable();
        assert_eq!(roles, ["●follower", "★leader", "⚠unreachable"]);
        says(browser, "#servers tbody .trouble", "unreachable: connection refused, since").await?;
        let trouble = format!("{}: unreachable", ensemble.stopped());
        assert!(browser.text_of("#verdict").await?.contains(&trouble), "{trouble}");
        let many = |rows: &[String]| rows.len() > 5;
        let sessions = until_texts(browser, "#sessions tbody th", many).await?;
        let own = sessions.iter().filter(|session| session.contains("this explorer"));
        assert_eq!(own.count(), 1, "{sessions:?}");
        assert_eq!(browser.texts_of("#charts figcaption").await?.len(), 4);
        // Each chart has a value for each minute. One server was behind, and has no value now.
        for chart in ["requests", "latency", "lag", "connections"] {
            let rows = format!("#{chart}-scroll tbody tr");
            browser.wait_for(&rows, "row => row.parentElement.rows.length >= 13").await?;
        }
        let lag = "cell => [...cell.closest('tbody').querySelectorAll('td')]
            .some(other => Number(other.textContent.replace(',', '')) > 10)";
        browser.wait_for("#lag-scroll tbody td", lag).await?;
        browser.survey("ensemble").await?;
        Ok(ensemble)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn services_show_drained_and_undecodable_instances() {
    in_browser(async |browser| {
        let (explorer, world) = explore(WebOptions::new()).await?;
        open_live(browser, &explorer, "/services").await?;
        click_live(browser, ".bases a[href='/services/services']").await?;
        arrived(browser, "/services/services").await?;
        browser.wait_for("#live.ok", "() => true").await?;
        let summary = "2 services with 3 instances: 2 up, 1 drained, 1 undecodable.";
        says(browser, "#services .lead", summary).await?;
        says(browser, ".instances td.drained", "drained").await?;
        let links = browser.texts_of("#services .verdicts a").await?;
        assert_eq!(links, ["orders-legacy"]);
        browser.survey("services").await?;
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_search_shows_results_and_a_summary() {
    in_browser(async |browser| {
        let (explorer, world) = explore(WebOptions::new()).await?;
        open_ready(browser, &explorer, "/search").await?;
        browser.click("#search-in option[value='text']").await?;
        browser.click("#search-for").await?;
        browser.keys("service: billing").await?;
        browser.keys(ENTER).await?;
        says(browser, "#search-state", "2 nodes match.").await?;
        let mut found = browser.texts_of("#hits th bdi").await?;
        let first = format!("/node{}", found[0]);
        found.sort_unstable();
        assert_eq!(found, ["/config/shop/routes.yaml", "/config/staging/routes.yaml"]);
        let lines = browser.texts_of("#hits td.line").await?;
        assert_eq!(lines[0].trim(), "service: billing");
        browser.survey("search").await?;
        browser.click("#hits tr:first-child a").await?;
        arrived(browser, &first).await?;
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn two_trees_are_compared() {
    in_browser(async |browser| {
        let (explorer, world) = explore(WebOptions::new().write(true)).await?;
        open_ready(browser, &explorer, &format!("/data{SHOP}")).await?;
        browser.click("#with").await?;
        browser.keys("/config/staging").await?;
        browser.keys(ENTER).await?;
        // The data and the rights of the root, and three nodes that the copy does not have.
        says(browser, "#diff .summary", "differences between /config/shop and /config/staging")
            .await?;
        let nodes = browser.texts_of("#diff tbody th").await?;
        for node in [SHOP, "/config/shop/catalogue.json.gz", "/config/shop/session.ser"] {
            assert!(nodes.iter().any(|shown| shown == node), "{node}: {nodes:?}");
        }
        assert!(!nodes.iter().any(|shown| shown.ends_with("routes.yaml")), "{nodes:?}");
        browser.survey("data").await?;
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn changes_show_old_and_new_values() {
    in_browser(async |browser| {
        let (explorer, world) = explore(WebOptions::new()).await?;
        open_live(browser, &explorer, &format!("/changes{SHOP}")).await?;
        says(browser, "#changes .empty", "Nothing has changed yet.").await?;
        let zk = explorer.zk();
        let routes = format!("{SHOP}/routes.yaml");
        let yaml = "routes:\n  - path: /orders\n    service: orders\n  - path: /bills\n    \
                    service: bills\n";
        zk.set_data(routes, yaml).await?;
        let count = |number: usize| move |changes: &[String]| changes.len() == number;
        until_texts(browser, "#changes .change", count(1)).await?;
        zk.create(format!("{SHOP}/holidays")).data("2027-01-01\n2027-04-05\n").await?;
        until_texts(browser, "#changes .change", count(2)).await?;
        zk.delete(format!("{SHOP}/logo.png")).await?;
        until_texts(browser, "#changes .change", count(3)).await?;
        let nodes = browser.texts_of("#changes .change h3 bdi").await?;
        assert_eq!(
            nodes,
            ["/config/shop/logo.png", "/config/shop/holidays", "/config/shop/routes.yaml"]
        );
        for (css, line) in [("del", "service: billing"), ("ins", "service: bills")] {
            let lines = browser.texts_of(&format!(".change:last-child {css}")).await?;
            assert_eq!(lines.iter().map(|line| line.trim()).collect::<Vec<_>>(), [line]);
        }
        says(browser, "#changes .summary", "1 created, 1 changed and 1 deleted").await?;
        browser.survey("changes").await?;
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_help_names_keys_and_signs() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        open_ready(browser, &explorer, "/help").await?;
        assert_eq!(browser.title().await?, "Help – ZooKeeper");
        let keys = browser.texts_of(".keys kbd").await?;
        for key in ["↑", "↓", "→", "Enter", "←", "/", "g", "Esc", "?"] {
            assert!(keys.iter().any(|shown| shown == key), "{key}: {keys:?}");
        }
        browser.survey("help").await?;
        Ok(explorer)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_problem_says_what_is_wrong_and_leads_back() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        open_ready(browser, &explorer, "/node/none").await?;
        says(browser, "h1", "No such node").await?;
        says(browser, "main .hint", "Status 404.").await?;
        browser.survey("problem").await?;
        browser.click("main a[href='/tree']").await?;
        arrived(browser, "/tree").await?;
        took_statuses(browser, &[404]).await?;
        Ok(explorer)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_navigation_leads_to_every_page() {
    in_browser(async |browser| {
        let (explorer, world) = explore(still()).await?;
        open_ready(browser, &explorer, "/help").await?;
        for (path, title) in [
            ("/tree", "/ – children – ZooKeeper"),
            ("/recipes", "Recipes below / – ZooKeeper"),
            ("/services", "Services below / – ZooKeeper"),
            ("/ensemble", "Ensemble – ZooKeeper"),
            ("/search", "Search – / – ZooKeeper"),
            ("/help", "Help – ZooKeeper"),
        ] {
            browser.click(&format!(".pages a[href='{path}']")).await?;
            arrived(browser, path).await?;
            assert_eq!(browser.title().await?, title);
            let current = browser.texts_of(".pages a[aria-current='page']").await?;
            assert_eq!(current.len(), 1, "{path}: {current:?}");
        }
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_views_of_a_node_are_linked() {
    in_browser(async |browser| {
        let (explorer, world) = explore(still()).await?;
        open_ready(browser, &explorer, &format!("/tree{LOCK}")).await?;
        for view in ["node", "why", "recipes", "changes", "data", "tree", "search"] {
            browser.click(&format!(".tabs a[href='/{view}{LOCK}']")).await?;
            arrived(browser, &format!("/{view}{LOCK}")).await?;
        }
        browser.click("h1 a").await?;
        arrived(browser, &format!("/tree{LOCK}")).await?;
        browser.click(".crumbs a[href='/tree/locks']").await?;
        arrived(browser, "/tree/locks").await?;
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_contender_and_its_recipe_are_linked() {
    in_browser(async |browser| {
        let (explorer, world) = explore(still()).await?;
        open_ready(browser, &explorer, &format!("/why{LOCK}")).await?;
        browser.click("#waiting-heading + table tbody tr:first-child th a").await?;
        let place = "Contender 2 of 3 of the mutex (Curator) at /locks/orders: it waits.";
        says(browser, "#card .recipe > p", place).await?;
        browser.click("#card .actions a").await?;
        arrived(browser, &format!("/why{LOCK}")).await?;
        Ok((explorer, world))
    });
}
