//! Properties of every connection: order, no memory of other messages, no members of its own, no
//! randomness, no secrets in `Debug`.

use antiphon::{Config, Connection, Event, IdScheme, Input, Json};

/// Plays one message to a connection that answers every request with its params.
fn answer(conn: &mut Connection, message: &str) -> String {
    let mut input = Input::text(message);
    while let Some(event) = conn.poll_event(&mut input) {
        if let Event::Request(request) = event {
            conn.respond(request.token, request.params).unwrap();
        }
    }
    let mut out = Vec::new();
    conn.take_transmit(&mut out);
    String::from_utf8(out).unwrap()
}

// ARC-25
#[test]
fn a_request_means_the_same_whatever_came_before_it() {
    let request = r#"{"jsonrpc":"2.0","method":"m","params":[1],"id":7}"#;
    let alone = answer(&mut Connection::new(Config::new()), request);
    let mut conn = Connection::new(Config::new());
    let before = [
        "garbage",
        "[]",
        r#"{"jsonrpc":"2.0","method":"initialize","id":1}"#,
        r#"{"jsonrpc":"2.0","method":"shutdown","id":2}"#,
        r#"[{"jsonrpc":"2.0","method":"m","id":7},1]"#,
        r#"{"jsonrpc":"2.0","error":{"code":1,"message":""},"id":null}"#,
    ];
    for message in before {
        answer(&mut conn, message);
        assert_eq!(answer(&mut conn, request), alone, "after {message}");
    }
}

// ARC-22 MSG-17
#[test]
fn nothing_is_written_that_the_specification_does_not_name() {
    let mut conn: Connection = Connection::new(Config::lsp().framing(antiphon::Framing::Newline));
    let call = conn.call("m", &[1], None, ()).unwrap();
    conn.ask_cancel(call).unwrap();
    conn.notify("n", ()).unwrap();
    let mut written = answer(&mut conn, r#"{"jsonrpc":"2.0","method":"m","id":1}"#);
    written += &answer(&mut conn, "garbage");
    written += &answer(&mut conn, r#"{"jsonrpc":"2.0","method":1,"id":2}"#);
    written += &answer(&mut conn, "[1]");
    let mut lines = 0;
    for line in written.lines() {
        for (name, value) in Json::parse_str(line).unwrap().members() {
            assert!(
                ["jsonrpc", "method", "params", "result", "error", "id"]
                    .iter()
                    .any(|known| name.eq_str(known)),
                "{line}"
            );
            if name.eq_str("error") {
                let known = |name: &antiphon::JsonString<'_>| {
                    ["code", "message", "data"]
                        .iter()
                        .any(|known| name.eq_str(known))
                };
                assert!(value.members().all(|(name, _)| known(&name)), "{line}");
            }
        }
        lines += 1;
    }
    assert_eq!(lines, 7);
}

// ARC-03
#[test]
fn frames_and_events_come_in_the_order_in_which_they_were_caused() {
    let mut conn: Connection<u8> = Connection::new(Config::new());
    conn.notify("a", ()).unwrap();
    conn.call("b", (), None, 1).unwrap();
    conn.notify("c", ()).unwrap();
    let mut out = Vec::new();
    conn.take_transmit(&mut out);
    let text = String::from_utf8(out).unwrap();
    let methods: Vec<_> = text
        .lines()
        .map(|line| {
            Json::parse_str(line)
                .unwrap()
                .get("method")
                .unwrap()
                .as_str()
        })
        .collect();
    assert_eq!(methods, ["\"a\"", "\"b\"", "\"c\""]);
    let received = concat!(
        "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n",
        "{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":1}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"y\",\"id\":9}\n",
    );
    let mut input = Input::stream(received.as_bytes());
    let mut seen = Vec::new();
    while let Some(event) = conn.poll_event(&mut input) {
        seen.push(match event {
            Event::Notification(notification) => notification.method.into_owned(),
            Event::Response(response) => format!("call {}", response.call.number()),
            Event::Request(request) => request.method.into_owned(),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(seen, ["x", "call 1", "y"]);
    assert_eq!(conn.poll_timeout(), None);
}

// ARC-05 ARC-06
#[test]
fn randomness_comes_from_the_driver_and_from_nowhere_else() {
    let sent = |random: u8| {
        let mut config = Config::new();
        config.dialect.id_scheme = IdScheme::Uuid([random; 10]);
        let mut conn: Connection = Connection::new(config);
        conn.call("m", (), None, ()).unwrap();
        conn.poll_transmit().unwrap().to_vec()
    };
    assert_eq!(sent(1), sent(1));
    assert_ne!(sent(1), sent(2));
}

// SEC-15
#[test]
fn what_is_said_is_not_in_what_debug_prints() {
    let messages = [
        r#"{"jsonrpc":"2.0","method":"login","params":{"token":"hunter2"},"id":1}"#,
        r#"{"jsonrpc":"2.0","method":"login","params":["hunter2"]}"#,
        r#"{"jsonrpc":"2.0","result":"hunter2","id":99}"#,
        r#"{"jsonrpc":"2.0","method":1,"params":["hunter2"],"id":1}"#,
        r#"{"jsonrpc":"2.0","result":"hunter2","error":1,"id":1}"#,
        r#"{"hunter2"#,
    ];
    let bytes_of_it = format!("{:?}", "hunter2".as_bytes());
    let bytes_of_it = bytes_of_it.trim_matches(['[', ']']);
    for message in messages {
        let mut conn: Connection<u8> = Connection::new(Config::new());
        let _ = conn.call("m", &["hunter2"], None, 1);
        let mut input = Input::text(message);
        let event = conn.poll_event(&mut input).unwrap();
        let shown = format!("{event:?} {conn:?}");
        assert!(
            !shown.contains("hunter2") && !shown.contains(bytes_of_it),
            "{shown}"
        );
    }
}
