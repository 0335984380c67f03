//! One flow between the two machines, in which everything happens in random order.

use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::task::Poll;

use super::json;
use crate::flow::{
    Consumers, FlowConfig, FlowError, FlowMethod, FlowRequest, Producers, Pull, PullOptions,
};
use crate::{OwnedError, OwnedJson, OwnedOutcome};

/// A generator of random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

/// What a pull or a cancel is answered.
type Answer = (Option<Pull>, Result<OwnedJson, OwnedError>);

struct Run {
    random: Random,
    producers: Producers<Option<Pull>>,
    consumers: Consumers,
    /// Requests arrive in their order, answers in any.
    requests: VecDeque<FlowRequest>,
    answers: Vec<Answer>,
}

impl Run {
    fn send_requests(&mut self) {
        self.requests.extend(self.consumers.poll_request());
    }

    fn take_request(&mut self) {
        let Some(request) = self.requests.pop_front() else {
            return;
        };
        let name = FlowConfig::new().name(request.method);
        let params = Some(request.params.as_json());
        let handled = self.producers.handle_request(&name, params, request.pull);
        assert!(handled.is_ok());
        self.take_refusals();
        assert_eq!(request.method == FlowMethod::Cancel, request.pull.is_none());
    }

    fn take_refusals(&mut self) {
        while let Some(answer) = self.producers.poll_answer() {
            let null = OwnedJson::from_value(&()).unwrap();
            self.answers.push((answer.to, answer.reply.map(|()| null)));
        }
    }

    /// Passes on one of the answers, if there are any.
    fn deliver(&mut self) {
        if self.answers.is_empty() {
            return;
        }
        let number = self.random.below(self.answers.len());
        let (pull, answer) = self.answers.swap_remove(number);
        let Some(pull) = pull else {
            return;
        };
        let outcome = match answer {
            Ok(item) => OwnedOutcome::Ok(item),
            Err(error) => OwnedOutcome::Err(error),
        };
        self.consumers.handle_answer(pull, outcome);
    }
}

/// Runs a flow of some items, which then ends or fails, and whose reader may stop before. Returns whether
/// it did.
fn run(seed: u64) -> bool {
    let mut random = Random(seed);
    let (items, fails) = (random.below(40), random.below(3) == 0);
    let window = 1 + random.below(12);
    let stops_after = random.below(80);
    let (mut producers, mut consumers) = (
        Producers::new(FlowConfig::new()),
        Consumers::new(FlowConfig::new()),
    );
    let flow = producers.open().unwrap();
    let consumer = consumers.open(json(&flow.to_string())).unwrap();
    let options = PullOptions {
        window,
        ..PullOptions::default()
    };
    consumers.set_options(consumer, options);
    let mut run = Run {
        random,
        producers,
        consumers,
        requests: VecDeque::new(),
        answers: Vec::new(),
    };
    let (mut produced, mut seen, mut ended, mut stopped) = (0, 0, None, false);
    for _ in 0..100_000 {
        match run.random.below(5) {
            0 if ended.is_none() && !stopped && seen == stops_after => {
                run.consumers.cancel(consumer);
                stopped = true;
            }
            0 if !stopped => match run.consumers.poll_item(consumer) {
                Poll::Pending => {}
                Poll::Ready(Some(Ok(item))) => {
                    assert_eq!(item.as_str(), seen.to_string(), "seed {seed}");
                    seen += 1;
                }
                Poll::Ready(end) => ended = ended.or(Some(end)),
            },
            1 => run.send_requests(),
            2 => run.take_request(),
            3 if produced < items => {
                if let Some(pull) = run.producers.next_pull(flow) {
                    let item = OwnedJson::from_value(&produced).unwrap();
                    run.answers.push((pull, Ok(item)));
                    produced += 1;
                }
            }
            3 => {
                match fails {
                    true => run.producers.fail(flow, OwnedError::new(9, "no")),
                    false => run.producers.end(flow),
                }
                run.take_refusals();
            }
            _ => run.deliver(),
        }
        assert!(run.consumers.pulls_open() <= window, "seed {seed}");
        let is_quiet = run.requests.is_empty() && run.answers.is_empty();
        if is_quiet && (ended.is_some() || stopped) && run.consumers.pulls_open() == 0 {
            break;
        }
    }
    // A cancel may not have left yet.
    run.send_requests();
    run.take_request();
    match ended {
        _ if stopped => assert_eq!(seen, stops_after, "seed {seed}"),
        Some(None) => assert_eq!((seen, fails), (items, false), "seed {seed}"),
        Some(Some(Err(FlowError::Failed(error)))) => {
            assert_eq!((seen, fails, error.code()), (items, true, 9), "seed {seed}");
        }
        other => panic!("seed {seed}: {other:?}"),
    }
    assert_eq!(run.producers.flows_open(), 0, "seed {seed}");
    assert_eq!(run.consumers.flows_open(), 0, "seed {seed}");
    stopped
}

// FLO-07 FLO-08 FLO-10
#[test]
fn whatever_happens_in_whatever_order_no_item_is_lost_and_nothing_stays_open() {
    let stopped = (0..2000).filter(|seed| run(*seed)).count();
    assert!((200..1800).contains(&stopped), "{stopped} stopped early");
}
