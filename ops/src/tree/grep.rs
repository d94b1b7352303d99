//! Searches nodes by their data.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! # zk.create("/a/b").creating_parents().data("host: zk1\nport: 2181").await?;
//! use zk_curator_ops::tree::grep::GrepPattern;
//!
//! let mut found = Vec::new();
//! let pattern = GrepPattern::new(regex::Regex::new("port: .*")?);
//! let unreadable = pattern.grep(&zk, "/a", |path, line| found.push((path, line))).await?;
//! assert_eq!(found, [("/a/b".to_owned(), "port: 2181".to_owned())]);
//! assert!(unreadable.is_empty());
//! # Ok(()) }
//! ```

use regex::Regex;
use serde_json::Value;
use zk_curator::{CuratorFramework, Error};

use super::unreadable::UnreadableNodes;
use super::walk;
use crate::{data, node};

/// The pattern for the data of nodes.
#[derive(Debug, Clone)]
pub struct GrepPattern {
    regex: Regex,
    pointer: Option<String>,
}

impl GrepPattern {
    /// Finds nodes with a line that the regular expression matches.
    #[must_use]
    pub const fn new(regex: Regex) -> Self {
        Self { regex, pointer: None }
    }

    /// Searches only this part of JSON data, as a pointer such as `/service/address` (RFC 6901).
    /// Data that are not JSON, or do not have it, do not match. Default: all data.
    #[must_use]
    pub fn json_pointer(mut self, pointer: impl Into<String>) -> Self {
        self.pointer = Some(pointer.into());
        self
    }

    /// Searches at a node and below it. Passes each node that matches to `with`: its path, and the
    /// first line that matches. The nodes come name by name, sequential names by their numbers.
    ///
    /// Returns the nodes that could not be read.
    ///
    /// # Errors
    /// Those of the framework. A node that cannot be read is not an error, unless it is the root.
    pub async fn grep(
        &self,
        zk: &CuratorFramework,
        root: &str,
        mut with: impl FnMut(String, String),
    ) -> Result<UnreadableNodes, Error> {
        let nodes = walk::list(zk, root, usize::MAX, |_| true).await?;
        let mut unreadable = walk::hidden(&nodes);
        let mut paths: Vec<_> = nodes.into_iter().map(|node| node.path).collect();
        paths.sort_by(|a, b| node::compare(a, b));
        let unread = walk::read(zk, &paths, |node| {
            if let Some(line) = self.first_match(&node.data) {
                with(node.path, line);
            }
        });
        unreadable.extend(unread.await?);
        Ok(unreadable)
    }

    /// Returns the first line of data that matches. Compressed data are searched as plain data.
    #[must_use]
    pub fn first_match(&self, bytes: &[u8]) -> Option<String> {
        let bytes = data::plain(bytes);
        let text = match &self.pointer {
            None => String::from_utf8_lossy(&bytes).into_owned(),
            Some(pointer) => {
                match serde_json::from_slice::<Value>(&bytes).ok()?.pointer(pointer)? {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                }
            }
        };
        text.lines().find(|line| self.regex.is_match(line)).map(ToOwned::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_matches_is_returned() {
        let pattern = GrepPattern::new(Regex::new("a+").expect("a pattern"));
        assert_eq!(pattern.first_match(b"b\ncaa\na").as_deref(), Some("caa"));
        assert_eq!(pattern.first_match(b"b"), None);
        let pattern = pattern.json_pointer("/x/y");
        assert_eq!(pattern.first_match(br#"{"x":{"y":"za"}}"#).as_deref(), Some("za"));
        assert_eq!(pattern.first_match(br#"{"x":{"y":["a"]}}"#).as_deref(), Some(r#"["a"]"#));
        assert_eq!(pattern.first_match(br#"{"x":"a"}"#), None);
        assert_eq!(pattern.first_match(b"a"), None);
    }
}
