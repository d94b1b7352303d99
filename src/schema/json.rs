use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::{Allowance, Schema, SchemaSet, SchemaSetError, Validator};

/// A schema, as Curator's loader reads it. Unknown fields are ignored, as there.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SchemaEntry {
    name: String,
    path: String,
    #[serde(default)]
    is_regex: bool,
    schema_validator: Option<String>,
    #[serde(default)]
    documentation: String,
    #[serde(default, deserialize_with = "allowance")]
    ephemeral: Allowance,
    #[serde(default, deserialize_with = "allowance")]
    sequential: Allowance,
    #[serde(default, deserialize_with = "allowance")]
    watched: Allowance,
    #[serde(default = "yes")]
    can_be_deleted: bool,
    #[serde(default)]
    metadata: BTreeMap<String, Value>,
}

const fn yes() -> bool {
    true
}

/// Reads an allowance, in upper or lower case.
fn allowance<'de, D: Deserializer<'de>>(from: D) -> Result<Allowance, D::Error> {
    let word = String::deserialize(from)?;
    match word.to_ascii_lowercase().as_str() {
        "can" => Ok(Allowance::Can),
        "must" => Ok(Allowance::Must),
        "cannot" => Ok(Allowance::Cannot),
        _ => Err(de::Error::custom(format!("{word:?} is neither can, must nor cannot"))),
    }
}

/// An error of loading schemas.
#[non_exhaustive]
#[derive(Debug)]
pub enum LoadError {
    /// The text is not the JSON of Curator's loader. The source has the position.
    Json(serde_json::Error),
    /// A regular expression is not valid for the crate `regex`, which does not support Java's
    /// lookaround and backreferences.
    Regex {
        /// The name of the schema.
        schema: String,
        /// The reason.
        why: regex::Error,
    },
    /// A validator is unknown.
    UnknownValidator {
        /// The name of the schema.
        schema: String,
        /// The name of the validator.
        validator: String,
    },
    /// The schemas cannot form a set.
    Set(SchemaSetError),
}

impl SchemaSet {
    /// Loads the JSON of Curator's `SchemaSetLoader`: an array of objects with the fields `name`,
    /// `path`, and optionally `isRegex`, `schemaValidator`, `documentation`, `ephemeral`,
    /// `sequential`, `watched` (`can`, `must` or `cannot`), `canBeDeleted` and `metadata`.
    /// `validators` returns the validator with a name.
    ///
    /// A missing `canBeDeleted` means `true`, as Curator documents. (Its code uses `false`.)
    ///
    /// ```
    /// use zk_curator::schema::SchemaSet;
    ///
    /// let json = r#"[{"name": "jobs", "path": "/jobs/[^/]+", "isRegex": true, "ephemeral": "cannot"}]"#;
    /// let schemas = SchemaSet::from_json(json, |_| None)?;
    /// assert_eq!(schemas.schema_of("/jobs/7").unwrap().name(), "jobs");
    /// assert!(schemas.schema_of("/jobs/7/log").is_none());
    /// # Ok::<(), zk_curator::schema::LoadError>(())
    /// ```
    ///
    /// # Errors
    /// * [`LoadError::Json`] if the text is not such JSON.
    /// * [`LoadError::Regex`] if a regular expression is invalid.
    /// * [`LoadError::UnknownValidator`] if `validators` returns `None`.
    /// * [`LoadError::Set`] if the schemas cannot form a set.
    pub fn from_json(
        json: &str,
        validators: impl Fn(&str) -> Option<Arc<dyn Validator>>,
    ) -> Result<Self, LoadError> {
        let entries: Vec<SchemaEntry> = serde_json::from_str(json).map_err(LoadError::Json)?;
        let schemas = entries
            .into_iter()
            .map(|entry| entry.schema(&validators))
            .collect::<Result<Vec<_>, _>>()?;
        Self::new(schemas).map_err(LoadError::Set)
    }
}

impl SchemaEntry {
    fn schema(
        self,
        validators: impl Fn(&str) -> Option<Arc<dyn Validator>>,
    ) -> Result<Schema, LoadError> {
        let name = self.name;
        let mut schema = if self.is_regex {
            Schema::matching(&name, &self.path)
                .map_err(|why| LoadError::Regex { schema: name.clone(), why })?
        } else {
            Schema::exact(&name, self.path)
        };
        if let Some(validator) = self.schema_validator {
            let known = validators(&validator);
            schema = schema.shared_validator(
                known.ok_or(LoadError::UnknownValidator { schema: name, validator })?,
            );
        }
        for (key, value) in self.metadata {
            schema = match value {
                Value::String(text) => schema.metadata(key, text),
                other => schema.metadata(key, other.to_string()),
            };
        }
        Ok(schema
            .documentation(self.documentation)
            .ephemeral(self.ephemeral)
            .sequential(self.sequential)
            .watched(self.watched)
            .deletable(self.can_be_deleted))
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(_) => f.write_str("not the JSON of schemas"),
            Self::Regex { schema, .. } => {
                write!(f, "the regular expression of the schema {schema:?} is not valid")
            }
            Self::UnknownValidator { schema, validator } => {
                write!(
                    f,
                    "the schema {schema:?} names the validator {validator:?}, which is not known"
                )
            }
            Self::Set(_) => f.write_str("the schemas make no set"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Json(why) => Some(why),
            Self::Regex { why, .. } => Some(why),
            Self::UnknownValidator { .. } => None,
            Self::Set(why) => Some(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(json: &str) -> Result<SchemaSet, LoadError> {
        SchemaSet::from_json(json, |name| match name {
            "text" => Some(Arc::new(|data: &[u8]| str::from_utf8(data).is_ok())),
            _ => None,
        })
    }

    #[test]
    fn every_field_is_read_and_others_are_ignored() {
        let set = load(
            r#"[{
                "name": "test", "path": "/a/b/c/", "documentation": "This is a schema", "ephemeral": "MUST",
                "sequential": "cannot", "watched": "can", "canBeDeleted": false, "schemaValidator": "text",
                "metadata": { "one": 1, "two": "2" }, "unknown": [1, 2]
            }]"#,
        );
        let set = set.unwrap();
        let schema = set.named("test").unwrap();
        assert_eq!(
            (schema.raw_path().as_str(), schema.documentation.as_str()),
            ("/a/b/c", "This is a schema")
        );
        assert_eq!((schema.ephemeral, schema.sequential), (Allowance::Must, Allowance::Cannot));
        assert!(!schema.deletable && schema.validator.is_some());
        assert_eq!(schema.get_metadata().get("one").unwrap(), "1");
        assert_eq!(schema.get_metadata().get("two").unwrap(), "2");
        assert!(set.to_string().contains("ephemeral: must | sequential: cannot"));
    }

    #[test]
    fn exact_paths_precede_regular_expressions_in_their_order() {
        let set = load(
            r#"[
                {"name": "3", "path": "/exact/.*", "isRegex": true},
                {"name": "2", "path": "/exact/other/.*", "isRegex": true},
                {"name": "1", "path": "/exact/match"}
            ]"#,
        );
        let set = set.unwrap();
        let of = |path| set.schema_of(path).map(Schema::name);
        assert_eq!(of("/exact/match"), Some("1"));
        assert_eq!(of("/exact/other/x"), Some("3"));
        assert_eq!(of("/exact"), None);
        assert_eq!(of("/not/exact/x"), None, "the whole path has to match");
        assert_eq!(set.named("3").unwrap().raw_path(), "/exact/.*");
    }

    /// Curator documents `true`, and uses `false`.
    #[test]
    fn nodes_can_be_deleted_where_nothing_is_said() {
        assert!(load(r#"[{"name": "a", "path": "/a"}]"#).unwrap().named("a").unwrap().deletable);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |json: &str| load(json).expect_err("an error");
        assert!(matches!(error("{}"), LoadError::Json(_)));
        assert!(matches!(error(r#"[{"path": "/a"}]"#), LoadError::Json(_)));
        assert!(matches!(
            error(r#"[{"name": "a", "path": "/a", "watched": "maybe"}]"#),
            LoadError::Json(_)
        ));
        let unknown = error(r#"[{"name": "a", "path": "/a", "schemaValidator": "x"}]"#);
        assert!(
            matches!(unknown, LoadError::UnknownValidator { validator, .. } if validator == "x")
        );
        let lookahead = error(r#"[{"name": "a", "path": "(?=a)", "isRegex": true}]"#);
        assert!(matches!(lookahead, LoadError::Regex { .. }), "{lookahead}");
        for twice in [r#"{"name": "a", "path": "/b"}"#, r#"{"name": "b", "path": "/a"}"#] {
            assert!(matches!(
                error(&format!(r#"[{{"name": "a", "path": "/a"}}, {twice}]"#)),
                LoadError::Set(_)
            ));
        }
        assert!(matches!(error(r#"[{"name": "a", "path": "a"}]"#), LoadError::Set(_)));
    }
}
