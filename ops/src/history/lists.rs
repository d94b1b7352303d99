//! The lists in transactions and snapshots, in their stored form.

use std::fmt;

use zk_curator::{Acl, Permissions};
use zk_curator_proto::DecodeError;

use super::wire::{Cursor, java_string};

/// The stored form of Java's `null`.
const NULL: [u8; 4] = (-1_i32).to_be_bytes();

/// An ACL in its stored form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AclList<'a> {
    /// The count and the entries.
    bytes: &'a [u8],
}

impl<'a> AclList<'a> {
    /// The minimum length of an entry, in bytes: the permissions and two lengths.
    const MIN_ENTRY: usize = 12;

    pub(super) fn read(input: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let start = input.rest();
        let count = input.count(Self::MIN_ENTRY, "acl")?.unwrap_or(0);
        for _ in 0..count {
            input.i32("acl.perms")?;
            input.buffer("acl.scheme")?;
            input.buffer("acl.id")?;
        }
        Ok(Self { bytes: &start[..start.len() - input.rest().len()] })
    }

    /// Returns the list whose stored form this is.
    pub(super) const fn of(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns Java's `null`.
    pub(super) const fn null() -> Self {
        Self { bytes: &NULL }
    }

    /// Returns the stored form. Equal lists have equal forms.
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns `true` for Java's `null`, which stands for [`Acl::open_unsafe`].
    #[must_use]
    pub fn is_null(self) -> bool {
        self.bytes == NULL
    }

    /// Returns `true` if every client may read the node: because of an entry for `world:anyone`, or
    /// because the list is Java's `null`.
    #[must_use]
    pub fn lets_anyone_read(self) -> bool {
        let mut input = Cursor::new(self.bytes);
        match input.count(Self::MIN_ENTRY, "acl") {
            Ok(None) => true,
            Ok(Some(count)) => (0..count).any(|_| is_read_by_anyone(&mut input).unwrap_or(false)),
            Err(_) => false,
        }
    }

    /// Returns the entries. Java's `null` is [`Acl::open_unsafe`].
    ///
    /// # Errors
    /// [`DecodeError::InvalidUtf8`] if a scheme or an identity is not text.
    pub fn to_vec(self) -> Result<Vec<Acl>, DecodeError> {
        let mut input = Cursor::new(self.bytes);
        let Some(count) = input.count(Self::MIN_ENTRY, "acl")? else {
            return Ok(Acl::open_unsafe());
        };
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let permissions = Permissions::from_bits(input.i32("acl.perms")?);
            let scheme = input.buffer("acl.scheme")?.unwrap_or_default();
            let id = input.buffer("acl.id")?.unwrap_or_default();
            entries.push(Acl::new(
                permissions,
                java_string(scheme, "acl.scheme")?,
                java_string(id, "acl.id")?,
            ));
        }
        Ok(entries)
    }
}

/// Reads an entry of an ACL. Returns `true` if it lets every client read.
fn is_read_by_anyone(input: &mut Cursor<'_>) -> Result<bool, DecodeError> {
    let permissions = Permissions::from_bits(input.i32("acl.perms")?);
    let (scheme, id) = (input.buffer("acl.scheme")?, input.buffer("acl.id")?);
    let is_anyone = scheme == Some(&b"world"[..]) && id == Some(&b"anyone"[..]);
    Ok(is_anyone && permissions.contains(Permissions::READ))
}

/// Omits the identities: those of the scheme `digest` are derived from passwords.
impl fmt::Debug for AclList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AclList").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// A list behind its count, in its stored form. Every item has been read once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Items<'a> {
    input: Cursor<'a>,
    left: usize,
}

impl<'a> Items<'a> {
    /// Reads a list to its end. Every item has at least `min_size` bytes.
    pub(super) fn read<T, E: From<DecodeError>>(
        input: &mut Cursor<'a>,
        min_size: usize,
        what: &'static str,
        mut item: impl FnMut(&mut Cursor<'a>) -> Result<T, E>,
    ) -> Result<Self, E> {
        let left = input.count(min_size, what)?.unwrap_or(0);
        let start = input.rest();
        for _ in 0..left {
            item(input)?;
        }
        let bytes = &start[..start.len() - input.rest().len()];
        Ok(Self { input: Cursor::new(bytes), left })
    }

    /// Returns the number of items that are left.
    pub(super) const fn len(&self) -> usize {
        self.left
    }

    /// Reads the next item; `None` after the last one.
    pub(super) fn next<T, E>(
        &mut self,
        item: impl FnOnce(&mut Cursor<'a>) -> Result<T, E>,
    ) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        // `read` has read every item.
        item(&mut self.input).ok()
    }
}

/// The paths that `closeSession` deletes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Paths<'a> {
    paths: Items<'a>,
}

impl<'a> Paths<'a> {
    /// The length of an empty path, in bytes.
    const MIN_PATH: usize = 4;

    pub(super) fn read(input: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let paths = Items::read(input, Self::MIN_PATH, "CloseSessionTxn.paths2Delete", path)?;
        Ok(Self { paths })
    }

    /// Returns the number of paths.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.paths.len()
    }

    /// Returns `true` if the session had no ephemeral node.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the paths.
    #[must_use]
    pub const fn iter(&self) -> PathsIter<'a> {
        PathsIter { paths: self.paths }
    }
}

impl<'a> IntoIterator for &Paths<'a> {
    type Item = &'a str;
    type IntoIter = PathsIter<'a>;

    fn into_iter(self) -> PathsIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Paths<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// An iterator over the paths of a `closeSession`: see [`Paths::iter`].
#[derive(Debug, Clone)]
pub struct PathsIter<'a> {
    paths: Items<'a>,
}

impl<'a> Iterator for PathsIter<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.paths.next(path)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.paths.len(), Some(self.paths.len()))
    }
}

impl ExactSizeIterator for PathsIter<'_> {}

fn path<'a>(input: &mut Cursor<'a>) -> Result<&'a str, DecodeError> {
    input.str("CloseSessionTxn.path")
}
