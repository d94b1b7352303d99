//! Contexts: named sets of servers and options, in a configuration file.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zk_curator_ops::files::TemporaryFile;

use crate::args::Global;
use crate::exit::CommandFailure;
use crate::private;

/// The configuration file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContextFile {
    /// The context that is used unless the command line names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, NamedContext>,
}

/// A context.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedContext {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) servers: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    /// References to identities, as in `--auth`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) auth: Vec<String>,
    /// A reference to the identity for SASL, as in `--sasl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sasl: Option<String>,
    /// Kerberos, as in `--kerberos`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) kerberos: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kerberos_client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kerberos_server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls_ca: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls_cert: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The greatest request in bytes, as in `--jute-maxbuffer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) jute_maxbuffer: Option<u32>,
    /// Refuses changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) read_only: bool,
    /// Asks for the name of the context before each change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) confirm: bool,
}

impl NamedContext {
    /// Refuses settings that this program was built without: a connection must not be less secure
    /// than its context says.
    pub(crate) fn check_features(&self) -> Result<(), CommandFailure> {
        let unknown = [
            ("sasl", self.sasl.is_some() && cfg!(not(feature = "sasl"))),
            ("kerberos", self.kerberos && cfg!(not(feature = "kerberos"))),
            ("tls_ca", self.tls_ca.is_some() && cfg!(not(feature = "tls"))),
        ];
        match unknown.iter().find(|(_, is_unknown)| *is_unknown) {
            Some((key, _)) => Err(CommandFailure::usage(format!(
                "the context has {key}: this zkc was built without it"
            ))),
            None => Ok(()),
        }
    }
}

impl ContextFile {
    /// Reads the file; a missing one is an empty configuration.
    pub(crate) fn read(path: &Path) -> Result<Self, CommandFailure> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => {
                return Err(CommandFailure::usage(format!("{}: {error}", path.display())));
            }
        };
        let invalid = |error: toml::de::Error| {
            CommandFailure::usage(format!("{}: {}", path.display(), error.message()))
        };
        toml::from_str(&text).map_err(invalid)
    }

    /// Writes the file, readable by its owner only, in one step.
    pub(crate) fn write(&self, path: &Path) -> Result<(), CommandFailure> {
        let failed = |error: &dyn std::fmt::Display| {
            CommandFailure::usage(format!("{}: {error}", path.display()))
        };
        let text = toml::to_string_pretty(self).map_err(|error| failed(&error))?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        }
        let (fresh, mut file) =
            TemporaryFile::create_beside(path).map_err(|error| failed(&error))?;
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .and_then(|()| fresh.publish(path));
        written.map_err(|error| failed(&error))
    }

    /// Returns the context that these options name, with its name.
    pub(crate) fn select(
        &self,
        global: &Global,
    ) -> Result<Option<(String, NamedContext)>, CommandFailure> {
        let Some(name) = global.context.as_ref().or(self.current.as_ref()) else { return Ok(None) };
        let context = self.contexts.get(name).cloned().ok_or_else(|| {
            CommandFailure::usage(format!("no context {name}")).hint("`zkc ctx` lists them")
        })?;
        Ok(Some((name.clone(), context)))
    }
}

/// Returns the path of the configuration file; `None` without a home directory, as in system
/// services and containers.
pub(crate) fn config_path(global: &Global) -> Option<PathBuf> {
    if let Some(path) = &global.config {
        return Some(path.clone());
    }
    let folder = |variable| std::env::var_os(variable).filter(|value| !value.is_empty());
    let base = folder("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| folder("HOME").map(|home| PathBuf::from(home).join(".config")))
        .or_else(|| folder("APPDATA").map(PathBuf::from))?;
    Some(base.join("zkc").join("config.toml"))
}

/// A reference to a secret, `NAME:@FILE` or `NAME:env:VARIABLE`, so that no command line has the
/// secret itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretRef {
    /// The scheme, or the user.
    pub(crate) name: String,
    source: SettingSource,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum SettingSource {
    File(PathBuf),
    Variable(String),
}

impl SecretRef {
    /// Parses a reference. The failure does not contain the text, which may be a secret.
    pub(crate) fn parse(option: &str, text: &str) -> Result<Self, CommandFailure> {
        let literal = || {
            CommandFailure::usage(format!(
                "{option}: a secret on the command line is visible to others"
            ))
            .hint(format!("write {option} NAME:@FILE or {option} NAME:env:VARIABLE"))
        };
        let (name, source) = text.split_once(':').ok_or_else(literal)?;
        let source = match (source.strip_prefix('@'), source.strip_prefix("env:")) {
            (Some(file), _) if !file.is_empty() => SettingSource::File(file.into()),
            (_, Some(variable)) if !variable.is_empty() => {
                SettingSource::Variable(variable.to_owned())
            }
            _ => return Err(literal()),
        };
        Ok(Self { name: name.to_owned(), source })
    }

    /// Reads the secret. A file may end with a newline, which is no part of it.
    pub(crate) fn read(&self) -> Result<String, CommandFailure> {
        match &self.source {
            SettingSource::File(path) => {
                private::check(path)?;
                let text = std::fs::read_to_string(path).map_err(|error| {
                    CommandFailure::usage(format!("{}: {error}", path.display()))
                })?;
                Ok(text.trim_end_matches(['\r', '\n']).to_owned())
            }
            SettingSource::Variable(variable) => std::env::var(variable)
                .map_err(|_| CommandFailure::usage(format!("the variable {variable} is not set"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_references() {
        let parse = |text| SecretRef::parse("--auth", text);
        let file = parse("digest:@/etc/zk").expect("a file");
        assert_eq!(file.source, SettingSource::File("/etc/zk".into()));
        let variable = parse("digest:env:ZK_AUTH").expect("a variable");
        assert_eq!(variable.source, SettingSource::Variable("ZK_AUTH".into()));
        for literal in ["digest:ann:hunter2", "hunter2", "digest:@", "digest:env:"] {
            let failure = parse(literal).expect_err(literal).to_string();
            assert!(!failure.contains("hunter2"), "{failure}");
        }
    }

    #[test]
    fn an_unknown_key_is_refused() {
        assert!(toml::from_str::<ContextFile>("[contexts.a]\nserver = 'x'").is_err());
        let config = "current = 'a'\n[contexts.a]\nservers = 'x:1'\nread_only = true";
        let config: ContextFile = toml::from_str(config).expect("valid");
        assert!(config.contexts["a"].read_only);
    }
}
