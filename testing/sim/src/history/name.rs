use std::sync::Arc;

/// The name of a resource, a queue, an item, a transaction and so on. Cheap to clone. `into()`
/// makes it from a string.
pub type Name = Arc<str>;
