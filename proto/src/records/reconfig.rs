use super::record;

record! {
    /// Body of `reconfig`. Java's `null` reads as the empty string, and is written as one.
    ReconfigRequest {
        /// Servers to add or change, separated by commas.
        joining: String,
        /// Ids of servers to remove, separated by commas.
        leaving: String,
        /// All servers, separated by commas: not together with the other two.
        members: String,
        /// The version of the configuration that is to be changed, or -1 for any.
        version: i64,
    }
}
