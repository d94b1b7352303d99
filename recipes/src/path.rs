use zk_curator::{CuratorFramework, Error};

/// Creates the parents of a node as containers.
pub(crate) async fn create_parents(zk: &CuratorFramework, path: &str) -> Result<(), Error> {
    match path.rsplit_once('/') {
        Some((parent, _)) if !parent.is_empty() => zk.create_containers(parent).await,
        _ => Ok(()),
    }
}

/// Returns the path of a child.
pub(crate) fn child(parent: impl AsRef<str>, name: &str) -> String {
    format!("{}/{name}", parent.as_ref().trim_end_matches('/'))
}

/// Returns `true` for the text of a UUID with hyphens.
pub(crate) fn is_uuid(text: &str) -> bool {
    let is_in_form = |(index, byte): (usize, u8)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_in_form)
}

/// The bucket of a name: FNV-1a, its upper half folded into the lower one, modulo the number of
/// buckets. It never changes between versions of this crate.
pub(crate) fn bucket_of(name: &str, buckets: u32) -> u32 {
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash ^ (hash >> 16)) % buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_of_a_name_never_changes() {
        assert_eq!([bucket_of("order-1", 256), bucket_of("", 256)], [18, 217]);
    }
}
