//! Functions as handlers: their arguments are read from the request, and their result is the
//! answer.

use alloc::vec::Vec;

use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};

use super::args::{Arguments, FlowParameter};
use super::describe::{MethodInfo, ParamInfo};
use super::errors::Failure;
use super::missing::fields;
use super::params::Params;
use super::registry::RegisterError;
use crate::error_object::{ErrorObject, OwnedError};
use crate::json::Json;

/// An argument of a handler that is not made from params: the peer, shared state, the user.
///
/// `R` is the request as the adapter shows it, `S` the router's state.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can neither be read from params nor taken from the request",
    label = "implement `Deserialize` for it, or `FromCall`"
)]
pub trait FromCall<R: ?Sized, S: ?Sized>: Sized {
    /// Makes the argument.
    ///
    /// # Errors
    /// The error with which the request is answered; its handler is not called.
    fn from_call(request: &R, state: &S) -> Result<Self, OwnedError>;
}

/// The router's state, as an argument of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State<S>(pub S);

impl<R: ?Sized, S: Clone> FromCall<R, S> for State<S> {
    fn from_call(_: &R, state: &S) -> Result<Self, OwnedError> {
        Ok(Self(state.clone()))
    }
}

/// The ways to find an argument, and to answer; the compiler infers which one is used.
pub mod marker {
    /// One parameter.
    #[derive(Debug)]
    pub enum OneParam {}
    /// All params.
    #[derive(Debug)]
    pub enum AllParams {}
    /// A value of the request or the router.
    #[derive(Debug)]
    pub enum FromRequest {}
    /// A flow of the caller.
    #[derive(Debug)]
    pub enum FromFlow {}
    /// A handler that returns the answer.
    #[derive(Debug)]
    pub enum AtOnce {}
    /// A handler that returns a future of the answer.
    #[derive(Debug)]
    pub enum Awaited {}
    /// A handler that returns work which runs to its end.
    #[derive(Debug)]
    pub enum ToEnd {}
    /// A handler that may not return what it returns.
    #[derive(Debug)]
    pub enum ReturnTheFlowItself {}
}

/// An argument of a handler: one parameter, all params as [`Params`], a flow of the caller, or a type that implements
/// [`FromCall`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a handler",
    label = "a parameter implements `DeserializeOwned`, anything else `FromCall`"
)]
pub trait Argument<R: ?Sized, S: ?Sized, M>: Sized {
    /// How many names of parameters it needs: 1 for a parameter, otherwise 0.
    const NAMES: usize = 0;
    /// Whether it takes all params.
    const IS_WHOLE: bool = false;

    /// Appends the descriptions of its parameters to `params`. Takes the name of a single parameter
    /// from `names`.
    fn describe(names: &mut dyn Iterator<Item = &'static str>, params: &mut Vec<ParamInfo>) {
        let _ = (names, params);
    }

    /// Makes the argument.
    ///
    /// # Errors
    /// Why the handler cannot be called.
    fn take(call: &mut CallParts<'_, R, S>) -> Result<Self, Failure>;
}

/// A request, while arguments are taken from it one after another.
#[derive(Debug)]
pub struct CallParts<'c, R: ?Sized, S: ?Sized> {
    params: Option<Json<'c>>,
    arguments: Option<Arguments<'c, 'c>>,
    /// The index of the next single parameter.
    next: usize,
    request: &'c R,
    state: &'c S,
}

impl<'c, R: ?Sized, S: ?Sized> CallParts<'c, R, S> {
    /// Returns the arguments, and the index of the next one.
    fn next_param(&mut self) -> Result<(&Arguments<'c, 'c>, usize), Failure> {
        self.next += 1;
        // If another argument takes all params, there are none: [`described`] refuses such handlers, so this
        // does not happen. A text as its cause would take 4 KB of flash, for what prints texts.
        let twice = || ErrorObject::internal_error().into_owned();
        Ok((self.arguments.as_ref().ok_or_else(twice)?, self.next - 1))
    }
}

impl<R: ?Sized, S: ?Sized, T: DeserializeOwned> Argument<R, S, marker::OneParam> for T {
    const NAMES: usize = 1;

    fn describe(names: &mut dyn Iterator<Item = &'static str>, params: &mut Vec<ParamInfo>) {
        params.extend(names.next().map(ParamInfo::of::<T>));
    }

    fn take(call: &mut CallParts<'_, R, S>) -> Result<Self, Failure> {
        let (arguments, place) = call.next_param()?;
        Ok(arguments.get(place)?)
    }
}

impl<R: ?Sized, S: ?Sized, T: FlowParameter<R>> Argument<R, S, marker::FromFlow> for T {
    const NAMES: usize = 1;

    fn describe(names: &mut dyn Iterator<Item = &'static str>, params: &mut Vec<ParamInfo>) {
        params.extend(names.next().map(ParamInfo::flow));
    }

    fn take(call: &mut CallParts<'_, R, S>) -> Result<Self, Failure> {
        let request = call.request;
        let (arguments, place) = call.next_param()?;
        arguments.flow(place, request)
    }
}

impl<R: ?Sized, S: ?Sized, T: DeserializeOwned> Argument<R, S, marker::AllParams> for Params<T> {
    const IS_WHOLE: bool = true;

    fn describe(_: &mut dyn Iterator<Item = &'static str>, params: &mut Vec<ParamInfo>) {
        params.extend(fields::<T>().into_iter().map(ParamInfo::field));
    }

    fn take(call: &mut CallParts<'_, R, S>) -> Result<Self, Failure> {
        Ok(Self::decode(call.params)?)
    }
}

impl<R: ?Sized, S: ?Sized, T: FromCall<R, S>> Argument<R, S, marker::FromRequest> for T {
    fn take(call: &mut CallParts<'_, R, S>) -> Result<Self, Failure> {
        Ok(T::from_call(call.request, call.state)?)
    }
}

/// A function that serves a method. `M` is the way in which its arguments are found; the compiler
/// infers it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function that can serve a method",
    label = "each argument must implement `DeserializeOwned` or `FromCall`, and there are at most ten"
)]
pub trait Handler<R: ?Sized, S: ?Sized, M>: 'static {
    /// What it returns.
    type Output;
    /// How many parameters must be named.
    const NAMES: usize;
    /// Whether it takes all params as one.
    const IS_WHOLE: bool;

    /// Returns the descriptions of its parameters, which have these names.
    fn describe(names: &[&'static str]) -> Vec<ParamInfo>;

    /// Makes the arguments and calls the function.
    ///
    /// # Errors
    /// Why it could not be called.
    fn call(
        &self,
        params: Option<Json<'_>>,
        names: &[&'static str],
        request: &R,
        state: &S,
    ) -> Result<Self::Output, Failure>;
}

macro_rules! functions {
    ($($argument:ident $marker:ident),*) => {
        #[allow(non_snake_case, unused_mut, unused_variables)]
        impl<R: ?Sized, S: ?Sized, F, O, $($argument, $marker),*> Handler<R, S, (($($argument, $marker,)*), O)> for F
        where
            F: Fn($($argument),*) -> O + 'static,
            $($argument: Argument<R, S, $marker>),*
        {
            type Output = O;
            const NAMES: usize = 0 $(+ $argument::NAMES)*;
            const IS_WHOLE: bool = false $(|| $argument::IS_WHOLE)*;

            fn describe(names: &[&'static str]) -> Vec<ParamInfo> {
                let (mut names, mut params) = (names.iter().copied(), Vec::new());
                $($argument::describe(&mut names, &mut params);)*
                params
            }

            fn call(
                &self,
                params: Option<Json<'_>>,
                names: &[&'static str],
                request: &R,
                state: &S,
            ) -> Result<O, Failure> {
                let is_whole = false $(|| $argument::IS_WHOLE)*;
                let arguments = match is_whole {
                    true => None,
                    false => Some(Arguments::of(params, names)?),
                };
                let mut call = CallParts { params, arguments, next: 0, request, state };
                $(let $argument = $argument::take(&mut call)?;)*
                Ok(self($($argument),*))
            }
        }
    };
}

functions!();
functions!(A1 M1);
functions!(A1 M1, A2 M2);
functions!(A1 M1, A2 M2, A3 M3);
functions!(A1 M1, A2 M2, A3 M3, A4 M4);
functions!(A1 M1, A2 M2, A3 M3, A4 M4, A5 M5);
functions!(A1 M1, A2 M2, A3 M3, A4 M4, A5 M5, A6 M6);
functions!(A1 M1, A2 M2, A3 M3, A4 M4, A5 M5, A6 M6, A7 M7);
functions!(A1 M1, A2 M2, A3 M3, A4 M4, A5 M5, A6 M6, A7 M7, A8 M8);
functions!(A1 M1, A2 M2, A3 M3, A4 M4, A5 M5, A6 M6, A7 M7, A8 M8, A9 M9);
functions!(A1 M1, A2 M2, A3 M3, A4 M4, A5 M5, A6 M6, A7 M7, A8 M8, A9 M9, A10 M10);

/// Returns `info` with the parameters that the handler takes, if `info` has none.
///
/// # Errors
/// The names do not fit the handler, or `info` has other parameters than the handler takes.
pub fn described<R: ?Sized, S: ?Sized, M, H: Handler<R, S, M>>(
    info: MethodInfo,
    names: &[&'static str],
) -> Result<MethodInfo, RegisterError> {
    let name = || info.name().into();
    if H::IS_WHOLE && H::NAMES > 0 {
        return Err(RegisterError::WholeAndParts(name()));
    }
    if H::NAMES != names.len() {
        return Err(RegisterError::WrongNumberOfNames(
            name(),
            H::NAMES,
            names.len(),
        ));
    }
    let takes = H::describe(names);
    if info.params().is_empty() {
        let is_open = H::IS_WHOLE && takes.is_empty();
        return Ok(info.with_params(takes).open(is_open));
    }
    let said = info.params().iter().map(ParamInfo::name);
    match said.eq(takes.iter().map(ParamInfo::name)) {
        true => Ok(info),
        false => Err(RegisterError::OtherParams(name())),
    }
}

/// Returns the names that a description has for the parameters that the handler takes one by one; none if
/// the handler takes all params as one argument.
pub(super) fn names_of<R: ?Sized, S: ?Sized, M, H: Handler<R, S, M>>(
    info: &MethodInfo,
) -> Vec<&'static str> {
    let params = info.params().iter().filter(|_| !H::IS_WHOLE);
    params.map(ParamInfo::name).collect()
}

/// The return type of a handler: a `Result`, [`NotificationOk`], or nothing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an answer",
    label = "return `Result<T, E>` with `T: Serialize` and `E: Into<OwnedError>`, or `()`"
)]
pub trait IntoResult {
    /// The result.
    type Value: Serialize;
    /// The error.
    type Error: Into<OwnedError>;

    /// Returns the result or the error.
    ///
    /// # Errors
    /// The error of the handler.
    fn into_result(self) -> Result<Self::Value, Self::Error>;
}

impl<T: Serialize, E: Into<OwnedError>> IntoResult for Result<T, E> {
    type Value = T;
    type Error = E;

    fn into_result(self) -> Self {
        self
    }
}

impl IntoResult for () {
    type Value = ();
    type Error = OwnedError;

    fn into_result(self) -> Result<(), OwnedError> {
        Ok(())
    }
}

/// The return type of a handler of notifications. In a trait with `#[service]` it makes the method a
/// notification, which is never answered, not even with an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotificationOk;

/// Writes `null`.
impl Serialize for NotificationOk {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl IntoResult for NotificationOk {
    type Value = Self;
    type Error = OwnedError;

    fn into_result(self) -> Result<Self, OwnedError> {
        Ok(self)
    }
}
