//! A method as a type.

/// Describes a method: its name, and the types of what goes in and comes out. For libraries that
/// describe a whole protocol, as for language servers.
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
    /// What errors are read into; [`OwnedError`](crate::OwnedError) for the error object itself.
    type Error;
}
