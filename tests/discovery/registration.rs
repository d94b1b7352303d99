//! Registrations: their writes, and their reactions to other processes.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::timeout;
use zk_curator::{ConnectionState, CreateMode, CuratorFramework, ErrorKind};
use zk_curator_discovery::json::{JsonMode, read, write};
use zk_curator_discovery::{
    OnConflict, OnDeleted, PayloadCodec, Registration, RegistrationError, RegistrationState,
    ServiceDiscovery, ServiceInstance, ServiceType,
};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::wait::{idle, past, settled};
use zk_curator_testing::{Probe, TestServer, Verdict};
use zk_curator_tests::{
    all_close_clean, always, closes_clean, connected, expire, session_id, simulated_on, until,
    until_state,
};

use crate::support::{
    ORDERS, SERVICES, discovery, instance, record, registered, registered_again, simulated_with,
    state, two_in_memory,
};

type Orders = Registration<u32>;

fn node(id: &str) -> String {
    format!("{ORDERS}/{id}")
}

fn writes(server: &TestServer) -> usize {
    server.writes().len()
}

#[test]
fn the_layout_is_curators() {
    simulated_with(async |server, zk| {
        let me = registered(&zk, "a").await;
        assert_eq!((me.name(), me.id(), &*me.path()), ("orders", "a", &*node("a")));
        let probe = server.probe();
        assert!(probe.is_container("/services") && probe.is_container(ORDERS));
        let stat = probe.stat(&node("a")).unwrap();
        assert_eq!(stat.ephemeral_owner, session_id(&zk).get());
        let golden = write(&instance("a"), &PayloadCodec::map(), JsonMode::Compatible).unwrap();
        assert_eq!(probe.data(&node("a")).unwrap(), golden);
        drop(me);
        until(&server, |probe| !probe.exists(&node("a"))).await;
        closes_clean(&server, &zk).await;
    });
}

/// With existing parents.
#[test]
fn registering_is_one_round_trip() {
    simulated_with(async |server, zk| {
        zk.create(ORDERS).creating_parents().await.unwrap();
        let before = server.probe();
        let me = registered(&zk, "a").await;
        let after = server.probe();
        assert_eq!(after.requests(OpCode::Create2), before.requests(OpCode::Create2) + 1);
        assert!(after.total_requests() <= before.total_requests() + 2, "the watch follows");
        drop(me);
    });
}

/// The create and the watch, then the read of the delete by `czxid` behind a quorum, and the
/// delete, which fires the watch.
#[test]
fn a_registration_and_its_end_cost_five_requests() {
    simulated_with(async |server, zk| {
        zk.create(ORDERS).creating_parents().await.unwrap();
        let before = server.probe();
        let mut me = registered(&zk, "a").await;
        settled().await;
        me.unregister().await.unwrap();
        settled().await;
        let after = server.probe();
        let more = |opcode| after.requests(opcode) - before.requests(opcode);
        let expected =
            [OpCode::Create2, OpCode::GetData, OpCode::Multi, OpCode::Exists, OpCode::Delete];
        assert_eq!(expected.map(more), [1; 5]);
        assert_eq!(after.total_requests() - before.total_requests(), 5);
    });
}

#[test]
fn a_missing_id_is_generated() {
    simulated_with(async |_, zk| {
        let me = discovery(&zk).register(instance("")).await.unwrap();
        assert_eq!(me.id().len(), 36);
        let other = discovery(&zk).register(instance("")).await.unwrap();
        assert_ne!(me.id(), other.id());
    });
}

#[test]
fn invalid_names_are_refused_before_anything_is_sent() {
    simulated_with(async |server, zk| {
        let before = server.probe().total_requests();
        let discovery = discovery(&zk);
        for (name, id) in [("orders", "a/b"), ("", "a"), ("a/b", "a"), ("orders", ".."), (".", "a")]
        {
            let named = ServiceInstance::builder(name).id(id).payload(1).build().unwrap();
            let error = discovery.register(named).await.unwrap_err();
            let RegistrationError::Framework(error) = error else { panic!("{error:?}") };
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name} {id}");
        }
        let odd = ServiceInstance::builder("orders").id("a").payload(1);
        let odd = odd.service_type(ServiceType::Other("LUNAR".into())).build().unwrap();
        let error = discovery.register(odd).await.unwrap_err();
        assert!(matches!(error, RegistrationError::Write { .. }), "{error:?}");
        assert_eq!(server.probe().total_requests(), before);
    });
}

#[test]
fn a_blip_writes_nothing() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let me = registered(&zk, "a").await;
        let watched = other.get_data(node("a")).watched().await.unwrap();
        let children = other.children(ORDERS).watched().await.unwrap();
        let mut states = zk.states();
        let before = writes(&server);
        for _ in 0..3 {
            server.disconnect(session_id(&zk).get());
            let back = states
                .until(|status| {
                    matches!(status.state, ConnectionState::Reconnected { same_session: true })
                        && status.epoch > 0
                })
                .await;
            assert!(back.is_some());
            until_state(&zk, ConnectionState::Reconnected { same_session: true }).await;
            assert!(me.is_registered());
            idle(Duration::from_secs(3)).await;
        }
        assert_eq!(writes(&server), before);
        for watch in [watched.watch, children.watch] {
            assert!(timeout(Duration::from_secs(1), watch).await.is_err(), "something was seen");
        }
        drop(me);
    });
}

/// A watcher can see only the states between transactions.
#[test]
fn a_replaced_instance_is_never_missing() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let old = registered(&zk, "a").await;
        let before = writes(&server);
        let new = registered(&other, "a").await;
        let seen: Vec<_> = server.writes().split_off(before);
        // One transaction: the delete, the create, and the write that makes its version differ.
        let zxids: std::collections::BTreeSet<_> = seen.iter().map(|write| write.zxid).collect();
        assert_eq!((seen.len(), zxids.len()), (3, 1), "{seen:?}");
        assert_eq!(server.probe().stat(&node("a")).unwrap().version, 1);
        let state =
            state(&old, |state| matches!(state, RegistrationState::Superseded { .. })).await;
        let RegistrationState::Superseded { by } = state else { unreachable!() };
        assert_eq!(by.address.as_deref(), Some("10.0.0.1"));
        assert!(new.is_registered() && !old.is_registered());
        drop((old, new));
        until(&server, |probe| !probe.exists(&node("a"))).await;
    });
}

#[test]
fn conflicts_follow_their_policy() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let old = registered(&zk, "a").await;
        let failing = discovery(&other).on_conflict(OnConflict::Fail);
        let error = failing.register(instance("a")).await.unwrap_err();
        let RegistrationError::Refused { by, .. } = error else { panic!("{error:?}") };
        assert_eq!(by.address.as_deref(), Some("10.0.0.1"));
        assert!(old.is_registered());

        let waiting = discovery(&other).on_conflict(OnConflict::Wait);
        let mut waits = Box::pin(waiting.register(instance("a")));
        assert!(timeout(Duration::from_secs(60), &mut waits).await.is_err());
        assert_eq!(server.probe().stat(&node("a")).unwrap().ephemeral_owner, session_id(&zk).get());
        drop(old);
        let new = waits.await.unwrap();
        assert_eq!(
            server.probe().stat(&node("a")).unwrap().ephemeral_owner,
            session_id(&other).get()
        );
        drop(new);
        until(&server, |probe| !probe.exists(&node("a"))).await;
    });
}

#[test]
fn two_processes_with_one_id_do_not_fight() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let older = registered(&zk, "a").await;
        let newer = registered(&other, "a").await;
        state(&older, |state| matches!(state, RegistrationState::Superseded { .. })).await;
        let before = writes(&server);
        // Neither a blip nor a new session of the older one brings it back.
        expire(&server, &zk).await;
        until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
        idle(Duration::from_secs(120)).await;
        let owner = session_id(&other).get();
        assert_eq!(server.probe().stat(&node("a")).unwrap().ephemeral_owner, owner);
        let added: Vec<_> = server.writes().split_off(before);
        assert!(added.iter().all(|write| !write.path.starts_with(ORDERS)), "{added:?}");
        // It ends, and deletes nothing.
        let mut older = older;
        let error = older.update(|instance| instance.payload = 9).await.unwrap_err();
        assert!(matches!(error, RegistrationError::Superseded { .. }), "{error:?}");
        older.unregister().await.unwrap();
        assert!(newer.is_registered() && server.probe().exists(&node("a")));
        drop(newer);
        all_close_clean(&server, [&zk, &other]).await;
    });
}

#[test]
fn two_registrations_of_a_process_do_not_fight() {
    simulated_with(async |server, zk| {
        let older = registered(&zk, "a").await;
        let newer = registered(&zk, "a").await;
        state(&older, |state| matches!(state, RegistrationState::Superseded { .. })).await;
        drop(older);
        idle(Duration::from_secs(60)).await;
        assert!(newer.is_registered() && server.probe().exists(&node("a")));
        drop(newer);
        closes_clean(&server, &zk).await;
    });
}

fn orders_of(probe: &Probe) -> Vec<String> {
    probe.children(ORDERS).into_iter().map(str::to_owned).collect()
}

#[test]
fn sequential_instances_leave_one_node_after_ten_sessions() {
    simulated_with(async |server, zk| {
        let mut sequential = instance("a");
        sequential.service_type = ServiceType::DynamicSequential;
        let mut me: Orders = discovery(&zk).register(sequential).await.unwrap();
        let path = me.path();
        assert!(path.ends_with("a0000000000"), "{path}");
        for _ in 0..10 {
            registered_again(&server, &zk, &me).await;
            assert_eq!((orders_of(&server.probe()).len(), me.path()), (1, path.clone()));
        }
        me.unregister().await.unwrap();
        assert_eq!(orders_of(&server.probe()), [""; 0]);
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn an_instance_is_registered_in_the_next_session() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        me.update(|instance| instance.payload = 5).await.unwrap();
        let before = writes(&server);
        registered_again(&server, &zk, &me).await;
        assert_eq!(record(&server, "a").payload, 5);
        let seen = server.writes().split_off(before);
        let ours = seen.iter().filter(|write| write.path == node("a")).count();
        assert_eq!(ours, 2, "the end of the old session, and one create: {seen:?}");
        drop(me);
    });
}

/// The server has not expired the old one yet.
#[test]
fn the_node_of_the_old_session_is_replaced() {
    let slow = async || {
        // Servers expire sessions at multiples of this time.
        let server = TestServer::builder().tcp(false).keep_writes(true);
        let server = server.tick_time(Duration::from_secs(20)).start().await.unwrap();
        let zk = connected(&server).await;
        (server, zk)
    };
    simulated_on(slow, async |(server, zk)| {
        let me = registered(&zk, "a").await;
        let old = session_id(&zk);
        server.partition();
        state(&me, |state| matches!(state, RegistrationState::Lost)).await;
        assert!(server.probe().exists(&node("a")), "the server is as fast as the client");
        // This client does not tell the server of the end of the old session either.
        let _rule = always(&server, OpCode::CloseSession, Verdict::Disconnect).times(100);
        server.heal();
        let before = writes(&server);
        me.registered().await.unwrap();
        assert_ne!(session_id(&zk), old);
        let stat = server.probe().stat(&node("a")).unwrap();
        assert_eq!((stat.ephemeral_owner, stat.version), (session_id(&zk).get(), 1));
        let seen = server.writes().split_off(before);
        let ours: std::collections::BTreeSet<_> =
            seen.iter().filter(|write| write.path == node("a")).map(|write| write.zxid).collect();
        assert_eq!(ours.len(), 1, "{seen:?}");
        drop(me);
        until(&server, |probe| !probe.exists(&node("a"))).await;
    });
}

#[test]
fn an_unregistered_instance_does_not_come_back() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        me.unregister().await.unwrap();
        assert!(!server.probe().exists(&node("a")));
        for _ in 0..3 {
            expire(&server, &zk).await;
            until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
            idle(Duration::from_secs(60)).await;
            assert!(!server.probe().exists(&node("a")));
        }
        // Again, and with a change.
        me.unregister().await.unwrap();
        let error = me.update(|instance| instance.payload = 2).await.unwrap_err();
        assert!(matches!(error, RegistrationError::Ended { .. }), "{error:?}");
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn permanent_and_static_instances_survive() {
    simulated_with(async |server, zk| {
        for kind in [ServiceType::Static, ServiceType::Permanent] {
            let mut lasting = instance("a");
            lasting.service_type = kind.clone();
            let mut me: Orders = discovery(&zk).register(lasting.clone()).await.unwrap();
            let stat = server.probe().stat(&node("a")).unwrap();
            assert_eq!(stat.ephemeral_owner, 0);
            let before = writes(&server);
            expire(&server, &zk).await;
            until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
            idle(Duration::from_secs(60)).await;
            assert!(server.writes().split_off(before).iter().all(|write| write.path != node("a")));
            me.touch().await.unwrap();
            let touched = server.probe().stat(&node("a")).unwrap();
            assert_eq!((touched.czxid, touched.version), (stat.czxid, stat.version + 1));
            drop(me);
            idle(Duration::from_secs(60)).await;
            assert!(server.probe().exists(&node("a")));
            // Another process, or a restart of this one, finds the node with the data that it would
            // write.
            me = discovery(&zk).register(lasting).await.unwrap();
            assert_eq!(server.probe().stat(&node("a")).unwrap().czxid, stat.czxid);
            me.unregister().await.unwrap();
            assert!(!server.probe().exists(&node("a")), "{kind}");
        }
        let mut lasting = instance("b");
        lasting.service_type = ServiceType::Permanent;
        drop(discovery(&zk).register(lasting).await.unwrap());
        zk.close().await.unwrap();
        assert!(server.probe().exists(&node("b")));
    });
}

#[test]
fn updates_write_in_place() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        let before = writes(&server);
        me.update(|instance| instance.payload = 7).await.unwrap();
        let seen = server.writes().split_off(before);
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert_eq!(record(&server, "a").payload, 7);
        // Nothing to write.
        me.update(|_| ()).await.unwrap();
        assert_eq!(writes(&server), before + 1);
        let refused = me.update(|instance| instance.id = "b".to_owned()).await.unwrap_err();
        let RegistrationError::Framework(refused) = refused else { panic!("{refused:?}") };
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(server.probe().exists(&node("a")));
    });
}

#[test]
fn edits_by_hand_are_kept() {
    simulated_on(two_in_memory, async |(server, zk, operator)| {
        let mut me = registered(&zk, "a").await;
        let mut edited = record(&server, "a");
        edited.enabled = false;
        let data = write(&edited, &PayloadCodec::map(), JsonMode::Compatible).unwrap();
        operator.set_data(node("a"), data).await.unwrap();
        me.update(|instance| instance.payload = 3).await.unwrap();
        assert_eq!((record(&server, "a").payload, record(&server, "a").enabled), (3, false));
        // In the next session, too.
        registered_again(&server, &zk, &me).await;
        assert!(!record(&server, "a").enabled);
        me.resume().await.unwrap();
        assert!(record(&server, "a").enabled);
        // The next change repairs data that are not a record.
        operator.set_data(node("a"), "junk").await.unwrap();
        settled().await;
        me.update(|instance| instance.payload = 4).await.unwrap();
        assert_eq!(record(&server, "a").payload, 4);
    });
}

#[test]
fn fields_of_the_future_survive_an_update() {
    simulated_on(two_in_memory, async |(server, zk, operator)| {
        let mut me = registered(&zk, "a").await;
        let data = server.probe().data(&node("a")).unwrap();
        let data = String::from_utf8(data.to_vec()).unwrap();
        let newer =
            data.replace("}}", "},\"weight\":1.50}").replace("null}", "null,\"weight\":1.50}");
        assert_ne!(newer, data);
        operator.set_data(node("a"), newer).await.unwrap();
        me.drain().await.unwrap();
        let data = server.probe().data(&node("a")).unwrap();
        assert!(data.ends_with(b"\"weight\":1.50,\"enabled\":false}"), "{data:?}");
    });
}

/// A payload that knows less than another version of the program.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Known {
    weight: u32,
    share: f64,
    zones: Vec<Zone>,
}

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Zone {
    name: String,
}

/// A record with digits, fields, spaces and an order that [`Known`] does not have.
const FOREIGN: &str = r#"{"id":"a", "name":"orders","future":{"x":[1.50,null]},"port":"8040","sslPort":null,"address":"10.0.0.1",
"payload":{"zones":[{"rack":1e2,"name":"eu"},{"name":"us","rack":7}],"share":123456789012345678901234567890,"weight":1,"note":"kept"},
"registrationTimeUTC":5,"serviceType":"DYNAMIC","uriSpec":null}"#;

#[test]
fn an_update_writes_only_the_difference() {
    simulated_on(two_in_memory, async |(server, zk, operator)| {
        let discovery = ServiceDiscovery::<Known>::new(&zk, SERVICES);
        let zone = |name: &str| Zone { name: name.to_owned() };
        let payload = Known { weight: 0, share: 1.0, zones: vec![] };
        let instance = ServiceInstance::builder("orders").id("a").payload(payload).build().unwrap();
        let mut me = discovery.register(instance).await.unwrap();
        operator.set_data(node("a"), FOREIGN).await.unwrap();
        let compact = |text: &str| text.replace("\n", "").replace(", \"", ",\"");
        let data = || String::from_utf8(server.probe().data(&node("a")).unwrap().to_vec()).unwrap();
        let mut expected = compact(FOREIGN);

        me.update(|_| ()).await.unwrap();
        assert_eq!(data(), FOREIGN);
        me.update(|instance| instance.payload.weight = 2).await.unwrap();
        expected = expected.replace("\"weight\":1", "\"weight\":2");
        assert_eq!(data(), expected);
        me.update(move |instance| instance.payload.zones.push(zone("ap"))).await.unwrap();
        expected = expected.replace("\"rack\":7}]", "\"rack\":7},{\"name\":\"ap\"}]");
        assert_eq!(data(), expected);
        me.update(|instance| instance.payload.zones[1].name.push('2')).await.unwrap();
        expected = expected.replace("\"us\"", "\"us2\"");
        assert_eq!(data(), expected);
        me.update(|instance| drop(instance.payload.zones.remove(0))).await.unwrap();
        expected = expected.replace(r#"{"rack":1e2,"name":"eu"},"#, "");
        assert_eq!(data(), expected);
        me.drain().await.unwrap();
        expected = expected.replace("\"uriSpec\":null}", "\"uriSpec\":null,\"enabled\":false}");
        assert_eq!(data(), expected);
        me.update(|instance| instance.port = Some(1)).await.unwrap();
        expected = expected.replace("\"8040\"", "1");
        assert_eq!(data(), expected);
        me.resume().await.unwrap();
        expected = expected.replace(",\"enabled\":false", "");
        assert_eq!(data(), expected);
    });
}

/// What one version reads under an old name it writes under the new one.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Renamed {
    #[serde(alias = "old")]
    new: u32,
    zones: std::collections::BTreeSet<String>,
}

#[test]
fn a_payload_that_differs_when_read_back_is_replaced_whole() {
    simulated_on(two_in_memory, async |(server, zk, operator)| {
        let discovery =
            ServiceDiscovery::<Renamed>::new(&zk, SERVICES).payload(PayloadCodec::plain());
        let payload = Renamed { new: 0, zones: ["a".into()].into() };
        let instance = ServiceInstance::builder("orders").id("a").payload(payload).build().unwrap();
        let mut me = discovery.register(instance).await.unwrap();
        let present =
            r#"{"name":"orders","id":"a","payload":{"old":1,"zones":["c","b"],"x":1},"y":2}"#;
        for (edit, expected) in [
            (
                (|renamed| renamed.new = 3) as fn(&mut Renamed),
                r#"{"name":"orders","id":"a","payload":{"new":3,"zones":["b","c"]},"y":2}"#,
            ),
            (
                |renamed| drop(renamed.zones.pop_first()),
                r#"{"name":"orders","id":"a","payload":{"new":1,"zones":["c"]},"y":2}"#,
            ),
        ] {
            operator.set_data(node("a"), present).await.unwrap();
            me.update(move |instance| edit(&mut instance.payload)).await.unwrap();
            let data = server.probe().data(&node("a")).unwrap();
            assert_eq!(str::from_utf8(&data).unwrap(), expected);
        }
    });
}

#[test]
fn a_record_with_an_unreadable_payload_is_drained_not_lost() {
    simulated_on(two_in_memory, async |(server, zk, operator)| {
        let mut me = registered(&zk, "a").await;
        let foreign = r#"{"name":"orders","id":"a","port":[],"payload":{"x":1},"enabled":false}"#;
        let data = || String::from_utf8(server.probe().data(&node("a")).unwrap().to_vec()).unwrap();
        operator.set_data(node("a"), foreign).await.unwrap();
        let refused = me.update(|instance| instance.payload = 9).await.unwrap_err();
        let RegistrationError::Framework(refused) = refused else { panic!("{refused:?}") };
        assert_eq!(refused.kind(), ErrorKind::Undecodable);
        assert!(!refused.may_have_applied());
        assert_eq!(data(), foreign);
        // An instance that was drained stays drained in the next session.
        registered_again(&server, &zk, &me).await;
        assert_eq!(data(), foreign);
        me.touch().await.unwrap();
        assert_eq!(data(), foreign);
        me.resume().await.unwrap();
        assert_eq!(data(), foreign.replace(",\"enabled\":false", ""));
        me.drain().await.unwrap();
        assert_eq!(data(), foreign);
    });
}

/// The registration knows its record and its version.
#[test]
fn an_update_costs_a_write_and_its_watch() {
    simulated_on(two_in_memory, async |(server, zk, operator)| {
        let mut me = registered(&zk, "a").await;
        settled().await;
        let count = |before: &Probe| {
            let after = server.probe();
            let more = |opcode| after.requests(opcode) - before.requests(opcode);
            let all = after.total_requests() - before.total_requests();
            (more(OpCode::SetData), more(OpCode::GetData), more(OpCode::Sync), all)
        };
        let before = server.probe();
        me.update(|instance| instance.payload = 2).await.unwrap();
        settled().await;
        assert_eq!(count(&before), (1, 1, 0, 2));
        // Another client has written, and the event is not here yet.
        let before = server.probe();
        let held = server.rule(|request| {
            if request.is(OpCode::GetData) {
                Verdict::Delay(Duration::from_secs(1))
            } else {
                Verdict::Pass
            }
        });
        let (_, updated) = tokio::join!(
            operator.set_data(node("a"), r#"{"name":"orders","id":"a","payload":5}"#),
            me.update(|instance| instance.payload += 1),
        );
        updated.unwrap();
        drop(held);
        assert_eq!(record(&server, "a").payload, 6);
        settled().await;
        assert!(count(&before).3 <= 8, "{:?}", count(&before));
    });
}

#[test]
fn deleted_instances_come_back_ever_more_slowly() {
    simulated_on(two_in_memory, async |(server, zk, operator)| {
        let me = registered(&zk, "a").await;
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            let began = tokio::time::Instant::now();
            operator.delete(node("a")).await.unwrap();
            state(&me, |state| matches!(state, RegistrationState::Deleted)).await;
            me.registered().await.unwrap();
            assert_eq!(began.elapsed().as_secs(), pause);
        }
        past(Duration::from_secs(61)).await;
        operator.delete(node("a")).await.unwrap();
        let began = tokio::time::Instant::now();
        state(&me, |state| matches!(state, RegistrationState::Deleted)).await;
        me.registered().await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 1);

        let ending = discovery(&zk).on_deleted(OnDeleted::End);
        let mut ends = ending.register(instance("b")).await.unwrap();
        operator.delete(node("b")).await.unwrap();
        state(&ends, |state| matches!(state, RegistrationState::Deleted)).await;
        let error = ends.update(|instance| instance.payload = 2).await.unwrap_err();
        assert!(matches!(error, RegistrationError::Deleted { .. }), "{error:?}");
        idle(Duration::from_secs(60)).await;
        assert!(!server.probe().exists(&node("b")));
        drop(me);
        all_close_clean(&server, [&zk, &operator]).await;
    });
}

#[test]
fn every_state_is_reported() {
    simulated_with(async |server, zk| {
        let me = registered(&zk, "a").await;
        let mut events = me.events();
        let first = events.next().await;
        assert!(
            matches!(first, Some(RegistrationState::Registered { session }) if session == session_id(&zk))
        );
        server.partition();
        assert!(matches!(events.next().await, Some(RegistrationState::Suspended)));
        assert!(me.is_registered());
        assert!(matches!(events.next().await, Some(RegistrationState::Lost)));
        assert!(!me.is_registered());
        server.heal();
        assert!(matches!(events.next().await, Some(RegistrationState::Registered { .. })));
        drop(me);
        assert!(matches!(events.next().await, Some(RegistrationState::Ended)));
        assert!(events.next().await.is_none());
    });
}

#[test]
fn refusals_are_errors() {
    simulated_with(async |server, zk| {
        let own = zk_curator::Permissions::READ;
        zk.create("/services")
            .acl(vec![zk_curator::Acl::new(own, "world", "anyone")])
            .await
            .unwrap();
        let error = discovery(&zk).register(instance("a")).await.unwrap_err();
        let RegistrationError::Framework(error) = error else { panic!("{error:?}") };
        assert_eq!(error.kind(), ErrorKind::NoAuth);
        let latent = CuratorFramework::builder().connect_string("zk:1").build().unwrap();
        let error = discovery(&latent).register(instance("a")).await.unwrap_err();
        let RegistrationError::Framework(error) = error else { panic!("{error:?}") };
        assert_eq!(error.kind(), ErrorKind::NotStarted);
        drop(server);
    });
}

#[test]
fn services_are_where_the_paths_say() {
    simulated_with(async |server, zk| {
        let elsewhere = discovery(&zk).paths(|name| format!("/elsewhere/{name}/live"));
        let me = elsewhere.register(instance("a")).await.unwrap();
        assert_eq!(me.path(), "/elsewhere/orders/live/a");
        assert!(server.probe().exists("/elsewhere/orders/live/a"));
        // A persistent node at the path counts as that of another process.
        zk.create("/elsewhere/orders/live/b").mode(CreateMode::Persistent).data("x").await.unwrap();
        let other = elsewhere.register(instance("b")).await.unwrap();
        let data = server.probe().data(&other.path()).unwrap();
        assert_eq!(read::<u32>(&data, "", "").unwrap().id, "b");
        drop((me, other));
    });
}

/// It waits for a node that no session will ever remove.
#[test]
fn a_persistent_node_in_the_place_of_an_instance_is_a_failure() {
    simulated_on(two_in_memory, async |(server, zk, operator)| {
        operator.create(node("a")).creating_parents().data("{}").await.unwrap();
        let discovery = discovery(&zk).on_conflict(OnConflict::Wait);
        let refused = discovery.register(instance("a")).await.unwrap_err();
        let RegistrationError::Framework(refused) = refused else { panic!("{refused:?}") };
        assert_eq!(refused.kind(), ErrorKind::NodeExists);
        assert_eq!(server.probe().data(&node("a")).unwrap(), "{}");
    });
}

#[test]
fn a_refused_instance_is_registered_ever_more_slowly() {
    simulated_with(async |server, zk| {
        let mut errors = zk.background_errors();
        let me = registered(&zk, "a").await;
        let refused = server.rule(|request| {
            let creates = request.is_create_under(ORDERS);
            if creates { Verdict::Refuse(ErrorCode::NoAuth) } else { Verdict::Pass }
        });
        expire(&server, &zk).await;
        state(&me, |state| matches!(state, RegistrationState::Failed(_))).await;
        let before = server.probe().requests(OpCode::Create2);
        idle(Duration::from_secs(3600)).await;
        let asked = server.probe().requests(OpCode::Create2) - before;
        assert!((120..400).contains(&asked), "{asked}");
        assert_eq!(errors.next().await.map(|error| error.kind()), Some(ErrorKind::NoAuth));
        assert!(errors.next().now_or_never().is_none(), "it is reported once");
        drop(refused);
        me.registered().await.unwrap_err();
        state(&me, |state| matches!(state, RegistrationState::Registered { .. })).await;
    });
}

#[test]
fn a_registration_of_a_bound_handle_ends_with_its_session() {
    simulated_with(async |server, zk| {
        let bound = zk.bound_to_session().unwrap();
        let mut me = discovery(&bound).register(instance("a")).await.unwrap();
        expire(&server, &zk).await;
        until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
        let updated = timeout(Duration::from_secs(3600), me.update(|one| one.payload = 2)).await;
        assert!(matches!(updated.unwrap(), Err(RegistrationError::Ended { .. })));
        assert!(matches!(me.state(), RegistrationState::Ended));
    });
}
