/// Defines the metrics of a crate: for each row a handle of this name, its entry in the table, and
/// its row in the documentation of the table. A row consists of the meaning, the name of the
/// handle, the kind, the labels besides `framework`, and the name.
#[doc(hidden)]
#[macro_export]
macro_rules! metrics_table {
    (
        $(#[$about:meta])*
        $table:ident;
        $(
            $(#[doc = $help:literal])+
            $handle:ident: $kind:ident($($label:literal),*) = $name:literal;
        )+
    ) => {
        $(#[$about])*
        ///
        /// | name | kind | labels | meaning |
        /// |---|---|---|---|
        $(#[doc = concat!(
            "| `", $name, "` | ", stringify!($kind), " | `framework`", $(", `", $label, "`",)*
            " |", $($help,)+ " |"
        )])+
        pub const $table: &[$crate::observe::Metric] = &[$($crate::observe::Metric::new(
            $name,
            $crate::observe::MetricKind::$kind,
            &["framework", $($label),*],
            concat!($($help),+).trim_ascii(),
        )),+];

        $(
            $(#[doc = $help])+
            pub(crate) const $handle: $crate::internal::MetricHandle<
                $crate::internal::$kind,
                { <[&str]>::len(&[$($label),*]) },
            > = $crate::internal::MetricHandle::new(
                $name,
                [$($label),*],
                cfg!(feature = "metrics"),
            );
        )+
    };
}
