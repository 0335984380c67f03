//! The trace of a call as it is sent: W3C's Trace Context, in headers or in the member `_meta` of
//! params.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;

use crate::json::{Json, JsonKind, OwnedJson};

/// The member of params that describes the call, and is not a parameter.
pub(super) const META: &str = "_meta";

/// The longest `tracestate` that is kept, in bytes: the minimum that W3C's Trace Context demands
/// (clause 3.3.1.5).
const MAX_STATE: usize = 512;

/// The span, in another program, to which a call belongs: W3C's Trace Context.
///
/// ```
/// use antiphon::service::TraceContext;
/// let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let context = TraceContext::parse(text).unwrap().with_state("vendor=1");
/// assert!(context.is_sampled());
/// assert_eq!(context.trace_id()[0], 0x0a);
/// assert_eq!(context.to_string(), text);
/// assert!(TraceContext::parse("00-0af7").is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    flags: u8,
    state: String,
}

impl TraceContext {
    /// The name of the header or member that [`parse`](Self::parse) reads.
    pub const TRACEPARENT: &str = "traceparent";
    /// The name of the header or member that [`with_state`](Self::with_state) takes.
    pub const TRACESTATE: &str = "tracestate";

    /// Makes a context. `None` if an id is all zeros, which means no trace.
    pub fn new(trace_id: [u8; 16], span_id: [u8; 8], flags: u8) -> Option<Self> {
        (trace_id != [0; 16] && span_id != [0; 8]).then_some(Self {
            trace_id,
            span_id,
            flags,
            state: String::new(),
        })
    }

    /// Reads the value of `traceparent`. `None` if it is not one: a peer may send anything.
    pub fn parse(traceparent: &str) -> Option<Self> {
        let mut parts = traceparent.split('-');
        let [version] = hex(parts.next()?)?;
        let context = Self::new(
            hex(parts.next()?)?,
            hex(parts.next()?)?,
            hex::<1>(parts.next()?)?[0],
        )?;
        // A later version may have more parts; version 255 is not allowed.
        let is_known = version == 0 && parts.next().is_none();
        (is_known || (1..u8::MAX).contains(&version)).then_some(context)
    }

    /// Adds the value of `tracestate`, which this side only passes on. It is left out if it has
    /// more than 512 bytes, or characters other than printable ASCII and tabs.
    #[must_use]
    pub fn with_state(mut self, tracestate: &str) -> Self {
        let is_printable = |byte: u8| matches!(byte, b' '..=b'~' | b'\t');
        if tracestate.len() <= MAX_STATE && tracestate.bytes().all(is_printable) {
            tracestate.clone_into(&mut self.state);
        }
        self
    }

    /// Reads `traceparent` and `tracestate`, with a function that looks a field up by name.
    pub fn extract(field: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let context = Self::parse(&field(Self::TRACEPARENT)?)?;
        Some(match field(Self::TRACESTATE) {
            Some(state) => context.with_state(&state),
            None => context,
        })
    }

    /// Writes `traceparent`, and `tracestate` if it is not empty.
    pub fn inject(&self, put: &mut dyn FnMut(&str, &str)) {
        put(Self::TRACEPARENT, &alloc::format!("{self}"));
        if !self.state.is_empty() {
            put(Self::TRACESTATE, &self.state);
        }
    }

    /// The id of the trace.
    pub const fn trace_id(&self) -> [u8; 16] {
        self.trace_id
    }

    /// The id of the span.
    pub const fn span_id(&self) -> [u8; 8] {
        self.span_id
    }

    /// The flags as they were sent.
    pub const fn flags(&self) -> u8 {
        self.flags
    }

    /// Whether the caller records the trace.
    pub const fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }

    /// The value of `tracestate`; empty if there was none.
    pub fn state(&self) -> &str {
        &self.state
    }
}

/// The value of `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        for byte in self.trace_id {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("-")?;
        for byte in self.span_id {
            write!(f, "{byte:02x}")?;
        }
        write!(f, "-{:02x}", self.flags)
    }
}

/// Reads `N` bytes written as lower-case hexadecimal digits.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    let mut digits = text.bytes();
    for byte in &mut bytes {
        *byte = (digit(digits.next()?)? << 4) | digit(digits.next()?)?;
    }
    digits.next().is_none().then_some(bytes)
}

/// Reads a text from the `_meta` of params.
pub(super) fn meta_text(params: Option<Json<'_>>, name: &str) -> Option<String> {
    params?.get(META)?.get(name)?.decode().ok()
}

/// Adds `fields` to the `_meta` of params, and replaces those of the same names. `None` for params
/// by position, which cannot have `_meta`.
pub(super) fn with_meta(
    params: Option<Json<'_>>,
    fields: &[(String, String)],
) -> Option<OwnedJson> {
    if params.is_some_and(|params| params.kind() != JsonKind::Object) {
        return None;
    }
    let mut text = String::from("{");
    for (name, value) in params.into_iter().flat_map(Json::members) {
        if !name.eq_str(META) {
            push_member(&mut text, name.raw(), value.as_str());
        }
    }
    push_member(&mut text, META, "{");
    let before = params.and_then(|params| params.get(META));
    for (name, value) in before.into_iter().flat_map(Json::members) {
        if !fields.iter().any(|(field, _)| name.eq_str(field)) {
            push_member(&mut text, name.raw(), value.as_str());
        }
    }
    for (name, value) in fields {
        push_member(&mut text, name, OwnedJson::of_str(value).as_str());
    }
    text.push_str("}}");
    // Text that is composed of valid parts is valid.
    OwnedJson::parse(text).ok()
}

/// Writes a member of an object that has begun. `name` is escaped already.
fn push_member(text: &mut String, name: &str, value: &str) {
    // Text that ends with a brace here has no member yet.
    if !text.ends_with('{') {
        text.push(',');
    }
    text.push('"');
    text.push_str(name);
    text.push_str("\":");
    text.push_str(value);
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use super::{TraceContext, meta_text, with_meta};
    use crate::json::Json;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    // OBS-04
    #[test]
    fn a_traceparent_is_read_or_refused() {
        let context = TraceContext::parse(PARENT).unwrap();
        assert_eq!(context.to_string(), PARENT);
        assert!(!context.is_sampled());
        assert_eq!(context.span_id()[7], 0x31);
        assert_eq!(context.trace_id()[..3], [0x0a, 0xf7, 0x65]);
        let sampled = TraceContext::parse(&PARENT.replace("-00", "-03")).unwrap();
        assert!(sampled.is_sampled() && sampled.flags() == 3);
        let later = PARENT.replacen("00", "cc", 1);
        for read in [later.clone(), later + "-what-will-be"] {
            assert_eq!(TraceContext::parse(&read), Some(context.clone()), "{read}");
        }
        for refused in [
            "".into(),
            "00".into(),
            PARENT.to_uppercase(),
            PARENT.replacen("00", "ff", 1),
            PARENT.replacen("00", "0", 1),
            PARENT.replacen("00", "+0", 1),
            PARENT.to_string() + "-00",
            PARENT.to_string() + "0",
            PARENT.replace("-b7", "-7"),
            PARENT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            PARENT.replace("b7ad6b7169203331", &"0".repeat(16)),
            PARENT.replace('7', "\u{e9}"),
        ] {
            let refused: String = refused;
            assert_eq!(TraceContext::parse(&refused), None, "{refused}");
        }
    }

    // OBS-04
    #[test]
    fn a_tracestate_is_handed_on_unless_it_is_too_long_or_no_text() {
        let context = TraceContext::parse(PARENT).unwrap();
        let fields = |context: &TraceContext| {
            let mut fields = Vec::new();
            context.inject(&mut |name, value| fields.push((name.to_string(), value.to_string())));
            fields
        };
        let parent = || ("traceparent".to_string(), PARENT.to_string());
        assert_eq!(fields(&context), [parent()]);
        for left_out in ["x".repeat(513), "a=1\n".into(), "a=\u{e9}".into()] {
            let context = context.clone().with_state(&left_out);
            assert_eq!(context.state(), "", "{left_out}");
        }
        let context = context.with_state(&"x".repeat(512));
        let state = ("tracestate".to_string(), "x".repeat(512));
        let expected = [parent(), state];
        assert_eq!(fields(&context), expected);
        let found = |name: &str| {
            let field = expected.iter().find(|(field, _)| field == name)?;
            Some(field.1.clone())
        };
        assert_eq!(TraceContext::extract(&found), Some(context));
        assert_eq!(TraceContext::extract(&|_| None), None);
    }

    // OBS-04
    #[test]
    fn params_by_name_say_more_of_their_call_and_stay_as_they_are() {
        let fields = [("a".to_string(), "1\"".to_string())];
        for (params, expected) in [
            ("", r#"{"_meta":{"a":"1\""}}"#),
            ("{}", r#"{"_meta":{"a":"1\""}}"#),
            (
                r#"{"\ud800": [ 1e2, "{" ],"_met\u0061":{"a":7,"b" :{}},"c":1}"#,
                r#"{"\ud800":[ 1e2, "{" ],"c":1,"_meta":{"b":{},"a":"1\""}}"#,
            ),
            (r#"{"_meta":[1]}"#, r#"{"_meta":{"a":"1\""}}"#),
        ] {
            let params = (!params.is_empty()).then(|| Json::parse_str(params).unwrap());
            let written = with_meta(params, &fields).unwrap();
            assert_eq!(written.as_str(), expected);
            assert_eq!(
                meta_text(Some(written.as_json()), "a").as_deref(),
                Some("1\"")
            );
        }
        let by_position = Json::parse_str("[1]").unwrap();
        assert!(with_meta(Some(by_position), &fields).is_none());
        for none in [r#"[{"_meta":{"a":"1"}}]"#, r#"{"_meta":{"a":1}}"#, "{}"] {
            assert_eq!(meta_text(Some(Json::parse_str(none).unwrap()), "a"), None);
        }
    }
}
