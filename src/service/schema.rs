//! Schemas of types, where the feature `openrpc` gives them and a type has one.

use core::fmt;

/// The JSON schema of a type, made when it is asked for; or none.
#[derive(Clone, Copy)]
pub struct SchemaOf(#[cfg_attr(not(feature = "openrpc"), allow(dead_code))] Option<MakeSchema>);

/// Makes a schema. Without the feature `openrpc` there are none.
#[cfg(feature = "openrpc")]
pub(super) type MakeSchema = fn(&mut schemars::SchemaGenerator) -> Option<schemars::Schema>;
#[cfg(not(feature = "openrpc"))]
type MakeSchema = core::convert::Infallible;

impl SchemaOf {
    /// Nothing is said about the type.
    pub const UNKNOWN: Self = Self(None);

    /// The schema of a type that has one.
    #[cfg(feature = "openrpc")]
    pub const fn of<T: schemars::JsonSchema>() -> Self {
        Self(Some(|generator| Some(generator.subschema_for::<T>())))
    }

    /// What `schema_of!` finds out.
    #[cfg(feature = "openrpc")]
    #[doc(hidden)]
    pub const fn made_by(make: MakeSchema) -> Self {
        Self(Some(make))
    }

    #[cfg(feature = "openrpc")]
    pub(super) fn make(
        self,
        generator: &mut schemars::SchemaGenerator,
    ) -> Option<schemars::Schema> {
        self.0.and_then(|make| make(generator))
    }
}

impl fmt::Debug for SchemaOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SchemaOf")
    }
}

/// Finds out whether a type has a schema: the method of the first trait is found before that of the
/// second, which needs one more reference.
#[cfg(feature = "openrpc")]
#[doc(hidden)]
pub mod probe {
    use core::marker::PhantomData;

    use schemars::{JsonSchema, Schema, SchemaGenerator};

    pub struct Probe<T>(PhantomData<T>);

    impl<T> Probe<T> {
        #[expect(clippy::new_without_default, reason = "only `schema_of!` makes one")]
        pub const fn new() -> Self {
            Self(PhantomData)
        }
    }

    pub trait Described {
        fn schema(&self, generator: &mut SchemaGenerator) -> Option<Schema>;
    }

    impl<T: JsonSchema> Described for Probe<T> {
        fn schema(&self, generator: &mut SchemaGenerator) -> Option<Schema> {
            Some(generator.subschema_for::<T>())
        }
    }

    pub trait Undescribed {
        fn schema(&self, generator: &mut SchemaGenerator) -> Option<Schema>;
    }

    impl<T> Undescribed for &Probe<T> {
        fn schema(&self, _: &mut SchemaGenerator) -> Option<Schema> {
            None
        }
    }
}

/// The schema of a type if it has one: with the feature `openrpc`, when it implements
/// `schemars::JsonSchema`.
#[cfg(feature = "openrpc")]
#[doc(hidden)]
#[macro_export]
macro_rules! schema_of {
    ($type:ty) => {
        $crate::service::SchemaOf::made_by(|generator| {
            #[allow(unused_imports)]
            use $crate::service::probe::{Described as _, Undescribed as _};
            (&$crate::service::probe::Probe::<$type>::new()).schema(generator)
        })
    };
}

/// The schema of a type if it has one; without the feature `openrpc` none has.
#[cfg(not(feature = "openrpc"))]
#[doc(hidden)]
#[macro_export]
macro_rules! schema_of {
    ($type:ty) => {
        $crate::service::SchemaOf::UNKNOWN
    };
}
