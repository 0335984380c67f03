//! A set of methods that belong to one value: `#[service]` makes it from a trait.

use alloc::string::String;
use alloc::vec::Vec;
use core::future::Future;

use serde::Serialize;

use super::args::Arguments;
use super::caller::{Encoding, Named, Values};
use super::describe::{MethodInfo, ServiceInfo};
use super::errors::Failure;
use super::handler::IntoResult;
use super::prefix::Prefix;
use super::registry::{Naming, RegisterError};
use crate::config::UnknownParams;
use crate::encode::Encoded;
use crate::error_object::OwnedError;
use crate::json::{DecodeError, DecodeErrorKind, Json, JsonKind};

/// The buffer for the result of a method, as JSON text.
pub type ResultText = Vec<u8>;

/// A set of methods that are plain functions and return the result. `#[service]` implements it for
/// a trait without `async fn`s.
pub trait Methods<R: ?Sized, S: ?Sized>: Send + Sync + 'static {
    /// Describes the set.
    fn info(&self) -> &'static ServiceInfo;

    /// Calls the method at this index of the description, and writes its result.
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

/// A set of methods that may wait. `#[service]` implements it for a trait that has `async fn`s.
pub trait AsyncMethods<R: ?Sized, S: ?Sized>: Send + Sync + 'static {
    /// Describes the set.
    fn info(&self) -> &'static ServiceInfo;

    /// Calls the method at this index of the description, and writes its result.
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

/// A service that is to be registered, perhaps with a prefix of its own.
#[derive(Clone, Debug)]
pub struct Implementation<X> {
    methods: X,
    prefix: Option<Prefix>,
    unknown_params: Option<UnknownParams>,
}

impl<X> Implementation<X> {
    /// Makes it without a prefix of its own: the prefix that the trait declares is used, or else the
    /// router's naming.
    pub const fn new(methods: X) -> Self {
        Self {
            methods,
            prefix: None,
            unknown_params: None,
        }
    }

    /// Sets the prefix of its methods' names, whatever the router's naming is: `calc` makes
    /// `calc.add`, and [`Prefix::separated`] `calc/add` or `calc_add`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<Prefix>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Sets what happens to params by names that its methods do not have, whatever the router and the
    /// configuration say.
    #[must_use]
    pub const fn unknown_params(mut self, unknown_params: UnknownParams) -> Self {
        self.unknown_params = Some(unknown_params);
        self
    }

    /// Returns the set of methods.
    pub fn methods(&self) -> &X {
        &self.methods
    }

    /// Returns the set of methods, and their descriptions in the order of `info`: under the names by which a
    /// router with this naming serves them, and with what is set for all, unless a method says it itself.
    ///
    /// # Errors
    /// The prefix is blank.
    pub fn named(
        self,
        info: &ServiceInfo,
        naming: &Naming,
    ) -> Result<(X, Vec<MethodInfo>), RegisterError> {
        let mut named = info.named(self.prefix, naming)?;
        for info in &mut named {
            if let (Some(of_all), None) = (self.unknown_params, info.unknown_params()) {
                *info = info.clone().with_unknown_params(of_all);
            }
        }
        Ok((self.methods, named))
    }

    /// Returns the methods, and the prefix if there is one.
    pub fn into_parts(self) -> (X, Option<Prefix>) {
        (self.methods, self.prefix)
    }
}

/// Appends the value that a method returned to `result`.
///
/// # Errors
/// The error that the method returned, or that the result has no JSON form.
pub fn write_result(output: impl IntoResult, result: &mut ResultText) -> Result<(), Failure> {
    let value = output.into_result().map_err(Into::into)?;
    Encoded::write(&value, result).map_err(Failure::Encode)?;
    Ok(())
}

/// Makes an error with this data. Data without a JSON form is left out, and the error
/// [says so](OwnedError::lost_data).
pub fn error_with_data<T: Serialize>(
    code: i64,
    message: impl Into<String>,
    data: &T,
) -> OwnedError {
    let error = OwnedError::new(code, message);
    let with_data = error.clone().with_data(data);
    with_data.unwrap_or_else(|why| error.losing_data(why))
}

/// Returns the error for an error object that is not the expected one.
pub fn not_this_error() -> DecodeError {
    DecodeError::about(DecodeErrorKind::Mismatch, "")
}

/// Finds the members of an error's data.
///
/// # Errors
/// The data is no object, or has other members than these.
pub fn error_members<'a, 'n>(
    data: Option<Json<'a>>,
    names: &'n [&'static str],
) -> Result<Arguments<'a, 'n>, DecodeError> {
    let fits = data.is_none_or(|data| {
        let mut members = data.members();
        let are_known = members.all(|(name, _)| names.iter().any(|known| name.eq_str(known)));
        data.kind() == JsonKind::Object && are_known
    });
    match fits {
        true => Arguments::of(data, names),
        false => Err(not_this_error()),
    }
}

/// Makes an error whose data has these members, except those that are `None`. Data without a JSON form
/// is left out.
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

#[cfg(test)]
mod tests {
    use super::Implementation;
    use crate::UnknownParams;
    use crate::service::{MethodInfo, Naming, ServiceInfo};

    // USE-38
    #[test]
    fn what_is_set_for_all_methods_holds_for_those_that_say_nothing() {
        const REJECT: UnknownParams = UnknownParams::Reject;
        const METHODS: &[MethodInfo] = &[
            MethodInfo::request("add", &[]),
            MethodInfo::request("sub", &[]).with_unknown_params(REJECT),
        ];
        let info = ServiceInfo {
            name: "Calculator",
            doc: "",
            prefix: "",
            methods: METHODS,
        };
        let said = |service: Implementation<()>| {
            let (_, methods) = service.named(&info, &Naming::Simple).unwrap();
            [0, 1].map(|at| methods[at].unknown_params())
        };
        let bare = Implementation::new(());
        assert_eq!(said(bare.clone()), [None, Some(REJECT)]);
        let ignoring = bare.unknown_params(UnknownParams::Ignore);
        assert_eq!(said(ignoring), [Some(UnknownParams::Ignore), Some(REJECT)]);
    }
}
