//! Finds the arguments of a method in its params, by position or by name.

use serde::Deserialize;
use smallvec::SmallVec;

use super::errors::Failure;
use super::missing::{absent, null};
use super::trace_context::META;
use crate::config::UnknownParams;
use crate::error_object::OwnedError;
use crate::json::{DecodeError, DecodeErrorKind, Json, JsonKind, JsonString, OwnedJson};
use crate::subscription::{Object, Style};

impl UnknownParams {
    /// Returns the params without the members that none of these parameters has; `None` if there are
    /// none of these, or if they are to be refused.
    pub fn without_unknown<'n>(
        self,
        params: Option<Json<'_>>,
        names: impl Iterator<Item = &'n str> + Clone,
    ) -> Option<OwnedJson> {
        let params = params.filter(|_| self == Self::Ignore)?;
        let is_known = |name: &JsonString<'_>| {
            let is_sent = |known: &str| is_nameless(known, &name.to_cow_lossy());
            names
                .clone()
                .any(|known| name.eq_str(known) || is_sent(known))
        };
        if params.members().all(|(name, _)| is_known(&name)) {
            return None;
        }
        let mut object = Object::new();
        object.add_some(params, is_known);
        object.end().ok()
    }
}

/// The params of a call, and what its connection says about them.
#[derive(Clone, Copy, Debug)]
pub struct GivenParams<'j> {
    /// The params.
    pub params: Option<Json<'j>>,
    /// What happens to params by names that the method does not have.
    pub unknown: UnknownParams,
    /// How the peer asks for progress, if it can.
    pub progress: Option<Style>,
}

impl<'j> GivenParams<'j> {
    pub(super) const fn new(params: Option<Json<'j>>, unknown: UnknownParams) -> Self {
        Self {
            params,
            unknown,
            progress: None,
        }
    }

    /// Returns the params for a method that takes them one by one: without the member by which the peer asks for
    /// progress, and without those by other names, if they are ignored.
    pub(super) fn known<'n>(&self, names: impl Iterator<Item = &'n str> + Clone) -> Known<'j> {
        let params = self.params;
        let rest = params.and_then(|params| self.progress.as_ref()?.without_token(params));
        let given = rest.as_ref().map(OwnedJson::as_json).or(params);
        let known = self.unknown.without_unknown(given, names);
        known.or(rest).map_or(Known::All(params), Known::Rest)
    }
}

/// Params that a method takes one by one.
pub(super) enum Known<'j> {
    /// All that were given.
    All(Option<Json<'j>>),
    /// Those that are left.
    Rest(OwnedJson),
}

impl Known<'_> {
    pub(super) fn json(&self) -> Option<Json<'_>> {
        match self {
            Self::All(params) => *params,
            Self::Rest(rest) => Some(rest.as_json()),
        }
    }
}

/// The params of a request, sorted by the parameters of its method.
///
/// An array has the arguments by position, an object by name, in any order. Params that are
/// surplus, unknown or given twice are refused before any is decoded; a router leaves unknown ones out
/// before, where [`UnknownParams::Ignore`] says so. Only a member `_meta` is
/// ignored if no parameter has that name, because it describes the call: its trace, for example. Up
/// to eight arguments are found without an allocation.
///
/// ```
/// use antiphon::Json;
/// use antiphon::service::Arguments;
/// let params = Json::parse_str(r#"{"b": 2, "a": 1}"#).unwrap();
/// let arguments = Arguments::of(Some(params), &["a", "b", "c"])?;
/// assert_eq!(arguments.get::<i32>(0)?, 1);
/// assert_eq!(arguments.get::<i32>(1)?, 2);
/// assert_eq!(arguments.get::<Option<i32>>(2)?, None);
/// # Ok::<(), antiphon::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Arguments<'a, 'n> {
    names: &'n [&'static str],
    /// The arguments in the order of `names`. One that is `None`, or after the end, was left out.
    values: SmallVec<[Option<Json<'a>>; 8]>,
}

impl<'a, 'n> Arguments<'a, 'n> {
    /// Finds the arguments of a method whose parameters have these names.
    ///
    /// # Errors
    /// [`Surplus`](DecodeErrorKind::Surplus), [`Unknown`](DecodeErrorKind::Unknown) or
    /// [`Repeated`](DecodeErrorKind::Repeated), if there are params that the method does not have.
    pub fn of(params: Option<Json<'a>>, names: &'n [&'static str]) -> Result<Self, DecodeError> {
        let mut values: SmallVec<[Option<Json<'a>>; 8]> = SmallVec::new();
        let Some(params) = params else {
            return Ok(Self { names, values });
        };
        if params.kind() == JsonKind::Object {
            values.resize(names.len(), None);
            for (name, value) in params.members() {
                let place = names.iter().position(|known| name.eq_str(known));
                let place = place.or_else(|| {
                    let name = name.to_cow_lossy();
                    names.iter().position(|known| is_nameless(&name, known))
                });
                let slot = place.and_then(|place| values.get_mut(place));
                let Some(slot) = slot else {
                    if name.eq_str(META) {
                        continue;
                    }
                    // The error does not name it: the peer may have sent any text.
                    return Err(DecodeError::about(DecodeErrorKind::Unknown, ""));
                };
                if slot.replace(value).is_some() {
                    let known = place.and_then(|place| names.get(place));
                    let known = known.copied().unwrap_or_default();
                    return Err(DecodeError::about(DecodeErrorKind::Repeated, known));
                }
            }
        } else {
            for value in params.elements() {
                if values.len() == names.len() {
                    return Err(DecodeError::about(DecodeErrorKind::Surplus, ""));
                }
                values.push(Some(value));
            }
        }
        Ok(Self { names, values })
    }

    /// Decodes the argument at index `place`, which begins at 0. `null` is a value of a type that has
    /// two `Option`s, one in the other: `Some(None)`, while `None` stands for an argument that was left
    /// out.
    ///
    /// # Errors
    /// [`Missing`](DecodeErrorKind::Missing) if it was left out and its type is not optional;
    /// otherwise the reason why it does not fit the type. The [`detail`](DecodeError::detail) names
    /// the parameter.
    pub fn get<T: Deserialize<'a>>(&self, place: usize) -> Result<T, DecodeError> {
        let name = self.names.get(place).copied().unwrap_or_default();
        match self.values.get(place) {
            Some(Some(value)) => {
                let null = value.is_null().then(null::<T>).flatten();
                null.map_or_else(|| value.decode(), Ok)
                    .map_err(|error| error.of_parameter(name))
            }
            _ => absent().ok_or_else(|| DecodeError::about(DecodeErrorKind::Missing, name)),
        }
    }

    /// Opens the flow whose id is the argument at index `place`.
    ///
    /// # Errors
    /// The argument was left out, or is not the id of a flow: both [`Failure::Params`]. Otherwise the error with
    /// which the request is answered.
    pub fn flow<F: FlowParameter<R>, R: ?Sized>(
        &self,
        place: usize,
        request: &R,
    ) -> Result<F, Failure> {
        let name = self.names.get(place).copied().unwrap_or_default();
        let wrong = |kind| DecodeError::about(kind, name);
        let id = self.raw(place);
        let id = id.ok_or_else(|| wrong(DecodeErrorKind::Missing))?;
        let flow = F::open(id, request)?;
        Ok(flow.ok_or_else(|| wrong(DecodeErrorKind::Mismatch))?)
    }

    /// Returns the argument at index `place` as the peer wrote it, if it was given.
    pub fn raw(&self, place: usize) -> Option<Json<'a>> {
        self.values.get(place).copied().flatten()
    }
}

/// An argument of a handler that is a [flow](crate::flow) of the caller: what it sends is the id of the flow. Adapters
/// implement it for their flows.
pub trait FlowParameter<R: ?Sized>: Sized {
    /// Opens the flow with this id on the connection of the request. `None` if that is not the id of a flow, or the
    /// flow is read already.
    ///
    /// # Errors
    /// The error with which the request is answered: flows are off, or too many are open.
    fn open(id: Json<'_>, request: &R) -> Result<Option<Self>, OwnedError>;
}

/// Whether these are both names of one parameter whose declaration has none. `#[service]` describes it as
/// `arg0`, after its index, which is a name in other languages too, and its clients send `<context0>`.
fn is_nameless(described: &str, sent: &str) -> bool {
    let index = sent
        .strip_prefix("<context")
        .and_then(|sent| sent.strip_suffix('>'));
    index.is_some() && index == described.strip_prefix("arg")
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    use super::Arguments;
    use crate::config::UnknownParams;
    use crate::json::{DecodeErrorKind, Json};

    const NAMES: [&str; 3] = ["a", "b", "c"];

    type Read = Result<(i32, String, Option<bool>), DecodeErrorKind>;

    fn read(text: &str) -> Read {
        let params = (!text.is_empty()).then(|| Json::parse_str(text).unwrap());
        let all = || {
            let arguments = Arguments::of(params, &NAMES)?;
            Ok((arguments.get(0)?, arguments.get(1)?, arguments.get(2)?))
        };
        all().map_err(|error: crate::json::DecodeError| error.kind())
    }

    // SRV-05 SRV-06 SRV-07 SRV-08 SRV-09
    #[test]
    fn arguments_come_by_position_or_by_name() {
        use DecodeErrorKind::{Mismatch, Missing, Repeated, Surplus, Unknown};
        let x = || String::from("x");
        let cases: [(&str, Read); 21] = [
            (r#"[1,"x",true]"#, Ok((1, x(), Some(true)))),
            (r#"[1,"x"]"#, Ok((1, x(), None))),
            (r#"[1,"x",null]"#, Ok((1, x(), None))),
            (r#"[1]"#, Err(Missing)),
            (r#"[]"#, Err(Missing)),
            ("", Err(Missing)),
            (r#"[1,"x",true,null]"#, Err(Surplus)),
            (r#"[1,2]"#, Err(Mismatch)),
            (r#"[null,"x"]"#, Err(Mismatch)),
            (r#"["1","x"]"#, Err(Mismatch)),
            (r#"{"a":1,"b":"x","c":true}"#, Ok((1, x(), Some(true)))),
            (r#"{"c":false,"b":"x","a":1}"#, Ok((1, x(), Some(false)))),
            (r#"{"\u0061":1,"b":"x"}"#, Ok((1, x(), None))),
            (r#"{"a":1,"b":"x","c":null}"#, Ok((1, x(), None))),
            (r#"{"a":1}"#, Err(Missing)),
            (r#"{}"#, Err(Missing)),
            (r#"{"A":1,"b":"x"}"#, Err(Unknown)),
            (r#"{"a":1,"b":"x","d":1}"#, Err(Unknown)),
            (r#"{"a":1,"b":"x","a":1}"#, Err(Repeated)),
            (r#"{"a":1.5,"b":"x"}"#, Err(Mismatch)),
            (r#"{"a":1,"_meta":{"d":1},"b":"x"}"#, Ok((1, x(), None))),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn of_a_million_params_the_first_that_is_surplus_is_the_error() {
        let many: Vec<String> = (0..1_000_000).map(|n| format!("{n}")).collect();
        let array = format!("[{}]", many.join(","));
        assert_eq!(read(&array), Err(DecodeErrorKind::Surplus));
        let named: Vec<String> = many.iter().map(|n| format!("\"{n}\":0")).collect();
        let object = format!("{{{}}}", named.join(","));
        assert_eq!(read(&object), Err(DecodeErrorKind::Unknown));
    }

    #[test]
    fn the_detail_names_the_parameter_and_the_text_does_not() {
        let params = Json::parse_str(r#"{"a":"secret"}"#).unwrap();
        let arguments = Arguments::of(Some(params), &NAMES).unwrap();
        let wrong = arguments.get::<i32>(0).unwrap_err();
        assert!(wrong.detail().starts_with("`a`: "), "{}", wrong.detail());
        assert_eq!(
            format!("{wrong}"),
            "the value does not have the expected form"
        );
        let missing = arguments.get::<i32>(1).unwrap_err();
        assert_eq!(missing.detail(), "`b`");
        assert_eq!(format!("{missing}"), "a parameter is missing");
    }

    // GEN-11 USE-38
    #[test]
    fn a_parameter_without_a_name_is_not_unknown() {
        let params = Json::parse_str(r#"{"<context0>":1,"x":2}"#).ok();
        let known = UnknownParams::Ignore.without_unknown(params, ["arg0"].into_iter());
        assert_eq!(known.unwrap().as_str(), r#"{"<context0>":1}"#);
        for (name, fits) in [
            ("arg0", true),
            ("<context0>", true),
            ("arg1", false),
            ("arg", false),
        ] {
            let text = format!(r#"{{"{name}":1}}"#);
            let found = Arguments::of(Json::parse_str(&text).ok(), &["<context0>"]);
            assert_eq!(found.is_ok(), fits, "{name}");
        }
    }
}
