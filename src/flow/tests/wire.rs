//! One end of a connection against scripts of lines, in whatever pieces they come.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::at;
use super::end::{End, Step};
use crate::CloseReason;
use crate::flow::FlowId;

const NAMES: &str = "kotlinx.rpc.jsonrpc.internal";

/// A line that pulls.
fn next(flow: &str, id: u32) -> String {
    call(&format!("{NAMES}.nextFlowValue"), &format!("[{flow}]"), id)
}

fn cancel(flow: &str, id: u32) -> String {
    call(&format!("{NAMES}.cancelFlow"), &format!("[{flow}]"), id)
}

fn call(method: &str, params: &str, id: u32) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params},\"id\":{id}}}\n")
}

fn result(result: &str, id: u32) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"result\":{result},\"id\":{id}}}\n")
}

fn error(code: i64, message: &str, id: u32) -> String {
    let error = format!("{{\"code\":{code},\"message\":\"{message}\"}}");
    format!("{{\"jsonrpc\":\"2.0\",\"error\":{error},\"id\":{id}}}\n")
}

fn completed(id: u32) -> String {
    error(-32001, "Flow completed", id)
}

/// Sends reads to an end: as they are, with one of them cut in two at each byte, and byte by byte. The
/// output is always this.
fn expect(start: impl Fn() -> End, reads: &[String], expected: &[String]) {
    let (expected, bytes) = (expected.concat(), reads.concat().len());
    let run = |is_cut: &dyn Fn(usize) -> bool| {
        let (mut end, mut at) = (start(), 0);
        let mut output = end.sent();
        for read in reads {
            let mut piece = Vec::new();
            for byte in read.bytes() {
                if is_cut(at) {
                    end.receive(&piece);
                    piece.clear();
                }
                piece.push(byte);
                at += 1;
            }
            end.receive(&piece);
            output.extend(end.sent());
        }
        String::from_utf8(output).unwrap()
    };
    assert_eq!(run(&|_| false), expected);
    assert_eq!(run(&|_| true), expected);
    for cut in 1..bytes {
        assert_eq!(run(&|at| at == cut), expected, "cut at {cut}");
    }
}

// FLO-03 FLO-04 FLO-06 FLO-07 FLO-14
#[test]
fn a_client_in_any_language_pulls_a_flow_to_its_end() {
    let lines = [
        call("count", "[2]", 1),
        next("1", 2),
        call("ping", "[]", 3),
        next("1", 4),
        next("1", 5),
        next("1", 6),
    ];
    let expected = [
        result("1", 1),
        result("0", 2),
        result("\"pong\"", 3),
        result("1", 4),
        completed(5),
        completed(6),
    ];
    expect(End::new, &[lines.concat()], &expected);
}

// FLO-06 FLO-10
#[test]
fn params_may_be_an_object_and_items_null_and_pulls_a_batch() {
    let pull = |params: &str, id| {
        let line = call(&format!("{NAMES}.nextFlowValue"), params, id);
        String::from(line.trim_end())
    };
    let lines = [
        call("nulls", "[3]", 1),
        pull(r#"{"flow":1}"#, 2) + "\n",
        format!(
            "[{},{},{}]\n",
            pull("[1]", 3),
            pull("[1.0]", 4),
            pull("[1]", 5)
        ),
    ];
    let answer = |line: String| String::from(line.trim_end());
    let batch = [
        answer(result("null", 3)),
        answer(result("null", 4)),
        answer(completed(5)),
    ];
    let expected = [
        result("1", 1),
        result("null", 2),
        format!("[{}]\n", batch.join(",")),
    ];
    expect(End::new, &[lines.concat()], &expected);
}

// FLO-07
#[test]
fn a_producer_that_fails_gives_its_error_to_the_pulls() {
    let lines = [
        call("broken", "[1]", 1),
        next("1", 2),
        next("1", 3),
        next("1", 4),
    ];
    let expected = [
        result("1", 1),
        result("0", 2),
        error(-32010, "broken", 3),
        error(-32602, "Unknown flow", 4),
    ];
    expect(End::new, &[lines.concat()], &expected);
}

// FLO-08 FLO-13
#[test]
fn a_cancel_is_answered_null_once_and_twice_and_for_what_never_was() {
    let lines = [
        call("silent", "[0]", 1),
        next("1", 2),
        next("1", 3),
        cancel("1", 4),
        cancel("1", 5),
        cancel("77", 6),
        next("77", 7),
        next("1", 8),
    ];
    let expected = [
        result("1", 1),
        completed(2),
        completed(3),
        result("null", 4),
        result("null", 5),
        result("null", 6),
        error(-32602, "Unknown flow", 7),
        error(-32602, "Unknown flow", 8),
    ];
    expect(End::new, &[lines.concat()], &expected);
}

// FLO-07
#[test]
fn a_pull_that_is_cancelled_as_a_request_is_not_answered_as_completed() {
    let start = || {
        let mut end = End::new();
        let mut config = crate::Config::new();
        config.dialect.cancel_receive = crate::CancelStyle::Lsp;
        end.conn = crate::Connection::new(config);
        end
    };
    let lines = [
        call("silent", "[1]", 1),
        next("1", 2),
        next("1", 3),
        String::from(
            "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{\"id\":3}}\n",
        ),
    ];
    let expected = [
        result("1", 1),
        result("0", 2),
        error(-32000, "Pull cancelled", 3),
    ];
    expect(start, &[lines.concat()], &expected);
}

/// An end that has called `numbers`, whose result is a flow that it reads.
fn reader(window: usize) -> End {
    let mut end = End::new();
    end.call_flow("numbers", 9, window);
    end
}

// FLO-04 FLO-06 FLO-07 FLO-10
#[test]
fn a_server_in_any_language_answers_pulls_in_any_order() {
    let reads = [
        result("41", 1),
        result("\"b\"", 3) + &result("null", 2),
        completed(5) + &result("[1.0]", 4),
    ];
    let expected = [
        call("numbers", "[9]", 1),
        next("41", 2),
        next("41", 3),
        next("41", 4),
        next("41", 5),
    ];
    expect(|| reader(2), &reads, &expected);
    let mut end = reader(2);
    for read in reads {
        end.receive(read.as_bytes());
    }
    assert_eq!(end.readers[0].items, ["null", "\"b\"", "[1.0]"]);
    assert_eq!(end.readers[0].ended.as_deref(), Some("end"));
}

// FLO-03
#[test]
fn an_id_beyond_every_number_type_is_pulled_as_it_was_written() {
    let id = "9007199254740993000000000000000000001";
    let lines = [result(id, 1), completed(2)];
    expect(
        || reader(1),
        &lines,
        &[call("numbers", "[9]", 1), next(id, 2)],
    );
}

// FLO-07
#[test]
fn an_answer_that_breaks_the_rules_ends_the_flow_and_cancels_it() {
    let broken = "{\"jsonrpc\":\"2.0\",\"result\":1,\"error\":null,\"id\":2}\n";
    let reads = [result("5", 1), String::from(broken)];
    let expected = [call("numbers", "[9]", 1), next("5", 2), cancel("5", 3)];
    expect(|| reader(1), &reads, &expected);
    let mut end = reader(1);
    for read in reads {
        end.receive(read.as_bytes());
    }
    let why = end.readers[0].ended.as_deref().unwrap();
    assert!(
        why.starts_with("the answer to a pull is not valid: "),
        "{why}"
    );
}

// FLO-14
#[test]
fn a_peer_without_flows_serves_plain_calls_and_fails_a_flow_in_words() {
    let mut end = reader(1);
    end.call("ping");
    end.sent();
    end.receive(result("3", 1).as_bytes());
    end.receive(error(-32601, "Method not found", 3).as_bytes());
    end.receive(result("\"pong\"", 2).as_bytes());
    assert_eq!(end.outcomes, ["\"pong\""]);
    let why = "the flow failed: Method not found (-32601)";
    assert_eq!(end.readers[0].ended.as_deref(), Some(why));
    // A result that is no id of a flow is no flow.
    end.call_flow("numbers", 9, 1);
    end.receive(result("\"x\"", 4).as_bytes());
    assert_eq!(end.outcomes[1], "the value is no id of a flow");
}

// FLO-01 FLO-14
#[test]
fn without_the_layer_its_methods_are_methods_like_any_others() {
    let mut conn: crate::Connection = crate::Connection::new(crate::Config::new());
    let line = next("1", 1);
    let mut input = crate::Input::stream(line.as_bytes());
    let Some(crate::Event::Request(request)) = conn.poll_event(&mut input) else {
        panic!("it is a request");
    };
    assert_eq!(request.method, format!("{NAMES}.nextFlowValue"));
    conn.respond_unknown_method(request.token, &request.method)
        .unwrap();
    let sent = conn.poll_transmit().unwrap();
    assert_eq!(sent, error(-32601, "Method not found", 1).as_bytes());
}

// FLO-12
#[test]
fn a_pull_beyond_the_most_is_answered_busy_and_plain_calls_are_served() {
    let mut end = End::new();
    end.receive(call("silent", "[0]", 1).as_bytes());
    end.sent();
    for id in 0..512 {
        end.receive(next("1", 10 + id).as_bytes());
    }
    assert_eq!(end.sent(), b"");
    end.receive(next("1", 1000).as_bytes());
    end.receive(call("ping", "[]", 1001).as_bytes());
    let expected = error(-32002, "Server busy", 1000) + &result("\"pong\"", 1001);
    assert_eq!(String::from_utf8(end.sent()).unwrap(), expected);
    assert_eq!(end.conn.requests_open(), 512);
}

// FLO-13
#[test]
fn the_end_of_the_connection_ends_flows_on_both_sides() {
    let mut end = reader(2);
    end.receive(result("5", 1).as_bytes());
    end.receive(call("silent", "[0]", 1).as_bytes());
    end.receive(next("1", 2).as_bytes());
    end.receive(result("\"item\"", 2).as_bytes());
    assert_eq!(end.producers.flows_open(), 1);
    end.conn.close(CloseReason::Done);
    end.receive(b"");
    assert_eq!(end.readers[0].items, ["\"item\""]);
    let why = "the connection ended before the flow";
    assert_eq!(end.readers[0].ended.as_deref(), Some(why));
    assert_eq!(
        (end.producers.flows_open(), end.consumers.flows_open()),
        (0, 0)
    );
    assert!(end.sources.is_empty());
}

// FLO-07 FLO-09
#[test]
fn a_flow_in_the_params_ends_when_its_call_is_answered() {
    let items = || ["1", "2"].map(|item| Step::Item(item.into()));
    let start = move || {
        let mut end = End::new();
        end.call_with_flow("sum", items().into_iter().chain([Step::Wait]));
        end
    };
    // The peer answers although it has a pull open, and pulls once more.
    let lines = [
        next("1", 1),
        next("1", 2),
        next("1", 3),
        result("3", 1),
        next("1", 4),
    ];
    let expected = [
        call("sum", "[1]", 1),
        result("1", 1),
        result("2", 2),
        error(-32000, "Flow closed", 3),
        error(-32602, "Unknown flow", 4),
    ];
    expect(start, &[lines.concat()], &expected);
}

// FLO-11
#[test]
fn a_producer_that_never_answers_is_cancelled_in_time() {
    let mut end = reader(2);
    end.set_time(at(0));
    end.receive(result("5", 1).as_bytes());
    let options = crate::flow::PullOptions {
        window: 2,
        pull_timeout: Some(core::time::Duration::from_millis(500)),
    };
    let consumer = end.readers[0].consumer;
    end.consumers.set_options(consumer, options);
    end.sent();
    assert_eq!(end.consumers.poll_timeout(), Some(at(500)));
    // The calls have no timeout of their own.
    assert_eq!(end.conn.poll_timeout(), None);
    end.set_time(at(500));
    end.turn();
    assert_eq!(String::from_utf8(end.sent()).unwrap(), cancel("5", 4));
    let why = "no item of the flow came in time";
    assert_eq!(end.readers[0].ended.as_deref(), Some(why));
    // The pulls are open until the peer answers them.
    assert_eq!(end.conn.calls_open(), 3);
    for line in [completed(2), completed(3), result("null", 4)] {
        end.receive(line.as_bytes());
    }
    assert_eq!(end.conn.calls_open(), 0);
    assert_eq!(end.consumers.flows_open(), 0);
    assert_eq!(end.conn.unmatched_responses(), 0);
}

// FLO-06
#[test]
fn an_item_that_comes_late_answers_the_pull_that_waits() {
    let mut end = End::new();
    end.receive(call("silent", "[0]", 1).as_bytes());
    end.receive(next("1", 2).as_bytes());
    end.receive(next("1", 3).as_bytes());
    assert_eq!(String::from_utf8(end.sent()).unwrap(), result("1", 1));
    let flow = FlowId(1);
    let steps = ["\"late\"", "\"later\""].map(|item| Step::Item(item.into()));
    end.sources.insert(flow, steps.into_iter().collect());
    end.advance(flow);
    let expected = result("\"late\"", 2) + &result("\"later\"", 3);
    assert_eq!(String::from_utf8(end.sent()).unwrap(), expected);
}
