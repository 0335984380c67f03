//! Invariant: the small public values (ids, errors, codes, names, times, the read buffer) behave as simple code for the same inputs does.

use std::collections::BTreeMap;
use std::time::Duration;

use antiphon::codes::{self, ErrorKind};
use antiphon::http::{SseEvent, Statuses, write_comment};
use antiphon::{
    Config, Connection, ErrorObject, Event, Framing, Id, Input, Instant, Json, LimitErrors,
    MethodName, OwnedError, OwnedId, OwnedJson, ReadBuffer, Role, SyntaxErrorKind,
};

use crate::bytes::Bytes;
use crate::corners;
use crate::naive;

pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let kind = bytes.byte();
    if kind >= 252 {
        return events(&mut bytes);
    }
    match kind % 7 {
        0 => buffer(&mut bytes),
        1 => ids(&mut bytes),
        2 => errors(&mut bytes),
        3 => times(&mut bytes),
        4 => texts(&mut bytes),
        5 => refusals(&mut bytes),
        _ => memory(&mut bytes),
    }
}

/// Server-sent events keep their data, but for the kind of its line breaks, and their number.
fn events(bytes: &mut Bytes<'_>) {
    let text = String::from_utf8_lossy(bytes.rest()).into_owned();
    let mut stream = Vec::new();
    for _ in 0..2 {
        SseEvent::new(text.as_bytes()).write(&mut stream);
        write_comment(&text, &mut stream);
    }
    let lines = text.replace("\r\n", "\n").replace('\r', "\n");
    let wanted: String = lines
        .split('\n')
        .map(|line| format!("data: {line}\n"))
        .collect();
    let stream = String::from_utf8(stream).expect("text");
    let comment = text.replace(['\n', '\r'], " ");
    let blank = if comment.is_empty() { "" } else { " " };
    assert_eq!(stream, format!("{wanted}\n:{blank}{comment}\n\n").repeat(2));
}

/// A read buffer holds what a vector would, within its bound. The planted fault forgets a byte
/// when much is taken at once.
fn buffer(bytes: &mut Bytes<'_>) {
    let max_bytes = usize::from(bytes.word()) * 4 + 1;
    let mut buffer = ReadBuffer::new(max_bytes);
    let mut plain: Vec<u8> = Vec::new();
    for _ in 0..200 {
        let Some(which) = bytes.some() else { break };
        let n = usize::from(bytes.byte()) << (which >> 4);
        match which % 4 {
            0 | 1 => {
                let spare = buffer.spare();
                assert!(!spare.is_empty() || plain.len() == max_bytes);
                let n = n.min(spare.len());
                spare[..n].fill(which);
                buffer.advance(n);
                plain.extend(std::iter::repeat_n(which, n));
            }
            2 => {
                buffer.consume(n);
                let lost = usize::from(crate::PLANTED && n > 5000 && n < plain.len());
                plain.drain(..n.min(plain.len()) - lost);
            }
            _ => {
                buffer.release();
                assert!(!plain.is_empty() || buffer.capacity() == 0);
            }
        }
        assert_eq!(buffer.filled(), plain);
        assert_eq!(buffer.len(), plain.len());
        assert_eq!(buffer.is_empty(), plain.is_empty());
        assert!(buffer.capacity() <= buffer.max_capacity());
        assert_eq!(buffer.max_capacity(), max_bytes);
    }
}

fn ids(bytes: &mut Bytes<'_>) {
    let number = u64::from(bytes.word()) << (bytes.byte() % 49);
    let owned = OwnedId::from(number);
    assert_eq!(owned.as_id().as_u64(), Some(number));
    assert_eq!(format!("{owned}"), number.to_string());
    let text = String::from_utf8_lossy(bytes.rest()).into_owned();
    let named = OwnedId::from(text.as_str());
    assert_eq!(named.as_id().as_text().as_deref(), Some(text.as_str()));
    assert_eq!(named, OwnedId::from(text.clone()));
    assert_ne!(named, owned);
    let id = named.as_id();
    assert_eq!(format!("{id}"), id.text());
    assert_eq!(OwnedId::from(id), named);
    assert!(format!("{named:?} {id:?}").len() > 2);
    let written = antiphon::encode_response(id, &number).expect("a number has a form");
    let node = naive::parse(&written, 8).expect("it is JSON");
    let back = node.member("id").expect("it has an id");
    assert_eq!(back.bytes(&written), id.text().as_bytes());
}

fn errors(bytes: &mut Bytes<'_>) {
    let code = match bytes.byte() {
        near @ 0x80.. => -32_700 + i64::from(near - 0x80),
        far => i64::from(bytes.word() as i16) - i64::from(far & 1) * 32_000,
    };
    let kind = match code {
        -32700 => ErrorKind::Parse,
        -32600 => ErrorKind::InvalidRequest,
        -32601 => ErrorKind::MethodNotFound,
        -32602 => ErrorKind::InvalidParams,
        -32603 => ErrorKind::Internal,
        -32099..=-32000 => ErrorKind::ServerError,
        -32768..=-32000 => ErrorKind::Reserved,
        _ => ErrorKind::Application,
    };
    assert_eq!(ErrorKind::of(code), kind);
    assert_eq!(codes::is_reserved(code), (-32768..=-32000).contains(&code));
    let message = String::from_utf8_lossy(bytes.some_bytes()).into_owned();
    let error = OwnedError::new(code, message.as_str());
    assert_eq!(format!("{error}"), format!("{}", error.as_error()));
    assert!(format!("{error}").contains(&message));
    assert_eq!(error.as_error().kind(), kind);
    let known = [
        ErrorObject::parse_error(),
        ErrorObject::invalid_request(),
        ErrorObject::method_not_found(),
        ErrorObject::invalid_params(),
        ErrorObject::internal_error(),
        ErrorObject::request_cancelled(),
        ErrorObject::server_busy(),
        ErrorObject::timeout(),
        ErrorObject::batch_too_large(usize::from(bytes.byte())),
        ErrorObject::request_too_large(usize::from(bytes.byte())),
    ];
    for error in known {
        let defined = codes::message(error.code()).expect("it is a known code");
        assert!(error.message().starts_with(defined), "{error}");
        passed_on(&error);
        statuses(&error);
    }
    assert_eq!(
        antiphon::encode_parse_error(),
        antiphon::encode_error(Id::NULL, &ErrorObject::parse_error())
    );
}

/// A reply's status is that of its code, where the code has one of its own.
fn statuses(error: &ErrorObject<'_>) {
    let reply = antiphon::encode_error(Id::NULL, error);
    let status = match error.code() {
        -32_601 => 404,
        -32_600 => 400,
        _ => 500,
    };
    assert_eq!(Statuses::by_code().of(&reply), status, "{error}");
    assert_eq!(Statuses::bitcoin().of(&reply), 200, "{error}");
    assert_eq!(Statuses::always_ok().of(&reply), 200, "{error}");
}

/// An error that comes off the wire is passed on byte for byte.
fn passed_on(error: &ErrorObject<'_>) {
    let mut conn: Connection<u64> = Connection::new(Config::new());
    conn.call("m", (), None, 0).expect("it is the first");
    let one = Json::parse_str("1").expect("JSON");
    let text = antiphon::encode_error(Id::new(one).expect("a scalar"), error);
    let text = String::from_utf8(text)
        .expect("text")
        .replace(r#""code""#, r#""x":0, "code""#);
    let mut input = Input::text(&text);
    let Some(Event::Response(response)) = conn.poll_event(&mut input) else {
        panic!("it is the answer");
    };
    let antiphon::Outcome::Err(back) = response.outcome else {
        panic!("it is an error");
    };
    let again = antiphon::encode_error(Id::new(one).expect("a scalar"), &back);
    assert_eq!(String::from_utf8_lossy(&again), text);
}

fn times(bytes: &mut Bytes<'_>) {
    let (one, two) = (
        u64::from(bytes.word()) << (bytes.byte() % 64),
        u64::from(bytes.word()),
    );
    let (early, late) = (Instant::from_nanos(one), Instant::from_nanos(two));
    assert_eq!(
        late.saturating_since(early).as_nanos(),
        u128::from(two.saturating_sub(one))
    );
    let mut sum = early;
    sum += Duration::from_nanos(two);
    assert_eq!(sum.as_nanos(), one.saturating_add(two));
    assert_eq!(early + Duration::MAX, Instant::FAR_FUTURE);
    assert_eq!(early < late, one < two);
    let name = String::from_utf8_lossy(bytes.rest()).into_owned();
    let method = MethodName::new(&name);
    assert_eq!(method.is_none(), name.trim().is_empty());
    if let Some(method) = method {
        assert_eq!(method.as_str(), name);
        assert_eq!(method.is_system(), name.starts_with("rpc."));
    }
}

/// Text that is JSON already is kept as it is, but for what surrounds it.
fn texts(bytes: &mut Bytes<'_>) {
    let text = String::from_utf8_lossy(bytes.rest()).into_owned();
    let reference = naive::parse(text.as_bytes(), 128);
    match OwnedJson::parse(text.clone()) {
        Ok(owned) => {
            let node = reference.expect("the reference takes it too");
            assert_eq!(owned.as_str().as_bytes(), node.bytes(text.as_bytes()));
            assert_eq!(format!("{owned}"), owned.as_str());
            assert_eq!(owned.kind(), owned.as_json().kind());
            let json = owned.as_json();
            assert!(!format!("{json:?} {:?} {:?}", json.members(), json.elements()).is_empty());
            match json.decode::<(u64, String)>() {
                Ok(_) => assert_eq!(json.elements().count(), 2),
                Err(error) => assert!(!format!("{error} {error:?} {}", error.detail()).is_empty()),
            }
            assert_eq!(owned.clone().into_string(), owned.as_str());
        }
        Err(error) => assert!(reference.is_none(), "{error}"),
    }
}

/// Whatever a connection refuses says so in words, and gives back what it was given.
fn refusals(bytes: &mut Bytes<'_>) {
    let mut config = crate::config::config(bytes);
    config.framing = Framing::Messages;
    let mut conn: Connection<u64> = Connection::new(config);
    let mut said = Vec::new();
    let scalar = [Json::NULL, Json::parse_str("true").expect("JSON")][bytes.below(2)];
    let id = Id::new(scalar).expect("a scalar");
    said.extend(
        conn.call("", (), None, 1)
            .err()
            .map(|back| (back.value, back.error)),
    );
    said.extend(
        conn.call("m", &7, None, 1)
            .err()
            .map(|back| (back.value, back.error)),
    );
    said.extend(
        conn.call_with_id(id, "m", (), None, 1)
            .err()
            .map(|back| (back.value, back.error)),
    );
    let two = Id::new(Json::parse_str("2").expect("JSON")).expect("a scalar");
    for _ in 0..bytes.byte() % 12 {
        said.extend(
            conn.call_with_id(two, "m", (), None, 1)
                .err()
                .map(|back| (back.value, back.error)),
        );
        said.extend(
            conn.call("m", &BTreeMap::from([("a", 1)]), None, 1)
                .err()
                .map(|back| (back.value, back.error)),
        );
        said.extend(
            conn.notify("m", &["x".repeat(usize::from(bytes.byte()))])
                .err()
                .map(|error| (1, error)),
        );
    }
    said.extend(conn.batch(None).send().err().map(|error| (1, error)));
    let mut batch = conn.batch(None);
    for _ in 0..bytes.byte() % 8 {
        said.extend(batch.notify("n", ()).err().map(|error| (1, error)));
    }
    drop(batch);
    let mut asked = Input::text(r#"{"jsonrpc":"2.0","method":"m","id":1}"#);
    if let Some(Event::Request(request)) = conn.poll_event(&mut asked) {
        let owned = request.into_owned();
        assert_eq!((owned.method(), owned.params()), ("m", None));
        let error = ErrorObject::new(-32_050, "mine");
        if let Err(back) = conn.respond_err(owned.into_token(), &error) {
            said.push((1, back.error));
        }
    }
    conn.close(antiphon::CloseReason::Done);
    said.extend(
        conn.call("m", (), None, 1)
            .err()
            .map(|back| (back.value, back.error)),
    );
    for (tag, error) in said {
        assert_eq!(tag, 1, "what was given comes back");
        assert!(format!("{error}").len() > 8);
    }
    use antiphon::ConnectionError::{
        DrainTimedOut, MessageTimedOut, OutboxFull, TooManyMalformed, TooManyUnmatched, Truncated,
        WriteTimedOut,
    };
    for error in [
        DrainTimedOut,
        MessageTimedOut,
        OutboxFull,
        TooManyMalformed,
        TooManyUnmatched,
        Truncated,
        WriteTimedOut,
    ] {
        assert!(format!("{error}").len() > 8);
    }
    // Only a text of more than 4 GiB has this fault, so none is made here.
    assert_eq!(SyntaxErrorKind::TooLong.as_str(), "text too long");
    corners::run(bytes.byte());
}

/// The announced bounds grow with the limits; presets for HTTP and WebSocket have their framing; an
/// unsent batch leaves no open call.
fn memory(bytes: &mut Bytes<'_>) {
    let mut config = crate::config::config(bytes);
    let small = (config.max_memory_bytes(), config.max_input_bytes());
    assert!(small.0 <= config.memory_bytes_max_for::<[u64; 4]>());
    config.limits.max_message_bytes *= 2;
    config.limits.max_open_calls *= 2;
    config.limits.max_open_requests += usize::from(bytes.byte());
    config.limits.max_outbox_bytes += usize::from(bytes.word());
    assert!(small.0 <= config.max_memory_bytes());
    assert!(small.1 <= config.max_input_bytes());
    let exchange = config.for_client_exchange();
    assert_eq!(
        (exchange.role, exchange.framing),
        (Role::Client, Framing::Messages)
    );
    let socket = config.for_websocket();
    assert_eq!(socket.framing, Framing::Messages);
    assert!(
        socket.dialect.limit_errors != LimitErrors::Dedicated
            || config.dialect.limit_errors == LimitErrors::Dedicated
    );
    assert_eq!(Config::default(), Config::new());
    let mut conn: Connection<u64> = Connection::new(config);
    let mut batch = conn.batch(None);
    if let Ok(handle) = batch.call::<u8>("m", (), 1) {
        assert!(format!("{handle:?}").contains(&handle.call().number().to_string()));
    }
    assert!(format!("{batch:?}").contains("Batch"));
    drop(batch);
    assert!(format!("{conn:?}").contains("calls_open: 0"));
}
