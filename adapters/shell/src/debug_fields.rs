//! A short form of `Debug` for types of which most fields have none, or none that says anything.

/// Implements `Debug` by a name and those fields that are listed. Its form is
/// `debug_fields!(impl[R] Type<'_, R> as "Type" { field, field });`.
#[macro_export]
macro_rules! debug_fields {
    (impl[$($generics:tt)*] $type:ty as $name:literal { $($field:ident),* }) => {
        impl<$($generics)*> ::std::fmt::Debug for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct($name)
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    };
}
