//! A method that is described by a type.

/// Describes a method: its name, and the types of its params, result and errors. For libraries for
/// a whole protocol, such as that of language servers.
///
/// ```
/// use antiphon::Method;
///
/// enum Hover {}
///
/// impl Method for Hover {
///     const NAME: &str = "textDocument/hover";
///     type Params = (u32, u32);
///     type Result = Option<String>;
///     type Error = antiphon::OwnedError;
/// }
///
/// assert_eq!(Hover::NAME, "textDocument/hover");
/// ```
pub trait Method {
    /// The method's name.
    const NAME: &'static str;
    /// The params.
    type Params;
    /// The result.
    type Result;
    /// The type of errors; [`OwnedError`](crate::OwnedError) for the error object itself.
    type Error;
}
