//! The questions that every error of a recipe answers.

/// Implements `is_retryable` and `may_have_applied` for an error type. For the variant `Framework`
/// its inner error decides; of the other variants, the listed ones are retryable, or have an
/// unknown outcome. Whether a variant of `of_source` is retryable, its field `source` decides,
/// which is an error of this type.
macro_rules! classify {
    (
        $error:ident, retryable: [$($retryable:pat),*], unknown: [$($unknown:pat),*]
        $(, of_source: [$($outer:ident),*])?
    ) => {
        impl $error {
            /// Returns `true` if the same call may succeed later: the connection or the session was
            /// lost, or other clients prevented it. Check
            /// [`may_have_applied`](Self::may_have_applied) too: what may have been done is done
            /// twice then.
            #[must_use]
            pub fn is_retryable(&self) -> bool {
                match self {
                    Self::Framework(error) => error.is_transient(),
                    $($retryable => true,)*
                    $($(Self::$outer { source, .. } => source.is_retryable(),)*)?
                    _ => false,
                }
            }

            /// Returns `true` if the operation, or a part of it, may have been done although it
            /// failed: for example, a body that was running when its lock was lost.
            #[must_use]
            pub const fn may_have_applied(&self) -> bool {
                match self {
                    Self::Framework(error) => error.may_have_applied(),
                    $($unknown => true,)*
                    _ => false,
                }
            }
        }

        crate::failure::recoverable!($error $(, of_source: [$($outer),*])?);
    };
}

/// Implements [`Recoverable`](zk_curator::Recoverable): the variant `Framework` has the error of
/// the framework, or the field `source` of the listed variants, which is an error of this type.
macro_rules! recoverable {
    ($error:ident $(, of_source: [$($outer:ident),*])?) => {
        impl zk_curator::Recoverable for $error {
            fn framework_error(&self) -> Option<&zk_curator::Error> {
                match self {
                    Self::Framework(error) => Some(error),
                    $($(Self::$outer { source, .. } => {
                        zk_curator::Recoverable::framework_error(&**source)
                    })*)?
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use {classify, recoverable};
