//! Events that outlive their input.

use antiphon::{Event, Input, OwnedOutcome};

use super::connection;

// MSG-03 MSG-05 MSG-11 MSG-25
#[test]
fn an_owned_event_has_what_the_borrowed_one_had_and_no_more() {
    let texts = [
        (
            r#"{"jsonrpc":"2.0","method":"\u006d","params":[1.0],"id":1e2}"#,
            Some("[1.0]"),
            Some("1e2"),
        ),
        (
            r#"{"jsonrpc":"2.0","method":"m","params":{"a":null},"id":null}"#,
            Some(r#"{"a":null}"#),
            Some("null"),
        ),
        (
            r#"{"jsonrpc":"2.0","method":"m","id":"x"}"#,
            None,
            Some("\"x\""),
        ),
        (
            r#"{"jsonrpc":"2.0","method":"m","params":[]}"#,
            Some("[]"),
            None,
        ),
        (r#"{"jsonrpc":"2.0","method":"m"}"#, None, None),
    ];
    for (text, params, id) in texts {
        let mut conn = connection(1);
        let owned = match conn.poll_event(&mut Input::text(text)) {
            Some(Event::Request(request)) => {
                let request = request.into_owned();
                assert_eq!(Some(request.id().text()), id, "{text}");
                assert_eq!(request.params().map(|json| json.as_str()), params, "{text}");
                assert_eq!(request.origin().bytes, text.len());
                let (token, parts) = request.split();
                conn.respond(token, ()).unwrap();
                parts
            }
            Some(Event::Notification(notification)) => {
                assert_eq!(id, None, "{text}");
                notification.into_owned()
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(owned.method(), "m", "{text}");
        assert_eq!(owned.params().map(|json| json.as_str()), params, "{text}");
    }
}

// CLI-30 MSG-13
#[test]
fn an_owned_outcome_keeps_the_text() {
    let mut conn = connection(1);
    conn.call("m", (), None, 7).unwrap();
    let answer = r#"{"jsonrpc":"2.0","result":null,"id":1}"#;
    let Some(Event::Response(response)) = conn.poll_event(&mut Input::text(answer)) else {
        panic!("the call is settled");
    };
    assert!(response.outcome.is_ok());
    let OwnedOutcome::Ok(result) = response.outcome.into_owned() else {
        panic!("a result")
    };
    assert_eq!(result.as_str(), "null");
    assert_eq!(result.as_json().decode::<()>().unwrap(), ());
}

// CLI-30
#[test]
fn an_outcome_is_put_where_another_was_and_is_the_same_as_by_itself() {
    let long = "x".repeat(100);
    let answers = [
        r#""result":[ 1 ]"#.to_owned(),
        format!(r#""result":"{long}""#),
        "\"result\":[1,\n2]".to_owned(),
        format!(r#""error":{{"code":-1,"message":"no","data":"{long}"}}"#),
        r#""error":7"#.to_owned(),
        // Shorter than one before it: nothing of that may be left.
        r#""result":2"#.to_owned(),
    ];
    let mut place = None;
    for answer in answers {
        let mut conn = connection(1);
        conn.call("m", (), None, 7).unwrap();
        let answer = format!(r#"{{"jsonrpc":"2.0",{answer},"id":1}}"#);
        let Some(Event::Response(response)) = conn.poll_event(&mut Input::text(&answer)) else {
            panic!("the call is settled");
        };
        let owned = response.outcome.clone().into_owned();
        response.outcome.put_into(&mut place);
        assert_eq!(place, Some(owned), "{answer}");
        if let Some(OwnedOutcome::Ok(result)) = &place {
            let is_broken = result.as_str().contains('\n');
            assert_eq!(result.as_json().has_line_breaks(), is_broken, "{answer}");
        }
    }
}
