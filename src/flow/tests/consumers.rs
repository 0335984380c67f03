//! The consuming side alone.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::task::Poll;
use core::time::Duration;

use super::{at, json};
use crate::flow::{
    ConsumerId, Consumers, FlowConfig, FlowMethod, OpenFlowError, Pull, PullOptions,
};
use crate::{OwnedError, OwnedOutcome};

fn consumers() -> Consumers {
    Consumers::new(FlowConfig::new())
}

/// A consumer of flow 7 with this window.
fn open(consumers: &mut Consumers, window: usize) -> ConsumerId {
    open_as(consumers, "7", window)
}

fn open_as(consumers: &mut Consumers, id: &str, window: usize) -> ConsumerId {
    let consumer = consumers.open(json(id)).unwrap();
    let options = PullOptions {
        window,
        ..PullOptions::default()
    };
    consumers.set_options(consumer, options);
    consumer
}

/// What the reader is given: an item, `-`, `end`, or why the flow has ended.
fn read(consumers: &mut Consumers, consumer: ConsumerId) -> String {
    match consumers.poll_item(consumer) {
        Poll::Pending => "-".into(),
        Poll::Ready(None) => "end".into(),
        Poll::Ready(Some(Ok(item))) => item.into_string(),
        Poll::Ready(Some(Err(error))) => error.to_string(),
    }
}

/// All calls to make: the pulls, and the cancels as the ids of their flows.
fn requests(consumers: &mut Consumers) -> (Vec<Pull>, Vec<String>) {
    let (mut pulls, mut cancels) = (Vec::new(), Vec::new());
    while let Some(request) = consumers.poll_request() {
        match request.pull {
            Some(pull) => {
                assert_eq!(request.method, FlowMethod::Next);
                pulls.push(pull);
            }
            None => {
                assert_eq!(request.method, FlowMethod::Cancel);
                cancels.push(request.params.into_string());
            }
        }
    }
    (pulls, cancels)
}

/// The pulls to make; there is nothing to cancel.
fn pulls(consumers: &mut Consumers) -> Vec<Pull> {
    let (pulls, cancels) = requests(consumers);
    assert_eq!(cancels, [""; 0]);
    pulls
}

fn cancels(consumers: &mut Consumers) -> Vec<String> {
    let (pulls, cancels) = requests(consumers);
    assert_eq!(pulls, []);
    cancels
}

fn item(consumers: &mut Consumers, pull: Pull, text: &str) {
    consumers.handle_answer(pull, OwnedOutcome::Ok(json(text).to_owned_json()));
}

fn error(consumers: &mut Consumers, pull: Pull, code: i64) {
    consumers.handle_answer(pull, OwnedOutcome::Err(OwnedError::new(code, "no")));
}

// FLO-06
#[test]
fn with_a_window_of_one_an_item_is_pulled_when_the_reader_asks_for_it() {
    let mut consumers = consumers();
    let flow = consumers.open(json("7")).unwrap();
    assert_eq!(pulls(&mut consumers), []);
    for value in ["1.50", "null", "[2]"] {
        assert_eq!(read(&mut consumers, flow), "-");
        assert_eq!(read(&mut consumers, flow), "-");
        let pulls_made = pulls(&mut consumers);
        assert_eq!(pulls_made.len(), 1);
        assert_eq!(pulls_made[0].consumer(), flow);
        assert_eq!(consumers.poll_ready(), None);
        item(&mut consumers, pulls_made[0], value);
        assert_eq!(consumers.poll_ready(), Some(flow));
        assert_eq!(consumers.poll_ready(), None);
        assert_eq!(read(&mut consumers, flow), value);
        assert_eq!(pulls(&mut consumers), []);
    }
    assert_eq!(consumers.pulls_open(), 0);
}

// FLO-03 FLO-06
#[test]
fn the_id_is_sent_back_as_the_peer_has_written_it() {
    let mut consumers = consumers();
    for id in ["1.0", "18446744073709551616", "-0", "12e1"] {
        let flow = consumers.open(json(id)).unwrap();
        assert_eq!(read(&mut consumers, flow), "-");
        let request = consumers.poll_request().unwrap();
        assert_eq!(request.params.as_str(), format!("[{id}]"));
        assert_eq!(
            consumers.name(request.method),
            "kotlinx.rpc.jsonrpc.internal.nextFlowValue"
        );
    }
    for no_id in [r#""1""#, "1.5", "null", "[1]", "{}", "true"] {
        assert_eq!(
            consumers.open(json(no_id)),
            Err(OpenFlowError::NoFlowId),
            "{no_id}"
        );
        consumers.decline(json(no_id));
    }
    assert_eq!(cancels(&mut consumers), [""; 0]);
    // However its id is written, a flow has one reader.
    assert_eq!(consumers.open(json("1")), Err(OpenFlowError::InUse));
    consumers.decline(json("1"));
    assert_eq!(cancels(&mut consumers), [""; 0]);
}

// FLO-10
#[test]
fn a_window_has_so_many_items_on_their_way_or_unread() {
    let mut consumers = consumers();
    let flow = open(&mut consumers, 3);
    assert_eq!(read(&mut consumers, flow), "-");
    let made = pulls(&mut consumers);
    assert_eq!(made.len(), 3);
    for (pull, value) in made.iter().zip(["0", "1", "2"]) {
        item(&mut consumers, *pull, value);
    }
    assert_eq!(pulls(&mut consumers), []);
    assert_eq!(read(&mut consumers, flow), "0");
    assert_eq!(pulls(&mut consumers), []);
    assert_eq!(read(&mut consumers, flow), "1");
    assert_eq!(pulls(&mut consumers).len(), 1);
    // A smaller window makes no pull until there is room in it.
    consumers.set_options(flow, PullOptions::default());
    assert_eq!(read(&mut consumers, flow), "2");
    assert_eq!(read(&mut consumers, flow), "-");
    assert_eq!(pulls(&mut consumers), []);
    // A window of zero is one of one.
    let flow = open_as(&mut consumers, "8", 0);
    assert_eq!(read(&mut consumers, flow), "-");
    assert_eq!(pulls(&mut consumers).len(), 1);
}

// FLO-10
#[test]
fn items_are_read_in_the_order_of_the_pulls_in_whatever_order_answers_come() {
    // All orders of four answers, of which the last pull's is the end.
    for order in 0..24 {
        let mut consumers = consumers();
        let flow = open(&mut consumers, 4);
        assert_eq!(read(&mut consumers, flow), "-");
        let mut left: Vec<(usize, Pull)> = pulls(&mut consumers).into_iter().enumerate().collect();
        let (mut rest, mut seen) = (order, Vec::new());
        for choices in (1..=4).rev() {
            let (number, pull) = left.remove(rest % choices);
            rest /= choices;
            match number {
                3 => error(&mut consumers, pull, -32001),
                _ => item(&mut consumers, pull, &number.to_string()),
            }
            // It is read as far as possible at once; no pull follows a known end.
            loop {
                let next = read(&mut consumers, flow);
                match &*next {
                    "-" | "end" => break,
                    _ => seen.push(next),
                }
            }
            let made = pulls(&mut consumers);
            if left.iter().all(|(number, _)| *number != 3) {
                assert_eq!(made, [], "order {order}");
            }
            left.extend(made.into_iter().map(|pull| (4, pull)));
            left.retain(|(number, _)| *number < 4);
        }
        assert_eq!(seen, ["0", "1", "2"], "order {order}");
        assert_eq!(read(&mut consumers, flow), "end");
    }
}

// FLO-07 FLO-10
#[test]
fn nothing_follows_the_end_in_the_order_of_the_pulls() {
    let mut consumers = consumers();
    let flow = open(&mut consumers, 4);
    assert_eq!(read(&mut consumers, flow), "-");
    let made = pulls(&mut consumers);
    item(&mut consumers, made[3], "3");
    error(&mut consumers, made[2], -32001);
    error(&mut consumers, made[1], 9);
    assert_eq!(consumers.poll_ready(), None);
    item(&mut consumers, made[0], "0");
    assert_eq!(consumers.poll_ready(), Some(flow));
    assert_eq!(read(&mut consumers, flow), "0");
    assert_eq!(read(&mut consumers, flow), "the flow failed: no (9)");
    assert_eq!(read(&mut consumers, flow), "end");
    assert_eq!(requests(&mut consumers), (Vec::new(), Vec::new()));
    assert_eq!((consumers.flows_open(), consumers.pulls_open()), (0, 0));
}

// FLO-07
#[test]
fn only_one_code_is_the_end_in_order() {
    let mut config = FlowConfig::new();
    for completion_code in [-32001, 4] {
        config.completion_code = completion_code;
        for code in [-32001, 4, -32000, -32602, -32601] {
            let mut consumers = Consumers::new(config);
            let flow = open(&mut consumers, 1);
            assert_eq!(read(&mut consumers, flow), "-");
            let made = pulls(&mut consumers);
            error(&mut consumers, made[0], code);
            let ended = match code == completion_code {
                true => "end".into(),
                false => format!("the flow failed: no ({code})"),
            };
            assert_eq!(read(&mut consumers, flow), ended);
            assert_eq!(requests(&mut consumers), (Vec::new(), Vec::new()));
            assert_eq!(consumers.flows_open(), 0);
        }
    }
}

// FLO-07 FLO-12
#[test]
fn a_flow_whose_pull_found_the_peer_busy_is_cancelled_there() {
    let mut consumers = consumers();
    let flow = open(&mut consumers, 3);
    assert_eq!(read(&mut consumers, flow), "-");
    let made = pulls(&mut consumers);
    error(&mut consumers, made[1], -32002);
    error(&mut consumers, made[2], -32002);
    assert_eq!(cancels(&mut consumers), ["[7]"]);
    item(&mut consumers, made[0], "0");
    assert_eq!(read(&mut consumers, flow), "0");
    assert_eq!(read(&mut consumers, flow), "the flow failed: no (-32002)");
    consumers.cancel(flow);
    assert_eq!(cancels(&mut consumers), [""; 0]);
}

// FLO-07 FLO-08
#[test]
fn a_flow_that_is_cancelled_here_has_not_ended_in_order() {
    let mut consumers = consumers();
    let consumer = open(&mut consumers, 3);
    assert_eq!(read(&mut consumers, consumer), "-");
    let pulls = pulls(&mut consumers);
    // The third pull finds the peer busy, so this end cancels the flow. By that the peer answers the pulls that
    // wait as completed, but not all items were read.
    error(&mut consumers, pulls[2], -32002);
    assert_eq!(cancels(&mut consumers), ["[7]"]);
    item(&mut consumers, pulls[0], "1");
    error(&mut consumers, pulls[1], -32001);
    assert_eq!(read(&mut consumers, consumer), "1");
    assert_eq!(
        read(&mut consumers, consumer),
        "the flow failed: no (-32002)"
    );
    assert_eq!(read(&mut consumers, consumer), "end");
}

// FLO-08
#[test]
fn a_reader_that_stops_in_mid_window_cancels_and_hears_no_more() {
    let mut consumers = consumers();
    let flow = open(&mut consumers, 4);
    assert_eq!(read(&mut consumers, flow), "-");
    let made = pulls(&mut consumers);
    item(&mut consumers, made[0], "0");
    item(&mut consumers, made[1], "1");
    assert_eq!(read(&mut consumers, flow), "0");
    consumers.cancel(flow);
    assert_eq!(consumers.poll_ready(), None);
    assert_eq!(cancels(&mut consumers), ["[7]"]);
    assert_eq!(read(&mut consumers, flow), "end");
    consumers.cancel(flow);
    assert_eq!(requests(&mut consumers), (Vec::new(), Vec::new()));
    // Its pulls are open until they are answered, and it counts as long.
    assert_eq!((consumers.flows_open(), consumers.pulls_open()), (1, 2));
    error(&mut consumers, made[2], -32001);
    assert_eq!((consumers.flows_open(), consumers.pulls_open()), (1, 1));
    item(&mut consumers, made[3], "3");
    assert_eq!((consumers.flows_open(), consumers.pulls_open()), (0, 0));
    item(&mut consumers, made[3], "3");
    assert_eq!(consumers.poll_ready(), None);
    assert_eq!((consumers.flows_open(), consumers.pulls_open()), (0, 0));
}

// FLO-08
#[test]
fn pulls_that_were_not_sent_are_not_sent_after_a_cancel() {
    let mut consumers = consumers();
    let (one, two) = (open(&mut consumers, 4), open_as(&mut consumers, "8", 2));
    assert_eq!(read(&mut consumers, one), "-");
    assert_eq!(read(&mut consumers, two), "-");
    consumers.cancel(one);
    let (made, cancelled) = requests(&mut consumers);
    assert_eq!(
        made.iter().map(Pull::consumer).collect::<Vec<_>>(),
        [two; 2]
    );
    assert_eq!(cancelled, ["[7]"]);
    assert_eq!((consumers.flows_open(), consumers.pulls_open()), (1, 2));
    // A flow that was never read is cancelled too, for the peer has it open.
    let three = open_as(&mut consumers, "9", 1);
    consumers.cancel(three);
    assert_eq!(cancels(&mut consumers), ["[9]"]);
}

// FLO-08
#[test]
fn a_flow_that_comes_when_nobody_wants_it_any_more_is_cancelled() {
    let mut consumers = consumers();
    consumers.decline(json("5"));
    let request = consumers.poll_request().unwrap();
    assert_eq!(
        consumers.name(request.method),
        "kotlinx.rpc.jsonrpc.internal.cancelFlow"
    );
    assert_eq!(request.params.as_str(), "[5]");
    assert_eq!(request.pull, None);
}

// FLO-08
#[test]
fn after_the_end_there_is_nothing_to_cancel() {
    let mut consumers = consumers();
    let flow = open(&mut consumers, 2);
    assert_eq!(read(&mut consumers, flow), "-");
    let made = pulls(&mut consumers);
    // The end is known, but the reader stops before it comes to it.
    error(&mut consumers, made[1], -32001);
    consumers.cancel(flow);
    assert_eq!(cancels(&mut consumers), [""; 0]);
    assert_eq!(consumers.flows_open(), 1);
    item(&mut consumers, made[0], "0");
    assert_eq!(consumers.flows_open(), 0);
}

/// A consumer of flow 7 whose pulls are to be answered within a second.
fn timed(consumers: &mut Consumers, window: usize) -> ConsumerId {
    let flow = open(consumers, window);
    let pull_timeout = Some(Duration::from_secs(1));
    let options = PullOptions {
        window,
        pull_timeout,
    };
    consumers.set_options(flow, options);
    flow
}

// FLO-11
#[test]
fn a_pull_without_an_answer_in_time_ends_the_flow_and_cancels_it() {
    let mut consumers = consumers();
    let flow = timed(&mut consumers, 3);
    consumers.handle_timeout(at(5000));
    assert_eq!(consumers.poll_timeout(), None);
    assert_eq!(read(&mut consumers, flow), "-");
    let made = pulls(&mut consumers);
    assert_eq!(consumers.poll_timeout(), Some(at(6000)));
    // Each answer shows that the producer is alive.
    consumers.handle_timeout(at(5900));
    item(&mut consumers, made[0], "0");
    assert_eq!(consumers.poll_timeout(), Some(at(6900)));
    item(&mut consumers, made[2], "2");
    consumers.handle_timeout(at(6899));
    assert_eq!(pulls(&mut consumers), []);
    consumers.handle_timeout(at(6900));
    assert_eq!(cancels(&mut consumers), ["[7]"]);
    assert_eq!(consumers.poll_ready(), Some(flow));
    assert_eq!(read(&mut consumers, flow), "0");
    let late = "no item of the flow came in time";
    assert_eq!(read(&mut consumers, flow), late);
    assert_eq!(read(&mut consumers, flow), "end");
    assert_eq!(consumers.poll_timeout(), None);
    assert_eq!((consumers.flows_open(), consumers.pulls_open()), (1, 1));
    item(&mut consumers, made[1], "1");
    assert_eq!((consumers.flows_open(), consumers.pulls_open()), (0, 0));
}

// FLO-11
#[test]
fn an_item_that_came_in_time_counts_before_the_time_is_judged() {
    let mut consumers = consumers();
    let flow = timed(&mut consumers, 1);
    assert_eq!(read(&mut consumers, flow), "-");
    let made = pulls(&mut consumers);
    consumers.handle_timeout(at(9000));
    item(&mut consumers, made[0], "0");
    assert_eq!(requests(&mut consumers), (Vec::new(), Vec::new()));
    assert_eq!(read(&mut consumers, flow), "0");
    // A reader that takes its time is not late: no pull is open.
    consumers.handle_timeout(at(90_000));
    assert_eq!(requests(&mut consumers), (Vec::new(), Vec::new()));
    assert_eq!(read(&mut consumers, flow), "-");
    assert_eq!(consumers.poll_timeout(), Some(at(91_000)));
}

// FLO-11
#[test]
fn a_pull_may_wait_for_ever_by_default() {
    let mut consumers = consumers();
    let flow = open(&mut consumers, 2);
    assert_eq!(read(&mut consumers, flow), "-");
    assert_eq!(pulls(&mut consumers).len(), 2);
    consumers.handle_timeout(at(u64::MAX));
    assert_eq!(consumers.poll_timeout(), None);
    assert_eq!(requests(&mut consumers), (Vec::new(), Vec::new()));
}

// FLO-11
#[test]
fn a_flow_that_ends_on_this_side_is_cancelled_once() {
    let ends = [
        (OwnedOutcome::TimedOut, "no item of the flow came in time"),
        (
            OwnedOutcome::Missing,
            "the connection ended before the flow",
        ),
        (OwnedOutcome::Unsent, "the connection ended before the flow"),
    ];
    for (outcome, why) in ends {
        let mut consumers = consumers();
        let flow = open(&mut consumers, 2);
        assert_eq!(read(&mut consumers, flow), "-");
        let made = pulls(&mut consumers);
        consumers.handle_answer(made[1], outcome.clone());
        assert_eq!(cancels(&mut consumers), ["[7]"]);
        consumers.handle_answer(made[0], outcome);
        assert_eq!(cancels(&mut consumers), [""; 0]);
        assert_eq!(read(&mut consumers, flow), why);
        assert_eq!(consumers.flows_open(), 0);
    }
}

// FLO-13
#[test]
fn a_connection_that_ends_ends_its_flows_behind_what_has_come() {
    let mut consumers = consumers();
    let (one, two) = (open(&mut consumers, 3), open_as(&mut consumers, "8", 1));
    let three = open_as(&mut consumers, "9", 2);
    for flow in [one, three] {
        assert_eq!(read(&mut consumers, flow), "-");
    }
    let made = pulls(&mut consumers);
    item(&mut consumers, made[0], "0");
    item(&mut consumers, made[2], "2");
    error(&mut consumers, made[3], -32001);
    consumers.cancel(three);
    consumers.handle_closed();
    assert_eq!(consumers.poll_ready(), Some(one));
    assert_eq!(consumers.poll_ready(), Some(two));
    assert_eq!(consumers.poll_ready(), None);
    let gone = "the connection ended before the flow";
    assert_eq!(read(&mut consumers, one), "0");
    assert_eq!(read(&mut consumers, one), gone);
    assert_eq!(read(&mut consumers, one), "end");
    consumers.handle_answer(made[1], OwnedOutcome::Aborted);
    assert_eq!(read(&mut consumers, two), gone);
    assert_eq!(requests(&mut consumers), (Vec::new(), Vec::new()));
    assert_eq!((consumers.flows_open(), consumers.pulls_open()), (0, 0));
    assert_eq!(consumers.open(json("3")), Err(OpenFlowError::Disconnected));
    consumers.decline(json("3"));
    assert_eq!(requests(&mut consumers), (Vec::new(), Vec::new()));
}

// FLO-13
#[test]
fn a_flow_that_had_ended_before_the_connection_has_ended_in_order() {
    let mut consumers = consumers();
    let flow = open(&mut consumers, 2);
    assert_eq!(read(&mut consumers, flow), "-");
    let made = pulls(&mut consumers);
    item(&mut consumers, made[0], "0");
    error(&mut consumers, made[1], -32001);
    consumers.handle_closed();
    assert_eq!(read(&mut consumers, flow), "0");
    assert_eq!(read(&mut consumers, flow), "end");
    let other = consumers.open(json("8"));
    assert_eq!(other, Err(OpenFlowError::Disconnected));
}

// FLO-12
#[test]
fn a_flow_beyond_the_limit_is_cancelled_at_the_peer() {
    let mut consumers = consumers();
    let flows: Vec<ConsumerId> = (0..64)
        .map(|id: u32| consumers.open(json(&id.to_string())).unwrap())
        .collect();
    assert_eq!(consumers.open(json("64")), Err(OpenFlowError::TooManyFlows));
    assert_eq!(cancels(&mut consumers), ["[64]"]);
    // A flow whose pull is never answered counts on after its reader has left.
    assert_eq!(read(&mut consumers, flows[3]), "-");
    let made = pulls(&mut consumers);
    consumers.cancel(flows[3]);
    assert_eq!(cancels(&mut consumers), ["[3]"]);
    assert_eq!(consumers.open(json("65")), Err(OpenFlowError::TooManyFlows));
    assert_eq!(cancels(&mut consumers), ["[65]"]);
    error(&mut consumers, made[0], -32001);
    assert!(consumers.open(json("66")).is_ok());
}

// FLO-10 FLO-12
#[test]
fn many_wide_windows_share_the_open_pulls_and_none_waits_for_another() {
    let mut consumers = consumers();
    let flows: Vec<ConsumerId> = (0..64)
        .map(|id: u32| open_as(&mut consumers, &id.to_string(), 1000))
        .collect();
    for flow in &flows {
        assert_eq!(read(&mut consumers, *flow), "-");
    }
    let made = pulls(&mut consumers);
    let of = |flow: ConsumerId| made.iter().filter(|pull| pull.consumer() == flow).count();
    assert_eq!(of(flows[0]), 448);
    assert!(flows[1..].iter().all(|flow| of(*flow) == 1));
    assert!(made.len() <= 512, "{}", made.len());
    assert_eq!(consumers.pulls_open(), made.len());
    // What one does not need any more, others get.
    for pull in made.iter().filter(|pull| pull.consumer() == flows[0]) {
        item(&mut consumers, *pull, "0");
    }
    assert_eq!(read(&mut consumers, flows[1]), "-");
    assert!(pulls(&mut consumers).len() > 100);
    assert!(consumers.pulls_open() <= 512);
}

// FLO-10
#[test]
fn a_call_that_cannot_be_made_now_is_made_later_in_its_turn() {
    let mut consumers = consumers();
    let flow = open(&mut consumers, 2);
    assert_eq!(read(&mut consumers, flow), "-");
    let first = consumers.poll_request().unwrap();
    consumers.put_back(first.clone());
    assert_eq!(consumers.poll_request(), Some(first.clone()));
    // A call that is put back although its flow has no reader any more does no harm.
    let second = consumers.poll_request().unwrap();
    error(&mut consumers, first.pull.unwrap(), -32001);
    assert_eq!(read(&mut consumers, flow), "end");
    consumers.put_back(second.clone());
    assert_eq!(consumers.poll_request(), Some(second.clone()));
    assert_eq!((consumers.flows_open(), consumers.pulls_open()), (1, 1));
    error(&mut consumers, second.pull.unwrap(), -32001);
    assert_eq!((consumers.flows_open(), consumers.pulls_open()), (0, 0));
}

// FLO-07 FLO-11
#[test]
fn pulls_that_were_not_sent_are_not_sent_after_the_end() {
    let mut consumers = consumers();
    let flow = timed(&mut consumers, 3);
    assert_eq!(read(&mut consumers, flow), "-");
    let first = consumers.poll_request().unwrap();
    error(&mut consumers, first.pull.unwrap(), -32001);
    assert_eq!(consumers.poll_request(), None);
    assert_eq!(consumers.pulls_open(), 0);
    assert_eq!(read(&mut consumers, flow), "end");
    // The flow ends by its timeout while two pulls wait to be sent.
    let flow = timed(&mut consumers, 3);
    assert_eq!(read(&mut consumers, flow), "-");
    consumers.poll_request().unwrap();
    consumers.handle_timeout(at(1000));
    assert_eq!(cancels(&mut consumers), ["[7]"]);
    assert_eq!(consumers.pulls_open(), 1);
}

#[test]
fn errors_say_in_words_what_happened() {
    let texts = [
        OpenFlowError::NoFlowId,
        OpenFlowError::TooManyFlows,
        OpenFlowError::InUse,
        OpenFlowError::Disconnected,
    ]
    .map(|error| error.to_string());
    assert_eq!(
        texts,
        [
            "the value is no id of a flow",
            "too many flows are open",
            "the flow has a consumer already",
            "the connection has ended",
        ]
    );
}
