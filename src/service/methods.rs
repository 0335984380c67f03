//! A set of methods that one value serves: what `#[service]` makes of a trait.

use alloc::string::String;
use alloc::vec::Vec;
use core::future::Future;

use serde::Serialize;

use super::caller::{Encoding, Named, Values};
use super::describe::ServiceInfo;
use super::errors::Failure;
use super::handler::IntoResult;
use crate::encode::Encoded;
use crate::error_object::OwnedError;
use crate::json::{DecodeError, DecodeErrorKind, Json};

/// Where the result of a method is written, as JSON text.
pub type ResultText = Vec<u8>;

/// Serves a set of methods, each at once. `#[service]` implements it for a trait of plain functions.
pub trait Methods<R: ?Sized, S: ?Sized>: Send + Sync + 'static {
    /// Describes the set.
    fn info(&self) -> &'static ServiceInfo;

    /// Calls the method at this place of the description, and writes its result.
    ///
    /// # Errors
    /// Why there is no result.
    fn call(
        &self,
        method: usize,
        params: Option<Json<'_>>,
        request: &R,
        state: &S,
        result: &mut ResultText,
    ) -> Result<(), Failure>;
}

/// Serves a set of methods that may wait. `#[service]` implements it for a trait of `async fn`s.
pub trait AsyncMethods<R: ?Sized, S: ?Sized>: Send + Sync + 'static {
    /// Describes the set.
    fn info(&self) -> &'static ServiceInfo;

    /// Calls the method at this place of the description, and writes its result.
    ///
    /// # Errors
    /// Why there is no result.
    fn call<'c>(
        &'c self,
        method: usize,
        params: Option<Json<'c>>,
        request: &'c R,
        state: &'c S,
        result: &'c mut ResultText,
    ) -> impl Future<Output = Result<(), Failure>> + Send + 'c;
}

/// A service on its way to a router, perhaps with a prefix of its own.
#[derive(Clone, Debug)]
pub struct Implementation<X> {
    methods: X,
    prefix: Option<String>,
}

impl<X> Implementation<X> {
    /// Registers its methods as the router names them.
    pub const fn new(methods: X) -> Self {
        Self {
            methods,
            prefix: None,
        }
    }

    /// Sets what stands before the names of its methods, whatever the router's naming: `calc` makes
    /// `calc.add`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// What serves, and the prefix if it has one.
    pub fn into_parts(self) -> (X, Option<String>) {
        (self.methods, self.prefix)
    }
}

/// Writes what a method returned to the end of `result`.
///
/// # Errors
/// The error that it returned, or that the result has no JSON form.
pub fn write_result(output: impl IntoResult, result: &mut ResultText) -> Result<(), Failure> {
    let value = output.into_result().map_err(Into::into)?;
    Encoded::write(&value, result).map_err(Failure::Encode)?;
    Ok(())
}

/// Makes an error with this data. Data without a JSON form is left out.
pub fn error_with_data<T: Serialize>(
    code: i64,
    message: impl Into<String>,
    data: &T,
) -> OwnedError {
    let error = OwnedError::new(code, message);
    error.clone().with_data(data).unwrap_or(error)
}

/// Says that an error is not the one that is looked for.
pub fn not_this_error() -> DecodeError {
    DecodeError::about(DecodeErrorKind::Mismatch, "")
}

/// Makes an error whose data has these members. Data without a JSON form is left out.
pub fn error_with(
    code: i64,
    message: impl Into<String>,
    names: &'static [&'static str],
    values: &impl Values,
) -> OwnedError {
    let data = Named {
        names,
        values,
        encoding: Encoding::ByName,
    };
    error_with_data(code, message, &data)
}
