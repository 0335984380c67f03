//! The built-in methods that describe a server: `rpc.listMethods` and `rpc.discover`.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::args::Arguments;
use super::describe::MethodInfo;
use super::errors::{Failure, unknown_method};
use super::openrpc::{self, Heading};
use crate::encode::Encoded;
use crate::json::{EncodeError, Json};

/// Answers `rpc.listMethods` with the sorted names of the server's methods, and `rpc.discover` with
/// an OpenRPC document.
#[derive(Clone, Debug)]
pub struct Discovery {
    title: Cow<'static, str>,
    version: Cow<'static, str>,
    openrpc: Cow<'static, str>,
    /// Whether it answers `rpc.listMethods`, and `rpc.discover`.
    answers: [bool; 2],
}

impl Default for Discovery {
    fn default() -> Self {
        Self::new("JSON-RPC server", "0.0.0")
    }
}

impl Discovery {
    /// The method that returns the names of the server's methods.
    pub const LIST_METHODS: &str = "rpc.listMethods";
    /// The method that returns the OpenRPC document.
    pub const DISCOVER: &str = "rpc.discover";

    /// Answers both methods. The document's `info` has this name and version of the server.
    pub fn new(title: impl Into<Cow<'static, str>>, version: impl Into<Cow<'static, str>>) -> Self {
        Self {
            title: title.into(),
            version: version.into(),
            openrpc: Cow::Borrowed("1.0.0"),
            answers: [true; 2],
        }
    }

    /// Sets the version of OpenRPC that the document names; `1.0.0` unless it is set.
    pub fn with_openrpc(mut self, version: impl Into<Cow<'static, str>>) -> Self {
        self.openrpc = version.into();
        self
    }

    /// Switches one of the two methods off: it is then unknown, unless an extension or a method of the
    /// program has its name.
    ///
    /// ```
    /// use antiphon::service::{Discovery, LocalRouter};
    /// let described = Discovery::new("Calculator", "1.0.0").without(Discovery::DISCOVER);
    /// let router: LocalRouter = LocalRouter::new().discovery(described);
    /// # drop(router);
    /// ```
    pub fn without(mut self, method: &str) -> Self {
        self.answers[0] &= method != Self::LIST_METHODS;
        self.answers[1] &= method != Self::DISCOVER;
        self
    }

    /// Whether this is one of the methods that [`write`](Self::write) answers.
    pub fn answers(&self, method: &str) -> bool {
        match method {
            Self::LIST_METHODS => self.answers[0],
            Self::DISCOVER => self.answers[1],
            _ => false,
        }
    }

    /// Appends the result of `method` to `result`. `methods` are those that the caller may see, sorted
    /// by name.
    ///
    /// # Errors
    /// *Method not found* for any other method; *invalid params* if there are params.
    pub fn write<'m>(
        &self,
        method: &str,
        params: Option<Json<'_>>,
        methods: impl Iterator<Item = &'m MethodInfo>,
        result: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        if !self.answers(method) {
            return Err(unknown_method());
        }
        Arguments::of(params, &[])?;
        let written = match method {
            Self::LIST_METHODS => {
                let names: Vec<&str> = methods.map(MethodInfo::name).collect();
                Encoded::write(&names, result).map(drop)
            }
            _ => openrpc::write_document(&self.heading(), methods, result),
        };
        written.map_err(Failure::Encode)
    }

    fn heading(&self) -> Heading<'_> {
        Heading {
            openrpc: &self.openrpc,
            title: &self.title,
            version: &self.version,
        }
    }

    /// The OpenRPC document of these methods.
    ///
    /// # Errors
    /// A schema has no JSON form.
    pub fn document<'m>(
        &self,
        methods: impl Iterator<Item = &'m MethodInfo>,
    ) -> Result<String, EncodeError> {
        let mut document = Vec::new();
        openrpc::write_document(&self.heading(), methods, &mut document)?;
        // The document is valid text.
        Ok(String::from_utf8(document).unwrap_or_default())
    }
}
