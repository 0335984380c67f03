//! Events as plain text, so that two runs, or a run and the model, can be compared.

use std::fmt::Write;

use antiphon::{Closed, Event, MalformedCause, Outcome, RequestKey, UnmatchedKind};

/// One event as a line of text. `name` turns the key of a request into what the test calls it.
pub(crate) fn render(event: &Event<'_, u64>, name: &mut dyn FnMut(RequestKey) -> String) -> String {
    match event {
        Event::Request(request) => format!(
            "request {} {} id {} at {:?}",
            request.method,
            request.params.map_or("-", |params| params.as_str()),
            request.id.text(),
            request.origin.batch_index,
        ),
        Event::Notification(told) => format!(
            "notification {} {} at {:?}",
            told.method,
            told.params.map_or("-", |params| params.as_str()),
            told.origin.batch_index,
        ),
        Event::Response(response) => format!(
            "response {} tag {} {}",
            response.call.number(),
            response.tag,
            outcome(&response.outcome),
        ),
        Event::Cancelled(cancelled) => format!(
            "cancelled {} owed {}",
            name(cancelled.key),
            cancelled.answer_owed
        ),
        Event::Malformed(malformed) => {
            let cause = match malformed.cause {
                MalformedCause::Syntax(_) => "syntax".to_string(),
                cause => format!("{cause:?}"),
            };
            let mut text = format!("malformed {cause} answered {:?}", malformed.answered);
            if let Some(id) = malformed.id {
                let _ = write!(text, " id {}", id.text());
            }
            text
        }
        Event::Refused(refused) => format!(
            "refused {:?} answered {:?} id {}",
            refused.cause,
            refused.answered,
            refused.id.map_or("-", |id| id.text()),
        ),
        Event::UnmatchedResponse(unmatched) => {
            let kind = match &unmatched.kind {
                UnmatchedKind::Late(late) => format!("late {}", outcome(late)),
                UnmatchedKind::Cancelled(late) => format!("cancelled {}", outcome(late)),
                UnmatchedKind::Unknown(unknown) => format!("unknown {}", outcome(unknown)),
                UnmatchedKind::NullId(null) => format!("null {}", outcome(null)),
                UnmatchedKind::Cancel => "cancel".to_string(),
                other => format!("{other:?}"),
            };
            format!(
                "unmatched {kind} id {}",
                unmatched.id.map_or("-", |id| id.text())
            )
        }
        Event::Closed(why) => closed(*why),
        other => format!("{other:?}"),
    }
}

/// How a call ended, as text.
pub(crate) fn outcome(outcome: &Outcome<'_>) -> String {
    match outcome {
        Outcome::Ok(result) => format!("ok {}", result.as_str()),
        Outcome::Err(error) => format!(
            "error {} {} {}",
            error.code(),
            error.message(),
            error.data().map_or("-", |data| data.as_str()),
        ),
        Outcome::Invalid(invalid) => format!("invalid {:?}", invalid.reason),
        other => format!("{other:?}"),
    }
}

/// The last event, as text.
pub(crate) fn closed(why: Closed) -> String {
    format!("closed {why:?}")
}
