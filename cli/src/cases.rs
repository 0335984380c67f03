//! The cases of the checks that need nothing but one message and what it is answered with.

use crate::catalogue::Level::{self, Must, Should};

/// A method that no server has.
pub(crate) const NO_METHOD: &str = "antiphon.conform.no-such-method";

/// A message, and the right answer.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) check: &'static str,
    pub(crate) message: Vec<u8>,
    pub(crate) want: Want,
    /// How bad a wrong answer, or none, is.
    pub(crate) level: Level,
    /// Whether it is right to end the connection after it.
    pub(crate) may_end: bool,
    /// Whether the message is valid, so that the server must go on.
    pub(crate) is_valid: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Want {
    One(Wanted),
    Batch(Vec<Wanted>),
    /// A batch of these, or one error.
    BatchOrError(Vec<Wanted>),
    Nothing,
    /// Anything or nothing.
    Anything,
}

/// An answer: with one of these ids, and with this code.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) ids: Vec<String>,
    pub(crate) code: Code,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Code {
    /// What this server answers a request for an unknown method with.
    Unknown,
    One(i64),
    AnyError,
    Any,
}

fn wanted(ids: &[&str], code: Code) -> Wanted {
    Wanted {
        ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        code,
    }
}

fn unknown(id: &str) -> Wanted {
    wanted(&[id], Code::Unknown)
}

fn invalid() -> Wanted {
    wanted(&["null"], Code::One(-32600))
}

/// A request with these members beside jsonrpc.
fn request(members: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0",{members}}}"#)
}

/// A call of the method that does not exist.
pub(crate) fn call(id: &str) -> String {
    request(&format!(r#""method":"{NO_METHOD}","id":{id}"#))
}

fn tell() -> String {
    request(&format!(r#""method":"{NO_METHOD}","params":[1]"#))
}

struct Cases(Vec<Case>);

impl Cases {
    fn add(
        &mut self,
        check: &'static str,
        level: Level,
        is_valid: bool,
        message: impl Into<Vec<u8>>,
        want: Want,
    ) {
        self.0.push(Case {
            check,
            message: message.into(),
            want,
            level,
            may_end: false,
            is_valid,
        });
    }

    /// A valid request with this id, answered as one for an unknown method.
    fn valid(&mut self, check: &'static str, level: Level, message: impl Into<Vec<u8>>, id: &str) {
        self.add(check, level, true, message, Want::One(unknown(id)));
    }

    fn bad(
        &mut self,
        check: &'static str,
        level: Level,
        message: impl Into<Vec<u8>>,
        ids: &[&str],
        code: Code,
    ) {
        self.add(check, level, false, message, Want::One(wanted(ids, code)));
    }
}

/// The first case: everything else is compared with its answer.
pub(crate) fn first() -> Case {
    Case {
        check: "method.unknown",
        message: call("1").into_bytes(),
        want: Want::One(wanted(&["1"], Code::One(-32601))),
        level: Must,
        may_end: false,
        is_valid: true,
    }
}

/// A batch of two good requests. A server that refuses it has no batches, and the checks of batches say no more.
pub(crate) fn first_batch() -> Case {
    Case {
        check: "batch.mixed",
        message: format!("[{},{}]", call("1"), call("\"b\"")).into_bytes(),
        want: Want::Batch(vec![unknown("1"), unknown("\"b\"")]),
        level: Must,
        may_end: false,
        is_valid: true,
    }
}

/// All cases. `methods` exist at the server.
pub(crate) fn all(methods: &[String]) -> Vec<Case> {
    let mut cases = Cases(Vec::new());
    requests(&mut cases);
    texts(&mut cases);
    batches(&mut cases);
    notifications(&mut cases, methods);
    cases.0
}

fn requests(cases: &mut Cases) {
    let none = format!(r#""method":"{NO_METHOD}""#);
    let bad_ids = ["1", "null"];
    cases.bad(
        "version.absent",
        Should,
        format!(r#"{{{none},"id":1}}"#),
        &bad_ids,
        Code::One(-32600),
    );
    for version in ["\"1.0\"", "2.0", "2", "null", "\"2.00\""] {
        cases.bad(
            "version.wrong",
            Should,
            format!(r#"{{"jsonrpc":{version},{none},"id":1}}"#),
            &bad_ids,
            Code::One(-32600),
        );
    }
    for id in ["\"a\"", "\"\"", "\"1\"", "\"null\"", "\"\u{e9}\u{1F600}\""] {
        cases.valid("id.string", Must, call(id), id);
    }
    for id in ["-1", "-2147483648"] {
        cases.valid("id.negative", Must, call(id), id);
    }
    for id in ["1.5", "-0.25"] {
        cases.valid("id.fraction", Must, call(id), id);
    }
    for id in [
        "3000000000",
        "9007199254740993",
        "9223372036854775808",
        "18446744073709551616",
    ] {
        cases.valid("id.big", Must, call(id), id);
    }
    for id in ["1.0", "1e2", "\"\\u0061\""] {
        cases.valid("id.exact-text", Must, call(id), id);
    }
    cases.valid("id.null", Must, call("null"), "null");
    for id in ["true", "false"] {
        cases.bad(
            "id.bool",
            Should,
            call(id),
            &["null", id],
            Code::One(-32600),
        );
    }
    for id in ["{}", "[]", "[1]", "{\"a\":1}"] {
        cases.bad(
            "id.object",
            Should,
            call(id),
            &["null", id],
            Code::One(-32600),
        );
    }
    for params in ["1", "\"bar\"", "true"] {
        cases.bad(
            "params.scalar",
            Should,
            request(&format!(r#"{none},"params":{params},"id":1"#)),
            &bad_ids,
            Code::AnyError,
        );
    }
    cases.bad(
        "params.null",
        Should,
        request(&format!(r#"{none},"params":null,"id":1"#)),
        &bad_ids,
        Code::AnyError,
    );
    for params in ["", r#","params":[]"#, r#","params":{}"#] {
        cases.valid(
            "params.absent",
            Must,
            request(&format!(r#"{none}{params},"id":1"#)),
            "1",
        );
    }
    for method in ["", "antiphon/conform", "\u{e9}\\n\\u0000"] {
        cases.valid(
            "method.unknown",
            Must,
            request(&format!(r#""method":"{method}","id":1"#)),
            "1",
        );
    }
    cases.bad(
        "method.missing",
        Should,
        request(r#""id":1"#),
        &bad_ids,
        Code::One(-32600),
    );
    cases.bad(
        "method.missing",
        Should,
        request(r#""params":[1],"id":1"#),
        &bad_ids,
        Code::One(-32600),
    );
    // The specification's own example, and its siblings.
    cases.bad(
        "method.not-string",
        Must,
        request(r#""method":1,"params":"bar""#),
        &["null"],
        Code::One(-32600),
    );
    for method in ["1", "null", "true", "{}", "[\"a\"]"] {
        cases.bad(
            "method.not-string",
            Must,
            request(&format!(r#""method":{method},"id":1"#)),
            &bad_ids,
            Code::One(-32600),
        );
    }
    cases.valid(
        "method.reserved",
        Must,
        request(r#""method":"rpc.antiphon-conform","id":1"#),
        "1",
    );
    cases.valid(
        "member.unknown",
        Should,
        request(&format!(r#""antiphon":{{"a":[1]}},{none},"id":1"#)),
        "1",
    );
    for twice in [
        r#""id":1,"id":2"#,
        r#""id":1,"method":"antiphon.conform.other""#,
        r#""id":1,"jsonrpc":"2.0""#,
    ] {
        cases.add(
            "member.duplicate",
            Should,
            false,
            request(&format!("{none},{twice}")),
            Want::One(wanted(&["1", "2", "null"], Code::AnyError)),
        );
    }
    for answer in [
        r#""result":1,"id":77"#,
        r#""error":{"code":-32000,"message":"m"},"id":77"#,
        r#""error":{"code":-32700,"message":"m"},"id":null"#,
    ] {
        cases.add(
            "response.not-answered",
            Should,
            true,
            request(answer),
            Want::Nothing,
        );
    }
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    cases.add(
        "limit.depth",
        Should,
        true,
        request(&format!(r#"{none},"params":{deep},"id":1"#)),
        Want::One(wanted(&bad_ids, Code::AnyError)),
    );
    let long = "a".repeat(1_000_000);
    cases.add(
        "limit.size",
        Should,
        true,
        request(&format!(r#"{none},"params":["{long}"],"id":1"#)),
        Want::One(wanted(&bad_ids, Code::AnyError)),
    );
}

fn texts(cases: &mut Cases) {
    let syntax = |cases: &mut Cases, text: &str| {
        cases.bad("parse.syntax", Must, text, &["null"], Code::One(-32700))
    };
    // The specification's own example comes first but for what is as short as can be.
    for text in [
        "{bad",
        r#"{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]"#,
        "{",
        "[",
        "\"",
        r#"[{"jsonrpc":"2.0","method""#,
        "x",
        "{'a':1}",
    ] {
        syntax(cases, text);
    }
    for text in ["1", "\"a\"", "true", "null"] {
        cases.bad("parse.syntax", Must, text, &["null"], Code::One(-32600));
    }
    cases.bad("parse.syntax", Must, "{}", &["null"], Code::One(-32600));
    cases.add("parse.empty", Should, false, "", Want::Anything);
    let broken = [
        request(&format!(r#""method":"{NO_METHOD}"#))
            .trim_end_matches('}')
            .as_bytes(),
        b"\xff\xc3\x28\",\"id\":1}",
    ]
    .concat();
    cases.add(
        "parse.utf8",
        Should,
        false,
        broken,
        Want::One(wanted(&["null", "1"], Code::AnyError)),
    );
    for tail in ["x", "}", ",1"] {
        cases.bad(
            "parse.trailing",
            Should,
            format!("{}{tail}", call("1")),
            &["null"],
            Code::AnyError,
        );
    }
    for deep in ["[".repeat(100_000), r#"{"a":"#.repeat(100_000)] {
        cases.add("parse.depth", Should, false, deep, Want::Anything);
    }
    for method in ["\\ud800", "\\udc00x"] {
        cases.add(
            "parse.surrogate",
            Should,
            false,
            request(&format!(r#""method":"{method}","id":1"#)),
            Want::One(wanted(&["null", "1"], Code::AnyError)),
        );
    }
    for garbage in ["\u{1}\u{2}\u{7f}garbage", "GET / HTTP/1.0", "<xml/>"] {
        cases.add("recover.garbage", Should, false, garbage, Want::Anything);
    }
    let long = format!("{{\"a\":\"{}", "a".repeat(4_000_000));
    cases.add("recover.oversize", Should, false, long, Want::Anything);
    if let Some(last) = cases.0.last_mut() {
        last.may_end = true;
    }
}

fn batches(cases: &mut Cases) {
    let batch = |cases: &mut Cases, check, level, text: &str, answers: Vec<Wanted>| {
        cases.add(check, level, true, text, Want::Batch(answers));
    };
    cases.bad("batch.empty", Must, "[]", &["null"], Code::One(-32600));
    for element in ["1", "\"a\"", "true", "{}", r#"{"foo":"boo"}"#] {
        batch(
            cases,
            "batch.invalid-element",
            Must,
            &format!("[{element}]"),
            vec![invalid()],
        );
    }
    batch(
        cases,
        "batch.all-invalid",
        Must,
        "[1,2,3]",
        vec![invalid(); 3],
    );
    batch(cases, "batch.null-element", Must, "[null]", vec![invalid()]);
    for bad in ["1", r#"{"foo":"boo"}"#, "null"] {
        let text = format!("[{},{},{bad},{}]", call("1"), tell(), call("\"b\""));
        batch(
            cases,
            "batch.mixed",
            Must,
            &text,
            vec![unknown("1"), invalid(), unknown("\"b\"")],
        );
    }
    cases.add(
        "batch.notifications",
        Must,
        true,
        format!("[{},{}]", tell(), tell()),
        Want::Nothing,
    );
    batch(cases, "batch.nested", Must, "[[]]", vec![invalid()]);
    batch(
        cases,
        "batch.nested",
        Must,
        &format!("[[{}]]", call("1")),
        vec![invalid()],
    );
    let twice = format!("[{},{}]", call("1"), call("1"));
    batch(
        cases,
        "batch.same-id",
        Should,
        &twice,
        vec![wanted(&["1", "null"], Code::AnyError); 2],
    );
    let (calls, answers): (Vec<String>, Vec<Wanted>) = (1..=200)
        .map(|n| (call(&n.to_string()), unknown(&n.to_string())))
        .unzip();
    cases.add(
        "batch.long",
        Must,
        true,
        format!("[{}]", calls.join(",")),
        Want::BatchOrError(answers),
    );
}

fn notifications(cases: &mut Cases, methods: &[String]) {
    for params in ["", r#","params":[1]"#, r#","params":{"a":1}"#] {
        let text = request(&format!(r#""method":"{NO_METHOD}"{params}"#));
        cases.add(
            "notification.unknown-silent",
            Must,
            true,
            text,
            Want::Nothing,
        );
    }
    for method in methods {
        let Ok(method) = serde_json::to_string(method) else {
            continue;
        };
        cases.add(
            "notification.silent",
            Must,
            true,
            request(&format!(r#""method":{method}"#)),
            Want::Nothing,
        );
        let wrong = r#"{"antiphon.conform.no-such-param":[null]}"#;
        cases.add(
            "notification.error-silent",
            Must,
            true,
            request(&format!(r#""method":{method},"params":{wrong}"#)),
            Want::Nothing,
        );
        let asked = request(&format!(r#""method":{method},"id":"real""#));
        cases.add(
            "answer.own-id",
            Must,
            true,
            asked,
            Want::One(wanted(&["\"real\""], Code::Any)),
        );
    }
}
