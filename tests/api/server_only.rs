//! A connection whose tag has no values cannot call. It sends a peer the same bytes as a connection
//! that could call and does not.

use std::convert::Infallible;

use antiphon::{CloseReason, Config, Connection, ErrorObject, Event, Framing, Input, Instant};

/// Serves this input, which has come whole: what is written, and the events. Time passes, the input
/// ends, and the server closes.
fn serve<T>(config: Config, input: &[u8]) -> (Vec<u8>, Vec<String>) {
    let mut conn: Connection<T> = Connection::new(config);
    let (mut out, mut told) = (Vec::new(), Vec::new());
    let mut from = 0;
    for turn in 0..4 {
        conn.handle_timeout(Instant::from_millis(turn * 40_000));
        match turn {
            2 => conn.handle_eof(),
            3 => conn.close(CloseReason::Done),
            _ => {}
        }
        let mut shown = Input::stream(&input[from..]);
        while let Some(event) = conn.poll_event(&mut shown) {
            told.push(match event {
                Event::Request(request) if request.method == "echo" => {
                    conn.respond(request.token, request.params).unwrap();
                    format!("request {}", request.id)
                }
                Event::Request(request) if request.method == "keep" => {
                    format!("kept {}", request.id)
                }
                Event::Request(request) => {
                    conn.respond_err(request.token, &ErrorObject::method_not_found())
                        .unwrap();
                    format!("unknown {}", request.id)
                }
                Event::Notification(notification) => {
                    format!("notification {}", notification.method)
                }
                Event::Response(_) => panic!("nothing was called"),
                Event::Cancelled(cancelled) => format!("{cancelled:?}"),
                Event::Malformed(malformed) => format!("{malformed:?}"),
                Event::Refused(refused) => format!("{refused:?}"),
                Event::UnmatchedResponse(unmatched) => format!("{unmatched:?}"),
                Event::Closed(closed) => format!("{closed:?}"),
                _ => panic!("there is no other event"),
            });
        }
        from += shown.consumed();
        conn.take_transmit(&mut out);
    }
    assert_eq!(conn.calls_open(), 0);
    (out, told)
}

// ARC-01
#[test]
fn a_server_that_cannot_call_says_the_same_as_one_that_does_not() {
    let lines = br#"{"jsonrpc":"2.0","method":"echo","params":[1.0],"id":1}
{"jsonrpc":"2.0","method":"keep","id":"k"}
{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"k"}}
{"jsonrpc":"2.0","result":1,"id":1}
{"jsonrpc":"2.0","error":{"code":1,"message":"m"},"id":null}
{"jsonrpc":"2.0","error":7,"id":2}
[{"jsonrpc":"2.0","method":"echo","id":2},{"jsonrpc":"2.0","result":1,"id":3},5]
{nope}
{"jsonrpc":"2.0","method":"tell"}
{"#;
    for framing in [Framing::Newline, Framing::Concatenated, Framing::Detect] {
        for config in [Config::new(), Config::lsp(), Config::ethereum()] {
            let mut config = config.framing(framing);
            config.connection = 1;
            let (out, told) = serve::<Infallible>(config, lines);
            assert!(out.starts_with(br#"{"jsonrpc":"2.0","result":[1.0],"id":1}"#));
            assert!(
                told.iter()
                    .any(|event| event.starts_with("UnmatchedResponse"))
            );
            assert_eq!((out, told), serve::<()>(config, lines));
        }
    }
}
