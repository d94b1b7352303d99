//! Payloads in every form that Java Curator 5.4 writes with Jackson 2.14.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zk_curator_discovery::json::{JsonMode, WriteError, read, write};
use zk_curator_discovery::payload::Base64;
use zk_curator_discovery::{PayloadCodec, ServiceInstance};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Meta {
    k: String,
    n: i32,
    l: Vec<String>,
    m: BTreeMap<String, i32>,
}

fn meta() -> Meta {
    let m = BTreeMap::from([("x".to_owned(), 1)]);
    Meta { k: "v".to_owned(), n: 5, l: vec!["a".to_owned(), "b".to_owned()], m }
}

fn record(payload: &str) -> String {
    format!(
        r#"{{"name":"n","id":"i","address":null,"port":null,"sslPort":null,"payload":{payload},"registrationTimeUTC":5,"serviceType":"DYNAMIC","uriSpec":null}}"#
    )
}

fn try_written<P: Serialize>(payload: P, codec: &PayloadCodec) -> Result<String, WriteError> {
    let builder = ServiceInstance::builder("n").id("i").registration_time_utc(5);
    let data = write(&builder.payload(payload).build().unwrap(), codec, JsonMode::Compatible)?;
    Ok(String::from_utf8(data.to_vec()).unwrap())
}

#[track_caller]
fn is_written<P: Serialize>(payload: P, codec: &PayloadCodec, golden: &str) {
    assert_eq!(try_written(payload, codec).unwrap(), record(golden));
}

fn is_read<P: for<'a> Deserialize<'a>>(payload: &str) -> P {
    read(record(payload).as_bytes(), "", "")
        .unwrap_or_else(|why| panic!("{payload}: {why}"))
        .payload
}

#[test]
fn scalars_are_plain_and_the_rest_has_its_class() {
    let map = PayloadCodec::map();
    is_written((), &map, "null");
    is_written(None::<Meta>, &PayloadCodec::tagged("com.acme.Meta"), "null");
    is_written("a\u{1f}/é\"\\", &map, r#""a\u001F/é\"\\""#);
    is_written(true, &map, "true");
    is_written(7, &map, "7");
    is_written(i32::MIN, &map, "-2147483648");
    is_written(1.5, &map, "1.5");
    is_written(1e10, &map, "1.0E10");
    is_written(1_i64 << 31, &map, r#"["java.lang.Long",2147483648]"#);
    is_written(json!(["a", 1, 2]), &map, r#"["java.util.ArrayList",["a",1,2]]"#);
    is_written(Base64(vec![1, 2]), &PayloadCodec::tagged("[B"), r#"["[B","AQI="]"#);
    is_written(7, &PayloadCodec::tagged("java.lang.Long"), r#"["java.lang.Long",7]"#);
}

#[test]
fn structs_are_maps_or_have_the_requested_class() {
    let fields = r#""k":"v","n":5,"l":["a","b"],"m":{"x":1}}"#;
    let tagged = |class: &str| format!(r#"{{"@class":"{class}",{fields}"#);
    is_written(meta(), &PayloadCodec::map(), &tagged("java.util.HashMap"));
    is_written(meta(), &PayloadCodec::tagged("com.acme.Meta"), &tagged("com.acme.Meta"));
    is_written(meta(), &PayloadCodec::plain(), &format!("{{{fields}"));
    is_written(json!({}), &PayloadCodec::map(), r#"{"@class":"java.util.HashMap"}"#);
}

#[test]
fn every_form_of_java_is_read() {
    assert_eq!(is_read::<Option<Meta>>("null"), None);
    assert_eq!(is_read::<String>(r#""a\u001F/é\"\\""#), "a\u{1f}/é\"\\");
    assert!(is_read::<bool>("true"));
    assert_eq!(is_read::<f64>("1.0E10").to_bits(), 1e10_f64.to_bits());
    assert_eq!(is_read::<i64>("7"), 7);
    assert_eq!(is_read::<i64>(r#"["java.lang.Long",7]"#), 7);
    assert_eq!(is_read::<Value>(r#"["java.util.ArrayList",["a",1,2]]"#), json!(["a", 1, 2]));
    assert_eq!(is_read::<Base64>(r#"["[B","AQI="]"#), Base64(vec![1, 2]));
    let map = r#"{"@class":"java.util.LinkedHashMap","k":"v","n":5}"#;
    assert_eq!(is_read::<Value>(map), json!({"k": "v", "n": 5}));
    let bean = r#"{"k":"v","@class":"com.acme.Meta","n":5,"l":["a","b"],"m":{"x":1}}"#;
    assert_eq!(is_read::<Meta>(bean), meta());
    assert_eq!(is_read::<Meta>(&bean.replace(r#""@class":"com.acme.Meta","#, "")), meta());
    // A list without a class, which Java does not write.
    assert_eq!(is_read::<Vec<String>>(r#"["a","b"]"#), ["a", "b"]);
    // A class within the payload is data.
    let inner = is_read::<Value>(r#"{"@class":"X","in":{"@class":"Y"}}"#);
    assert_eq!(inner, json!({"in": {"@class": "Y"}}));
}

#[test]
fn foreign_classes_are_written_back_with_the_record() {
    let bean = record(r#"{"@class":"org.other.Meta","k":"v","n":5,"l":[],"m":{}}"#);
    let mut read: ServiceInstance<Meta> = read(bean.as_bytes(), "", "").unwrap();
    read.payload.n = 6;
    let codec = PayloadCodec::tagged("com.acme.Meta");
    let data = write(&read, &codec, JsonMode::Compatible).unwrap();
    assert_eq!(data, bean.replace('5', "6").replace("UTC\":6", "UTC\":5"));
}

/// Java fails on the text of a `Long`, and drops the instance.
#[test]
fn a_value_of_another_kind_loses_the_class_that_was_read() {
    let long = r#"["java.lang.Long",7000000000]"#;
    for (payload, expected) in [
        (json!(7), r#"["java.lang.Long",7]"#),
        (json!("blue"), r#""blue""#),
        (json!(true), "true"),
        (json!(null), "null"),
        (json!([1]), r#"["java.util.ArrayList",[1]]"#),
    ] {
        let mut read: ServiceInstance<Value> = read(record(long).as_bytes(), "", "").unwrap();
        read.payload = payload;
        let data = write(&read, &PayloadCodec::map(), JsonMode::Compatible).unwrap();
        assert_eq!(data, record(expected));
    }
    let text = r#"["com.acme.Color","blue"]"#;
    let mut read: ServiceInstance<Value> = read(record(text).as_bytes(), "", "").unwrap();
    read.payload = json!("red");
    let data = write(&read, &PayloadCodec::map(), JsonMode::Compatible).unwrap();
    assert_eq!(data, record(&text.replace("blue", "red")));
    read.payload = json!(5);
    assert_eq!(write(&read, &PayloadCodec::map(), JsonMode::Compatible).unwrap(), record("5"));
}

#[test]
fn payloads_that_readers_refuse_are_not_written() {
    let twice = json!({"@class": "mine"});
    assert!(matches!(
        try_written(twice, &PayloadCodec::map()).unwrap_err(),
        WriteError::Unreadable(fault) if fault.reason.contains("@class")
    ));
    let deep = (0..80).fold(json!(0), |inner, _| json!([inner]));
    let error = try_written(deep, &PayloadCodec::map()).unwrap_err();
    assert!(matches!(error, WriteError::Unreadable(_)), "{error}");
}
