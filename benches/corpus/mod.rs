//! The fourteen texts that everything about reading is measured on.
//!
//! Here: the texts, made by a generator from a fixed seed, so that every run and every program that includes this file
//! reads the same bytes. Not here: any measuring.
//!
//! Rule: an item is what it says, to the byte. Thirteen items are one text each, which a branch predictor
//! learns by heart; item 14 is 4000 different messages, which it cannot learn, so item 14 is quoted first.
//!
//! Item 14 by share: LSP 40 %, MCP 20 %, Ethereum 25 %, plain JSON-RPC 15 %; within each, requests, notifications,
//! results and errors (see `mix_message`). No batch is in it, for half of the other software refuses batches: item 08 is
//! one. No two messages are equal; their mean is 229 bytes, give or take 10.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each program that includes the corpus uses a part of it"
)]

// The tests of this module run in tests/support.
#[allow(unused_imports)]
#[path = "../../tests/support/src/random.rs"]
mod random;

use std::fmt::Write;

/// One text, or the messages of the mix.
pub struct Item {
    /// Number and name, as the tables print them.
    pub name: &'static str,
    /// The messages: one, but for the mix.
    pub messages: Vec<String>,
}

impl Item {
    /// The bytes of all messages together.
    pub fn bytes(&self) -> usize {
        self.messages.iter().map(String::len).sum()
    }
}

/// How many messages item 14 has.
pub const MIX: usize = 4000;

/// All fourteen items, in order.
pub fn corpus() -> Vec<Item> {
    let one = |name, text: String| Item {
        name,
        messages: vec![text],
    };
    let small =
        |id: &str| format!(r#"{{"jsonrpc":"2.0","method":"subtract","params":[42,23],"id":{id}}}"#);
    vec![
        one("01 req_small", small("1")),
        one("02 lsp_completion", lsp_completion()),
        one("03 lsp_didchange_5k", lsp_didchange(5101)),
        one(
            "04 resp_small",
            r#"{"jsonrpc":"2.0","result":19,"id":1}"#.into(),
        ),
        one(
            "05 resp_error",
            r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":1}"#
                .into(),
        ),
        one("06 eth_block_30k", eth_block(24552)),
        one("07 params_1m", dense_params(1_048_672)),
        one("08 batch_100", batch_100()),
        one("09 mcp_tools_call", mcp_tools_call()),
        one("10 escapes_2k", escapes(2130)),
        one(
            "11 id_uuid",
            small(r#""123e4567-e89b-42d3-a456-426614174000""#),
        ),
        one("12 max_id_u64", small("18446744073709551615")),
        one("13 pretty_mcp", pretty_mcp()),
        Item {
            name: "14 mix_4000",
            messages: mix(),
        },
    ]
}

/// Item 15: what went between real peers, as `recorded.py` took it from conversations of `tests/interop`.
///
/// Language servers (clangd, ruff, typescript-language-server, python-lsp-server, pygls), peers of MCP (its TypeScript SDK,
/// server-everything) and libraries of JavaScript and Python over pipes; both directions of each. It is there to say
/// whether item 14 is like them.
pub fn recorded() -> Item {
    Item {
        name: "15 recorded",
        messages: include_str!("recorded.jsonl")
            .lines()
            .map(String::from)
            .collect(),
    }
}

/// What is drawn from the generator that tests use too. All figures are of these texts, so how they are drawn does not change.
pub struct Random(random::Random);

impl Random {
    /// A generator that gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(random::Random::new(seed))
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// One of several.
    pub fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    /// `0x` and so many hexadecimal digits.
    pub fn hex(&mut self, digits: usize) -> String {
        let mut text = String::from("0x");
        for _ in 0..digits {
            text.push(char::from(b"0123456789abcdef"[self.below(16) as usize]));
        }
        text
    }

    /// Words with blanks between, so many bytes exactly.
    pub fn words(&mut self, bytes: usize) -> String {
        const WORDS: [&str; 12] = [
            "value",
            "of",
            "the",
            "connection",
            "is",
            "borrowed",
            "here",
            "and",
            "moved",
            "later",
            "expected",
            "type",
        ];
        let mut text = String::new();
        while text.len() < bytes {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(self.pick(&WORDS));
        }
        text.truncate(bytes);
        text
    }

    fn uuid(&mut self) -> String {
        let hex = self.hex(32);
        let hex = &hex[2..];
        format!(
            "{}-{}-4{}-a{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[13..16],
            &hex[17..20],
            &hex[20..]
        )
    }

    fn uri(&mut self) -> String {
        let folder = self.pick(&["src", "tests", "crates/core/src", "lib", "app/components"]);
        let (name, n) = (
            self.pick(&["main", "parser", "index", "connection", "util"]),
            self.below(1000),
        );
        format!("file:///home/user/project/{folder}/{name}{n}.rs")
    }

    fn position(&mut self) -> String {
        format!(
            r#"{{"line":{},"character":{}}}"#,
            self.below(3000),
            self.below(120)
        )
    }

    fn range(&mut self) -> String {
        format!(
            r#"{{"start":{},"end":{}}}"#,
            self.position(),
            self.position()
        )
    }
}

/// Puts `filler` bytes of text between two halves, so that the whole has `bytes` bytes.
fn padded(before: &str, after: &str, bytes: usize) -> String {
    let filler = bytes - before.len() - after.len();
    format!("{before}{}{after}", Random::new(7).words(filler))
}

fn lsp_completion() -> String {
    padded(
        r#"{"jsonrpc":"2.0","id":42,"method":"textDocument/completion","params":{"textDocument":{"uri":"file:///home/user/project/src/"#,
        r#".rs"},"position":{"line":120,"character":17},"context":{"triggerKind":1}}}"#,
        224,
    )
    .replace(' ', "_")
}

/// Source text as an editor sends it: a line every 30 bytes or so, quotes and tabs escaped.
fn lsp_didchange(bytes: usize) -> String {
    let mut random = Random::new(3);
    let mut text = String::from(
        r#"{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":{"uri":"file:///home/user/project/src/main.rs","version":17},"contentChanges":[{"text":""#,
    );
    let end = r#""}]}}"#;
    while text.len() + 140 < bytes {
        let words = 12 + random.below(40) as usize;
        let line = random.words(words);
        match random.below(4) {
            0 => write!(text, "    let name{} = {line};\\n", random.below(100)),
            1 => write!(text, "\\n    // {line}\\n"),
            2 => write!(text, "    println!(\\\"{line}\\\");\\n"),
            _ => write!(text, "\\tmatch {line} {{\\n"),
        }
        .expect("a string takes all");
    }
    padded(&text, end, bytes)
}

/// A block with its transactions: hexadecimal strings under short names.
fn eth_block(bytes: usize) -> String {
    let mut random = Random::new(6);
    let mut text = format!(
        r#"{{"jsonrpc":"2.0","id":83,"result":{{"number":"{}","hash":"{}","parentHash":"{}","miner":"{}","gasLimit":"0x1c9c380","logsBloom":"{}","transactions":["#,
        random.hex(7),
        random.hex(64),
        random.hex(64),
        random.hex(40),
        random.hex(512),
    );
    let end = r#"],"uncles":[]}}"#;
    let mut index = 0;
    while text.len() + 1100 < bytes {
        text.push_str(&eth_transaction(&mut random, index));
        text.push(',');
        index += 1;
    }
    let before = format!(r#"{text}{{"hash":"{}","input":"0x"#, random.hex(64));
    let digits = bytes - before.len() - end.len() - r#""}"#.len();
    let input = random.hex(digits);
    format!(r#"{before}{}"}}{end}"#, &input[2..])
}

fn eth_transaction(random: &mut Random, index: u64) -> String {
    let input = 8 + 64 * random.below(4) as usize;
    format!(
        r#"{{"blockHash":"{}","blockNumber":"{}","from":"{}","gas":"{}","gasPrice":"{}","hash":"{}","input":"{}","nonce":"{}","to":"{}","transactionIndex":"0x{index:x}","value":"{}","type":"0x2","chainId":"0x1","v":"0x1","r":"{}","s":"{}"}}"#,
        random.hex(64),
        random.hex(7),
        random.hex(40),
        random.hex(5),
        random.hex(9),
        random.hex(64),
        random.hex(input),
        random.hex(3),
        random.hex(40),
        random.hex(15),
        random.hex(64),
        random.hex(64),
    )
}

/// Random JSON without blanks: short numbers, short strings, literals, nested a few deep.
fn dense_params(bytes: usize) -> String {
    let mut random = Random::new(8);
    let mut text = String::from(r#"{"jsonrpc":"2.0","id":9,"method":"store","params":["#);
    let end = r#""]}"#;
    while text.len() + 1000 < bytes {
        dense_value(&mut random, 0, &mut text);
        text.push(',');
    }
    text.push('"');
    padded(&text, end, bytes)
}

fn dense_value(random: &mut Random, depth: u32, text: &mut String) {
    let kinds = if depth < 4 { 8 } else { 6 };
    match random.below(kinds) {
        0 => write!(text, "{}", random.below(1000)),
        1 => write!(text, "-{}.{}", random.below(100_000), random.below(1000)),
        2 => write!(text, "{}e{}", random.below(10), random.below(20)),
        3 => {
            let letters = 1 + random.below(14) as usize;
            write!(text, r#""{}""#, random.words(letters))
        }
        4 => write!(text, "{}", random.pick(&["true", "false", "null"])),
        5 => write!(
            text,
            r#""{}\n{}""#,
            random.pick(&["a", "tab", "é"]),
            random.below(100)
        ),
        6 => {
            text.push('[');
            for n in 0..random.below(6) {
                if n > 0 {
                    text.push(',');
                }
                dense_value(random, depth + 1, text);
            }
            text.push(']');
            Ok(())
        }
        _ => {
            text.push('{');
            for n in 0..random.below(6) {
                if n > 0 {
                    text.push(',');
                }
                write!(
                    text,
                    r#""{}{n}":"#,
                    random.pick(&["id", "name", "price", "x", "longer_name"])
                )
                .expect("a string takes all");
                dense_value(random, depth + 1, text);
            }
            text.push('}');
            Ok(())
        }
    }
    .expect("a string takes all");
}

fn batch_100() -> String {
    let mut random = Random::new(5);
    let mut items: Vec<String> = (0..99)
        .map(|n| {
            let (a, b) = (random.below(100), random.below(100));
            format!(r#"{{"jsonrpc":"2.0","method":"subtract","params":[{a},{b}],"id":{n}}}"#)
        })
        .collect();
    let so_far: usize = items.iter().map(|item| item.len() + 1).sum();
    items.push(padded(
        r#"{"jsonrpc":"2.0","method":"subtract","params":[""#,
        r#""],"id":99}"#,
        6323 - 2 - so_far,
    ));
    format!("[{}]", items.join(","))
}

fn mcp_tools_call() -> String {
    padded(
        r#"{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"search_documents","arguments":{"query":"how does a cancel reach a handler","limit":10,"filters":{"language":"en","tags":["rust","rpc"]},"note":""#,
        r#""},"_meta":{"progressToken":"search-12","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}"#,
        386,
    )
}

fn escapes(bytes: usize) -> String {
    const PIECES: [&str; 8] = [
        r"\n", r#"\""#, r"\\", r"\t", r"\u00e9", r"\/", "ab", "word ",
    ];
    let mut random = Random::new(10);
    let mut text = String::from(r#"{"jsonrpc":"2.0","id":3,"method":"log","params":[""#);
    let end = r#""]}"#;
    while text.len() + end.len() + 6 < bytes {
        text.push_str(random.pick(&PIECES));
    }
    padded(&text, end, bytes)
}

fn pretty_mcp() -> String {
    padded(
        "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 13,\n  \"method\": \"tools/call\",\n  \"params\": {\n    \"name\": \"search_documents\",\n    \"arguments\": {\n      \"query\": \"how does a cancel reach a handler\",\n      \"limit\": 10,\n      \"filters\": {\n        \"language\": \"en\",\n        \"tags\": [\n          \"rust\",\n          \"rpc\"\n        ]\n      },\n      \"note\": \"",
        "\"\n    },\n    \"_meta\": {\n      \"progressToken\": \"search-13\"\n    }\n  }\n}",
        540,
    )
}

/// The messages of item 14, no two equal.
pub fn mix() -> Vec<String> {
    let mut random = Random::new(14);
    let mut seen = std::collections::HashSet::new();
    let mut messages = Vec::with_capacity(MIX);
    while messages.len() < MIX {
        let message = mix_message(&mut random, messages.len() as u64);
        if seen.insert(message.clone()) {
            messages.push(message);
        }
    }
    messages
}

fn mix_message(random: &mut Random, n: u64) -> String {
    match random.below(100) {
        0..40 => lsp_message(random, n),
        40..60 => mcp_message(random, n),
        60..85 => eth_message(random, n),
        _ => plain_message(random, n),
    }
}

/// Requests 40 %, notifications 25 %, results 30 %, errors 5 %.
fn lsp_message(random: &mut Random, n: u64) -> String {
    let uri = random.uri();
    match random.below(20) {
        0..8 => {
            let method = random.pick(&[
                "hover",
                "completion",
                "definition",
                "references",
                "documentHighlight",
            ]);
            let position = random.position();
            format!(
                r#"{{"jsonrpc":"2.0","id":{n},"method":"textDocument/{method}","params":{{"textDocument":{{"uri":"{uri}"}},"position":{position}}}}}"#
            )
        }
        8 | 9 => format!(
            r#"{{"jsonrpc":"2.0","method":"textDocument/didChange","params":{{"textDocument":{{"uri":"{uri}","version":{n}}},"contentChanges":[{{"range":{},"text":"{}"}}]}}}}"#,
            random.range(),
            random.pick(&["x", "\\n", "    ", "let ", "\\\"", "é", "();\\n"]),
        ),
        10 => {
            let (range, length) = (random.range(), 20 + random.below(60) as usize);
            format!(
                r#"{{"jsonrpc":"2.0","method":"textDocument/publishDiagnostics","params":{{"uri":"{uri}","version":{n},"diagnostics":[{{"range":{range},"severity":{},"code":"E0{}","source":"rustc","message":"{} \"{}\""}}]}}}}"#,
                1 + random.below(4),
                random.below(999),
                random.words(length),
                random.below(99),
            )
        }
        11 => format!(
            r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":{}}}}}"#,
            n + 100_000
        ),
        12 => format!(
            r#"{{"jsonrpc":"2.0","method":"$/progress","params":{{"token":"{}","value":{{"kind":"report","message":"{}/{n}","percentage":{}}}}}}}"#,
            random.uuid(),
            random.below(n + 1),
            random.below(100),
        ),
        13..16 => {
            let length = 80 + random.below(440) as usize;
            format!(
                r#"{{"jsonrpc":"2.0","id":{n},"result":{{"contents":{{"kind":"markdown","value":"```rust\nfn {}()\n```\n{}"}},"range":{}}}}}"#,
                random.pick(&["read", "write", "poll"]),
                random.words(length),
                random.range(),
            )
        }
        16..18 => {
            let mut items = Vec::new();
            for _ in 0..1 + random.below(5) {
                items.push(format!(
                    r#"{{"uri":"{}","range":{}}}"#,
                    random.uri(),
                    random.range()
                ));
            }
            format!(
                r#"{{"jsonrpc":"2.0","id":{n},"result":[{}]}}"#,
                items.join(",")
            )
        }
        18 => format!(r#"{{"jsonrpc":"2.0","id":{n},"result":null}}"#),
        _ => format!(
            r#"{{"jsonrpc":"2.0","id":{n},"error":{{"code":{},"message":"{} {n}"}}}}"#,
            random.pick(&["-32800", "-32801", "-32602"]),
            random.pick(&["content modified", "request cancelled", "file not found"]),
        ),
    }
}

/// Requests 40 %, notifications 20 %, results 30 %, errors 10 %. Half of the requests have strings as ids; an answer has
/// the id of whoever asked, which here are numbers.
fn mcp_message(random: &mut Random, n: u64) -> String {
    let id = if n & 1 == 0 {
        n.to_string()
    } else {
        format!("\"{}\"", random.uuid())
    };
    match random.below(10) {
        0..3 => {
            let length = 20 + random.below(100) as usize;
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{}","arguments":{{"query":"{}","limit":{}}},"_meta":{{"progressToken":{n}}}}}}}"#,
                random.pick(&["search", "read_file", "run_query"]),
                random.words(length),
                random.below(100),
            )
        }
        3 => format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{}"}}"#,
            random.pick(&["ping", "tools/list", "resources/list"])
        ),
        4 | 5 => format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{n},"progress":{},"total":100,"message":"step {}"}}}}"#,
            random.below(100),
            random.below(1000),
        ),
        6..9 => {
            let length = 80 + random.below(560) as usize;
            format!(
                r#"{{"jsonrpc":"2.0","id":{n},"result":{{"content":[{{"type":"text","text":"{}\n{}"}}],"isError":{}}}}}"#,
                random.words(length),
                random.pick(&["done", "größer", "次", "\\\"quoted\\\""]),
                random.pick(&["true", "false"]),
            )
        }
        _ => format!(
            r#"{{"jsonrpc":"2.0","id":{n},"error":{{"code":-32602,"message":"Unknown tool","data":{{"name":"tool {n}"}}}}}}"#
        ),
    }
}

/// Requests 45 %, notifications 15 %, results 35 %, errors 5 %.
fn eth_message(random: &mut Random, n: u64) -> String {
    match random.below(20) {
        0..4 => format!(
            r#"{{"jsonrpc":"2.0","method":"eth_call","params":[{{"to":"{}","data":"{}"}},"latest"],"id":{n}}}"#,
            random.hex(40),
            random.hex(72),
        ),
        4..7 => format!(
            r#"{{"jsonrpc":"2.0","method":"{}","params":["{}","latest"],"id":{n}}}"#,
            random.pick(&["eth_getBalance", "eth_getTransactionCount", "eth_getCode"]),
            random.hex(40),
        ),
        7 | 8 => format!(r#"{{"jsonrpc":"2.0","method":"eth_blockNumber","params":[],"id":{n}}}"#),
        9..12 => format!(
            r#"{{"jsonrpc":"2.0","method":"eth_subscription","params":{{"subscription":"{}","result":{{"number":"{}","hash":"{}","timestamp":"{}"}}}}}}"#,
            random.hex(32),
            random.hex(7),
            random.hex(64),
            random.hex(8),
        ),
        12..15 => format!(
            r#"{{"jsonrpc":"2.0","id":{n},"result":"{}"}}"#,
            random.hex(16)
        ),
        15..17 => {
            let digits = 64 * (1 + random.below(7)) as usize;
            format!(
                r#"{{"jsonrpc":"2.0","id":{n},"result":"{}"}}"#,
                random.hex(digits)
            )
        }
        17 | 18 => format!(
            r#"{{"jsonrpc":"2.0","id":{n},"result":{{"transactionHash":"{}","blockHash":"{}","blockNumber":"{}","gasUsed":"{}","status":"0x1","logs":[{{"address":"{}","topics":["{}","{}"],"data":"{}"}}]}}}}"#,
            random.hex(64),
            random.hex(64),
            random.hex(7),
            random.hex(5),
            random.hex(40),
            random.hex(64),
            random.hex(64),
            random.hex(64),
        ),
        _ => format!(
            r#"{{"jsonrpc":"2.0","id":{n},"error":{{"code":3,"message":"execution reverted","data":"{}"}}}}"#,
            random.hex(72),
        ),
    }
}

/// Requests 45 %, notifications 20 %, results 30 %, errors 5 %. Some have blanks and floats.
fn plain_message(random: &mut Random, n: u64) -> String {
    match random.below(20) {
        0..4 => format!(
            r#"{{"jsonrpc":"2.0","method":"subtract","params":[{},{}],"id":{n}}}"#,
            random.below(1000),
            random.below(1000)
        ),
        4..7 => format!(
            r#"{{"jsonrpc": "2.0", "method": "set_point", "params": {{"x": {}.{}, "y": -{}.{}, "name": "point {n}"}}, "id": "{}"}}"#,
            random.below(1000),
            random.below(1000),
            random.below(1000),
            random.below(1000),
            random.uuid(),
        ),
        7 | 8 => {
            let length = 100 + random.below(400) as usize;
            format!(
                r#"{{"jsonrpc":"2.0","method":"save","params":["{}",{n}],"id":{n}}}"#,
                random.words(length)
            )
        }
        9..12 => format!(
            r#"{{"jsonrpc":"2.0","method":"update","params":[{},{},{},true,null,"{n}"]}}"#,
            random.below(10),
            random.below(100),
            random.below(1_000_000),
        ),
        12 => format!(r#"{{"jsonrpc":"2.0","method":"tick","params":{{"n":{n}}}}}"#),
        13..17 => format!(
            r#"{{"jsonrpc":"2.0","result":{},"id":{n}}}"#,
            random.below(1_000_000)
        ),
        17 | 18 => {
            let mut rows = Vec::new();
            for row in 0..1 + random.below(11) {
                rows.push(format!(
                    r#"{{"id":{row},"name":"{}","price":{}.{:02},"tags":["a","b"],"stock":null}}"#,
                    random.pick(&["apple", "pear", "plum"]),
                    random.below(100),
                    random.below(100),
                ));
            }
            format!(
                r#"{{"jsonrpc":"2.0","result":[{}],"id":{n}}}"#,
                rows.join(",")
            )
        }
        _ => format!(
            r#"{{"jsonrpc":"2.0","error":{{"code":{},"message":"Server error"}},"id":{n}}}"#,
            -32000 - random.below(100) as i64
        ),
    }
}
