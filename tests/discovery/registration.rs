//! Registrations: their writes, and their reactions to other processes.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::timeout;
use zk_curator::{ConnectionState, CreateMode, CuratorFramework, ErrorKind};
use zk_curator_discovery::json::{JsonMode, read, write};
use zk_curator_discovery::{
    OnConflict, OnDeleted, PayloadCodec, Registration, RegistrationError, RegistrationState,
    ServiceInstance, ServiceType,
};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::wait::{idle, past, settled};
use zk_curator_testing::{Probe, TestServer, Verdict};
use zk_curator_tests::{
    all_close_clean, always, closes_clean, connected, expire, session_id, simulated_on, until,
    until_state,
};

use crate::support::{
    ORDERS, discovery, instance, record, registered, registered_again, simulated_with, state,
    two_in_memory,
};

type Orders = Registration<u32>;

pub(super) fn node(id: &str) -> String {
    format!("{ORDERS}/{id}")
}

pub(super) fn writes(server: &TestServer) -> usize {
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
