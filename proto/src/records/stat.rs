use super::record;

record! {
    /// The metadata of a node.
    #[derive(Copy, Hash)]
    Stat {
        /// Transaction that created the node.
        czxid: i64,
        /// Transaction that last changed the data.
        mzxid: i64,
        /// Time of creation, milliseconds since the Unix epoch, by the leader's clock.
        ctime: i64,
        /// Time of the last change of the data, milliseconds since the Unix epoch.
        mtime: i64,
        /// How often the data were changed. Wraps around.
        version: i32,
        /// How often children were created or deleted. Wraps around.
        cversion: i32,
        /// How often the ACL was changed.
        aversion: i32,
        /// The owning session of an ephemeral node, else zero; zero also for containers and nodes with a
        /// time to live, whose markers the server keeps to itself.
        ephemeral_owner: i64,
        /// Length of the data in bytes.
        data_length: i32,
        /// Number of children.
        num_children: i32,
        /// Transaction that last created or deleted a child.
        pzxid: i64,
    }
}
