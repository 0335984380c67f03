//! The OpenRPC document of a server.
//!
//! Without the feature `openrpc` it has the names of methods and parameters; with it, their schemas
//! too.

use alloc::vec::Vec;

use super::describe::{MethodInfo, ParamInfo, StreamRole};
use super::schema::SchemaOf;
#[cfg(feature = "openrpc")]
use crate::encode::Encoded;
use crate::json::{self, EncodeError};

/// The members before `methods`.
pub(super) struct Heading<'d> {
    pub(super) openrpc: &'d str,
    pub(super) title: &'d str,
    pub(super) version: &'d str,
}

/// Writes the document that describes these methods.
pub(super) fn write_document<'m>(
    heading: &Heading<'_>,
    methods: impl Iterator<Item = &'m MethodInfo>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut schemas = Schemas::new();
    write_text(out, b"{\"openrpc\":", heading.openrpc);
    write_text(out, b",\"info\":{\"title\":", heading.title);
    write_text(out, b",\"version\":", heading.version);
    out.extend_from_slice(b"},\"methods\":");
    let mut between = b'[';
    for info in methods {
        out.push(between);
        between = b',';
        write_method(info, &mut schemas, out)?;
    }
    out.extend_from_slice(if between == b'[' { b"[]" } else { b"]" });
    schemas.write_components(out)?;
    out.push(b'}');
    Ok(())
}

fn write_method(
    info: &MethodInfo,
    schemas: &mut Schemas,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    write_text(out, b"{\"name\":", info.name());
    let (summary, description) = summary(info.doc());
    if !summary.is_empty() {
        write_text(out, b",\"summary\":", summary);
    }
    if !description.is_empty() {
        write_text(out, b",\"description\":", description);
    }
    let params = info.params().iter();
    let is_ordered = params.clone().is_sorted_by_key(|param| param.is_optional());
    if !is_ordered {
        out.extend_from_slice(b",\"paramStructure\":\"by-name\"");
    }
    if info.is_open() {
        out.extend_from_slice(b",\"x-params\":\"any\"");
    }
    if let Some(StreamRole::Begins(style)) = info.stream() {
        write_text(
            out,
            b",\"x-subscription\":{\"notification\":",
            style.method(),
        );
        let unsubscribe = style.unsubscribe_method().unwrap_or_default();
        write_text(out, b",\"unsubscribe\":", unsubscribe);
        out.push(b'}');
    }
    // OpenRPC wants the required ones first; where they are not, params go by name only.
    let (optional, required) = params.partition::<Vec<_>, _>(|param| param.is_optional());
    out.extend_from_slice(b",\"params\":[");
    for (place, param) in required.into_iter().chain(optional).enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write_param(param, schemas, out)?;
    }
    out.extend_from_slice(b"],\"result\":{\"name\":\"result\",\"schema\":");
    match info.is_notification() {
        // A notification has no result, but OpenRPC 1.0 demands one.
        true => out.extend_from_slice(b"{\"type\":\"null\"}"),
        false => {
            let is_flow = matches!(info.stream(), Some(StreamRole::Flow));
            schemas.write_value(info.result(), is_flow, out)?;
        }
    }
    out.extend_from_slice(b"}}");
    Ok(())
}

/// Splits documentation after its first paragraph, which ends at a blank line or before a block of code.
fn summary(doc: &str) -> (&str, &str) {
    let is_end =
        |line: &str| line.trim().is_empty() || line.starts_with("```") || line.starts_with("~~~");
    let mut end = 0;
    for line in doc.split_inclusive('\n') {
        if is_end(line) {
            break;
        }
        end += line.len();
    }
    let (summary, rest) = doc.split_at(end);
    let blank = |line: &&str| line.trim().is_empty();
    let skipped: usize = rest
        .split_inclusive('\n')
        .take_while(blank)
        .map(str::len)
        .sum();
    (
        summary.trim(),
        rest.get(skipped..).unwrap_or_default().trim_end(),
    )
}

fn write_param(
    param: &ParamInfo,
    schemas: &mut Schemas,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    write_text(out, b"{\"name\":", param.name());
    let required: &[u8] = match param.is_optional() {
        true => b",\"required\":false,\"schema\":",
        false => b",\"required\":true,\"schema\":",
    };
    out.extend_from_slice(required);
    schemas.write_value(param.schema(), param.is_flow(), out)?;
    out.push(b'}');
    Ok(())
}

/// Writes a member whose value is text.
fn write_text(out: &mut Vec<u8>, before: &[u8], text: &str) {
    out.extend_from_slice(before);
    json::write_str(out, text);
}

impl Schemas {
    /// Writes the schema of a value: for a flow that of its id, and then that of its items.
    fn write_value(
        &mut self,
        schema: SchemaOf,
        is_flow: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        if is_flow {
            out.extend_from_slice(b"{\"type\":\"integer\"},\"x-flow\":");
        }
        self.write(schema, out)
    }
}

/// Makes schemas, and collects the shared ones to which others refer.
#[cfg(feature = "openrpc")]
struct Schemas(schemars::SchemaGenerator);

#[cfg(feature = "openrpc")]
impl Schemas {
    fn new() -> Self {
        Self(super::schema::generator("/components/schemas"))
    }

    fn write(&mut self, schema: SchemaOf, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let schema = schema.make(&mut self.0).unwrap_or_default();
        Encoded::write(&schema, out).map(drop)
    }

    fn write_components(mut self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let schemas = self.0.take_definitions(true);
        if !schemas.is_empty() {
            out.extend_from_slice(b",\"components\":{\"schemas\":");
            Encoded::write(&schemas, out)?;
            out.push(b'}');
        }
        Ok(())
    }
}

/// Without schemars there are no schemas.
#[cfg(not(feature = "openrpc"))]
struct Schemas;

#[cfg(not(feature = "openrpc"))]
impl Schemas {
    fn new() -> Self {
        Self
    }

    #[expect(clippy::unnecessary_wraps, reason = "with schemars it can fail")]
    fn write(&mut self, _: SchemaOf, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(b"{}");
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "with schemars it can fail")]
    fn write_components(self, _: &mut Vec<u8>) -> Result<(), EncodeError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;

    #[cfg(feature = "openrpc")]
    use crate::service::SchemaOf;
    use crate::service::{MethodInfo, ParamInfo};

    const ADD: MethodInfo = MethodInfo::request(
        "add",
        &[
            ParamInfo::of::<f64>("a").with_schema(crate::schema_of!(f64)),
            ParamInfo::of::<Option<f64>>("b"),
        ],
    )
    .with_doc("Adds \"two\" numbers.\n\nOr more.");
    const LOG: MethodInfo = MethodInfo::notification("log", &[]);

    fn document(methods: &[MethodInfo]) -> String {
        let mut out = Vec::new();
        let heading = super::Heading {
            openrpc: "1.0.0",
            title: "T",
            version: "1",
        };
        super::write_document(&heading, methods.iter(), &mut out).unwrap();
        crate::Json::parse(&out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Schemas in the document have the words of draft 07, and keep formats that validators know.
    // EXT-07
    #[cfg(feature = "openrpc")]
    #[test]
    fn schemas_are_of_draft_07() {
        const PLACE: MethodInfo = MethodInfo::request(
            "place",
            &[
                ParamInfo::of::<(u8, f32)>("at").with_schema(crate::schema_of!((u8, f32))),
                ParamInfo::of::<String>("host").with_schema(SchemaOf::made_by(|_| {
                    Some(schemars::json_schema!({"type": "string", "format": "ipv4"}))
                })),
            ],
        );
        let text = document(&[PLACE]);
        let at = r#""schema":{"type":"array","items":[{"type":"integer","maximum":255,"minimum":0},{"type":"number"}],"maxItems":2,"minItems":2}"#;
        assert!(text.contains(at), "{text}");
        assert!(
            text.contains(r#"{"type":"string","format":"ipv4"}"#),
            "{text}"
        );
    }

    // EXT-06 EXT-07 EXT-08
    #[test]
    fn a_document_names_methods_and_parameters() {
        let head = r#"{"openrpc":"1.0.0","info":{"title":"T","version":"1"},"methods":["#;
        assert_eq!(document(&[]), alloc::format!("{head}]}}"));
        let number = match cfg!(feature = "openrpc") {
            true => r#"{"type":"number"}"#,
            false => "{}",
        };
        let add = alloc::format!(
            r#"{{"name":"add","summary":"Adds \"two\" numbers.","description":"Or more.","params":[{{"name":"a","required":true,"schema":{number}}},{{"name":"b","required":false,"schema":{{}}}}],"result":{{"name":"result","schema":{{}}}}}}"#
        );
        let log =
            r#"{"name":"log","params":[],"result":{"name":"result","schema":{"type":"null"}}}"#;
        assert_eq!(
            document(&[ADD, LOG]),
            alloc::format!("{head}{add},{log}]}}")
        );
    }

    // GEN-10 FLO-03 EXT-06
    #[test]
    fn flows_are_described_by_their_ids_and_their_items() {
        const SUM: MethodInfo = MethodInfo::request(
            "sum",
            &[ParamInfo::flow("of").with_schema(crate::schema_of!(String))],
        );
        const WORDS: MethodInfo =
            MethodInfo::flow("words", &[]).with_result(crate::schema_of!(String));
        let item = match cfg!(feature = "openrpc") {
            true => r#"{"type":"string"}"#,
            false => "{}",
        };
        let flow = alloc::format!(r#""schema":{{"type":"integer"}},"x-flow":{item}}}"#);
        let text = document(&[SUM, WORDS]);
        for part in [
            alloc::format!(r#""params":[{{"name":"of","required":true,{flow}]"#),
            alloc::format!(r#""name":"words","params":[],"result":{{"name":"result",{flow}"#),
        ] {
            assert!(text.contains(&part), "{part}\n{text}");
        }
    }

    // USE-36
    #[test]
    fn required_parameters_come_first_and_documentation_stays_as_it_is() {
        const SHIFT: MethodInfo = MethodInfo::request(
            "shift",
            &[
                ParamInfo::of::<Option<i64>>("from"),
                ParamInfo::of::<i64>("by"),
            ],
        )
        .with_doc("Moves\nit.\n```text\nif far {\n\n    go();\n}\n```");
        let text = document(&[
            SHIFT,
            MethodInfo::from("echo").with_doc("Echoes.\n \n    code"),
        ]);
        for part in [
            r#""summary":"Moves\nit.","description":"```text\nif far {\n\n    go();\n}\n```""#,
            r#""paramStructure":"by-name","params":[{"name":"by","required":true,"schema":{}},{"name":"from""#,
            r#""name":"echo","summary":"Echoes.","description":"    code","x-params":"any","params":[]"#,
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
