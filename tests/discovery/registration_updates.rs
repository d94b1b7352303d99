//! Changes of the record of a registration.

use std::time::Duration;

use zk_curator::ErrorKind;
use zk_curator_discovery::json::{JsonMode, write};
use zk_curator_discovery::{PayloadCodec, RegistrationError, ServiceDiscovery, ServiceInstance};
use zk_curator_proto::OpCode;
use zk_curator_testing::wait::settled;
use zk_curator_testing::{Probe, Verdict};
use zk_curator_tests::simulated_on;

use crate::registration::{node, writes};
use crate::support::{
    SERVICES, record, registered, registered_again, simulated_with, two_in_memory,
};

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
