//! What a server has answered, read leniently: each fault of form is noted beside it.

use antiphon::{Id, Json, JsonKind};

/// A fault of shape that a dialect allows.
pub(crate) const NO_ID: &str = "an answer has no member id";

/// An answer to a request.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The id as it was written; none if there is no such member.
    pub(crate) id: Option<String>,
    /// The code of its error; none if it has none that can be read.
    pub(crate) code: Option<i64>,
    pub(crate) is_error: bool,
    pub(crate) faults: Vec<Fault>,
}

/// A rule for every answer that is broken: the check, and how.
pub(crate) type Fault = (&'static str, String);

/// A message of a server.
#[derive(Clone, Debug)]
pub(crate) enum Heard {
    One(Answer),
    Many(Vec<Answer>),
    /// A request or a notification of its own.
    Call,
    /// JSON that is neither an object nor an array.
    Scalar(String),
    NotJson,
}

pub(crate) fn read(body: &[u8]) -> Heard {
    // A blank around a message is no fault.
    let Ok(json) = Json::parse(body.trim_ascii()) else {
        return Heard::NotJson;
    };
    match json.kind() {
        JsonKind::Array => {
            let items: Vec<Json<'_>> = json.elements().collect();
            if !items.is_empty() && items.iter().all(|item| is_call(*item)) {
                return Heard::Call;
            }
            Heard::Many(items.into_iter().map(answer).collect())
        }
        JsonKind::Object if is_call(json) => Heard::Call,
        JsonKind::Bool | JsonKind::Null | JsonKind::Number | JsonKind::String => {
            Heard::Scalar(json.as_str().to_owned())
        }
        JsonKind::Object => Heard::One(answer(json)),
    }
}

fn is_call(json: Json<'_>) -> bool {
    json.get("method").is_some() && json.get("result").is_none() && json.get("error").is_none()
}

fn answer(json: Json<'_>) -> Answer {
    let mut faults = Vec::new();
    let mut shape = |why: String| faults.push(("answer.shape", why));
    if json.kind() != JsonKind::Object {
        shape(format!(
            "an answer is {}, not an object",
            json.kind().as_str()
        ));
        return Answer {
            id: None,
            code: None,
            is_error: false,
            faults,
        };
    }
    let is_version = json
        .get("jsonrpc")
        .and_then(Json::as_string)
        .is_some_and(|version| version.eq_str("2.0"));
    if !is_version {
        shape("the member jsonrpc of an answer is not \"2.0\"".to_owned());
    }
    let id = json.get("id");
    match id.map(Json::kind) {
        None => shape(NO_ID.to_owned()),
        Some(JsonKind::String | JsonKind::Number | JsonKind::Null) => {}
        Some(kind) => shape(format!("the id of an answer is {}", kind.as_str())),
    }
    let error = json.get("error");
    let mut code = None;
    if let Some(error) = error.filter(|error| !error.is_null()) {
        code = error.get("code").and_then(|code| code.decode::<i64>().ok());
        if code.is_none() {
            shape("an error has no member code that is an integer".to_owned());
        }
        let is_text = error
            .get("message")
            .is_some_and(|text| text.kind() == JsonKind::String);
        if !is_text {
            shape("an error has no member message that is a string".to_owned());
        }
    }
    let mut one = |why: &str| faults.push(("answer.one-outcome", why.to_owned()));
    match (json.get("result"), error) {
        (Some(_), Some(_)) => one("an answer has result and error"),
        (None, None) => one("an answer has neither result nor error"),
        _ => {}
    }
    let is_error = error.is_some_and(|error| !error.is_null());
    Answer {
        id: id.map(|id| id.as_str().to_owned()),
        code,
        is_error,
        faults,
    }
}

/// Whether two ids, as they are written, have one value.
pub(crate) fn same_id(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let (Ok(one), Ok(other)) = (Json::parse_str(one), Json::parse_str(other)) else {
        return false;
    };
    match (Id::new(one), Id::new(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}
