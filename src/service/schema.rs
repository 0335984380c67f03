//! Schemas of types, with the feature `openrpc` and for types that have one.

use core::fmt;

use crate::json::{EncodeError, OwnedJson};

/// The JSON schema of a type, made on demand; or no schema.
#[derive(Clone, Copy)]
pub struct SchemaOf(#[cfg_attr(not(feature = "openrpc"), allow(dead_code))] Option<MakeSchema>);

/// Makes a schema. Without the feature `openrpc` there are none.
#[cfg(feature = "openrpc")]
pub(super) type MakeSchema = fn(&mut schemars::SchemaGenerator) -> Option<schemars::Schema>;
#[cfg(not(feature = "openrpc"))]
type MakeSchema = core::convert::Infallible;

impl SchemaOf {
    /// No schema.
    pub const UNKNOWN: Self = Self(None);

    /// The schema of a type that has one.
    #[cfg(feature = "openrpc")]
    pub const fn of<T: schemars::JsonSchema>() -> Self {
        Self(Some(|generator| Some(generator.subschema_for::<T>())))
    }

    /// The schema that allows all values of a type of JSON Schema, such as `string`.
    pub(super) fn json_type(name: &str) -> Self {
        #[cfg(feature = "openrpc")]
        macro_rules! of {
            ($($known:literal)*) => {
                match name {
                    $($known => Self(Some(|_| Some(schemars::json_schema!({"type": $known})))),)*
                    _ => Self::UNKNOWN,
                }
            };
        }
        #[cfg(feature = "openrpc")]
        return of!("boolean" "integer" "number" "string" "null" "array" "object");
        #[cfg(not(feature = "openrpc"))]
        {
            let _ = name;
            Self::UNKNOWN
        }
    }

    /// The schema that `schema_of!` has found.
    #[cfg(feature = "openrpc")]
    #[doc(hidden)]
    pub const fn made_by(make: MakeSchema) -> Self {
        Self(Some(make))
    }

    /// Returns the schema as JSON of draft 07, for tools and documents of your program. Nested
    /// schemas are inlined, unless they refer to themselves. If there is no schema, it is `{}`,
    /// which allows every value.
    ///
    /// ```
    /// use antiphon::service::SchemaOf;
    /// assert_eq!(SchemaOf::of::<bool>().to_json()?.as_str(), r#"{"type":"boolean"}"#);
    /// assert_eq!(SchemaOf::UNKNOWN.to_json()?.as_str(), "{}");
    /// # Ok::<(), antiphon::EncodeError>(())
    /// ```
    ///
    /// # Errors
    /// The schema has no JSON form.
    #[cfg(feature = "openrpc")]
    pub fn to_json(self) -> Result<OwnedJson, EncodeError> {
        let mut generator = generator("/definitions");
        let mut schema = self.make(&mut generator).unwrap_or_default();
        let definitions = generator.take_definitions(true);
        if !definitions.is_empty() {
            schema.insert("definitions".into(), definitions.into());
        }
        OwnedJson::from_value(&schema)
    }

    /// Returns `{}`, because without the feature `openrpc` there are no schemas.
    ///
    /// # Errors
    /// None.
    #[cfg(not(feature = "openrpc"))]
    pub fn to_json(self) -> Result<OwnedJson, EncodeError> {
        OwnedJson::from_value(&alloc::collections::BTreeMap::<&str, ()>::new())
    }

    #[cfg(feature = "openrpc")]
    pub(super) fn make(
        self,
        generator: &mut schemars::SchemaGenerator,
    ) -> Option<schemars::Schema> {
        let mut schema = self.0.and_then(|make| make(generator))?;
        for transform in generator.transforms_mut() {
            transform.transform(&mut schema);
        }
        Some(schema)
    }
}

/// Makes a generator. Schemas to which others refer are written under `path` of the document. They
/// are of draft 07, as OpenRPC's are, and are inlined where possible, because many clients cannot
/// follow references.
#[cfg(feature = "openrpc")]
pub(super) fn generator(path: &'static str) -> schemars::SchemaGenerator {
    let settings = schemars::generate::SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.definitions_path = path.into();
    });
    let standard_only = schemars::transform::RecursiveTransform(remove_other_formats);
    settings.with_transform(standard_only).into_generator()
}

/// The formats of draft 07 that validators know; and `uuid`.
#[cfg(feature = "openrpc")]
const FORMATS: [&str; 14] = [
    "date",
    "date-time",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "time",
    "uri",
    "uri-reference",
    "uri-template",
    "uuid",
];

/// Removes schemars's own formats, such as `double`. Some validators refuse the whole schema
/// because of an unknown format: ajv 6 does, which OpenRPC's own generator and mock server use.
#[cfg(feature = "openrpc")]
fn remove_other_formats(schema: &mut schemars::Schema) {
    let format = schema.get("format").and_then(|format| format.as_str());
    if format.is_some_and(|format| !FORMATS.contains(&format)) {
        schema.remove("format");
    }
}

impl fmt::Debug for SchemaOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SchemaOf")
    }
}

/// Finds out whether a type has a schema. The method of the first trait is preferred, because the
/// second needs one more reference.
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

/// Returns the schema of a type if it has one: with the feature `openrpc`, when it implements
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

/// Returns no schema, because the feature `openrpc` is off.
#[cfg(not(feature = "openrpc"))]
#[doc(hidden)]
#[macro_export]
macro_rules! schema_of {
    ($type:ty) => {
        $crate::service::SchemaOf::UNKNOWN
    };
}

#[doc(hidden)]
pub use schema_of;

#[cfg(feature = "openrpc")]
#[cfg(test)]
mod tests {
    use alloc::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

    use super::SchemaOf;

    struct Tree;

    impl JsonSchema for Tree {
        fn schema_name() -> Cow<'static, str> {
            "Tree".into()
        }

        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            json_schema!({"type": "array", "items": generator.subschema_for::<Tree>()})
        }
    }

    // EXT-08
    #[test]
    fn a_schema_by_itself_brings_what_it_refers_to() {
        let schema = SchemaOf::of::<Tree>().to_json().unwrap();
        let tree = serde_json::json!({"type": "array", "items": {"$ref": "#/definitions/Tree"}});
        let mut expected = tree.clone();
        expected["definitions"] = serde_json::json!({"Tree": tree});
        assert_eq!(
            schema.as_json().decode::<serde_json::Value>().unwrap(),
            expected
        );
    }
}
