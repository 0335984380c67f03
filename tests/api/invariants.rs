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

/// Checks that a message, or each of a batch, has the members of its kind and no others. Returns how many
/// messages there were.
fn check_members(json: Json<'_>) -> usize {
    if json.kind() == antiphon::JsonKind::Array {
        return json.elements().map(check_members).sum();
    }
    let names = |json: Json<'_>| -> Vec<String> {
        let members = json.members();
        members
            .map(|(name, _)| name.to_cow_lossy().into_owned())
            .collect()
    };
    let found = names(json);
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    assert!(
        [
            &["jsonrpc", "method", "id"][..],
            &["jsonrpc", "method", "params", "id"],
            &["jsonrpc", "method"],
            &["jsonrpc", "method", "params"],
            &["jsonrpc", "result", "id"],
            &["jsonrpc", "error", "id"],
            // MCP since 2025-11-25 leaves out an id that could not be read.
            &["jsonrpc", "error"],
        ]
        .contains(&&found[..]),
        "{json}"
    );
    assert_eq!(json.get("jsonrpc").map(Json::as_str), Some("\"2.0\""));
    if let Some(error) = json.get("error") {
        let found = names(error);
        assert!(
            found == ["code", "message"] || found == ["code", "message", "data"],
            "{json}"
        );
    }
    1
}

// ARC-22 MSG-17
#[test]
fn nothing_is_written_that_the_specification_does_not_name() {
    use antiphon::service::LocalRouter;
    use antiphon::{AcpVersion, Framing, McpRevision};

    let router = || {
        LocalRouter::new()
            .discovery(antiphon::service::Discovery::default())
            .method("m", [], || Ok::<_, antiphon::OwnedError>([1]))
            .notification("n", [], || ())
    };
    for config in [
        Config::new(),
        Config::lsp(),
        Config::mcp(McpRevision::V2025_03_26),
        Config::mcp(McpRevision::V2025_11_25),
        Config::acp(AcpVersion::V2),
        Config::ethereum(),
        Config::bitcoin(),
        Config::kodi(),
        Config::new().limit_errors(antiphon::LimitErrors::FirstCall),
    ] {
        let mut config = config.framing(Framing::Newline).max_batch_items(4);
        config.dialect.echo_method_names = true;
        config.limits.max_message_bytes = 1000;
        config.limits.max_open_requests = 3;
        let mut conn: Connection = Connection::new(config);
        // What is said first: calls, notifications, cancels, batches.
        let call = conn.call("m", &[1], None, ()).unwrap();
        conn.call_with_id(antiphon::OwnedId::from("own").as_id(), "m", (), None, ())
            .unwrap();
        // Some dialects have no cancel.
        let _ = conn.ask_cancel_because(call, Some("why"));
        conn.notify("n", ()).unwrap();
        let mut batch = conn.batch(None);
        // LSP has no batches.
        if batch.call::<()>("m", (), ()).is_ok() {
            batch.notify("n", &[1]).unwrap();
            batch.send().unwrap();
        } else {
            drop(batch);
        }
        // What is answered: results, errors of the handler's, of the router's and of the connection's,
        // in batches too, and extensions.
        let mut router = router();
        let long = "x".repeat(2000);
        let mut received = String::new();
        for id in 1..5 {
            received += &format!("{{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":{id}}}\n");
        }
        for method in ["n", "none", "rpc.discover", "rpc.listMethods"] {
            received += &format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"id\":9}}\n");
        }
        let one =
            r#"{"jsonrpc":"2.0","method":"m","id":5},{"jsonrpc":"2.0","method":"none","id":"a"}"#;
        received += &format!("garbage\n[]\n[1,{one}]\n[1,2,3,4,{one}]\n{long}\n");
        received += "{\"jsonrpc\":\"2.0\",\"method\":1,\"id\":2}\n";
        let mut input = Input::stream(received.as_bytes());
        let mut held = Vec::new();
        while let Some(event) = conn.poll_event(&mut input) {
            let Event::Request(request) = event else {
                continue;
            };
            // The first requests stay open, so that others find no place.
            match held.len() < 2 && request.origin.batch_index.is_none() {
                true => held.push(request.token),
                false => drop(router.respond(&mut conn, request)),
            }
        }
        for token in held {
            conn.respond_cancelled(token).unwrap_or(());
        }
        let mut out = Vec::new();
        while conn.take_transmit(&mut out) {}
        let written = String::from_utf8(out).unwrap();
        let messages: usize = written
            .lines()
            .map(|line| check_members(Json::parse_str(line).unwrap()))
            .sum();
        assert!(messages >= 14, "{messages}: {written}");
    }
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
