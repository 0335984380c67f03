//! Progress of a request, which is reported by notifications before its answer: in which members
//! each dialect sends the token and the value.
//!
//! A request that asks for progress has a token, a string or a number. The token is sent back as it
//! was written and never read as a number.

use alloc::vec::Vec;

use serde::Serialize;
use serde::ser::Error as _;

use crate::encode::{Encoded, Payload};
use crate::json::{EncodeError, Json, JsonKind, JsonString, OwnedJson, write_json, write_str};

/// How a dialect reports the progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgressStyle {
    /// The dialect has no progress.
    None,
    /// `$/progress` with `token` and `value`; the token is in the request's params as
    /// `workDoneToken` (LSP 3.17, *Work Done Progress*).
    Lsp,
    /// `notifications/progress` with `progressToken` and the members of the value, which are
    /// `progress` and perhaps `total` and `message`; the token is in `_meta` of the request's
    /// params as `progressToken` (MCP, *Progress*).
    Mcp,
}

/// The names around a token.
struct Names {
    /// The notification.
    method: &'static str,
    /// The member of its params that has the token.
    token: &'static str,
    /// The member of its params that has the value; if there is none, the value's own members are
    /// there.
    value: Option<&'static str>,
    /// The member of a request's params, or of an object in them, that has the token.
    asked: &'static str,
    /// The object in a request's params that has this member; if there is none, the params have it.
    around: Option<&'static str>,
}

impl ProgressStyle {
    const fn names(self) -> Option<Names> {
        match self {
            Self::None => None,
            Self::Lsp => Some(Names {
                method: "$/progress",
                token: "token",
                value: Some("value"),
                asked: "workDoneToken",
                around: None,
            }),
            Self::Mcp => Some(Names {
                method: "notifications/progress",
                token: "progressToken",
                value: None,
                asked: "progressToken",
                around: Some("_meta"),
            }),
        }
    }

    /// The notification that reports progress.
    pub const fn method(self) -> Option<&'static str> {
        match self.names() {
            Some(names) => Some(names.method),
            None => None,
        }
    }

    /// Returns the token in a request's params, if the request asks for progress.
    ///
    /// ```
    /// use antiphon::{Json, ProgressStyle};
    /// let params = Json::parse_str(r#"{"_meta":{"progressToken":1.0},"name":"wait"}"#).unwrap();
    /// assert_eq!(ProgressStyle::Mcp.token(params).unwrap().as_str(), "1.0");
    /// assert_eq!(ProgressStyle::Lsp.token(params), None);
    /// ```
    pub fn token(self, params: Json<'_>) -> Option<Json<'_>> {
        let names = self.names()?;
        let object = match names.around {
            Some(around) => params.get(around)?,
            None => params,
        };
        object.get(names.asked).filter(is_token)
    }

    /// Returns the params of a request without the member for the token: for LSP `workDoneToken`,
    /// for MCP the whole `_meta`. The rest are the parameters of the method. `None` if there is no
    /// such member, or the dialect has no progress.
    ///
    /// ```
    /// use antiphon::{Json, ProgressStyle};
    /// let params = Json::parse_str(r#"{"a":1,"workDoneToken":"t"}"#).unwrap();
    /// assert_eq!(ProgressStyle::Lsp.without_token(params).unwrap().as_str(), r#"{"a":1}"#);
    /// assert_eq!(ProgressStyle::Mcp.without_token(params), None);
    /// ```
    pub fn without_token(self, params: Json<'_>) -> Option<OwnedJson> {
        let names = self.names()?;
        let member = names.around.unwrap_or(names.asked);
        params.get(member)?;
        let mut object = Object::new();
        object.add_all(params, member);
        object.end().ok()
    }

    /// Makes the params of a notification that reports progress.
    ///
    /// ```
    /// use antiphon::{Json, ProgressStyle};
    /// let (token, done) = (Json::parse_str("7").unwrap(), [("progress", 50)]);
    /// let done = std::collections::BTreeMap::from(done);
    /// let params = ProgressStyle::Mcp.params(token, &done)?;
    /// assert_eq!(params.as_str(), r#"{"progressToken":7,"progress":50}"#);
    /// # Ok::<(), antiphon::EncodeError>(())
    /// ```
    ///
    /// # Errors
    /// The value has no JSON form, or nests too deep; the dialect has no progress; or the dialect
    /// is MCP and the value is not an object.
    pub fn params<T>(self, token: Json<'_>, value: &T) -> Result<OwnedJson, EncodeError>
    where
        T: Serialize + ?Sized,
    {
        let names = self.names().ok_or_else(no_progress)?;
        let value = OwnedJson::from_value(value)?;
        let value = value.as_json();
        let mut object = Object::new();
        object.add(names.token, token);
        match names.value {
            Some(name) => object.add(name, value),
            None if value.kind() == JsonKind::Object => object.add_all(value, names.token),
            None => return Err(EncodeError::custom("progress is told as an object")),
        }
        object.end()
    }

    /// Returns the token and the value from the params of a notification that reports progress. In
    /// MCP the value is the params themselves, with the token. `None` if the token or the value is
    /// missing.
    pub fn read(self, params: Json<'_>) -> Option<(Json<'_>, Json<'_>)> {
        let names = self.names()?;
        let token = params.get(names.token).filter(is_token)?;
        let value = match names.value {
            Some(name) => params.get(name)?,
            None => params,
        };
        Some((token, value))
    }

    /// Adds a token to params, to ask for progress. It replaces a token that they have.
    ///
    /// ```
    /// use antiphon::{Json, ProgressStyle};
    /// let params = Json::parse_str(r#"{"command":"count"}"#).unwrap();
    /// let params = ProgressStyle::Lsp.ask(params, "p1")?;
    /// assert_eq!(params.as_str(), r#"{"workDoneToken":"p1","command":"count"}"#);
    /// # Ok::<(), antiphon::EncodeError>(())
    /// ```
    ///
    /// # Errors
    /// The params have no JSON form, or are not an object, so that they have no place for a token;
    /// or the dialect has no progress.
    pub fn ask(self, params: impl Payload, token: &str) -> Result<OwnedJson, EncodeError> {
        let names = self.names().ok_or_else(no_progress)?;
        let mut text = Vec::new();
        let written = Encoded::write(params, &mut text)?;
        // The text was just written as JSON, so parsing it does not fail.
        let params = match written.is_empty() {
            true => None,
            false => Json::parse(&text).ok(),
        };
        if params.is_some_and(|params| params.kind() != JsonKind::Object) {
            let why = "params in an array have no place for a progress token";
            return Err(EncodeError::custom(why));
        }
        let token = OwnedJson::of_str(token);
        let mut object = Object::new();
        object.add(names.asked, token.as_json());
        let Some(around) = names.around else {
            if let Some(params) = params {
                object.add_all(params, names.asked);
            }
            return object.end();
        };
        if let Some(given) = params.and_then(|params| params.get(around)) {
            object.add_all(given, names.asked);
        }
        let inner = object.end()?;
        let mut object = Object::new();
        object.add(around, inner.as_json());
        if let Some(params) = params {
            object.add_all(params, around);
        }
        object.end()
    }
}

fn is_token(json: &Json<'_>) -> bool {
    matches!(json.kind(), JsonKind::String | JsonKind::Number)
}

#[cold]
fn no_progress() -> EncodeError {
    EncodeError::custom("the dialect has no progress")
}

/// The text of an object, member by member.
pub(crate) struct Object(Vec<u8>);

impl Object {
    pub(crate) fn new() -> Self {
        Self(Vec::from(*b"{"))
    }

    fn add(&mut self, name: &str, value: Json<'_>) {
        self.next();
        write_str(&mut self.0, name);
        self.0.push(b':');
        write_json(&mut self.0, value);
    }

    /// Adds the members of another object, except those named `but`.
    fn add_all(&mut self, object: Json<'_>, but: &str) {
        self.add_some(object, |name| !name.eq_str(but));
    }

    /// Adds the members of another object whose names `keeps` accepts.
    pub(crate) fn add_some(&mut self, object: Json<'_>, keeps: impl Fn(&JsonString<'_>) -> bool) {
        for (name, value) in object.members() {
            if !keeps(&name) {
                continue;
            }
            self.next();
            self.0.push(b'"');
            self.0.extend_from_slice(name.raw().as_bytes());
            self.0.extend_from_slice(b"\":");
            write_json(&mut self.0, value);
        }
    }

    fn next(&mut self) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
    }

    pub(crate) fn end(mut self) -> Result<OwnedJson, EncodeError> {
        self.0.push(b'}');
        OwnedJson::of_parts(self.0)
    }
}

#[cfg(test)]
mod tests;
