//! Prints all of an event, and checks what must hold of any event.
//!
//! Rule: two runs are the same when all their events print the same, so nothing that a program
//! could see is left out; and a copy prints what its original prints.

use antiphon::{Closed, Event, Malformed, MalformedCause, Outcome, OwnedOutcome, RequestKey};

use crate::rendering;

pub(crate) fn tell(event: &Event<'_, u64>) -> String {
    let mut name = |key: RequestKey| format!("{key:?}");
    let mut said = format!("{event:?} = {}", rendering::render(event, &mut name));
    match event {
        Event::Malformed(malformed) => said += &malformed_at(malformed),
        Event::Notification(told) => {
            let owned = told.clone().into_owned();
            assert_eq!(owned.method(), told.method);
            assert_eq!(owned.params(), told.params);
            assert_eq!(owned.origin(), told.origin);
            let renamed = owned.with_method("m");
            assert_eq!((renamed.method(), renamed.params()), ("m", told.params));
            said += &format!("{owned:?}");
        }
        Event::Response(response) => said += &outcome(&response.outcome),
        Event::Closed(Closed::Failed(error)) => said += &format!(" {error}"),
        _ => {}
    }
    said
}

fn malformed_at(malformed: &Malformed<'_>) -> String {
    assert!(malformed.offset <= malformed.origin.bytes.max(malformed.text.len()));
    match malformed.cause {
        MalformedCause::Syntax(error) => format!(" {error} at {}", malformed.offset),
        MalformedCause::Call(reason) | MalformedCause::Response(reason) => {
            format!(" {reason} at {}", malformed.offset)
        }
        _ => String::new(),
    }
}

fn outcome(outcome: &Outcome<'_>) -> String {
    let owned = outcome.clone().into_owned();
    match (outcome, &owned) {
        (Outcome::Ok(ours), OwnedOutcome::Ok(copy)) => assert_eq!(copy.as_json(), *ours),
        (Outcome::Err(ours), OwnedOutcome::Err(copy)) => {
            assert_eq!(copy.code(), ours.code());
            assert_eq!(copy.message(), ours.message());
            assert_eq!(copy.as_error().data(), ours.data());
        }
        _ => {}
    }
    assert_eq!(outcome.is_ok(), matches!(owned, OwnedOutcome::Ok(_)));
    let mut place = None;
    outcome.clone().put_into(&mut place);
    assert_eq!(format!("{place:?}"), format!("{:?}", Some(&owned)));
    format!(" {owned:?}")
}
