//! The responses of the REST interface have the shapes that its document says.

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
