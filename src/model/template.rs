//! The macro that defines templates of paths.

/// Defines a template of paths. Its parameters, with their names, number and types, are checked
/// when the program is compiled.
///
/// ```
/// use zk_curator::model::TypedPath;
///
/// zk_curator::path_template! {
///     /// The node of an order.
///     pub OrderPath = "/orders/{region}/{id}": region: &str, id: u64
/// }
///
/// assert_eq!(OrderPath::path("eu", 7)?.as_str(), "/orders/eu/7");
/// assert!(OrderPath::path("eu/west", 7).is_err());
/// assert_eq!(OrderPath::PATTERN, "/orders/{region}/{id}");
/// # Ok::<(), zk_curator::path::ResolveError>(())
/// ```
///
/// This defines a type without values, here `OrderPath`, with two functions: `path` returns the
/// path of some parameters, and `spec` begins a [`ModelSpec`](crate::model::ModelSpec). Every
/// parameter has a type with a [`NodeName`](crate::path::NodeName): text, a number, or a type of
/// the service.
///
/// A name that is not in the pattern does not compile:
///
/// ```compile_fail,E0080
/// zk_curator::path_template!(OrderPath = "/orders/{id}": number: u64);
/// # fn main() {}
/// ```
///
/// Neither does a parameter without a type, nor parameters in another order:
///
/// ```compile_fail,E0080
/// zk_curator::path_template!(OrderPath = "/orders/{region}/{id}": id: u64);
/// # fn main() {}
/// ```
///
/// ```compile_fail,E0080
/// zk_curator::path_template!(OrderPath = "/orders/{region}/{id}": id: u64, region: &str);
/// # fn main() {}
/// ```
///
/// A pattern that is not a path, or whose parameters are only parts of components:
///
/// ```compile_fail,E0080
/// zk_curator::path_template!(OrderPath = "/orders//{id}": id: u64);
/// # fn main() {}
/// ```
///
/// ```compile_fail,E0080
/// zk_curator::path_template!(OrderPath = "/orders/order-{id}": id: u64);
/// # fn main() {}
/// ```
///
/// A parameter whose name has other characters than ASCII letters, digits and `_`. `r#type` is such
/// a name too:
///
/// ```compile_fail,E0080
/// zk_curator::path_template!(SizePath = "/sizes/{größe}": größe: u64);
/// # fn main() {}
/// ```
///
/// ```compile_fail,E0080
/// zk_curator::path_template!(TypePath = "/types/{r#type}": r#type: u64);
/// # fn main() {}
/// ```
///
/// A call with another number of parameters, or with another type:
///
/// ```compile_fail,E0061
/// zk_curator::path_template!(OrderPath = "/orders/{region}/{id}": region: &str, id: u64);
/// # fn main() {
/// let path = OrderPath::path(7);
/// # }
/// ```
///
/// ```compile_fail,E0308
/// zk_curator::path_template!(OrderPath = "/orders/{region}/{id}": region: &str, id: u64);
/// # fn main() {
/// let path = OrderPath::path("eu", "7");
/// # }
/// ```
#[macro_export]
macro_rules! path_template {
    (@of_one $name:ident $type:ty) => {
        impl $crate::model::Parameters<$name> for $type {
            fn resolve(self) -> $crate::model::Resolved {
                $name::path(self)
            }
        }
    };
    (@of_one $name:ident $($types:ty)*) => {};
    (@parent $name:ident [$($before:ident $type:ty,)*]) => {};
    (@parent $name:ident [$($before:ident $type:ty,)*] $last:ident $last_type:ty,) => {
        impl $crate::model::ParentParameters<$name> for ($($type,)*) {
            fn resolve_parent(self) -> $crate::model::Resolved {
                let ($($before,)*) = self;
                $crate::model::resolve_parent(
                    <$name as $crate::model::TypedPath>::PATTERN,
                    &[$((::core::stringify!($before), &$before as &dyn $crate::path::NodeName)),*],
                )
            }
        }
        $crate::path_template!(@parent_of_one $name [$($before $type,)*]);
    };
    (@parent $name:ident [$($before:ident $type:ty,)*] $next:ident $next_type:ty, $($rest:tt)+) => {
        $crate::path_template!(@parent $name [$($before $type,)* $next $next_type,] $($rest)+);
    };
    (@parent_of_one $name:ident [$before:ident $type:ty,]) => {
        impl $crate::model::ParentParameters<$name> for $type {
            fn resolve_parent(self) -> $crate::model::Resolved {
                $crate::model::ParentParameters::<$name>::resolve_parent((self,))
            }
        }
    };
    (@parent_of_one $name:ident [$($before:ident $type:ty,)*]) => {};
    (
        $(#[$meta:meta])*
        $visibility:vis $name:ident = $pattern:literal
        $(: $($parameter:ident : $type:ty),+ $(,)?)?
    ) => {
        $(#[$meta])*
        #[derive(::core::fmt::Debug, ::core::clone::Clone, ::core::marker::Copy)]
        $visibility enum $name {}

        impl $crate::model::TypedPath for $name {
            const PATTERN: &'static str = {
                $crate::model::check_pattern($pattern, &[$($(::core::stringify!($parameter)),+)?]);
                $pattern
            };
        }

        const _: &str = <$name as $crate::model::TypedPath>::PATTERN;

        #[allow(dead_code, reason = "not every program uses both")]
        impl $name {
            /// Returns the path of these parameters.
            ///
            /// # Errors
            /// `Refused` for a value that cannot be the name of a node.
            $visibility fn path(
                $($($parameter: $type),+)?
            ) -> $crate::model::Resolved {
                $crate::model::resolve(
                    <$name as $crate::model::TypedPath>::PATTERN,
                    &[$($((::core::stringify!($parameter), &$parameter as &dyn $crate::path::NodeName)),+)?],
                )
            }

            /// Begins the specification of the nodes with these paths, as values of a type.
            $visibility const fn spec<T>() -> $crate::model::ModelSpec<$name, T> {
                $crate::model::ModelSpec::new()
            }
        }

        impl $crate::model::Parameters<$name> for ($($($type,)+)?) {
            fn resolve(self) -> $crate::model::Resolved {
                let ($($($parameter,)+)?) = self;
                $name::path($($($parameter),+)?)
            }
        }

        $crate::path_template!(@of_one $name $($($type)+)?);
        $crate::path_template!(@parent $name [] $($($parameter $type,)+)?);
    };
}
