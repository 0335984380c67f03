//! The producing side alone; numbers stand for the rights to answer.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::time::Duration;

use super::{at, json};
use crate::flow::{FlowConfig, FlowId, FlowMethod, Handled, Producers, TooManyFlows};
use crate::{CallId, OwnedError};

fn producers() -> Producers<u32> {
    Producers::new(FlowConfig::new())
}

fn request(
    producers: &mut Producers<u32>,
    method: FlowMethod,
    params: &str,
    to: u32,
) -> Result<Handled, u32> {
    let name = FlowConfig::new().name(method);
    producers.handle_request(&name, Some(json(params)), to)
}

fn pull(producers: &mut Producers<u32>, flow: FlowId, to: u32) -> Handled {
    request(producers, FlowMethod::Next, &format!("[{flow}]"), to).unwrap()
}

fn cancel(producers: &mut Producers<u32>, params: &str, to: u32) -> Handled {
    request(producers, FlowMethod::Cancel, params, to).unwrap()
}

/// All answers: the right to answer, and null or a code.
fn answers(producers: &mut Producers<u32>) -> Vec<(u32, String)> {
    let mut all = Vec::new();
    while let Some(answer) = producers.poll_answer() {
        let reply = match answer.reply {
            Ok(()) => "null".into(),
            Err(error) => error.code().to_string(),
        };
        all.push((answer.to, reply));
    }
    all
}

fn told(answers: &[(u32, &str)]) -> Vec<(u32, String)> {
    let own = answers.iter().map(|(to, reply)| (*to, reply.to_string()));
    own.collect()
}

// FLO-03
#[test]
fn ids_count_up_and_are_never_used_again() {
    let mut producers = producers();
    let first = producers.open().unwrap();
    assert_eq!(first.number(), 1);
    producers.close(first);
    let second = producers.open().unwrap();
    assert_eq!(second.to_string(), "2");
    assert_eq!(crate::OwnedJson::from_value(&second).unwrap().as_str(), "2");
}

// FLO-06 FLO-10
#[test]
fn items_go_to_the_pulls_in_the_order_in_which_these_came() {
    let mut producers = producers();
    let (one, two) = (producers.open().unwrap(), producers.open().unwrap());
    for (flow, to) in [(one, 10), (two, 20), (one, 11), (one, 12)] {
        assert_eq!(pull(&mut producers, flow, to), Handled::Pulled(flow));
    }
    assert_eq!(producers.pulls_waiting(one), 3);
    assert_eq!(producers.next_pull(one), Some(10));
    assert_eq!(producers.next_pull(one), Some(11));
    assert_eq!(producers.next_pull(two), Some(20));
    assert_eq!(producers.next_pull(two), None);
    assert_eq!(producers.next_pull(one), Some(12));
    assert_eq!(producers.pulls_waiting(one), 0);
    assert_eq!(answers(&mut producers), []);
}

// FLO-07
#[test]
fn the_end_is_told_to_all_pulls_that_wait() {
    let mut producers = producers();
    let flow = producers.open().unwrap();
    pull(&mut producers, flow, 1);
    pull(&mut producers, flow, 2);
    producers.end(flow);
    assert_eq!(
        answers(&mut producers),
        told(&[(1, "-32001"), (2, "-32001")])
    );
    assert_eq!(producers.flows_open(), 0);
    // Pulls of the same window that come later are told too, and never that the flow is unknown.
    assert_eq!(pull(&mut producers, flow, 3), Handled::Answered);
    assert_eq!(answers(&mut producers), told(&[(3, "-32001")]));
}

// FLO-07
#[test]
fn the_end_is_told_to_the_next_pull_if_none_waits() {
    let mut producers = producers();
    let flow = producers.open().unwrap();
    producers.end(flow);
    assert_eq!(answers(&mut producers), []);
    assert_eq!(producers.flows_open(), 1);
    producers.fail(flow, OwnedError::new(5, "too late"));
    for to in 1..4 {
        assert_eq!(pull(&mut producers, flow, to), Handled::Answered);
        assert_eq!(answers(&mut producers), told(&[(to, "-32001")]));
        assert_eq!(producers.flows_open(), 0);
    }
}

// FLO-07
#[test]
fn a_failure_is_told_with_its_error_and_then_the_flow_is_unknown() {
    let mut producers = producers();
    let (one, two) = (producers.open().unwrap(), producers.open().unwrap());
    pull(&mut producers, one, 1);
    producers.fail(one, OwnedError::new(7, "no more disk"));
    producers.fail(two, OwnedError::new(8, "no more time"));
    assert_eq!(answers(&mut producers), told(&[(1, "7")]));
    for (flow, to) in [(two, 2), (two, 3), (one, 4)] {
        assert_eq!(pull(&mut producers, flow, to), Handled::Answered);
    }
    let wanted = told(&[(2, "8"), (3, "-32602"), (4, "-32602")]);
    assert_eq!(answers(&mut producers), wanted);
}

// FLO-07
#[test]
fn a_producer_that_fails_with_the_code_of_the_end_does_not_look_complete() {
    let mut producers = producers();
    let flow = producers.open().unwrap();
    pull(&mut producers, flow, 1);
    let error = OwnedError::new(-32001, "upstream cancelled");
    producers.fail(flow, error.with_data(&7).unwrap());
    let answer = producers.poll_answer().unwrap();
    let Err(error) = answer.reply else {
        panic!("the pull failed");
    };
    assert_eq!(
        (error.code(), error.message()),
        (-32000, "upstream cancelled")
    );
    assert_eq!(error.as_error().data(), Some(json("7")));
    // Without data as well.
    let flow = producers.open().unwrap();
    producers.fail(flow, OwnedError::new(-32001, "cancelled"));
    pull(&mut producers, flow, 2);
    assert_eq!(answers(&mut producers), told(&[(2, "-32000")]));
    // With a code of its own for the end, −32001 is an error like others.
    let mut config = FlowConfig::new();
    config.completion_code = 1;
    let mut producers = Producers::new(config);
    let flow = producers.open().unwrap();
    pull(&mut producers, flow, 3);
    producers.fail(flow, OwnedError::new(-32001, "cancelled"));
    let flow = producers.open().unwrap();
    producers.end(flow);
    pull(&mut producers, flow, 4);
    assert_eq!(answers(&mut producers), told(&[(3, "-32001"), (4, "1")]));
}

// FLO-08
#[test]
fn a_cancel_ends_the_pulls_that_wait_and_is_answered_null_however_often() {
    let mut producers = producers();
    let flow = producers.open().unwrap();
    pull(&mut producers, flow, 1);
    pull(&mut producers, flow, 2);
    assert_eq!(cancel(&mut producers, "[1.0]", 3), Handled::Cancelled(flow));
    let wanted = told(&[(1, "-32001"), (2, "-32001"), (3, "null")]);
    assert_eq!(answers(&mut producers), wanted);
    assert_eq!(producers.next_pull(flow), None);
    for params in ["[1]", r#"{"flow":1}"#, "[99]", "[-1]", "[0]", "[1e40]"] {
        let handled = cancel(&mut producers, params, 4);
        // The last one is an integer of 41 digits, which does not fit 128 bits.
        let reply = if params == "[1e40]" { "-32602" } else { "null" };
        assert_eq!(handled, Handled::Answered, "{params}");
        assert_eq!(answers(&mut producers), told(&[(4, reply)]), "{params}");
    }
    // What produces the flow may notice late: nothing happens.
    producers.end(flow);
    producers.fail(flow, OwnedError::new(1, "late"));
    assert_eq!(answers(&mut producers), []);
    // A pull that comes after the cancel finds no flow.
    pull(&mut producers, flow, 5);
    assert_eq!(answers(&mut producers), told(&[(5, "-32602")]));
}

// FLO-08
#[test]
fn a_flow_whose_end_was_not_told_can_be_cancelled() {
    let mut producers = producers();
    let flow = producers.open().unwrap();
    producers.end(flow);
    assert_eq!(cancel(&mut producers, "[1]", 1), Handled::Cancelled(flow));
    assert_eq!(answers(&mut producers), told(&[(1, "null")]));
    assert_eq!(producers.flows_open(), 0);
}

// FLO-06 FLO-08 FLO-13
#[test]
fn params_without_the_id_of_a_flow_are_invalid() {
    let mut producers = producers();
    producers.open().unwrap();
    for params in ["[]", "[1,1]", r#"["1"]"#, "[1.5]", "{}", "[null]"] {
        for method in [FlowMethod::Next, FlowMethod::Cancel] {
            let handled = request(&mut producers, method, params, 1);
            assert_eq!(handled, Ok(Handled::Answered), "{params}");
            assert_eq!(answers(&mut producers), told(&[(1, "-32602")]), "{params}");
        }
    }
    for params in ["[2]", "[0]", "[-1]", "[18446744073709551617]"] {
        let handled = request(&mut producers, FlowMethod::Next, params, 1);
        assert_eq!(handled, Ok(Handled::Answered), "{params}");
        assert_eq!(answers(&mut producers), told(&[(1, "-32602")]), "{params}");
    }
    let name = FlowConfig::new().name(FlowMethod::Next);
    assert_eq!(
        producers.handle_request(&name, None, 2),
        Ok(Handled::Answered)
    );
    assert_eq!(answers(&mut producers), told(&[(2, "-32602")]));
    assert_eq!(producers.flows_open(), 1);
}

// FLO-02
#[test]
fn other_methods_are_not_for_flows() {
    let mut producers = producers();
    assert_eq!(
        producers.handle_request("add", Some(json("[1]")), 3),
        Err(3)
    );
    assert_eq!(answers(&mut producers), []);
}

// FLO-12
#[test]
fn the_sixty_fifth_flow_is_not_opened_until_another_has_ended() {
    let mut producers = producers();
    let flows: Vec<FlowId> = (0..64).map(|_| producers.open().unwrap()).collect();
    assert_eq!(producers.open(), Err(TooManyFlows));
    producers.end(flows[9]);
    assert_eq!(producers.open(), Err(TooManyFlows));
    pull(&mut producers, flows[9], 1);
    assert_eq!(producers.open().map(FlowId::number), Ok(65));
    assert_eq!(TooManyFlows.to_string(), "too many flows are open");
}

// FLO-12
#[test]
fn a_pull_beyond_the_limit_is_answered_busy_and_its_flow_goes_on() {
    let mut producers = producers();
    let (one, two) = (producers.open().unwrap(), producers.open().unwrap());
    for to in 0..512 {
        assert_eq!(pull(&mut producers, one, to), Handled::Pulled(one));
    }
    assert_eq!(pull(&mut producers, two, 900), Handled::Answered);
    assert_eq!(answers(&mut producers), told(&[(900, "-32002")]));
    assert_eq!(producers.next_pull(one), Some(0));
    assert_eq!(pull(&mut producers, two, 901), Handled::Pulled(two));
    // An end, a cancel of a pull and a cancelled flow give their places back too.
    assert!(producers.cancel_pull(|to| *to == 5));
    producers.end(one);
    answers(&mut producers);
    for to in 0..511 {
        assert_eq!(pull(&mut producers, two, to), Handled::Pulled(two));
    }
    assert_eq!(pull(&mut producers, two, 902), Handled::Answered);
    producers.close(two);
    let three = producers.open().unwrap();
    for to in 0..512 {
        assert_eq!(pull(&mut producers, three, to), Handled::Pulled(three));
    }
}

// FLO-07
#[test]
fn a_pull_that_is_cancelled_as_a_request_loses_no_item() {
    let mut producers = producers();
    let flow = producers.open().unwrap();
    for to in 1..4 {
        pull(&mut producers, flow, to);
    }
    assert!(producers.cancel_pull(|to| *to == 1));
    assert!(!producers.cancel_pull(|to| *to == 1));
    assert_eq!(answers(&mut producers), told(&[(1, "-32000")]));
    assert_eq!(producers.next_pull(flow), Some(2));
    assert_eq!(producers.next_pull(flow), Some(3));
    producers.end(flow);
    assert!(!producers.cancel_pull(|_| true));
}

// FLO-07 FLO-09
#[test]
fn a_flow_in_the_params_of_a_call_ends_with_it_and_does_not_look_complete() {
    let mut producers = producers();
    let flows: Vec<FlowId> = (0..3).map(|_| producers.open().unwrap()).collect();
    let (first, second) = (CallId::new(0, 1), CallId::new(0, 2));
    producers.attach(flows[0], first);
    producers.attach(flows[1], second);
    producers.attach(FlowId(99), first);
    for (flow, to) in [(flows[0], 1), (flows[1], 2), (flows[2], 3)] {
        pull(&mut producers, flow, to);
    }
    assert_eq!(producers.handle_call_end(first), [flows[0]]);
    assert_eq!(answers(&mut producers), told(&[(1, "-32000")]));
    assert_eq!(producers.handle_call_end(first), []);
    assert_eq!(producers.flows_open(), 2);
    pull(&mut producers, flows[0], 4);
    assert_eq!(answers(&mut producers), told(&[(4, "-32602")]));
}

// FLO-13
#[test]
fn all_flows_end_with_the_connection() {
    let mut producers = producers();
    let flows: Vec<FlowId> = (0..3).map(|_| producers.open().unwrap()).collect();
    pull(&mut producers, flows[1], 1);
    producers.end(flows[2]);
    assert_eq!(producers.close_all(), flows);
    assert_eq!(answers(&mut producers), told(&[(1, "-32000")]));
    assert_eq!(producers.close_all(), []);
    assert_eq!(producers.flows_open(), 0);
}

// FLO-12
#[test]
fn a_flow_that_nobody_pulls_is_given_up_if_that_is_wanted() {
    let mut config = FlowConfig::new();
    config.idle_timeout = Some(Duration::from_secs(1));
    let mut producers = Producers::new(config);
    producers.handle_timeout(at(500));
    let (one, two) = (producers.open().unwrap(), producers.open().unwrap());
    assert_eq!(producers.poll_timeout(), Some(at(1500)));
    producers.handle_timeout(at(1400));
    assert_eq!(producers.poll_idle(), None);
    // A flow that has a pull waiting is not idle, however long its producer takes.
    pull(&mut producers, one, 1);
    producers.handle_timeout(at(1500));
    assert_eq!(producers.poll_idle(), Some(two));
    assert_eq!(producers.poll_idle(), None);
    assert_eq!(producers.poll_timeout(), None);
    producers.handle_timeout(at(9000));
    assert_eq!(producers.next_pull(one), Some(1));
    assert_eq!(producers.poll_timeout(), Some(at(10_000)));
    // An end that nobody fetches is forgotten too, and is no end in order then.
    producers.handle_timeout(at(9500));
    producers.end(one);
    assert_eq!(producers.poll_timeout(), Some(at(10_500)));
    producers.handle_timeout(at(10_500));
    assert_eq!(producers.poll_idle(), Some(one));
    for (flow, to) in [(one, 2), (two, 3)] {
        pull(&mut producers, flow, to);
    }
    let wanted = told(&[(2, "-32602"), (3, "-32602")]);
    assert_eq!(answers(&mut producers), wanted);
    // A cancelled pull leaves its flow idle from then on.
    let three = producers.open().unwrap();
    pull(&mut producers, three, 4);
    producers.handle_timeout(at(20_000));
    assert!(producers.cancel_pull(|to| *to == 4));
    assert_eq!(producers.poll_timeout(), Some(at(21_000)));
}

// FLO-12
#[test]
fn no_flow_is_given_up_by_default() {
    let mut producers = producers();
    producers.open().unwrap();
    producers.handle_timeout(at(u64::MAX));
    assert_eq!(producers.poll_idle(), None);
    assert_eq!(producers.poll_timeout(), None);
}

// FLO-07
#[test]
fn as_many_ends_are_remembered_as_flows_may_be_open() {
    let mut config = FlowConfig::new();
    config.max_flows = 2;
    let mut producers = Producers::new(config);
    let mut flows = vec![];
    for _ in 0..3 {
        let flow = producers.open().unwrap();
        pull(&mut producers, flow, 0);
        producers.end(flow);
        flows.push(flow);
    }
    answers(&mut producers);
    for (flow, code) in flows.into_iter().zip(["-32602", "-32001", "-32001"]) {
        pull(&mut producers, flow, 1);
        assert_eq!(answers(&mut producers), told(&[(1, code)]));
    }
}
