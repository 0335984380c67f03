//! What the network puts in: messages of a peer that breaks every rule about streams.

use super::world::World;
use crate::sessions::pipe::WireKind;

/// A hostile message.
#[derive(Debug)]
pub(super) struct Hostile {
    /// Under this name it is counted.
    what: &'static str,
    /// Its id says which it is; empty for a message that is not answered.
    id: &'static str,
    /// Everything after the id. `#` stands for the id of a flow.
    text: &'static str,
    /// It names a flow that this end does not have.
    pub(super) is_flow: bool,
    /// The code of the answer of the server and of the client; `None` for a result.
    pub(super) codes: [Option<i64>; 2],
}

const NEXT: &str = "kotlinx.rpc.jsonrpc.internal.nextFlowValue";
const CANCEL: &str = "kotlinx.rpc.jsonrpc.internal.cancelFlow";
const INVALID: Option<i64> = Some(-32602);
const UNKNOWN: Option<i64> = Some(-32601);

const fn flow(
    what: &'static str,
    id: &'static str,
    text: &'static str,
    code: Option<i64>,
) -> Hostile {
    Hostile {
        what,
        id,
        text,
        is_flow: true,
        codes: [code, code],
    }
}

/// Only the server has topics.
const fn topic(
    what: &'static str,
    id: &'static str,
    text: &'static str,
    code: Option<i64>,
) -> Hostile {
    Hostile {
        what,
        id,
        text,
        is_flow: false,
        codes: [code, UNKNOWN],
    }
}

const ALL: [Hostile; 22] = [
    flow("hostile: unknown flow", "ha", "N[900000]", INVALID),
    flow("hostile: unknown flow", "hb", "N[-1]", INVALID),
    flow(
        "hostile: unknown flow",
        "hc",
        "N[18446744073709551616]",
        INVALID,
    ),
    flow(
        "hostile: flow of the other direction",
        "hd",
        "N[#]",
        INVALID,
    ),
    flow("hostile: flow of the other direction", "he", "C[#]", None),
    flow(
        "hostile: broken params of a flow",
        "hf",
        "N[\"x\"]",
        INVALID,
    ),
    flow("hostile: broken params of a flow", "hg", "N{}", INVALID),
    flow("hostile: broken params of a flow", "hh", "C[true]", INVALID),
    flow(
        "hostile: cancel of an unknown flow",
        "hi",
        "C{\"id\":800000}",
        None,
    ),
    topic(
        "hostile: invalid topic",
        "hj",
        "rpc.subscribe\",\"params\":{\"topic\":\"a..b\"}",
        INVALID,
    ),
    topic(
        "hostile: invalid topic",
        "hk",
        "rpc.subscribe\",\"params\":[\"a b\"]",
        INVALID,
    ),
    topic(
        "hostile: invalid topic",
        "hl",
        "rpc.subscribe\",\"params\":{\"topic\":\"a.>.b\"}",
        INVALID,
    ),
    topic(
        "hostile: wildcard topic",
        "hm",
        "rpc.subscribe\",\"params\":{\"topic\":\"a*\"}",
        INVALID,
    ),
    topic(
        "hostile: invalid topic",
        "hn",
        "rpc.subscribe.batch\",\"params\":{\"topics\":[\"a.x\",\"$SYS\"]}",
        INVALID,
    ),
    topic(
        "hostile: broken params of a topic",
        "ho",
        "rpc.subscribe\",\"params\":{\"topic\":7}",
        INVALID,
    ),
    topic(
        "hostile: broken params of a topic",
        "hp",
        "rpc.subscribe\",\"params\":[]",
        INVALID,
    ),
    topic(
        "hostile: broken params of a topic",
        "hq",
        "rpc.unsubscribe.batch\",\"params\":{\"topics\":\"a\"}",
        INVALID,
    ),
    topic(
        "hostile: unsubscribe of nothing",
        "hr",
        "rpc.unsubscribe\",\"params\":{\"topic\":\"q.q\"}",
        None,
    ),
    topic(
        "hostile: unsubscribe of nothing",
        "hs",
        "eth_unsubscribe\",\"params\":[\"nothing\"]",
        None,
    ),
    topic(
        "hostile: event of an unknown id",
        "",
        "eth_subscription\",\"params\":{\"subscription\":\"nothing\",\"result\":[7]}",
        None,
    ),
    topic(
        "hostile: publication of nothing",
        "",
        "rpc.notification\",\"params\":{\"data\":[7]}",
        None,
    ),
    topic("hostile: answer to nothing", "", "", None),
];

/// The hostile message whose answer has this id.
pub(super) fn of_id(id: &str) -> Option<&'static Hostile> {
    let name = id.strip_prefix('"')?.get(..2)?;
    ALL.iter().find(|hostile| hostile.id == name)
}

impl World {
    /// Puts a message into a pipe that its writer has not said.
    pub(super) fn put_in(&mut self, link: usize, at: usize) {
        let number = self.next();
        let chosen = self.rng.size(0, ALL.len() - 1);
        let hostile = &ALL[chosen];
        let link = &mut self.links[link];
        let (pipe, reader) = (&mut link.pipes[at], &link.ends[1 - at]);
        // Not into the middle of a message.
        let is_between = link.ends[at].written == 0 && link.ends[at].output.is_empty();
        if !link.settings.is_rough || !is_between || pipe.is_broken() {
            return;
        }
        let known = reader.flows.numbers.len() as u64;
        let id = match hostile.id {
            "" => String::new(),
            id => format!(r#","id":"{id}{number}""#),
        };
        let body = match hostile.text.split_at_checked(1) {
            Some(("N", params)) => format!(r#"{NEXT}","params":{params}"#),
            Some(("C", params)) => format!(r#"{CANCEL}","params":{params}"#),
            _ => hostile.text.to_string(),
        };
        // A flow that may be open in the other direction, and on other links.
        let body = body.replace('#', &(known + 1).to_string());
        let text = match body.is_empty() {
            true => r#"{"jsonrpc":"2.0","result":"a","id":987654}"#.to_string(),
            false => format!(r#"{{"jsonrpc":"2.0","method":"{body}{id}}}"#),
        };
        let bytes = match link.settings.wire {
            WireKind::Messages => text,
            WireKind::Stream(antiphon::Framing::ContentLength) => {
                format!("Content-Length: {}\r\n\r\n{text}", text.len())
            }
            _ => format!("{text}\n"),
        };
        self.counts.add(hostile.what);
        pipe.put(bytes.as_bytes());
    }
}
