//! Templates of paths, and the names that parameters become.

use proptest::prelude::*;
use zk_curator::model::TypedPath;
use zk_curator::path::{Escaped, NameError, NodeName, PathTemplate, ResolveError, ZPath};

zk_curator::path_template!(OrderPath = "/orders/{region}/{id}": region: &str, id: u64);
zk_curator::path_template!(NumberPath = "/numbers/{number}": number: u64);
zk_curator::path_template!(UserPath = "/users/{name}": name: Escaped<&str>);
zk_curator::path_template!(RootPath = "/config");

#[test]
fn a_template_of_the_compiler_is_one_of_the_parser() {
    assert_eq!(OrderPath::template(), ZPath::template("/orders/{region}/{id}").unwrap());
    assert_eq!(NumberPath::path(7).unwrap().as_str(), "/numbers/7");
    assert_eq!(RootPath::path().unwrap().as_str(), "/config");
    assert_eq!(UserPath::path(Escaped("..")).unwrap().as_str(), "/users/%2E%2E");
    let mixed: [(&str, &dyn NodeName); 2] = [("region", &"eu"), ("id", &7)];
    assert_eq!(OrderPath::template().resolve(mixed).unwrap().as_str(), "/orders/eu/7");
}

proptest! {
    #[test]
    fn escaped_text_is_a_name_of_its_own(a in ".*", b in "[a%/.0-9A-F]{0,4}") {
        for text in [&a, &b] {
            let name = Escaped(text).node_name().into_owned();
            if text.is_empty() {
                prop_assert_eq!(name, "");
                continue;
            }
            prop_assert!(ZPath::parse(format!("/{name}")).is_ok() && !name.contains('/'), "{}", name);
            let decoded = Escaped::decode(&name);
            prop_assert_eq!(decoded.as_ref(), Some(text));
        }
        prop_assert_eq!(a == b, Escaped(&a).node_name() == Escaped(&b).node_name());
        // Text that could be a name is the name of its own text or of no text.
        prop_assert!(Escaped::decode(&b).is_none_or(|text| Escaped(text).node_name() == *b));
    }

    /// A path of a template has the values back, is no other path, and never leaves its place.
    #[test]
    fn resolved_paths_match_their_template(
        components in prop::collection::vec(("[a-c.]{1,2}", any::<bool>(), "[/a.{}% ü\u{1}]{0,3}"), 0..5),
    ) {
        let mut pattern = String::new();
        let mut values = Vec::new();
        for (place, (literal, is_parameter, value)) in components.iter().enumerate() {
            if *is_parameter {
                pattern += &format!("/{{p{place}}}");
                values.push((format!("p{place}"), value.as_str()));
            } else {
                pattern += &format!("/{literal}");
            }
        }
        let pattern = if pattern.is_empty() { "/".to_owned() } else { pattern };
        let Ok(template) = PathTemplate::parse(pattern.clone()) else {
            let is_relative = |(literal, is_parameter, _): &(String, bool, String)| {
                !is_parameter && matches!(literal.as_str(), "." | "..")
            };
            let refused = components.iter().any(is_relative);
            prop_assert!(refused, "{}", pattern);
            return Ok(());
        };
        let named: Vec<&str> = template.parameters().collect();
        prop_assert_eq!(named, values.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>());
        match template.resolve(values.iter().rev().map(|(name, value)| (name, *value))) {
            Ok(path) => {
                prop_assert!(ZPath::parse(path.as_str()).is_ok(), "{}", path);
                prop_assert_eq!(path.as_str().matches('/').count(), pattern.matches('/').count());
                let expected: Vec<_> = values.iter().map(|(name, value)| (name.as_str(), *value)).collect();
                prop_assert_eq!(template.matches(path.as_str()), Some(expected));
                let deeper = format!("{path}/x");
                prop_assert!(template.matches(&deeper).is_none(), "{}", deeper);
            }
            Err(ResolveError::Refused { name, value, why }) => {
                prop_assert!(values.contains(&(name, value.as_str())));
                let is_bad = match why {
                    NameError::Empty => value.is_empty(),
                    NameError::Slash => value.contains('/'),
                    NameError::Relative => matches!(value.as_str(), "." | ".."),
                    NameError::InvalidCharacter(bad) => value.contains(bad),
                    _ => false,
                };
                prop_assert!(is_bad, "{:?} {:?}", value, why);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
        // Escaped values are never refused unless they are empty.
        let escaped = template.resolve(values.iter().map(|(name, value)| (name, Escaped(*value))));
        prop_assert_eq!(escaped.is_ok(), values.iter().all(|(_, value)| !value.is_empty()));
        if let Some((missing, given)) = values.split_first() {
            let unresolved = template.resolve(given.iter().map(|(name, value)| (name, *value)));
            prop_assert_eq!(unresolved, Err(ResolveError::Unresolved { names: vec![missing.0.clone()] }));
        }
    }
}
