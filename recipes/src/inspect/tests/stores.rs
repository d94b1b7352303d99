//! The layouts of queues, jobs, transactions and stores.

use super::assert_recognised;
use super::tree;
use crate::inspect::{Details, recognise};
use crate::queue::jobs::JobPhase;
use crate::two_phase::{Outcome, SiteState, Vote};

#[test]
fn queues() {
    assert_recognised(
        "queue-0000000010
         queue-0000000009",
        "queue of Curator
         waits item queue-0000000009
         waits item queue-0000000010",
    );
    assert_recognised(
        "queue-1000000050000000000
         queue-0FFFFFFFF0000000001
         queue-0000000002",
        "priority queue of Curator
         waits item queue-0000000002
         waits item queue-0FFFFFFFF0000000001
         waits item queue-1000000050000000000",
    );
    assert_recognised(
        "queue-|18712345679|0000000001
         queue-|18712345678|0000000002",
        "delay queue of Curator, perhaps
         waits item queue-|18712345678|0000000002
         waits item queue-|18712345679|0000000001",
    );
    assert_recognised(
        "queue-|order-17|0000000001",
        "queue with ids of Curator
         waits item queue-|order-17|0000000001",
    );
    assert_recognised(
        "qn-0000000001
         other",
        "simple queue of ZooKeeper's recipes
         waits item qn-0000000001
         ignored other",
    );
    assert_recognised(
        "entry-100-0000000001
         entry-050-0000000002
         entry-50-0000000003",
        "priority queue of kazoo
         waits item entry-050-0000000002
         waits item entry-100-0000000001
         ignored entry-50-0000000003",
    );
    assert_recognised(
        "queue-{a}
         queue-{b}",
        "sharded queue of Curator
         part queue-{a}
         part queue-{b}",
    );
}

#[test]
fn claims_of_queues() {
    assert_recognised(
        "queue-0000000010 @1
         queue-0000000009 @2
         _r_{a} @1",
        "locks of a queue of Curator
         holds claim queue-0000000009
         holds claim queue-0000000010
         part _r_{a}",
    );
    assert_recognised(
        "entries/entry-100-0000000001
         entries/entry-100-0000000002
         taken/entry-100-0000000001 @1",
        "queue with claims of kazoo
         holds claim taken/entry-100-0000000001
         waits item entries/entry-100-0000000002
         part entries
         part entries/entry-100-0000000001
         part taken",
    );
    assert_recognised(
        "items =buckets 1
         items/b-100000000|0000000003/item-100000000|x|2|0000000007/claim @1
         items/b-100000000|0000000003/item-100000000|y|0|0000000008
         items/b-100000000|0000000003/note
         line/_c_{a}-wait-0000000003 @2
         ids/put-1
         dead",
        "queue with claims of zk-curator
         holds claim items/b-100000000|0000000003/item-100000000|x|2|0000000007/claim
         waits item items/b-100000000|0000000003/item-100000000|y|0|0000000008
         waits consumer line/_c_{a}-wait-0000000003
         part dead
         part ids
         part items
         part items/b-100000000|0000000003
         part line
         ignored items/b-100000000|0000000003/note",
    );
    assert_recognised(
        "items =buckets 1
         items/b-100000000|0000000000/item-0000000007
         items/b-100000000|0000000000/_c_{a}-taker-0000000009 @1",
        "FIFO queue of zk-curator
         waits item items/b-100000000|0000000000/item-0000000007
         part items
         part items/b-100000000|0000000000
         part items/b-100000000|0000000000/_c_{a}-taker-0000000009",
    );
}

#[test]
fn the_first_item_tells_its_deliveries() {
    let lines = "items =buckets 1
         items/b-100000000|0000000003/item-100000000|x|2|0000000007/claim @1";
    let details = Details::Queue { items: 1, claimed: 1, first_deliveries: Some(2) };
    assert_eq!(recognise(&tree("/r", lines)).details, details);
}

#[test]
fn jobs() {
    let lines = "all/one
         pending =buckets 1
         pending/b-100000000|0000000000/job-100000000|two|0|0000000001
         executing/{a} =executing 1\\njob pending/x\\nsession 17\\n\\nworker-1
         leases/{a} @17 =worker-1
         leases/{b} @18
         later/1764150000000|{c} =later 1
         done
         line/_c_{d}-wait-0000000000 @19";
    assert_recognised(
        lines,
        "jobs of zk-curator
         holds job executing/{a}
         waits job pending/b-100000000|0000000000/job-100000000|two|0|0000000001
         waits job later/1764150000000|{c}
         waits consumer line/_c_{d}-wait-0000000000
         part all
         part done
         part executing
         part later
         part leases
         part leases/{a}
         part line
         part pending
         part pending/b-100000000|0000000000
         ignored leases/{b}",
    );
    let finding = recognise(&tree("/r", lines));
    let counts = [
        (JobPhase::Pending, 1),
        (JobPhase::Executing, 1),
        (JobPhase::Delayed, 1),
        (JobPhase::Done, 0),
    ];
    assert_eq!(finding.details, Details::Jobs { counts: counts.to_vec() });
    assert_eq!(finding.holders[0].label_str(), "worker-1");
    assert_eq!(finding.holders[0].session.unwrap().get(), 17);
}

#[test]
fn two_phase_commits() {
    let lines =
        ". =two-phase commit 2\\nstate aborted\\nform ephemeral\\ndeadline_ms 100\\nid x\\n\
                 site a\\nsite b\\nsite c\\n\\nload
         _t_x
         a =done
         b";
    assert_recognised(
        lines,
        "two-phase commit of zk-curator
         holds site a
         waits site b
         part _t_x",
    );
    let Details::TwoPhaseCommit { outcome, sites, .. } = recognise(&tree("/r", lines)).details
    else {
        panic!("none");
    };
    assert_eq!(outcome, Some(Outcome::Aborted));
    let states = sites.iter().map(|(_, state)| *state).collect::<Vec<_>>();
    assert_eq!(states, [SiteState::Done, SiteState::Pending, SiteState::Pending]);
    let voted = recognise(&tree("/r", &lines.replace("=done", "=commit")));
    let Details::TwoPhaseCommit { sites, .. } = voted.details else { panic!("none") };
    assert_eq!(sites[0], ("a".into(), SiteState::Voted(Vote::Commit)));
}

#[test]
fn stores_and_schedules() {
    let store = ". =config 1
         values/db.port =5432
         history/0000000001";
    assert_recognised(store, "configuration store of zk-curator\npart history\npart values");
    let details = Details::ConfigStore { updates: Some(0), keys: vec!["db.port".into()] };
    assert_eq!(recognise(&tree("/r", store)).details, details);
    let slot = "slot 1\\nclaim x\\nat least once\\nattempt 1\\nrunning\\nby 1\\n\\na\\n";
    assert_recognised(
        &format!(
            "2026-11-22T13:00:00Z ={slot}
             2026-11-22T14:00:00Z ={slot}
             2026-11-22T14:00:00Z/runner @1
             _c_{{a}}-clock @1"
        ),
        "schedule of zk-curator
         holds claim 2026-11-22T14:00:00Z/runner
         part 2026-11-22T13:00:00Z
         part _c_{a}-clock",
    );
    assert_recognised(
        ". =00000001
         _o/3f/worker-7
         _r_{a} @1",
        "counter of zk-curator
         part _o
         part _r_{a}",
    );
}

#[test]
fn applied_migrations_are_counted() {
    let set = "meta-0000000000 =x
         meta-0000000001 =y
         other";
    let expected = "migration set of Curator
         part meta-0000000000
         part meta-0000000001
         ignored other";
    assert_recognised(set, expected);
    let details = Details::Migrations { applied: 2 };
    assert_eq!(recognise(&tree("/r", set)).details, details);
    assert_recognised("a-meta-0000000000", "unknown of unknown\nignored a-meta-0000000000");
}
