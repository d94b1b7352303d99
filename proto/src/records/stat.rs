use super::record;

record! {
    /// The metadata of a node.
    #[derive(Copy, Hash)]
    Stat {
        /// The transaction that created the node.
        czxid: i64,
        /// The transaction that last changed the data.
        mzxid: i64,
        /// The time of creation, in milliseconds since the Unix epoch, by the leader's clock.
        ctime: i64,
        /// The time of the last change of the data, in milliseconds since the Unix epoch.
        mtime: i64,
        /// The number of changes of the data. Wraps around.
        version: i32,
        /// The number of creations and deletions of children. Wraps around.
        cversion: i32,
        /// The number of changes of the ACL.
        aversion: i32,
        /// The owning session of an ephemeral node, otherwise zero. It is also zero for containers
        /// and nodes with a time to live, whose markers the server does not send.
        ephemeral_owner: i64,
        /// The length of the data in bytes.
        data_length: i32,
        /// The number of children.
        num_children: i32,
        /// The transaction that last created or deleted a child.
        pzxid: i64,
    }
}

impl Stat {
    /// Returns `true` if the node belongs to a session, by ZooKeeper's `EphemeralType`.
    ///
    /// The sign has no meaning: sessions of servers with an id from 128 are negative. Markers of
    /// servers that do send them are understood too: `0x8000000000000000` for containers, and
    /// `0xff` in the highest byte for nodes with a time to live.
    #[must_use]
    pub const fn is_ephemeral(&self) -> bool {
        const CONTAINER: i64 = i64::MIN;
        const EXTENDED: i64 = 0xff << 56;
        !matches!(self.ephemeral_owner, 0 | CONTAINER)
            && self.ephemeral_owner & EXTENDED != EXTENDED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_of_all_servers_are_not_markers() {
        let is_ephemeral = |owner: u64| {
            let stat = Stat { ephemeral_owner: owner.cast_signed(), ..Stat::default() };
            stat.is_ephemeral()
        };
        for session in [
            1,
            0x0100_0000_0000_0001,
            0x7f00_0000_0000_0001,
            0x8000_0000_0000_0001,
            0xfe00_0000_0000_0001,
        ] {
            assert!(is_ephemeral(session), "{session:#x}");
        }
        for marker in [0, 0x8000_0000_0000_0000, 0xff00_0000_0000_0001, 0xff00_00ff_ffff_ffff] {
            assert!(!is_ephemeral(marker), "{marker:#x}");
        }
    }
}
