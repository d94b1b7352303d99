//! The page of the ensemble, and its sampler.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use zk_curator::CreateMode;
use zk_curator_client::{Connector, Transport};
use zk_curator_ops::ensemble::probe::ProbeOptions;
use zk_curator_testing::{MemoryConnector, TestCluster, TestServer, paused, wait};
use zk_curator_web::{Limits, WebOptions, router};

use crate::hostile::{NAMES, assert_harmless};
use crate::support::{Site, news};

/// A sample, and some time.
const SAMPLE: Duration = Duration::from_secs(6);

/// Counts the words that are asked, and refuses them on demand.
#[derive(Debug)]
struct Words {
    inner: MemoryConnector,
    asked: AtomicUsize,
    refuses: AtomicBool,
}

impl Words {
    fn new(inner: MemoryConnector) -> Arc<Self> {
        Arc::new(Self { inner, asked: AtomicUsize::new(0), refuses: AtomicBool::new(false) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn refuse(&self) {
        self.refuses.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl Connector for Words {
    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Transport>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if !self.refuses.load(Ordering::SeqCst) {
            return self.inner.connect(host, port).await;
        }
        let (client, mut server) = duplex(256);
        tokio::spawn(async move {
            let mut word = [0; 4];
            server.read_exact(&mut word).await?;
            let word = String::from_utf8_lossy(&word);
            let refusal = format!("{word} is not executed because it is not in the whitelist.\n");
            server.write_all(refusal.as_bytes()).await
        });
        Ok(Box::new(client))
    }
}

fn limits() -> Limits {
    Limits::new().requests(10_000, 10_000).streams(256, 256)
}

/// An explorer of one server.
async fn single() -> (Site, Arc<Words>) {
    let server = TestServer::in_memory().await;
    let words = Words::new(server.connector());
    let connector = Arc::<Words>::clone(&words);
    let site = Site::asking(server, connector, WebOptions::new().limits(limits())).await;
    (site, words)
}

/// An explorer of an ensemble of three servers.
async fn ensemble() -> (Site, TestCluster) {
    let cluster = TestCluster::start(3).await;
    let zk = cluster.framework().build().unwrap();
    zk.start().await.unwrap();
    let probe = ProbeOptions::new().connector(Arc::new(cluster.connector()));
    let router = router(&zk, WebOptions::new().probe(probe).limits(limits()));
    (Site { server: cluster.member(0).clone(), zk, router }, cluster)
}

fn server<'a>(sample: &'a Value, name: &str) -> &'a Value {
    let servers = sample["servers"].as_array().unwrap();
    servers.iter().find(|server| server["server"] == name).unwrap()
}

#[test]
fn the_servers_are_shown() {
    paused(async {
        let (site, cluster) = ensemble().await;
        site.zk.create("/a").await.unwrap();
        let page = site.get("/ensemble").await;
        assert_eq!(page.status, 200, "{}", page.body);
        let leader = cluster.member(cluster.leader().unwrap()).connect_string();
        for part in [
            format!("There is a quorum, and {leader} leads."),
            "server.1".to_owned(),
            "</span>leader".to_owned(),
            "</span>follower".to_owned(),
            "this explorer".to_owned(),
            "data-live=\"/api/v1/ensemble/watch\"".to_owned(),
            "Transactions behind the leader".to_owned(),
            "<h2 id=\"findings-heading\">".to_owned(),
        ] {
            assert!(page.body.contains(&part), "{part}: {}", page.body);
        }
        assert_eq!(page.body.matches("role=\"img\"").count(), 4);
        assert!(!page.body.contains("NaN") && !page.body.contains(" style="));
        wait::past(SAMPLE).await;
        let sample = site.json("/api/v1/ensemble").await;
        assert_eq!(sample["quorum"], "present");
        assert_eq!(sample["problems"], serde_json::json!([]));
        let line = server(&sample, &leader);
        assert_eq!(line["role"], "leader");
        assert_eq!(line["lag"], Value::Null);
        assert!(line["requests_per_second"].is_number() && line["watches"].is_number(), "{line}");
        assert_eq!(sample["history"].as_array().unwrap().len(), 2);
        assert_eq!(sample["survey"]["sessions"]["total"], 1);
        let own = &sample["survey"]["sessions"]["sessions"][0];
        assert_eq!(own["session"], site.zk.session().unwrap().id.to_string());
    });
}

#[test]
fn a_change_of_the_leader_is_shown() {
    paused(async {
        let (site, cluster) = ensemble().await;
        site.get("/ensemble").await;
        let leader = cluster.change_leader().unwrap();
        wait::past(SAMPLE).await;
        let name = cluster.member(leader).connect_string();
        let page = site.get("/ensemble").await.body;
        assert!(page.contains(&format!("There is a quorum, and {name} leads.")), "{page}");
        let sample = site.json("/api/v1/ensemble").await;
        assert_eq!(server(&sample, &name)["role"], "leader");
    });
}

#[test]
fn a_stopped_member_is_shown_with_its_time() {
    paused(async {
        let (site, cluster) = ensemble().await;
        site.get("/ensemble").await;
        let stopped = (0..3).find(|member| Some(*member) != cluster.leader()).unwrap();
        cluster.kill(stopped).await;
        wait::past(SAMPLE).await;
        let name = cluster.member(stopped).connect_string();
        let first = site.json("/api/v1/ensemble").await;
        let trouble = &server(&first, &name)["trouble"];
        assert_eq!(trouble["kind"], "unreachable", "{first}");
        wait::past(SAMPLE).await;
        let second = site.json("/api/v1/ensemble").await;
        assert_eq!(server(&second, &name)["trouble"]["since"], trouble["since"]);
        assert_eq!(second["quorum"], "present");
        let page = site.get("/ensemble").await.body;
        assert!(page.contains("unreachable: connection refused, since <time"), "{page}");
        assert!(page.contains("There is a quorum"), "{page}");
        cluster.restart(stopped).await.unwrap();
        wait::past(SAMPLE).await;
        let third = site.json("/api/v1/ensemble").await;
        assert_eq!(server(&third, &name)["trouble"], Value::Null);
    });
}

#[test]
fn servers_that_refuse_words_are_unknown() {
    paused(async {
        let (site, words) = single().await;
        words.refuse();
        let page = site.get("/ensemble").await;
        assert_eq!(page.status, 200);
        for part in [
            "It is unknown if there is a quorum.",
            "refused: not in 4lw.commands.whitelist",
            "No server has reported its sessions.",
            "4lw.commands.whitelist=srvr, mntr, conf, cons, dump, wchs",
        ] {
            assert!(page.body.contains(part), "{part}: {}", page.body);
        }
        assert_eq!(site.json("/api/v1/ensemble").await["quorum"], "unknown");
    });
}

#[tokio::test]
async fn without_probes_there_is_no_page_of_the_ensemble() {
    let site = Site::start(WebOptions::new()).await;
    for address in ["/api/v1/ensemble", "/api/v1/ensemble/watch"] {
        let problem = site.get(address).await.problem();
        assert_eq!(problem["title"], "The servers are not asked", "{address}");
    }
    let page = site.get("/ensemble").await;
    assert_eq!(page.status, 403);
    assert!(page.body.contains("do not let it ask the servers"), "{}", page.body);
    let link = "href=\"/ensemble\"";
    assert!(!site.get("/help").await.body.contains(link));
    let probing = Site::probing(WebOptions::new()).await;
    assert!(probing.get("/help").await.body.contains(link));
}

#[test]
fn the_sampler_runs_while_the_page_is_viewed() {
    paused(async {
        let (site, words) = single().await;
        site.get("/tree").await;
        wait::idle(Duration::from_secs(100)).await;
        assert_eq!(words.asked(), 0, "no page of the ensemble was opened");
        site.get("/ensemble").await;
        let first = words.asked();
        assert!(first > 0);
        wait::past(SAMPLE).await;
        assert!(words.asked() > first);
        wait::past(Duration::from_secs(70)).await;
        let stopped = words.asked();
        wait::idle(Duration::from_secs(300)).await;
        assert_eq!(words.asked(), stopped, "the last viewer has left");
        // A stream keeps it running, and the measures before the pause are kept.
        let (status, stream) = site.watch("/api/v1/ensemble/watch").await;
        assert_eq!(status, 200);
        wait::past(Duration::from_secs(120)).await;
        assert!(words.asked() > stopped + 40, "{} {stopped}", words.asked());
        assert!(site.json("/api/v1/ensemble").await["history"].as_array().unwrap().len() > 30);
        drop(stream);
        wait::past(Duration::from_secs(70)).await;
        let stopped = words.asked();
        wait::idle(Duration::from_secs(300)).await;
        assert_eq!(words.asked(), stopped);
    });
}

#[test]
fn a_page_without_a_stream_is_viewed_for_a_minute() {
    paused(async {
        let (site, words) = single().await;
        site.get("/ensemble").await;
        wait::past(Duration::from_secs(40)).await;
        site.get("/ensemble").await;
        wait::past(Duration::from_secs(40)).await;
        let before = words.asked();
        wait::past(SAMPLE).await;
        assert!(words.asked() > before, "the second page was loaded 46 s ago");
        wait::past(Duration::from_secs(20)).await;
        let before = words.asked();
        wait::idle(Duration::from_secs(60)).await;
        assert_eq!(words.asked(), before);
    });
}

#[test]
fn many_viewers_cost_as_much_as_one() {
    paused(async {
        let (site, words) = single().await;
        let (_, stream) = site.watch("/api/v1/ensemble/watch").await;
        let mut streams = vec![stream];
        let minute = Duration::from_secs(60);
        wait::past(minute + Duration::from_secs(2)).await;
        let begun = words.asked();
        wait::past(minute).await;
        let of_one = words.asked() - begun;
        for _ in 1..100 {
            streams.push(site.watch("/api/v1/ensemble/watch").await.1);
            assert_eq!(site.get("/ensemble").await.status, 200);
        }
        let begun = words.asked();
        wait::past(minute).await;
        assert_eq!(words.asked() - begun, of_one);
        assert!((12 * 2..100).contains(&of_one), "{of_one}");
        drop(streams);
    });
}

#[test]
fn each_sample_is_announced() {
    paused(async {
        let (site, _words) = single().await;
        let (_, mut stream) = site.watch("/api/v1/ensemble/watch").await;
        let first = news(&mut stream, "fresh").await;
        assert_eq!(news(&mut stream, "fresh").await, first + 1);
        // A slow browser gets the newest sample.
        wait::past(Duration::from_secs(60)).await;
        assert!(news(&mut stream, "fresh").await > first + 8);
        site.zk.close().await.unwrap();
        while futures_util::StreamExt::next(&mut stream).await.is_some() {}
        assert_eq!(site.get("/api/v1/ensemble").await.problem()["status"], 503);
    });
}

#[test]
fn the_measures_of_15_minutes_are_kept() {
    paused(async {
        let (site, _words) = single().await;
        let (_, stream) = site.watch("/api/v1/ensemble/watch").await;
        wait::past(Duration::from_secs(40 * 60)).await;
        let sample = site.json("/api/v1/ensemble").await;
        let history = sample["history"].as_array().unwrap();
        assert!((170..=181).contains(&history.len()), "{}", history.len());
        let page = site.get("/ensemble").await.body;
        assert!(page.contains("14 min ago") && page.len() < 200_000, "{}", page.len());
        drop(stream);
    });
}

#[test]
fn sessions_are_shown_in_pages() {
    paused(async {
        let (site, _words) = single().await;
        for name in NAMES {
            let node = site.zk.create(format!("/{name}"));
            node.mode(CreateMode::Ephemeral).await.unwrap();
        }
        let mut others = Vec::new();
        for _ in 0..120 {
            let zk = site.server.framework().build().unwrap();
            zk.start().await.unwrap();
            others.push(zk);
        }
        let page = site.get("/ensemble").await.body;
        assert!(page.contains("121 sessions.") && page.contains("1–100 of 121"), "{page}");
        assert!(page.contains("href=\"/ensemble?from=100\" rel=\"next\""), "{page}");
        let last = site.get("/ensemble?from=100").await.body;
        assert!(last.contains("101–121 of 121") && !last.contains("rel=\"next\""), "{last}");
        let both = format!("{page}{last}");
        assert!(both.contains("⟨U+202E⟩gpj.exe"), "{both}");
        assert!(both.contains("href=\"/node/%7B%7B%207%20%2A%207%20%7D%7D\""), "{both}");
        assert_harmless(&page);
        assert_harmless(&last);
        let beyond = site.json("/api/v1/ensemble?from=99999999999999999999").await;
        assert_eq!(beyond["survey"]["sessions"]["from"], 0);
        let sessions = site.json("/api/v1/ensemble?from=100").await;
        let sessions = &sessions["survey"]["sessions"];
        assert_eq!(sessions["total"], 121);
        assert_eq!(sessions["next"], Value::Null);
        assert_eq!(sessions["sessions"].as_array().unwrap().len(), 21);
    });
}

#[test]
fn a_server_that_does_not_respond_does_not_delay_the_page() {
    paused(async {
        let (site, cluster) = ensemble().await;
        let held = (0..3).find(|member| Some(*member) != cluster.leader()).unwrap();
        cluster.member(held).hold();
        let name = cluster.member(held).connect_string();
        let page = site.get("/ensemble").await;
        assert_eq!(page.status, 200);
        assert!(page.body.contains("no response in time, since <time"), "{}", page.body);
        assert!(page.body.contains("There is a quorum"), "{}", page.body);
        let sample = site.json("/api/v1/ensemble").await;
        assert_eq!(server(&sample, &name)["trouble"]["kind"], "late");
    });
}
