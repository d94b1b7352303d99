//! Values that many processes change: each change once, and none of them lost.

use std::time::Duration;

use zk_curator_recipes::counter::{DistributedAtomicValue, Error, PromotedToLock};
use zk_curator_testing::Verdict;
use zk_curator_tests::{
    connected, cut_at_next_write, expire, join_all, once_on_write_multi, simulated_each,
    simulated_with, until,
};

const PATH: &str = "/shards/7";

fn text(text: &str) -> String {
    text.to_owned()
}

#[test]
fn operations_return_the_value_that_they_found() {
    simulated_with(async |_server, zk| {
        let value = DistributedAtomicValue::<String>::new(&zk, PATH);
        assert_eq!(value.get().await.unwrap(), None);
        assert_eq!(value.compare_and_set(&text(""), &text("a")).await.unwrap(), Err(None));
        assert!(value.initialize(&text("a")).await.unwrap());
        assert!(!value.initialize(&text("b")).await.unwrap());
        let change = value.compare_and_set(&text("a"), &text("b")).await.unwrap().unwrap();
        assert_eq!((change.pre, change.post), (Some(text("a")), Some(text("b"))));
        assert_eq!(
            value.compare_and_set(&text("a"), &text("c")).await.unwrap(),
            Err(Some(text("b")))
        );
        let change = value.set(&text("d")).await.unwrap();
        assert_eq!((change.pre, change.post), (Some(text("b")), Some(text("d"))));
        let kept = value.modify(|_| None).await.unwrap();
        assert_eq!((kept.pre, kept.post), (Some(text("d")), Some(text("d"))));
        assert_eq!(value.get().await.unwrap(), Some(text("d")));
    });
}

#[test]
fn a_lost_reply_changes_it_once() {
    simulated_each([Verdict::LoseReply, Verdict::LoseRequest], async |verdict, server, zk| {
        let value = DistributedAtomicValue::<String>::new(&zk, PATH);
        for n in 1..=20 {
            let _lost = once_on_write_multi(&server, verdict);
            let change = value.modify(|value| Some(value.unwrap_or_default() + "x")).await.unwrap();
            assert_eq!(change.post.unwrap().len(), n, "{verdict:?}");
        }
        let _lost = once_on_write_multi(&server, verdict);
        let all = "x".repeat(20);
        assert!(value.compare_and_set(&all, &text("y")).await.unwrap().is_ok());
    });
}

#[test]
fn changes_of_several_processes_are_all_there() {
    simulated_with(async |server, zk| {
        let lock = || PromotedToLock::new("/shards/lock", Duration::from_secs(30));
        let each = (0..6).map(|_| async {
            let zk = connected(&server).await;
            let value = DistributedAtomicValue::<Vec<u8>>::builder(&zk, PATH);
            let value = value.retries(2).then_lock(lock()).build();
            for _ in 0..10 {
                value
                    .modify(|value| Some([value.unwrap_or_default(), vec![1]].concat()))
                    .await
                    .unwrap();
            }
        });
        join_all(each).await;
        let value = DistributedAtomicValue::<Vec<u8>>::new(&zk, PATH);
        assert_eq!(value.get().await.unwrap().unwrap().len(), 60);
    });
}

#[test]
fn the_outcome_is_unknown_only_when_the_session_has_ended() {
    simulated_with(async |server, zk| {
        let value = DistributedAtomicValue::<String>::new(&zk, PATH);
        value.set(&text("a")).await.unwrap();
        let cut = cut_at_next_write(&server, &zk, Verdict::LoseReply);
        let b = text("b");
        let (set, ()) = tokio::join!(value.set(&b), async {
            until(&server, |probe| probe.data(PATH).is_some_and(|data| data[..] == *b"b")).await;
            expire(&server, &zk).await;
            drop(cut);
        });
        let error = set.unwrap_err();
        assert!(matches!(error, Error::Unknown { .. }) && error.may_have_applied(), "{error:?}");
        assert_eq!(value.set(&text("c")).await.unwrap().pre.as_deref(), Some("b"));
    });
}

#[test]
fn data_that_are_no_value_are_named_and_can_be_replaced() {
    simulated_with(async |_server, zk| {
        zk.create(PATH).creating_parents().data(vec![0xff, 0xfe]).await.unwrap();
        let value = DistributedAtomicValue::<String>::new(&zk, PATH);
        let modified = value.modify(|_| panic!("there is no value")).await;
        for error in [value.get().await.unwrap_err(), modified.unwrap_err()] {
            assert!(matches!(error, Error::Undecodable { length: 2, .. }), "{error:?}");
        }
        let change = value.set(&text("a")).await.unwrap();
        assert_eq!((change.pre, change.post), (None, Some(text("a"))));
    });
}

#[test]
fn followers_see_the_present_value_and_every_latest_one() {
    simulated_with(async |server, zk| {
        let theirs = DistributedAtomicValue::<String>::new(&connected(&server).await, PATH);
        let mut values = DistributedAtomicValue::<String>::new(&zk, PATH).follow();
        assert_eq!(values.next().await.unwrap(), None);
        theirs.set(&text("a")).await.unwrap();
        assert_eq!(values.next().await.unwrap(), Some(text("a")));
        expire(&server, &zk).await;
        theirs.set(&text("b")).await.unwrap();
        assert_eq!(values.next().await.unwrap(), Some(text("b")));
        zk.delete(PATH).deleting_children().await.unwrap();
        assert_eq!(values.next().await.unwrap(), None);
    });
}
