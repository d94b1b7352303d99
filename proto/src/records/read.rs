use bytes::Bytes;

use super::{Stat, record};

record! {
    /// Body of `exists`.
    ExistsRequest {
        /// The node.
        path: String,
        /// `true` to set a watch for creation, change and deletion.
        watch: bool,
    }
}

record! {
    /// Body of `getData`.
    GetDataRequest {
        /// The node.
        path: String,
        /// `true` to set a watch for change and deletion, if the node exists.
        watch: bool,
    }
}

record! {
    /// The response to `getData`.
    DataResponse {
        /// The data; `None` is Java's `null`.
        data: Option<Bytes>,
        /// The stat.
        stat: Stat,
    }
}

record! {
    /// Body of `getChildren` and `getChildren2`.
    GetChildrenRequest {
        /// The node.
        path: String,
        /// `true` to set a watch for the children and the deletion, if the node exists.
        watch: bool,
    }
}

record! {
    /// The response to `getChildren2`.
    Children2Response {
        /// Names, not paths, in no order.
        children: Vec<String>,
        /// The stat of the parent.
        stat: Stat,
    }
}

record! {
    /// Body of `sync`.
    SyncRequest {
        /// Any path; the response repeats it.
        path: String,
    }
}

record! {
    /// Body of `getEphemerals`.
    GetEphemeralsRequest {
        /// The prefix of the returned paths.
        prefix: String,
    }
}

record! {
    /// Body of `getAllChildrenNumber`.
    GetAllChildrenNumberRequest {
        /// The node.
        path: String,
    }
}
