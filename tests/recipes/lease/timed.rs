//! Leases by the leader's clock: behaviour, contention and cost.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use zk_curator::{Acl, ErrorCode, ErrorKind, FencingToken, Permissions};
use zk_curator_recipes::lease::{Error, MultiLease, TimedLease};
use zk_curator_testing::wait::{idle, past, settled, spend};
use zk_curator_tests::{
    assert_matches, connected, join_all, recorded, session_id, simulated_each, simulated_on,
    simulated_with, two_in_memory,
};

const PATH: &str = "/leases/hourly";
const HOLDER: &str = "/leases/hourly/lease_holder";
const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

fn lease(zk: &zk_curator::CuratorFramework, id: &str) -> TimedLease {
    TimedLease::new(zk, PATH, id)
}

#[test]
fn another_holder_waits_for_the_end_and_the_margin() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let guard = lease(&zk, "a").try_take(MINUTE).await.unwrap().unwrap();
        let left = guard.expires_in();
        assert!(left > MINUTE - SECOND && left <= MINUTE + SECOND, "{left:?}");
        assert!(!guard.is_expired());
        let contender = lease(&other, "b");
        assert!(contender.try_take(MINUTE).await.unwrap().is_none());
        guard.expired().await;
        assert!(guard.is_expired());
        assert_eq!(guard.expires_in(), Duration::ZERO);
        assert!(contender.try_take(MINUTE).await.unwrap().is_none(), "within the margin");
        past(SECOND).await;
        let second = contender.try_take(MINUTE).await.unwrap().unwrap();
        assert!(second.fencing_token() > guard.fencing_token());
        assert_eq!(second.id(), "b");
        assert_eq!(second.path(), PATH);
    });
}

#[test]
fn dropped_guard_keeps_the_lease_for_its_id() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let first = lease(&zk, "a").try_take(MINUTE).await.unwrap().unwrap();
        let token = first.fencing_token();
        drop(first);
        zk.close().await.unwrap();
        assert!(lease(&other, "b").try_take(MINUTE).await.unwrap().is_none());
        // The same holder in another process.
        let again = lease(&other, "a").try_take(2 * MINUTE).await.unwrap().unwrap();
        assert!(again.fencing_token() > token);
        assert!(again.expires_in() > MINUTE + 58 * SECOND);
    });
}

#[test]
fn release_frees_the_lease_immediately() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let guard = lease(&zk, "a").try_take(MINUTE).await.unwrap().unwrap();
        guard.release().await.unwrap();
        assert_eq!(lease(&zk, "a").holder().await.unwrap(), None);
        assert!(lease(&other, "b").try_take(MINUTE).await.unwrap().is_some());
    });
}

#[test]
fn renewed_lease_lasts_longer_with_the_same_token() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let mut guard = lease(&zk, "a").try_take(MINUTE).await.unwrap().unwrap();
        let token = guard.fencing_token();
        spend(MINUTE / 2).await;
        guard.renew(2 * MINUTE).await.unwrap();
        assert_eq!(guard.fencing_token(), token);
        idle(MINUTE).await;
        assert!(!guard.is_expired());
        assert!(lease(&other, "b").try_take(MINUTE).await.unwrap().is_none());
        // A shorter time than is left.
        guard.renew(SECOND).await.unwrap();
        assert!(guard.expires_in() <= 2 * SECOND);
        past(3 * SECOND).await;
        // Over, but nobody has it.
        guard.renew(MINUTE).await.unwrap();
        assert!(!guard.is_expired());
        guard.release().await.unwrap();
    });
}

#[test]
fn lease_of_another_holder_is_neither_renewed_nor_released() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let mut guard = lease(&zk, "a").try_take(SECOND).await.unwrap().unwrap();
        past(4 * SECOND).await;
        let second = lease(&other, "b").try_take(MINUTE).await.unwrap().unwrap();
        assert_matches!(guard.renew(MINUTE).await.unwrap_err(), Error::Lost { path } if path == PATH);
        assert_matches!(guard.release().await.unwrap_err(), Error::Lost { .. });
        assert!(!second.is_expired());
        let holder = lease(&zk, "a").holder().await.unwrap().unwrap();
        assert_eq!((holder.id.as_str(), holder.path.as_str()), ("b", PATH));
        assert_eq!(holder.end, second.end());
    });
}

#[test]
fn fenced_transaction_fails_after_another_take() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let mut guard = lease(&zk, "a").try_take(SECOND).await.unwrap().unwrap();
        guard.fence(zk.transaction().create("/one", "")).commit().await.unwrap();
        guard.renew(SECOND).await.unwrap();
        let results = guard.fence(zk.transaction().set_data("/one", "1")).commit().await.unwrap();
        assert_eq!(results.len(), 4);
        past(4 * SECOND).await;
        // Over, and not taken.
        guard.fence(zk.transaction().set_data("/one", "2")).commit().await.unwrap();
        let second = lease(&other, "b").try_take(SECOND).await.unwrap().unwrap();
        let failed = guard.fence(zk.transaction().set_data("/one", "3")).commit().await;
        assert_matches!(failed.unwrap_err().kind(), ErrorKind::TransactionFailed { .. });
        // Even after the same holder has it again.
        second.release().await.unwrap();
        let _again = lease(&zk, "a").try_take(SECOND).await.unwrap().unwrap();
        let failed = guard.fence(zk.transaction().set_data("/one", "4")).commit().await;
        assert_matches!(failed.unwrap_err().kind(), ErrorKind::TransactionFailed { .. });
        assert_eq!(zk.get_data("/one").await.unwrap(), "2");
    });
}

#[test]
fn one_of_many_contenders_takes_the_lease() {
    simulated_with(async |server, zk| {
        let mut clients = vec![zk];
        for _ in 0..7 {
            clients.push(connected(&server).await);
        }
        let mut last = FencingToken::new(0);
        for _ in 0..5 {
            let leases: Vec<_> = clients
                .iter()
                .enumerate()
                .map(|(number, zk)| lease(zk, &number.to_string()))
                .collect();
            let takes = leases.iter().map(|lease| lease.try_take(SECOND));
            let taken = join_all(takes).await;
            let guards: Vec<_> = taken.into_iter().filter_map(Result::unwrap).collect();
            assert_eq!(guards.len(), 1);
            assert!(guards[0].fencing_token() > last);
            last = guards[0].fencing_token();
            past(4 * SECOND).await;
        }
    });
}

#[test]
fn take_costs_three_requests_in_two_round_trips() {
    simulated_with(async |server, zk| {
        let lease = lease(&zk, "a");
        // The first time makes the parents, and the nodes of this client.
        drop(lease.try_take(MINUTE).await.unwrap().unwrap());
        let (_rule, requests) = recorded(&server);
        let count = || requests.lock().unwrap().get(&session_id(&zk).get()).map_or(0, Vec::len);
        let mut guard = lease.try_take(MINUTE).await.unwrap().unwrap();
        assert_eq!(count(), 3);
        guard.renew(MINUTE).await.unwrap();
        assert_eq!(count(), 5);
        lease.holder().await.unwrap();
        assert_eq!(count(), 6);
        guard.release().await.unwrap();
        assert_eq!(count(), 7);
    });
}

#[test]
fn data_of_the_parent_stay() {
    simulated_with(async |_server, zk| {
        zk.create(PATH).creating_parents().data("ours").await.unwrap();
        let mut guard = lease(&zk, "a").try_take(MINUTE).await.unwrap().unwrap();
        guard.renew(MINUTE).await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(zk.get_data(PATH).await.unwrap(), "ours");
    });
}

#[test]
fn other_data_are_left_alone() {
    simulated_with(async |_server, zk| {
        let later = r#"{"version": 2, "holder": "a", "end": "2026-11-22T14:00:00"}"#;
        zk.create(HOLDER).creating_parents().data(later).await.unwrap();
        let error = lease(&zk, "a").try_take(MINUTE).await.unwrap_err();
        assert_matches!(&error, Error::NotALease { path } if path == HOLDER);
        assert!(!error.is_retryable() && !error.may_have_applied());
        assert_matches!(lease(&zk, "a").holder().await.unwrap_err(), Error::NotALease { .. });
        assert_eq!(zk.get_data(HOLDER).await.unwrap(), later);
    });
}

#[test]
fn data_are_those_of_kazoo_in_utc() {
    simulated_with(async |_server, zk| {
        let guard = lease(&zk, "höst").try_take(MINUTE).await.unwrap().unwrap();
        let (data, stat) = zk.get_data(HOLDER).with_stat().await.unwrap();
        let text = String::from_utf8(data.to_vec()).unwrap();
        assert!(text.starts_with(r#"{"version": 1, "holder": "h\u00f6st", "end": ""#), "{text}");
        assert!(!stat.is_ephemeral());
        let since = guard.end().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let lasts = i64::try_from(since.as_millis()).unwrap() - stat.mtime;
        assert!((60_000..=61_000).contains(&lasts), "{lasts}");
    });
}

#[test]
fn invalid_settings_are_refused() {
    simulated_with(async |server, zk| {
        let none = lease(&zk, "a").try_take(Duration::ZERO).await.unwrap_err();
        assert_matches!(none, Error::InvalidSetting { setting: "duration", .. });
        let none = MultiLease::new(&zk, PATH, 0, "a").try_take(MINUTE).await.unwrap_err();
        assert_matches!(none, Error::InvalidSetting { setting: "number of holders", .. });
        let bad = TimedLease::new(&zk, "no-slash", "a").try_take(MINUTE).await.unwrap_err();
        assert_matches!(bad, Error::Framework(error) if error.kind() == ErrorKind::InvalidPath);
        assert_eq!(server.probe().paths().len(), 0);
    });
}

#[test]
fn longest_lease_ends_in_the_year_9999() {
    simulated_with(async |_server, zk| {
        let guard = lease(&zk, "a").try_take(Duration::MAX).await.unwrap().unwrap();
        let data = zk.get_data(HOLDER).await.unwrap();
        assert!(data.ends_with(br#""end": "9999-12-31T23:59:59"}"#));
        assert!(guard.expires_in() > 365 * 24 * 60 * MINUTE);
    });
}

#[test]
fn several_holders_have_a_lease_each() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let on = |id: &str| MultiLease::new(&zk, PATH, 3, id);
        let mut guards = Vec::new();
        for (id, slot) in [("a", "0"), ("b", "1"), ("c", "2")] {
            let guard = on(id).try_take(MINUTE).await.unwrap().unwrap();
            assert_eq!(guard.path(), format!("{PATH}/{slot}"));
            guards.push(guard);
        }
        let late = MultiLease::new(&other, PATH, 3, "d");
        assert!(late.try_take(MINUTE).await.unwrap().is_none());
        guards.remove(0).release().await.unwrap();
        // A holder stays with its lease, though an earlier one is free.
        let again = on("c").try_take(MINUTE).await.unwrap().unwrap();
        assert_eq!(again.path(), format!("{PATH}/2"));
        assert_eq!(late.try_take(MINUTE).await.unwrap().unwrap().path(), format!("{PATH}/0"));
        let holders = late.holders().await.unwrap();
        let ids: Vec<_> = holders.iter().map(|holder| holder.id.as_str()).collect();
        assert_eq!(ids, ["d", "b", "c"]);
    });
}

#[test]
fn slot_that_may_not_be_written_counts_as_held() {
    simulated_with(async |_server, zk| {
        zk.create(PATH).creating_parents().await.unwrap();
        let acl = vec![Acl::new(Permissions::READ, "world", "anyone")];
        let slot = |number| format!("{PATH}/{number}");
        zk.create(slot(0)).acl(acl.clone()).await.unwrap();
        let on = |id: &str| MultiLease::new(&zk, PATH, 2, id);
        let guard = on("a").try_take(MINUTE).await.unwrap().unwrap();
        assert_eq!(guard.path(), slot(1));
        assert!(on("b").try_take(MINUTE).await.unwrap().is_none());
        // If no slot is usable, no client can ever take one.
        guard.release().await.unwrap();
        zk.set_acl(slot(1), acl).await.unwrap();
        let error = on("b").try_take(MINUTE).await.unwrap_err();
        assert_matches!(error, Error::Framework(error) if error.code() == Some(ErrorCode::NoAuth));
    });
}

#[test]
fn slot_with_other_data_counts_as_held() {
    simulated_with(async |_server, zk| {
        let holder = format!("{PATH}/0/lease_holder");
        zk.create(&holder).creating_parents().data("other").await.unwrap();
        let on = |id: &str| MultiLease::new(&zk, PATH, 2, id);
        let guard = on("a").try_take(MINUTE).await.unwrap().unwrap();
        assert_eq!(guard.path(), format!("{PATH}/1"));
        assert!(on("b").try_take(MINUTE).await.unwrap().is_none());
        let holders = on("b").holders().await.unwrap();
        assert_eq!(holders.iter().map(|holder| &holder.id[..]).collect::<Vec<_>>(), ["a"]);
        assert_eq!(zk.get_data(&holder).await.unwrap(), "other");
        // If no slot is usable, no client can ever take one.
        let error = MultiLease::new(&zk, PATH, 1, "b").try_take(MINUTE).await.unwrap_err();
        assert_matches!(error, Error::NotALease { path } if path == holder);
    });
}

#[test]
fn slot_that_may_not_be_read_counts_as_held() {
    simulated_with(async |_server, zk| {
        let writes_only = vec![Acl::new(Permissions::WRITE, "world", "anyone")];
        let slot = format!("{PATH}/0");
        zk.create(&slot).creating_parents().acl(writes_only).await.unwrap();
        let guard = MultiLease::new(&zk, PATH, 2, "a").try_take(MINUTE).await.unwrap().unwrap();
        assert_eq!(guard.path(), format!("{PATH}/1"));
        let error = MultiLease::new(&zk, PATH, 1, "a").try_take(MINUTE).await.unwrap_err();
        assert_matches!(error, Error::Framework(error) if error.kind() == ErrorKind::NoAuth);
    });
}

#[test]
fn lapsed_slot_of_an_id_is_taken_again_by_it() {
    simulated_each([false, true], async |is_shared, _server, zk| {
        let on = |id: &str| {
            let lease = MultiLease::new(&zk, PATH, 3, id);
            if is_shared { lease.with_kazoo() } else { lease }
        };
        let first = on("b").try_take(MINUTE).await.unwrap().unwrap();
        let mut lapsed = on("a").try_take(SECOND).await.unwrap().unwrap();
        first.release().await.unwrap();
        past(4 * SECOND).await;
        let again = on("a").try_take(MINUTE).await.unwrap().unwrap();
        assert_eq!(again.path(), format!("{PATH}/1"));
        assert_matches!(lapsed.renew(MINUTE).await.unwrap_err(), Error::Lost { .. });
        assert_eq!(on("c").holders().await.unwrap().len(), 1);
    });
}

/// kazoo's holder may have two.
#[test]
fn take_ends_the_other_slots_of_its_id() {
    simulated_each([false, true], async |is_shared, _server, zk| {
        let slot = |number: u16| TimedLease::new(&zk, format!("{PATH}/{number}"), "a");
        drop(slot(3).try_take(SECOND).await.unwrap().unwrap());
        past(4 * SECOND).await;
        let (one, two) = (slot(0).try_take(MINUTE).await, slot(2).try_take(MINUTE).await);
        let (one, two) = (one.unwrap().unwrap(), two.unwrap().unwrap());
        let lease = MultiLease::new(&zk, PATH, 4, "a");
        let lease = if is_shared { lease.with_kazoo() } else { lease };
        let taken = lease.try_take(MINUTE).await.unwrap().unwrap();
        assert_eq!(taken.path(), format!("{PATH}/0"));
        let holders = lease.holders().await.unwrap();
        assert_eq!(
            holders.iter().map(|holder| &holder.path[..]).collect::<Vec<_>>(),
            [taken.path()]
        );
        for mut other in [one, two] {
            assert_matches!(other.renew(MINUTE).await.unwrap_err(), Error::Lost { .. });
        }
        taken.release().await.unwrap();
    });
}

#[test]
fn contenders_for_several_leases_get_different_ones() {
    simulated_with(async |server, zk| {
        let mut clients = vec![zk];
        for _ in 0..5 {
            clients.push(connected(&server).await);
        }
        let leases: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(number, zk)| MultiLease::new(zk, PATH, 4, number.to_string()))
            .collect();
        let takes = leases.iter().map(|lease| lease.try_take(MINUTE));
        let taken = join_all(takes).await;
        let mut paths: Vec<_> = taken
            .into_iter()
            .filter_map(Result::unwrap)
            .map(|guard| guard.path().to_owned())
            .collect();
        paths.sort();
        assert_eq!(paths, [0, 1, 2, 3].map(|slot| format!("{PATH}/{slot}")));
    });
}

#[test]
fn handle_leaves_only_the_lease_behind() {
    simulated_with(async |server, zk| {
        let lease = lease(&zk, "a");
        drop(lease.try_take(MINUTE).await.unwrap());
        drop(lease);
        let began = Instant::now();
        zk_curator_tests::until(&server, |probe| probe.paths().len() == 4).await;
        assert!(began.elapsed() < MINUTE);
        let paths = server.probe().paths();
        assert_eq!(paths[..2], ["/leases", PATH]);
        assert!(paths[2].starts_with("/leases/hourly/_i_") && paths[3] == HOLDER, "{paths:?}");
    });
}

#[test]
fn later_take_ends_the_earlier_guard() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let lease = lease(&zk, "a");
        let mut first = lease.try_take(10 * MINUTE).await.unwrap().unwrap();
        let (second, ended) =
            tokio::join!(async { lease.clone().try_take(MINUTE).await.unwrap().unwrap() }, async {
                first.expired().await;
                Instant::now()
            },);
        assert!(ended.elapsed().is_zero(), "it is reported immediately");
        assert_eq!((first.is_expired(), first.expires_in()), (true, Duration::ZERO));
        assert!(!second.is_expired());
        let (_rule, requests) = recorded(&server);
        assert_matches!(first.renew(MINUTE).await.unwrap_err(), Error::Lost { path } if path == PATH);
        assert_eq!(requests.lock().unwrap().len(), 0);
        second.release().await.unwrap();
        assert!(TimedLease::new(&other, PATH, "b").try_take(MINUTE).await.unwrap().is_some());
        assert!(first.is_expired());
    });
}

/// The first take goes on after the second one could have taken another lease.
#[test]
fn concurrent_takes_of_an_id_leave_one_lease() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let on = |id: &str| MultiLease::new(&other, PATH, 2, id);
        let zero = on("b").try_take(MINUTE).await.unwrap().unwrap();
        let one = on("c").try_take(MINUTE).await.unwrap().unwrap();
        let lease = MultiLease::new(&zk, PATH, 2, "a");
        assert!(lease.try_take(MINUTE).await.unwrap().is_none());
        one.release().await.unwrap();
        let mut first = Box::pin(lease.try_take(MINUTE));
        assert!(futures_util::poll!(&mut first).is_pending());
        settled().await;
        zero.release().await.unwrap();
        let same = lease.clone();
        let second = tokio::spawn(async move { same.try_take(MINUTE).await });
        settled().await;
        let first = first.await.unwrap().unwrap();
        let second = second.await.unwrap().unwrap().unwrap();
        assert_eq!((first.path(), first.is_expired()), (second.path(), true));
        assert_eq!(lease.holders().await.unwrap().len(), 1);
        assert!(on("b").try_take(MINUTE).await.unwrap().is_some());
    });
}
