/// Returns the path of a child.
pub(crate) fn child(parent: impl AsRef<str>, name: &str) -> String {
    format!("{}/{name}", parent.as_ref().trim_end_matches('/'))
}
