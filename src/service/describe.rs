//! The description of a method: its name, its parameters, its documentation.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{DeserializeOwned, IgnoredAny};

use super::args::Arguments;
use super::missing::{absent, fields, is_nothing};
use super::schema::SchemaOf;
use crate::config::UnknownParams;
use crate::json::DecodeError;
use crate::subscription::Style;

/// Describes a method: for its registration, `rpc.listMethods` and `rpc.discover`.
///
/// It can be made at compile time, as `#[service]` does.
///
/// ```
/// use antiphon::service::{MethodInfo, ParamInfo};
/// const PARAMS: &[ParamInfo] = &[ParamInfo::of::<f64>("a"), ParamInfo::of::<Option<f64>>("b")];
/// const ADD: MethodInfo = MethodInfo::request("add", PARAMS).with_doc("Adds two numbers.");
/// assert!(ADD.params()[1].is_optional());
/// ```
#[derive(Clone, Debug)]
pub struct MethodInfo {
    name: Cow<'static, str>,
    is_notification: bool,
    params: Cow<'static, [ParamInfo]>,
    doc: &'static str,
    result: SchemaOf,
    runs_to_end: bool,
    unknown_params: Option<UnknownParams>,
    separator: &'static str,
    /// Whether it takes params that are not described.
    is_open: bool,
    stream: Option<StreamRole>,
}

/// What a method has to do with a stream of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamRole {
    /// Its result is the id of a stream.
    Begins(Style),
    /// It ends a stream.
    Ends(Style),
    /// Its result is the id of a flow.
    Flow,
}

/// Describes a method that is answered and takes any params.
impl From<&'static str> for MethodInfo {
    fn from(name: &'static str) -> Self {
        Self::request(name, &[]).open(true)
    }
}

/// Describes a method: its name, the names and types of its parameters in their order, the type of its
/// result. Without a result it is a notification. A type has a schema in the document of `rpc.discover` if
/// the feature `openrpc` is on and the type implements `schemars::JsonSchema`. Other types are allowed, and
/// have no schema.
///
/// ```
/// use antiphon::method_info;
/// use antiphon::service::MethodInfo;
/// const ADD: MethodInfo = method_info!("add"("a": f64, "b": Option<f64>) -> f64);
/// assert!(ADD.params()[1].is_optional() && !ADD.is_notification());
/// assert!(method_info!("log"("line": String)).is_notification());
/// ```
#[macro_export]
macro_rules! method_info {
    ($name:literal($($param:literal: $type:ty),* $(,)?) -> $result:ty) => {{
        const PARAMS: &[$crate::service::ParamInfo] = &[$(
            $crate::service::ParamInfo::of::<$type>($param)
                .with_schema($crate::service::schema_of!($type))
        ),*];
        $crate::service::MethodInfo::request($name, PARAMS)
            .with_result($crate::service::schema_of!($result))
    }};
    ($name:literal($($param:literal: $type:ty),* $(,)?)) => {{
        const PARAMS: &[$crate::service::ParamInfo] = &[$(
            $crate::service::ParamInfo::of::<$type>($param)
                .with_schema($crate::service::schema_of!($type))
        ),*];
        $crate::service::MethodInfo::notification($name, PARAMS)
    }};
}

impl MethodInfo {
    /// Describes a method that is answered. The parameters are in their order.
    pub const fn request(name: &'static str, params: &'static [ParamInfo]) -> Self {
        Self::new(name, params, false)
    }

    /// Describes a notification, which is never answered.
    pub const fn notification(name: &'static str, params: &'static [ParamInfo]) -> Self {
        Self::new(name, params, true)
    }

    const fn new(name: &'static str, params: &'static [ParamInfo], is_notification: bool) -> Self {
        Self {
            name: Cow::Borrowed(name),
            is_notification,
            params: Cow::Borrowed(params),
            doc: "",
            result: SchemaOf::UNKNOWN,
            runs_to_end: false,
            unknown_params: None,
            separator: ".",
            is_open: false,
            stream: None,
        }
    }

    /// Describes a method that subscribes: its result is the id of a stream of events. `name` is the method of `style`
    /// that subscribes, and no prefix is put before it.
    pub const fn subscription(
        name: &'static str,
        params: &'static [ParamInfo],
        style: Style,
    ) -> Self {
        let mut info = Self::new(name, params, false);
        info.stream = Some(StreamRole::Begins(style));
        info
    }

    /// Describes the method that ends a stream of `style`, by its id.
    pub const fn unsubscription(name: &'static str, style: Style) -> Self {
        const ID: &[ParamInfo] = &[ParamInfo::of::<IgnoredAny>("subscription")];
        let mut info = Self::new(name, ID, false);
        info.stream = Some(StreamRole::Ends(style));
        info
    }

    /// Describes a method whose result is the id of a [flow](crate::flow).
    pub const fn flow(name: &'static str, params: &'static [ParamInfo]) -> Self {
        let mut info = Self::new(name, params, false);
        info.stream = Some(StreamRole::Flow);
        info
    }

    /// Sets its documentation: a summary, and after a blank line more.
    pub const fn with_doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }

    /// Sets the schema of its result.
    pub const fn with_result(mut self, result: SchemaOf) -> Self {
        self.result = result;
        self
    }

    /// Makes its handler run to its end, even if its request is cancelled or its connection ends.
    pub const fn run_to_end(mut self) -> Self {
        self.runs_to_end = true;
        self
    }

    /// Sets what happens to params by names that it does not have, whatever its router and the
    /// configuration say.
    pub const fn with_unknown_params(mut self, unknown_params: UnknownParams) -> Self {
        self.unknown_params = Some(unknown_params);
        self
    }

    /// Sets what stands between the prefix of its service and its name, instead of a dot: `eth_call`.
    pub const fn with_separator(mut self, separator: &'static str) -> Self {
        self.separator = separator;
        self
    }

    /// Gives it another name.
    pub fn with_name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets its parameters, if they are known only at run time.
    pub fn with_params(mut self, params: impl Into<Cow<'static, [ParamInfo]>>) -> Self {
        self.params = params.into();
        self.is_open = false;
        self
    }

    /// Sets its parameters to the fields of a struct that is all params, as [`Params`](crate::Params) reads it. If
    /// `T` is no struct, the parameters are not known.
    ///
    /// ```
    /// use antiphon::service::MethodInfo;
    /// #[derive(serde::Deserialize)]
    /// struct Move { x: i32, #[serde(default)] speed: u32 }
    /// let info = MethodInfo::from("move").with_params_of::<Move>();
    /// assert_eq!(info.params().iter().map(|param| param.is_optional()).collect::<Vec<_>>(), [false, true]);
    /// # let _ = |Move { x, speed }| (x, speed);
    /// ```
    pub fn with_params_of<T: DeserializeOwned>(self) -> Self {
        let params: Vec<ParamInfo> = fields::<T>().into_iter().map(ParamInfo::field).collect();
        let is_open = params.is_empty() && !is_nothing::<T>();
        self.with_params(params).open(is_open)
    }

    /// Sets whether it takes params that are not described.
    pub(super) fn open(mut self, is_open: bool) -> Self {
        self.is_open = is_open;
        self
    }

    /// The name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What stands between the prefix of its service and its name.
    pub const fn separator(&self) -> &'static str {
        self.separator
    }

    /// Whether it is a notification.
    pub const fn is_notification(&self) -> bool {
        self.is_notification
    }

    /// The parameters in their order; empty if they are not known.
    pub fn params(&self) -> &[ParamInfo] {
        &self.params
    }

    /// Whether it takes params that are not described.
    pub(super) const fn is_open(&self) -> bool {
        self.is_open
    }

    /// The documentation, or an empty string.
    pub const fn doc(&self) -> &'static str {
        self.doc
    }

    /// Whether its handler runs to its end, even if its request is cancelled or its connection ends.
    /// Only routers of async runtimes use this, and only for the methods of a service. On threads and
    /// in a [`LocalRouter`](super::LocalRouter) every handler runs to its end.
    pub const fn runs_to_end(&self) -> bool {
        self.runs_to_end
    }

    /// What happens to params by names that it does not have; `None` if its router or the configuration
    /// decides.
    pub const fn unknown_params(&self) -> Option<UnknownParams> {
        self.unknown_params
    }

    /// What it has to do with a stream; `None` if nothing.
    pub(super) const fn stream(&self) -> Option<StreamRole> {
        self.stream
    }

    /// The schema of the result.
    pub const fn result(&self) -> SchemaOf {
        self.result
    }
}

/// Describes a parameter.
#[derive(Clone, Copy)]
pub struct ParamInfo {
    name: &'static str,
    /// Finds out at run time whether the parameter may be left out.
    is_optional: fn() -> bool,
    schema: SchemaOf,
    /// Whether it is the id of a flow.
    is_flow: bool,
}

impl ParamInfo {
    /// Describes a parameter of a type. It may be left out if the type accepts that, as `Option` does.
    pub const fn of<T: DeserializeOwned>(name: &'static str) -> Self {
        Self {
            name,
            is_optional: || absent::<T>().is_some(),
            schema: SchemaOf::UNKNOWN,
            is_flow: false,
        }
    }

    /// Describes a parameter that is the id of a [flow](crate::flow) of the caller. Its schema is that of an item.
    pub const fn flow(name: &'static str) -> Self {
        Self {
            name,
            is_optional: || false,
            schema: SchemaOf::UNKNOWN,
            is_flow: true,
        }
    }

    /// Describes a parameter that may be left out, whatever its type.
    pub const fn optional(name: &'static str) -> Self {
        Self {
            name,
            is_optional: || true,
            schema: SchemaOf::UNKNOWN,
            is_flow: false,
        }
    }

    /// Describes a field of a struct that is all params, as [`fields`] tells it.
    pub(super) fn field(
        (name, is_optional, json_type): (&'static str, bool, &'static str),
    ) -> Self {
        Self {
            name,
            is_optional: if is_optional { || true } else { || false },
            schema: SchemaOf::json_type(json_type),
            is_flow: false,
        }
    }

    /// Gives it another name.
    #[doc(hidden)]
    pub const fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// Sets its schema.
    pub const fn with_schema(mut self, schema: SchemaOf) -> Self {
        self.schema = schema;
        self
    }

    /// The name in messages.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it may be left out.
    pub fn is_optional(&self) -> bool {
        (self.is_optional)()
    }

    /// The schema of its values, or of the items of its flow.
    pub const fn schema(&self) -> SchemaOf {
        self.schema
    }

    /// Whether it is the id of a flow.
    pub const fn is_flow(&self) -> bool {
        self.is_flow
    }
}

impl fmt::Debug for ParamInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParamInfo")
            .field("name", &self.name)
            .field("is_optional", &self.is_optional())
            .finish_non_exhaustive()
    }
}

/// The type of a parameter that a trait with `#[service]` declares.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from params",
    label = "if it is made from the request, write `#[rpc(context)]` before the argument; a parameter implements `Deserialize`"
)]
pub trait Parameter: Sized {
    /// Describes it; the name is to be set.
    const INFO: ParamInfo;

    /// Decodes the argument at index `place`.
    ///
    /// # Errors
    /// As [`Arguments::get`].
    fn read(arguments: &Arguments<'_, '_>, place: usize) -> Result<Self, DecodeError>;
}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned> Parameter for T {
    const INFO: ParamInfo = ParamInfo::of::<T>("");

    fn read(arguments: &Arguments<'_, '_>, place: usize) -> Result<Self, DecodeError> {
        arguments.get(place)
    }
}

/// Describes a set of methods that belong to one value.
#[derive(Clone, Copy, Debug)]
pub struct ServiceInfo {
    /// The name of the set, for names such as `Calculator.add`.
    pub name: &'static str,
    /// The documentation of the set.
    pub doc: &'static str,
    /// The prefix of its methods' names, unless [`Implementation::prefix`](super::Implementation::prefix)
    /// sets another; empty for none.
    pub prefix: &'static str,
    /// Its methods. They are called by their index.
    pub methods: &'static [MethodInfo],
}
