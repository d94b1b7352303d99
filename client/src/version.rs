use crate::error::Error;

/// The version that a node must have for a conditional write: of its data, of its ACL, or of the
/// configuration.
///
/// [`Stat::version`](crate::Stat::version) and [`Stat::aversion`](crate::Stat::aversion) are `i32`;
/// the configuration of the ensemble has an `i64`. Arguments of this type accept numbers:
///
/// | number | version |
/// |---|---|
/// | -1 | [`Any`](Self::Any), as in Java's client |
/// | every other number | [`Exactly`](Self::Exactly) that version |
///
/// Numbers below -1 are versions too. After 2^31 - 1 servers continue with -2^31 (ZOOKEEPER-4743),
/// and a client that refused these numbers could never again write the node conditionally
/// (CURATOR-688). Servers before 3.10 do not skip version -1. A node at version -1 can only be
/// written unconditionally.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[expect(clippy::exhaustive_enums, reason = "a write is conditional or it is not")]
pub enum Version<N = i32> {
    /// Any version: an unconditional write.
    #[default]
    Any,
    /// Exactly this version. Servers understand -1 as "any", so a request for exactly -1 fails with
    /// [`Error::InvalidArgument`] and is not sent.
    Exactly(N),
}

impl<N: Copy + PartialEq + From<i8>> Version<N> {
    const ANY: i8 = -1;

    /// Returns the required version, if the write is conditional.
    #[must_use]
    pub fn exactly(self) -> Option<N> {
        match self {
            Self::Exactly(version) => Some(version),
            Self::Any => None,
        }
    }

    /// Returns `true` if the write is conditional. It is applied at one version only, so never
    /// twice.
    #[must_use]
    pub fn is_exact(self) -> bool {
        self.exactly().is_some()
    }

    /// Returns the number that is sent to servers.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for exactly -1.
    pub fn to_wire(self) -> Result<N, Error> {
        let any = N::from(Self::ANY);
        match self {
            Self::Any => Ok(any),
            Self::Exactly(version) if version == any => Err(Error::InvalidArgument(
                "no write can ask for exactly version -1, which means any",
            )),
            Self::Exactly(version) => Ok(version),
        }
    }

    fn of(version: N) -> Self {
        if version == N::from(Self::ANY) { Self::Any } else { Self::Exactly(version) }
    }
}

impl From<i32> for Version {
    fn from(version: i32) -> Self {
        Self::of(version)
    }
}

impl From<i64> for Version<i64> {
    fn from(version: i64) -> Self {
        Self::of(version)
    }
}

/// `None` means any version.
impl<N> From<Option<N>> for Version<N>
where
    Self: From<N>,
{
    fn from(version: Option<N>) -> Self {
        version.map_or(Self::Any, Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minus_one_is_any_version_and_no_other_number_is() {
        assert_eq!(Version::from(-1), Version::<i32>::Any);
        assert_eq!(Version::from(-1_i64), Version::<i64>::Any);
        assert_eq!(Version::from(Some(-1)), Version::<i32>::Any);
        assert_eq!(Version::from(None::<i32>), Version::Any);
        for version in [i32::MIN, -2, 0, 1, i32::MAX] {
            assert_eq!(Version::from(version), Version::Exactly(version));
            assert_eq!(Version::from(version).to_wire(), Ok(version), "servers count through it");
        }
        assert_eq!(Version::<i32>::Any.to_wire(), Ok(-1));
    }

    #[test]
    fn exactly_minus_one_is_refused() {
        assert!(matches!(Version::Exactly(-1).to_wire(), Err(Error::InvalidArgument(_))));
        assert!(matches!(Version::Exactly(-1_i64).to_wire(), Err(Error::InvalidArgument(_))));
    }
}
