use bytes::Bytes;

use super::record;

record! {
    /// Body of `delete`.
    DeleteRequest {
        /// The node.
        path: String,
        /// The version that the node must have, or -1 for any.
        version: i32,
    }
}

record! {
    /// Body of `setData`.
    SetDataRequest {
        /// The node.
        path: String,
        /// The new data.
        data: Option<Bytes>,
        /// The version that the node must have, or -1 for any.
        version: i32,
    }
}

record! {
    /// Body of `check`, inside a multi.
    CheckVersionRequest {
        /// The node.
        path: String,
        /// The version that the node must have, or -1 for any.
        version: i32,
    }
}
