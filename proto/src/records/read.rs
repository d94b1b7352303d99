use bytes::Bytes;

use super::{Stat, record};

record! {
    /// Body of `exists`.
    ExistsRequest {
        /// The node.
        path: String,
        /// Whether to leave a watch: for creation, change and deletion.
        watch: bool,
    }
}

record! {
    /// Body of `getData`.
    GetDataRequest {
        /// The node.
        path: String,
        /// Whether to leave a watch, if the node exists: for change and deletion.
        watch: bool,
    }
}

record! {
    /// Answer to `getData`.
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
        /// Whether to leave a watch, if the node exists: for its children and its deletion.
        watch: bool,
    }
}

record! {
    /// Answer to `getChildren2`.
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
        /// Any path; answered as it is.
        path: String,
    }
}

record! {
    /// Body of `getEphemerals`.
    GetEphemeralsRequest {
        /// Only paths that begin with it are answered.
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
