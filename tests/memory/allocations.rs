//! In steady state nothing is allocated: not for a call and its reply, not for a request and its
//! reply, in any framing, under any spelling of ids, with large params, in batches, cancelled,
//! timed out or refused.
//!
//! Every conversation is warmed up and then watched for 10 000 rounds by an allocator that counts
//! per thread. The last test adds one copy to each round and shows that it is counted.

use std::cell::RefCell;
use std::io::Write;

use antiphon::service::LocalRouter;
use antiphon::{
    CancelStyle, Config, Connection, ErrorObject, Event, Framing, IdScheme, Input, Instant, Json,
    McpRevision, Outcome, OwnedError, Role,
};
use antiphon_test_support::heap::allocations as allocations_of_thread;

const WARM_UP: u64 = 300;
const ROUNDS: u64 = 10_000;

const FRAMINGS: [Framing; 5] = [
    Framing::Newline,
    Framing::ContentLength,
    Framing::Concatenated,
    Framing::Detect,
    Framing::Messages,
];
const ROLES: [Role; 3] = [Role::Peer, Role::Client, Role::Server];
const UUID: IdScheme = IdScheme::Uuid([7, 1, 2, 3, 4, 5, 6, 7, 8, 9]);

/// A connection and the buffers of its driver, which are as large as they will ever be.
struct Side {
    conn: Connection<u64>,
    /// One body from the peer.
    body: Vec<u8>,
    /// `body` with its framing.
    wire: Vec<u8>,
    output: Vec<u8>,
    /// Params of more than 16 KiB.
    large: String,
    /// The present, in milliseconds.
    now: u64,
}

impl Side {
    fn new(config: Config) -> Self {
        Self {
            conn: Connection::new(config),
            body: Vec::with_capacity(64 << 10),
            wire: Vec::with_capacity(64 << 10),
            output: Vec::with_capacity(64 << 10),
            large: format!(
                "[\"{}\",1.5e300]",
                "sixteen KiB of text, \\u00e9 and é. ".repeat(520)
            ),
            now: 1,
        }
    }

    /// Frames `body` and shows it; `handle` gets every event.
    fn receive(&mut self, mut handle: impl FnMut(&mut Connection<u64>, Event<'_, u64>)) {
        self.wire.clear();
        let framing = self.conn.config().framing;
        match framing {
            Framing::ContentLength => {
                write!(self.wire, "Content-Length: {}\r\n\r\n", self.body.len())
                    .expect("a vector takes all");
                self.wire.extend_from_slice(&self.body);
            }
            Framing::Messages => self.wire.extend_from_slice(&self.body),
            _ => {
                self.wire.extend_from_slice(&self.body);
                self.wire.push(b'\n');
            }
        }
        let mut input = match framing {
            Framing::Messages => Input::message(&self.wire),
            _ => Input::stream(&self.wire),
        };
        while let Some(event) = self.conn.poll_event(&mut input) {
            handle(&mut self.conn, event);
        }
        assert_eq!(input.consumed(), self.wire.len());
    }

    /// Moves everything that waits to `output`: with `take_transmit` if an even number of bytes has
    /// left so far, else by copying.
    fn transmit(&mut self) {
        self.output.clear();
        if self.conn.transmit_done() % 2 == 0 {
            while self.conn.take_transmit(&mut self.output) {}
        }
        while let Some(shown) = self.conn.poll_transmit() {
            self.output.extend_from_slice(shown);
            let n = shown.len();
            self.conn.consume_transmit(n);
        }
    }

    fn set_body(&mut self, parts: &[&[u8]]) {
        self.body.clear();
        parts
            .iter()
            .for_each(|part| self.body.extend_from_slice(part));
    }
}

/// The ids in an output, in order.
fn ids(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    const MARK: &[u8] = b"\"id\":";
    let mut rest = output;
    std::iter::from_fn(move || {
        let at = rest.windows(MARK.len()).position(|window| window == MARK)?;
        rest = &rest[at + MARK.len()..];
        let end = rest.iter().position(|byte| b",}".contains(byte))?;
        Some(&rest[..end])
    })
}

/// The id at the end of a single message. Looking for it from the front would take longer than
/// everything that is watched.
fn last_id(output: &[u8]) -> &[u8] {
    // No id here has more than 200 bytes.
    let from = output.len().saturating_sub(300);
    let id = ids(&output[from..]).last();
    id.expect("a request or reply ends with its id")
}

/// Runs a conversation and gives the allocations of its last 10 000 rounds.
fn allocations(config: Config, mut round: impl FnMut(&mut Side)) -> u64 {
    let mut config = config;
    // Numbers of one length, or messages would still be growing when they are watched.
    config.first_call = 1_000_000_000;
    let mut side = Side::new(config);
    (0..WARM_UP).for_each(|_| round(&mut side));
    let before = allocations_of_thread();
    (0..ROUNDS).for_each(|_| round(&mut side));
    let counted = allocations_of_thread() - before;
    assert_eq!(side.conn.calls_open() + side.conn.requests_open(), 0);
    counted
}

/// Runs a conversation in every framing and every role, and wants no allocation.
fn everywhere(change: impl Fn(&mut Config), round: impl Fn(&mut Side)) {
    for framing in FRAMINGS {
        for role in ROLES {
            let mut config = Config::new().framing(framing).role(role);
            change(&mut config);
            let counted = allocations(config, &round);
            assert_eq!(counted, 0, "{framing:?} {role:?}");
        }
    }
}

fn call_and_reply(side: &mut Side) {
    side.conn
        .call("sum", &(1, "two", [3.5]), None, 9)
        .expect("there is room");
    side.transmit();
    side.body.clear();
    side.body
        .extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"result\":[1,{\"a\":null}],\"id\":");
    let id = last_id(&side.output);
    side.body.extend_from_slice(id);
    side.body.push(b'}');
    let mut settled = 0;
    side.receive(|_, event| {
        let Event::Response(response) = event else {
            panic!("{event:?}")
        };
        assert!(response.tag == 9 && response.outcome.is_ok());
        settled += 1;
    });
    assert_eq!(settled, 1);
}

fn request_and_reply(side: &mut Side, id: &str) {
    side.set_body(&[
        b"{\"jsonrpc\":\"2.0\",\"method\":\"sum\",\"params\":{\"a\":[1,2]},\"id\":",
        id.as_bytes(),
        b"}",
    ]);
    side.receive(|conn, event| {
        let Event::Request(request) = event else {
            panic!("{event:?}")
        };
        conn.respond(request.token, request.params)
            .expect("it is open");
    });
    side.transmit();
    assert_eq!(last_id(&side.output), id.as_bytes());
}

// ARC-10
#[test]
fn a_new_connection_allocates_nothing() {
    let before = allocations_of_thread();
    let conn: Connection<String> = Connection::new(Config::lsp());
    assert_eq!(allocations_of_thread() - before, 0);
    drop(conn);
}

// ARC-10
#[test]
fn a_call_and_its_reply_allocate_nothing_under_numbers() {
    everywhere(|_| {}, call_and_reply);
}

// ARC-10 CLI-04
#[test]
fn a_call_and_its_reply_allocate_nothing_under_prefixed_ids() {
    everywhere(
        |config| config.dialect.id_scheme = IdScheme::Prefixed("client-"),
        call_and_reply,
    );
}

// ARC-10 CLI-04
#[test]
fn a_call_and_its_reply_allocate_nothing_under_uuids() {
    everywhere(|config| config.dialect.id_scheme = UUID, call_and_reply);
}

// ARC-10 SRV-01
#[test]
fn a_request_that_a_router_serves_allocates_nothing_of_its_own() {
    let router = || {
        LocalRouter::new()
            .method("add", ["a", "b"], |a: f64, b: f64| {
                Ok::<_, OwnedError>(a + b)
            })
            .method("nothing", [], || ())
    };
    for params in [
        r#""nothing""#,
        r#""add","params":[1,2]"#,
        r#""add","params":{"b":1,"a":2}"#,
    ] {
        everywhere(
            |_| {},
            |side| {
                thread_local! {
                    static ROUTER: RefCell<Option<LocalRouter>> = const { RefCell::new(None) };
                }
                side.body.clear();
                write!(side.body, r#"{{"jsonrpc":"2.0","method":{params},"id":7}}"#)
                    .expect("a vector takes all");
                side.receive(|conn, event| {
                    let Event::Request(request) = event else {
                        panic!("{event:?}")
                    };
                    ROUTER.with_borrow_mut(|kept| {
                        let router = kept.get_or_insert_with(router);
                        router.respond(conn, request).expect("it is served");
                    });
                });
                side.transmit();
            },
        );
    }
}

// ARC-10
#[test]
fn a_request_and_its_reply_allocate_nothing_whatever_its_id() {
    let long = format!("\"{}\"", "x".repeat(198));
    for id in [
        "7",
        "\"a\"",
        "\"123e4567-e89b-42d3-a456-426614174000\"",
        &long,
    ] {
        everywhere(|_| {}, |side| request_and_reply(side, id));
    }
}

// ARC-10
#[test]
fn sixteen_kibibytes_of_params_cost_no_allocation_either_way() {
    for framing in FRAMINGS {
        let config = Config::new().framing(framing);
        let counted = allocations(config, |side| {
            let large = std::mem::take(&mut side.large);
            let params = Json::parse_str(&large).expect("it is JSON");
            assert!(params.len() > 16 << 10);
            side.conn
                .call("store", params, None, 9)
                .expect("there is room");
            side.transmit();
            let id = last_id(&side.output);
            // The peer's answer and its request come as one batch, each with as large a value.
            side.body.clear();
            side.body
                .extend_from_slice(b"[{\"jsonrpc\":\"2.0\",\"result\":");
            side.body.extend_from_slice(large.as_bytes());
            side.body.extend_from_slice(b",\"id\":");
            side.body.extend_from_slice(id);
            side.body
                .extend_from_slice(b"},{\"jsonrpc\":\"2.0\",\"method\":\"store\",\"params\":");
            side.body.extend_from_slice(large.as_bytes());
            side.body.extend_from_slice(b",\"id\":\"r\"}]");
            side.receive(|conn, event| match event {
                Event::Response(response) => assert!(response.outcome.is_ok()),
                Event::Request(request) => conn
                    .respond(request.token, request.params)
                    .expect("it is open"),
                event => panic!("{event:?}"),
            });
            side.transmit();
            assert!(side.output.len() > 16 << 10);
            side.large = large;
        });
        assert_eq!(counted, 0, "{framing:?}");
    }
}

// ARC-10
#[test]
fn a_batch_of_ten_calls_allocates_nothing() {
    everywhere(
        |_| {},
        |side| {
            let mut batch = side.conn.batch(None);
            for tag in 0..10 {
                batch
                    .call::<u64>("square", &[tag], tag)
                    .expect("there is room");
            }
            batch.send().expect("it has calls");
            side.transmit();
            side.body.clear();
            side.body.push(b'[');
            for id in ids(&side.output) {
                side.body
                    .extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"result\":4,\"id\":");
                side.body.extend_from_slice(id);
                side.body.extend_from_slice(b"},");
            }
            side.body.pop();
            side.body.push(b']');
            let mut settled = 0;
            side.receive(|_, event| {
                assert!(matches!(event, Event::Response(response) if response.outcome.is_ok()));
                settled += 1;
            });
            assert_eq!(settled, 10);
        },
    );
}

// ARC-10
#[test]
fn a_batch_of_ten_requests_allocates_nothing() {
    everywhere(
        |_| {},
        |side| {
            side.body.clear();
            side.body.push(b'[');
            for id in 0..10 {
                write!(side.body, "{{\"jsonrpc\":\"2.0\",\"method\":\"square\",\"params\":[{id}],\"id\":\"batched-{id}\"}},")
                    .expect("a vector takes all");
            }
            side.body.pop();
            side.body.push(b']');
            side.receive(|conn, event| {
                let Event::Request(request) = event else {
                    panic!("{event:?}")
                };
                conn.respond(request.token, request.params)
                    .expect("it is open");
            });
            side.transmit();
            assert_eq!(ids(&side.output).count(), 10);
        },
    );
}

// ARC-10
#[test]
fn several_calls_in_flight_allocate_nothing() {
    for framing in FRAMINGS {
        let counted = allocations(Config::new().framing(framing), |side| {
            for tag in 0..3 {
                side.conn
                    .call("sum", &[tag], Some(Instant::from_millis(side.now + 5)), tag)
                    .expect("there is room");
            }
            side.now += 1;
            side.conn.handle_timeout(Instant::from_millis(side.now));
            side.receive_nothing();
            side.transmit();
            if side.conn.calls_open() < 12 {
                return;
            }
            let open = side.conn.calls_open();
            side.now += 10;
            side.conn.handle_timeout(Instant::from_millis(side.now));
            assert_eq!(side.receive_nothing(), open);
        });
        // Every fourth round ends all calls: so none is open after the last, as `allocations` wants.
        assert_eq!(counted, 0, "{framing:?}");
    }
}

impl Side {
    /// Polls without input and gives the number of calls that settled.
    fn receive_nothing(&mut self) -> usize {
        let mut settled = 0;
        while let Some(event) = self.conn.poll_event(&mut Input::none()) {
            assert!(
                matches!(event, Event::Response(response) if matches!(response.outcome, Outcome::TimedOut))
            );
            settled += 1;
        }
        settled
    }
}

// ARC-10 CLI-07
#[test]
fn a_call_that_times_out_and_its_late_reply_allocate_nothing() {
    everywhere(
        |config| config.dialect.cancel_on_timeout = true,
        |side| {
            let deadline = Some(Instant::from_millis(side.now + 5));
            side.conn
                .call("sum", (), deadline, 9)
                .expect("there is room");
            side.transmit();
            side.now += 10;
            side.conn.handle_timeout(Instant::from_millis(side.now));
            assert_eq!(side.receive_nothing(), 1);
            late_reply(side);
        },
    );
}

// ARC-10 CAN-02
#[test]
fn a_call_that_is_cancelled_and_its_late_reply_allocate_nothing() {
    everywhere(
        |config| config.dialect.cancel_send = CancelStyle::Lsp,
        |side| {
            let call = side.conn.call("sum", (), None, 9).expect("there is room");
            side.transmit();
            assert_eq!(side.conn.cancel(call), Some(9));
            assert!(side.conn.poll_transmit().is_some());
            late_reply(side);
            side.transmit();
        },
    );
}

/// Receives an answer to the call that was sent last, which is over.
fn late_reply(side: &mut Side) {
    side.body.clear();
    side.body
        .extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":");
    let id = last_id(&side.output);
    side.body.extend_from_slice(id);
    side.body.push(b'}');
    side.receive(|_, event| assert!(matches!(event, Event::UnmatchedResponse(_))));
}

// ARC-10 CAN-06
#[test]
fn a_request_that_is_cancelled_allocates_nothing() {
    let request = b"{\"jsonrpc\":\"2.0\",\"method\":\"sleep\",\"id\":\"a-request-of-the-peer\"}";
    everywhere(
        |_| {},
        |side| {
            let mut held = None;
            side.set_body(&[request]);
            side.receive(|_, event| {
                let Event::Request(request) = event else {
                    panic!("{event:?}")
                };
                held = Some(request.token);
            });
            side.set_body(&[b"{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{\"id\":\"a-request-of-the-peer\"}}"]);
            side.receive(|_, event| assert!(matches!(event, Event::Cancelled(_))));
            let held = held.expect("the request was delivered");
            side.conn
                .respond_cancelled(held)
                .expect("an answer is owed");
            side.transmit();
        },
    );
    for framing in FRAMINGS {
        let config = Config::mcp(McpRevision::V2025_11_25).framing(framing);
        let counted = allocations(config, |side| {
            side.set_body(&[request]);
            side.receive(|_, event| assert!(matches!(event, Event::Request(_))));
            side.set_body(&[b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"a-request-of-the-peer\"}}"]);
            side.receive(|_, event| assert!(matches!(event, Event::Cancelled(_))));
        });
        assert_eq!(counted, 0, "{framing:?}");
    }
}

// ARC-10
#[test]
fn notifications_allocate_nothing_either_way() {
    everywhere(
        |_| {},
        |side| {
            side.conn
                .notify("tick", &[side.now])
                .expect("there is room");
            side.transmit();
            side.set_body(&[b"{\"jsonrpc\":\"2.0\",\"method\":\"tick\",\"params\":[1]}"]);
            side.receive(|_, event| assert!(matches!(event, Event::Notification(_))));
        },
    );
}

// ARC-10
#[test]
fn errors_allocate_nothing_either_way() {
    everywhere(
        |_| {},
        |side| {
            side.conn.call("fail", (), None, 9).expect("there is room");
            side.transmit();
            side.body.clear();
            side.body.extend_from_slice(
                b"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32000,\"message\":\"no\",\"data\":[1]},\"id\":",
            );
            let id = last_id(&side.output);
            side.body.extend_from_slice(id);
            side.body.push(b'}');
            side.receive(|_, event| {
                let Event::Response(response) = event else {
                    panic!("{event:?}")
                };
                assert!(matches!(response.outcome, Outcome::Err(error) if error.code() == -32000));
            });
            side.set_body(&[b"{\"jsonrpc\":\"2.0\",\"method\":\"fail\",\"id\":1}"]);
            side.receive(|conn, event| {
                let Event::Request(request) = event else {
                    panic!("{event:?}")
                };
                let error = ErrorObject::new(7, "no")
                    .with_data(Json::parse_str("[1]").expect("it is JSON"));
                conn.respond_err(request.token, &error).expect("it is open");
            });
            side.transmit();
        },
    );
}

// ARC-10
#[test]
fn faults_of_the_peer_and_refusals_allocate_nothing() {
    everywhere(
        |config| config.limits.max_open_requests = 0,
        |side| {
            for body in [
                &b"{\"jsonrpc\":\"2.0\",\"method\":1,\"id\":3}"[..],
                b"{nope}",
                b"[]",
            ] {
                side.set_body(&[body]);
                side.receive(|_, event| assert!(matches!(event, Event::Malformed(_))));
            }
            side.set_body(&[b"{\"jsonrpc\":\"2.0\",\"method\":\"sum\",\"id\":3}"]);
            side.receive(|_, event| assert!(matches!(event, Event::Refused(_))));
            side.transmit();
        },
    );
}

#[test]
fn one_copy_a_round_is_counted_to_the_last() {
    for framing in FRAMINGS {
        let config = Config::new().framing(framing);
        // Too long to be kept without an allocation.
        let request = b"{\"jsonrpc\":\"2.0\",\"method\":\"sum\",\"params\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15],\"id\":7}";
        let owned = allocations(config, |side| {
            side.set_body(&[request]);
            side.receive(|conn, event| {
                let Event::Request(request) = event else {
                    panic!("{event:?}")
                };
                // The one copy: method, params and id in one piece of memory.
                let request = request.into_owned();
                conn.respond(request.into_token(), ()).expect("it is open");
            });
            side.transmit();
        });
        assert_eq!(owned, ROUNDS, "{framing:?}");
        let copied = allocations(config, |side| {
            call_and_reply(side);
            assert!(!std::hint::black_box(side.output.to_vec()).is_empty());
        });
        assert_eq!(copied, ROUNDS, "{framing:?}");
    }
}
