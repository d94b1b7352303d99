//! Records of instances: written byte for byte as by Curator, and read leniently.

use proptest::prelude::*;
use serde_json::Value;
use zk_curator_discovery::json::{Fault, JsonMode, MAX_BYTES, MAX_DEPTH, read, write};
use zk_curator_discovery::{PayloadCodec, ServiceInstance, ServiceType};

const COMPATIBLE: &str = r#"{"name":"orders","id":"06c0af4c-03c4-4cc1-a702-050303b41b8b","address":"10.0.0.1","port":8040,"sslPort":null,"payload":null,"registrationTimeUTC":1553592092875,"serviceType":"DYNAMIC","uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false},{"value":"address","variable":true},{"value":":","variable":false},{"value":"port","variable":true}]}}"#;

/// A record as Spring Cloud ZooKeeper writes it.
const SPRING: &str = r#"{"name":"producer","id":"06c0af4c-03c4-4cc1-a702-050303b41b8b","address":"host.docker.internal","port":8080,"sslPort":null,"payload":{"@class":"org.springframework.cloud.zookeeper.discovery.ZookeeperInstance","id":"producer","name":"producer","metadata":{"instance_status":"UP"}},"registrationTimeUTC":1553592092875,"serviceType":"DYNAMIC","uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false},{"value":"address","variable":true},{"value":":","variable":false},{"value":"port","variable":true}]}}"#;

fn orders() -> ServiceInstance<()> {
    let builder = ServiceInstance::builder("orders").id("06c0af4c-03c4-4cc1-a702-050303b41b8b");
    let builder = builder.address("10.0.0.1").port(8040).registration_time_utc(1_553_592_092_875);
    builder.uri_spec("{scheme}://{address}:{port}").build().unwrap()
}

fn written<P: serde::Serialize>(instance: &ServiceInstance<P>) -> String {
    let data = write(instance, &PayloadCodec::default(), JsonMode::Compatible).unwrap();
    String::from_utf8(data.to_vec()).unwrap()
}

fn parsed(text: &str) -> Result<ServiceInstance<Value>, Fault> {
    read(text.as_bytes(), "of the path", "id of the path")
}

fn fault(text: &str) -> Fault {
    parsed(text).expect_err(text)
}

#[test]
fn bytes_are_those_of_curators_compatible_serializer() {
    assert_eq!(written(&orders()), COMPATIBLE);
    assert_eq!(read::<()>(COMPATIBLE.as_bytes(), "", "").unwrap(), orders());
    let plain = ServiceInstance::builder("n").id("i").registration_time_utc(5).build().unwrap();
    let golden = r#"{"name":"n","id":"i","address":null,"port":null,"sslPort":null,"payload":null,"registrationTimeUTC":5,"serviceType":"DYNAMIC","uriSpec":null}"#;
    assert_eq!(written(&plain), golden);
}

#[test]
fn strings_are_escaped_as_by_jackson() {
    let mut odd = orders();
    odd.address = Some("a\u{1f}/é\"\\\n\u{7f}\u{2028}".to_owned());
    odd.uri_spec = None;
    let golden = concat!(r#""address":"a\u001F/é\"\\\n"#, "\u{7f}\u{2028}\"");
    assert!(written(&odd).contains(golden), "{}", written(&odd));
    assert_eq!(read::<()>(written(&odd).as_bytes(), "", "").unwrap(), odd);
}

#[test]
fn full_mode_always_has_enabled() {
    let with = |instance: &ServiceInstance<()>| {
        write(instance, &PayloadCodec::default(), JsonMode::Full).unwrap()
    };
    assert!(with(&orders()).ends_with(br#"]},"enabled":true}"#));
    let mut drained = orders();
    drained.enabled = false;
    assert!(with(&drained).ends_with(br#"]},"enabled":false}"#));
}

/// Readers since CURATOR-275 leave it out; older ones fail on the field and drop the instance.
#[test]
fn enabled_is_written_only_while_draining() {
    let mut drained = orders();
    drained.enabled = false;
    let golden = COMPATIBLE.replace("]}}", "]},\"enabled\":false}");
    assert_eq!(written(&drained), golden);
    assert!(!parsed(&golden).unwrap().enabled);
    assert!(parsed(COMPATIBLE).unwrap().enabled);
}

#[test]
fn the_record_of_spring_cloud_is_read() {
    let spring = parsed(SPRING).unwrap();
    assert_eq!(spring.payload["metadata"]["instance_status"], "UP");
    assert_eq!(spring.payload.get("@class"), None);
    assert_eq!(spring.uri().unwrap(), "http://host.docker.internal:8080");
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    struct ZookeeperInstance {
        id: String,
        name: String,
        metadata: std::collections::BTreeMap<String, String>,
    }
    let typed = read::<ZookeeperInstance>(SPRING.as_bytes(), "", "").unwrap();
    assert_eq!(written(&typed), SPRING);
}

/// `TestJsonInstanceSerializerCompatibility` of Curator: an old reader and a new one, and a record
/// of the future.
#[test]
fn fields_of_the_future_are_kept() {
    let future = COMPATIBLE.replace(
        "]}}",
        r#"]},"enabled":false,"weight":1.50,"labels":{"b":1,"a":[null]},"q\"":"x"}"#,
    );
    let mut read = parsed(&future).unwrap();
    assert_eq!(read.unknown_fields().collect::<Vec<_>>(), ["weight", "labels", "q\""]);
    assert_eq!(written(&read), future);
    read.port = Some(1);
    assert_eq!(written(&read), future.replace("8040", "1"));
}

#[test]
fn missing_fields_have_the_values_of_java() {
    let empty = parsed("{}").unwrap();
    assert_eq!((&*empty.name, &*empty.id), ("of the path", "id of the path"));
    assert!(empty.is_incomplete() && empty.enabled);
    assert_eq!((empty.address, empty.port, empty.ssl_port), (None, None, None));
    assert_eq!(empty.service_type, ServiceType::Dynamic);
    assert_eq!(empty.registration_time_utc, 0);
    let nulls = r#"{"name":null,"id":"7","serviceType":null,"registrationTimeUTC":null}"#;
    let nulls = parsed(nulls).unwrap();
    assert_eq!((&*nulls.name, &*nulls.id, nulls.is_incomplete()), ("of the path", "7", true));
    assert!(!parsed(COMPATIBLE).unwrap().is_incomplete());
}

/// The expected values are those of Curator 5.4.0 with Jackson 2.14.
#[test]
fn values_of_another_kind_are_read_as_by_jackson() {
    let record = parsed(
        r#"{"name":7,"id":1.50,"address":true,"port":" 8080 ","sslPort":8443.9,"registrationTimeUTC":"5",
            "serviceType":1,"uriSpec":{"parts":[{"value":7,"variable":"false"},{"value":"id","variable":1}]},
            "enabled":"TRUE"}"#,
    )
    .unwrap();
    assert_eq!(
        (&*record.name, &*record.id, record.address.as_deref()),
        ("7", "1.50", Some("true"))
    );
    assert_eq!((record.port, record.ssl_port), (Some(8080), Some(8443)));
    assert_eq!((record.registration_time_utc, record.enabled), (5, true));
    assert_eq!((&record.service_type, &*record.uri().unwrap()), (&ServiceType::Static, "71.50"));
    let empty = parsed(r#"{"port":"","sslPort":"null","uriSpec":"","enabled":null}"#).unwrap();
    assert_eq!((empty.port, empty.ssl_port, empty.enabled), (None, None, false));
    assert_eq!(empty.uri_spec.unwrap().parts().len(), 0);
    assert_eq!(
        parsed(r#"{"serviceType":"3"}"#).unwrap().service_type.as_str(),
        "DYNAMIC_SEQUENTIAL"
    );
}

#[test]
fn unknown_service_types_are_read_and_never_written() {
    let read = parsed(&COMPATIBLE.replace("DYNAMIC", "LUNAR")).unwrap();
    assert_eq!(read.service_type, ServiceType::Other("LUNAR".to_owned()));
    let error = write(&read, &PayloadCodec::default(), JsonMode::Compatible).unwrap_err();
    assert_eq!(error.to_string(), "Curator has no service type \"LUNAR\"");
    for kind in ["STATIC", "PERMANENT", "DYNAMIC_SEQUENTIAL"] {
        let text = COMPATIBLE.replace("DYNAMIC", kind);
        assert_eq!(written(&parsed(&text).unwrap()), text);
    }
}

#[test]
fn faults_name_the_byte() {
    let at = |needle: &str| COMPATIBLE.find(needle).unwrap();
    let cases = [
        ("".to_owned(), 0),
        ("\u{feff}{}".to_owned(), 0),
        ("[]".to_owned(), 0),
        (COMPATIBLE.replace("8040", "\"x\""), at("8040")),
        (COMPATIBLE.replace("8040", "65536"), at("8040")),
        (COMPATIBLE.replace("8040", "-1"), at("8040")),
        (COMPATIBLE.replace("\"10.0.0.1\"", "[7]"), at("\"10.0.0.1\"")),
        (COMPATIBLE.replace("\"DYNAMIC\"", "4"), at("\"DYNAMIC\"")),
        (COMPATIBLE.replace("true},{\"value\":\"://", "[]},{\"value\":\"://"), at("true},")),
        (format!("{COMPATIBLE} x"), COMPATIBLE.len() + 1),
        (COMPATIBLE.replace("\"id\"", "\"name\""), at("\"id\"") + 5),
    ];
    for (text, offset) in cases {
        assert_eq!(fault(&text).offset, offset, "{text}: {}", fault(&text));
    }
    assert_eq!(read::<Value>(b"{\"a\xff\"", "", "").unwrap_err().offset, 3);
    assert!(fault(&COMPATIBLE[..100]).offset >= 99);
    assert!(fault("{\"a\":\n{\"b\":1,\"b\":2}}").to_string().contains("duplicate field \"b\""));
    // For a payload of the wrong type, the position of its first byte.
    let error = read::<u8>(SPRING.as_bytes(), "", "").unwrap_err();
    assert_eq!(error.offset, SPRING.find("{\"@class").unwrap());
}

#[test]
fn limits_are_exact() {
    let nested = |depth: usize| format!("{{\"x\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(parsed(&nested(MAX_DEPTH - 1)).is_ok());
    assert!(fault(&nested(MAX_DEPTH)).reason.contains("nested deeper"));
    let long = |bytes: usize| format!("{{\"x\":\"{}\"}}", "y".repeat(bytes - 8));
    assert!(parsed(&long(MAX_BYTES)).is_ok());
    assert_eq!(fault(&long(MAX_BYTES + 1)).offset, MAX_BYTES);
    let mut large = orders();
    large.address = Some("y".repeat(MAX_BYTES));
    assert!(write(&large, &PayloadCodec::default(), JsonMode::Compatible).is_err());
}

fn instances() -> impl Strategy<Value = ServiceInstance<Value>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has it", |n| n.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let payload = leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z@]{1,4}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    let ports = (any::<Option<u16>>(), any::<Option<u16>>());
    let names = (any::<String>(), any::<String>(), any::<Option<String>>());
    let template = prop::option::of("[a-z:/ ]{0,4}(\\{[a-z\\[\\]]{0,4}\\}[a-z]{0,3}){0,3}");
    (names, ports, payload, any::<i64>(), 0..4_usize, template, any::<bool>()).prop_map(
        |((name, id, address), (port, ssl_port), payload, time, kind, template, enabled)| {
            let kinds = ["DYNAMIC", "STATIC", "PERMANENT", "DYNAMIC_SEQUENTIAL"];
            let builder = ServiceInstance::builder(name).id(id).registration_time_utc(time);
            let builder = builder.service_type(ServiceType::from(kinds[kind].to_owned()));
            let builder = match &template {
                Some(template) => builder.uri_spec(template),
                None => builder,
            };
            let mut instance = builder.payload(payload).build().unwrap();
            (instance.address, instance.port, instance.ssl_port) = (address, port, ssl_port);
            instance.enabled = enabled;
            instance
        },
    )
}

proptest! {
    /// Except for the class of the payload, which is new.
    #[test]
    fn written_records_are_read_as_they_were(instance in instances()) {
        for codec in [PayloadCodec::map(), PayloadCodec::plain(), PayloadCodec::tagged("[B")] {
            let data = write(&instance, &codec, JsonMode::Compatible).unwrap();
            let back = read::<Value>(&data, "", "").unwrap();
            prop_assert_eq!(&back.payload, &instance.payload);
            prop_assert_eq!(&back.name, &instance.name);
            prop_assert_eq!(&back.uri_spec, &instance.uri_spec);
            // With the class that was read, regardless of the codec.
            let again = write(&back, &PayloadCodec::tagged("z"), JsonMode::Compatible);
            let is_tagged = match &back.payload {
                Value::Null | Value::Array(_) => true,
                Value::Object(_) => codec != PayloadCodec::plain(),
                _ => false,
            };
            if is_tagged {
                prop_assert_eq!(again.unwrap(), data);
            }
        }
    }

    #[test]
    fn damaged_records_never_panic(
        cut in 0..SPRING.len(),
        junk in prop::collection::vec(any::<u8>(), 0..8),
        skip in 0..8_usize,
    ) {
        let mut data = SPRING.as_bytes()[..cut].to_vec();
        data.extend(junk);
        data.extend(&SPRING.as_bytes()[(cut + skip).min(SPRING.len())..]);
        if let Err(fault) = read::<Value>(&data, "n", "i") {
            prop_assert!(fault.offset <= data.len());
        }
    }
}
