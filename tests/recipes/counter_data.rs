//! Data of a node that are not a number of its counter, and numbers outside its range.

use std::sync::Arc;

use bytes::Bytes;
use zk_curator::CuratorFramework;
use zk_curator::value::{Failure, FromData, ToData};
use zk_curator_recipes::counter::{
    CountDownLatch, DistributedAtomicInteger, DistributedAtomicLong, DistributedAtomicValue,
    Encoding, Error, OnMissing,
};
use zk_curator_tests::{assert_matches, simulated_each, simulated_with};

const PATH: &str = "/counters/orders";
const DOCUMENT: &[u8] = br#"{"limit": 12, "owner": "billing"}"#;

/// Creates the node with these data. Its version and data afterwards show that it was not written.
async fn with_data(zk: &CuratorFramework, data: impl Into<Bytes>) {
    zk.create(PATH).creating_parents().data(data).await.unwrap();
}

async fn is_unwritten(zk: &CuratorFramework, data: &[u8]) {
    let (now, stat) = zk.get_data(PATH).with_stat().await.unwrap();
    assert_eq!((&now[..], stat.version), (data, 0), "it was written");
}

fn is_undecodable<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.expect_err("the data are not a number");
    assert!(matches!(error, Error::Undecodable { .. }) && !error.may_have_applied(), "{error:?}");
}

#[test]
fn a_write_refuses_data_that_are_no_number() {
    simulated_with(async |_server, zk| {
        with_data(&zk, DOCUMENT).await;
        let counter = DistributedAtomicLong::new(&zk, PATH);
        is_undecodable(counter.increment().await);
        is_undecodable(counter.add_once("id", 1).await);
        // As Curator reads them.
        let read = counter.get().await.unwrap();
        assert_eq!(read.to_be_bytes(), DOCUMENT[..8]);
        is_undecodable(counter.compare_and_set(read, 1).await);
        assert!(!counter.initialize(1).await.unwrap());
        is_undecodable(CountDownLatch::new(&zk, PATH, 3).count_down().await);
        is_unwritten(&zk, DOCUMENT).await;
    });
}

#[test]
fn set_replaces_data_that_are_no_number() {
    simulated_each([DOCUMENT, b"seven", b"\x01"], async |data, _server, zk| {
        with_data(&zk, data).await;
        let counter = DistributedAtomicLong::new(&zk, PATH);
        // Together with operations that are refused, and with an operation that depends on it.
        let (refused, set, added) =
            tokio::join!(counter.increment(), counter.set(7), counter.add(2));
        is_undecodable(refused);
        assert_eq!((set.unwrap(), added.unwrap().post), (None, 9));
        assert_eq!(zk.get_data(PATH).await.unwrap()[..], 9_i64.to_be_bytes());
        assert_eq!(counter.set(-1).await.unwrap(), Some(9));
    });
}

#[test]
fn a_number_beyond_the_type_is_refused_before_the_write() {
    simulated_each([Encoding::I64Be, Encoding::Text], async |encoding, _server, zk| {
        let long = DistributedAtomicLong::builder(&zk, PATH).encoding(encoding).build();
        long.initialize(i64::from(i32::MAX)).await.unwrap();
        let data = zk.get_data(PATH).await.unwrap();
        let small = || DistributedAtomicInteger::builder(&zk, PATH).encoding(encoding);
        let error = small().build().increment().await.unwrap_err();
        assert_matches!(error, Error::Overflow { value: 2_147_483_647, delta: 1, .. });
        is_unwritten(&zk, &data).await;
        assert_eq!(small().wrapping().build().increment().await.unwrap(), i32::MIN);
        long.set(1 << 40).await.unwrap();
        for result in [small().build().decrement().await, small().build().get().await] {
            is_undecodable(result);
        }
        assert_eq!(long.get().await.unwrap(), 1 << 40);
        assert_eq!(small().build().set(5).await.unwrap(), None);
        assert_eq!(long.get().await.unwrap(), 5);
    });
}

#[test]
fn a_latch_refuses_a_number_that_it_cannot_tell() {
    simulated_with(async |_server, zk| {
        let data = (1_i64 << 40).to_be_bytes();
        with_data(&zk, data.to_vec()).await;
        let latch = CountDownLatch::new(&zk, PATH, 3);
        is_undecodable(latch.count_down().await);
        is_undecodable(latch.count_down_once("worker").await);
        is_undecodable(latch.count().await);
        is_unwritten(&zk, &data).await;
    });
}

/// It cannot read its own writes.
#[derive(Debug, PartialEq)]
struct OneWay(&'static str);

impl ToData for OneWay {
    fn to_data(&self) -> Result<Bytes, Failure> {
        Ok(self.0.into())
    }
}

impl FromData for OneWay {
    fn from_data(_: &Bytes) -> Result<Self, Failure> {
        Err(Arc::new(std::io::Error::other("it cannot be read")))
    }
}

#[test]
fn a_value_that_cannot_be_read_back_is_not_written() {
    simulated_with(async |_server, zk| {
        with_data(&zk, "before").await;
        let value = DistributedAtomicValue::<OneWay>::new(&zk, PATH);
        is_undecodable(value.set(&OneWay("after")).await);
        is_unwritten(&zk, b"before").await;
    });
}

#[test]
fn a_counter_that_must_exist_is_missing_to_readers_too() {
    simulated_with(async |_server, zk| {
        let counter = DistributedAtomicLong::builder(&zk, PATH).on_missing(OnMissing::Fail).build();
        let mut values = counter.follow();
        let (get, relaxed) = (counter.get().await, counter.get_relaxed().await);
        for result in [get, relaxed, values.next().await] {
            assert!(matches!(result, Err(Error::Missing { .. })), "{result:?}");
        }
        // Only operations after the create are applied.
        let (before, made, after) =
            tokio::join!(counter.add(1), counter.initialize(5), counter.add(2));
        assert!(matches!(before, Err(Error::Missing { .. })), "{before:?}");
        assert_eq!((made.unwrap(), after.unwrap().post), (true, 7));
        assert_eq!((values.next().await.unwrap(), counter.get().await.unwrap()), (7, 7));
        zk.delete(PATH).deleting_children().await.unwrap();
        assert!(matches!(values.next().await, Err(Error::Missing { .. })));
        counter.initialize(7).await.unwrap();
        assert_eq!(values.next().await.unwrap(), 7, "reported again");
    });
}
