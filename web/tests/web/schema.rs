//! The responses of the REST interface have the shapes that its document says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use zk_curator_discovery::{ServiceDiscovery, ServiceInstance};
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_web::WebOptions;

use crate::support::Site;

/// Checks a value. Returns the first place where it differs from its schema.
pub(crate) fn check(
    document: &Value,
    schema: &Value,
    value: &Value,
    at: &str,
) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let schema = document.pointer(name.trim_start_matches('#')).ok_or(name)?;
        return check(document, schema, value, at);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fits = |choice| check(document, choice, value, at).is_ok();
        let fitting = choices.iter().filter(|choice| fits(choice)).count();
        return if fitting == 1 { Ok(()) } else { Err(format!("{at}: {fitting} choices fit")) };
    }
    if !is_of_type(&schema["type"], value) {
        return Err(format!("{at}: {value} is not {}", schema["type"]));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        return Err(format!("{at}: {value} is not one of {allowed:?}"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            return Err(format!("{at}: {name} is missing"));
        }
    }
    if let Some(fields) = value.as_object().filter(|_| schema["properties"].is_object()) {
        for (name, field) in fields {
            let schema = schema["properties"].get(name);
            let schema = schema.ok_or_else(|| format!("{at}: {name} is not described"))?;
            check(document, schema, field, &format!("{at}.{name}"))?;
        }
    }
    for (place, item) in value.as_array().into_iter().flatten().enumerate() {
        check(document, &schema["items"], item, &format!("{at}[{place}]"))?;
    }
    Ok(())
}

fn is_of_type(types: &Value, value: &Value) -> bool {
    let is_of = |name: &Value| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => false,
    };
    match types {
        Value::Array(types) => types.iter().any(is_of),
        Value::Null => true,
        one => is_of(one),
    }
}

#[tokio::test]
async fn responses_have_the_described_shapes() {
    let site = Site::probing(WebOptions::new()).await;
    let held = InterProcessMutex::new(&site.zk, "/locks/a").label("ann").acquire().await.unwrap();
    let other = site.client().await;
    let lock = InterProcessMutex::new(&other, "/locks/a").label(&b"\xff"[..]);
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
    site.server.until(|probe| probe.children("/locks/a").len() == 2).await;
    let discovery = ServiceDiscovery::<Value>::new(&site.zk, "/services");
    let instance = ServiceInstance::builder("orders").payload(json!({ "zone": 1 }));
    let registered = discovery.register(instance.build().unwrap()).await.unwrap();
    site.zk.create("/services/orders/x").data("x").await.unwrap();
    let document = site.json("/api/v1/openapi.json").await;
    for (path, address) in [
        ("/node/{path}", "/api/v1/node/locks/a"),
        ("/children/{path}", "/api/v1/children/locks/a"),
        ("/why/{path}", "/api/v1/why/locks/a"),
        ("/why/{path}", "/api/v1/why"),
        ("/recipes/{path}", "/api/v1/recipes"),
        ("/services/{path}", "/api/v1/services/services"),
        ("/services/{path}", "/api/v1/services"),
        ("/ensemble", "/api/v1/ensemble"),
        ("/search/{path}", "/api/v1/search/locks?for=lock"),
        ("/diff", "/api/v1/diff?before=/locks&after=/services"),
    ] {
        let value = site.json(address).await;
        let content = &document["paths"][path]["get"]["responses"]["200"]["content"];
        let schema = &content["application/json"]["schema"];
        assert!(schema.is_object(), "{path}");
        assert_eq!(check(&document, schema, &value, address), Ok(()), "{value}");
    }
    drop((held, registered));
    waiting.await.unwrap().release().await.unwrap();
}

/// Returns the operations of the document, each with the parameters of its query.
fn operations(document: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let mut operations = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if method == "parameters" {
                continue;
            }
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let in_query = parameters.filter(|one| one["in"] == "query");
            let names = in_query.map(|one| one["name"].as_str().unwrap().to_owned()).collect();
            operations.insert(format!("{} {path}", method.to_uppercase()), names);
        }
    }
    operations
}

#[test]
fn the_guide_lists_the_operations() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../docs/book/src/operating/web-rest.md")).unwrap();
    let document = include_str!("../../src/api/openapi.json");
    let document: Value = serde_json::from_str(document).unwrap();
    let mut listed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in page.lines().filter_map(|line| line.strip_prefix("| `")) {
        let Some((operation, rest)) = row.split_once("` | ") else { continue };
        let Some((query, _)) = rest.split_once(" | ") else { continue };
        if operation.contains(" /") {
            let names = query.split('`').skip(1).step_by(2).map(ToOwned::to_owned);
            listed.insert(operation.to_owned(), names.collect());
        }
    }
    assert_eq!(listed, operations(&document));
}
