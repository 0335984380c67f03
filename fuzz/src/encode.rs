//! Invariant: any value is written byte for byte as serde_json writes it, and a message that was written reads back as what was given to be written.

use std::collections::BTreeMap;

use antiphon::{
    Config, Connection, Cut, EncodeErrorKind, ErrorObject, Event, Framer, Framing, Input, Json,
    Outcome, OwnedError, OwnedJson,
};
use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, SerializeStruct, SerializeTupleVariant, Serializer};

use crate::bytes::Bytes;
use crate::config::config;

pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut config = config(&mut bytes);
    config.limits.max_depth = 128;
    config.limits.max_message_bytes = 1 << 20;
    config.limits.soft_max_outbox_bytes = 1 << 20;
    config.limits.max_outbox_bytes = 1 << 22;
    config.limits.max_method_bytes = 4096;
    config.limits.max_header_bytes = 4096;
    config.limits.max_id_bytes = 4096;
    // Joined calls would arrive as a batch, which the far end's limit on batches may refuse.
    config.limits.max_joined_calls = 0;
    (
        config.limits.max_open_calls,
        config.limits.max_open_requests,
    ) = (16, 16);
    let method = String::from_utf8_lossy(bytes.some_bytes()).into_owned();
    let value = Any::read(&mut bytes, 0);
    let written = like_serde_json(&value);
    if let Some(written) = written {
        let json = Json::parse_str(written.as_str());
        assert_eq!(
            json.map(Json::len),
            Ok(written.as_str().len()),
            "it is JSON"
        );
        call(config, &method, &value, written.as_json());
        answer(config, &value, written.as_json());
    } else {
        refused(config, &value);
    }
    errors(bytes.rest());
}

/// Any shape that serde knows.
#[derive(Debug)]
enum Any<'a> {
    Unit,
    Bool(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    I128(i128),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    U128(u128),
    F32(f32),
    F64(f64),
    Char(char),
    Str(&'a str),
    Bytes(&'a [u8]),
    None,
    Some(Box<Any<'a>>),
    Newtype(Box<Any<'a>>),
    Variant,
    NewtypeVariant(Box<Any<'a>>),
    Seq(Vec<Any<'a>>),
    TupleVariant(Vec<Any<'a>>),
    Map(Vec<(Any<'a>, Any<'a>)>),
    Struct(Vec<Any<'a>>),
    StructVariant(Vec<Any<'a>>),
    Raw(OwnedJson),
    Refuses,
    UnitStruct,
    TupleStruct(Vec<Any<'a>>),
    Tuple(Vec<Any<'a>>),
    /// A text whose `Display` writes it piece by piece.
    Shown(Vec<&'a str>),
    /// A struct of one of serde_json's secret names, with this in it.
    Secret(bool, Vec<Any<'a>>),
    /// A map that does not keep to the order of keys and values.
    Disorder(Box<Any<'a>>, u8),
}

const SECRETS: [&str; 2] = [
    "$serde_json::private::RawValue",
    "$serde_json::private::Number",
];

const FIELDS: [&str; 4] = ["a", "b\"", "\u{e9}", "$serde_json::private::"];

impl<'a> Any<'a> {
    fn read(bytes: &mut Bytes<'a>, depth: usize) -> Self {
        let nested = |bytes: &mut Bytes<'a>| Self::read(bytes, depth + 1);
        let number = |bytes: &mut Bytes<'a>| {
            let n = bytes.byte() % 9;
            (0..n).fold(0, |all, _| all << 8 | i64::from(bytes.byte()))
        };
        let few = |bytes: &mut Bytes<'a>| -> Vec<Self> {
            let n = bytes.byte() % 5;
            (0..n).map(|_| Self::read(bytes, depth + 1)).collect()
        };
        let which = match depth {
            0..=6 => bytes.byte() % 40,
            _ => bytes.byte() % 18,
        };
        match which {
            0 => Any::Unit,
            1 => Any::Bool(bytes.bit()),
            2 => Any::I8(number(bytes) as i8),
            3 => Any::I16(number(bytes) as i16),
            4 => Any::I32(number(bytes) as i32),
            5 => Any::I64(number(bytes)),
            6 => Any::I128(i128::from(number(bytes)) << (bytes.byte() % 64)),
            7 => Any::U8(number(bytes) as u8),
            8 => Any::U16(number(bytes) as u16),
            9 => Any::U32(number(bytes) as u32),
            10 => Any::U64(number(bytes) as u64),
            11 => Any::U128((number(bytes) as u128) << (bytes.byte() % 65)),
            12 => Any::F32(f32::from_bits(number(bytes) as u32)),
            13 => Any::F64(f64::from_bits(number(bytes) as u64)),
            14 => Any::Char(char::from_u32(number(bytes) as u32 % 0x11_0000).unwrap_or('\u{7f}')),
            15 | 16 => Any::Str(text(bytes.some_bytes())),
            17 => Any::None,
            18 => Any::Bytes(bytes.some_bytes()),
            19 => Any::Some(Box::new(nested(bytes))),
            20 => Any::Newtype(Box::new(nested(bytes))),
            21 => Any::Variant,
            22 => Any::NewtypeVariant(Box::new(nested(bytes))),
            23 | 24 => Any::Seq(few(bytes)),
            25 => Any::TupleVariant(few(bytes)),
            26 | 27 => {
                let n = bytes.byte() % 5;
                Any::Map((0..n).map(|_| (nested(bytes), nested(bytes))).collect())
            }
            28 => Any::Struct(few(bytes)),
            29 => Any::StructVariant(few(bytes)),
            30 => match Json::parse(bytes.some_bytes()) {
                Ok(json) => Any::Raw(json.to_owned_json()),
                Err(_) => Any::Refuses,
            },
            31 => Any::Refuses,
            32 => Any::UnitStruct,
            33 => Any::TupleStruct(few(bytes)),
            34 => Any::Tuple(few(bytes)),
            35 => {
                let n = bytes.byte() % 4;
                Any::Shown((0..n).map(|_| text(bytes.some_bytes())).collect())
            }
            36 | 37 => Any::Secret(which == 36, few(bytes)),
            38 => Any::Disorder(Box::new(nested(bytes)), bytes.byte()),
            _ => Any::Unit,
        }
    }

    /// Whether serde_json, without its feature for raw text, sees the same as we do.
    fn is_plain(&self) -> bool {
        match self {
            Any::Raw(_) | Any::Secret(..) | Any::Disorder(..) => false,
            Any::Some(inner) | Any::Newtype(inner) | Any::NewtypeVariant(inner) => inner.is_plain(),
            Any::Seq(all)
            | Any::TupleVariant(all)
            | Any::TupleStruct(all)
            | Any::Tuple(all)
            | Any::Struct(all)
            | Any::StructVariant(all) => all.iter().all(Self::is_plain),
            Any::Map(all) => all
                .iter()
                .all(|(key, value)| key.is_plain() && value.is_plain()),
            _ => true,
        }
    }

    /// Whether every number of a plain value is finite.
    fn is_finite(&self) -> bool {
        match self {
            Any::F32(number) => number.is_finite(),
            Any::F64(number) => number.is_finite(),
            Any::Some(inner) | Any::Newtype(inner) | Any::NewtypeVariant(inner) => {
                inner.is_finite()
            }
            Any::Seq(all)
            | Any::TupleVariant(all)
            | Any::TupleStruct(all)
            | Any::Tuple(all)
            | Any::Struct(all)
            | Any::StructVariant(all) => all.iter().all(Self::is_finite),
            Any::Map(all) => all
                .iter()
                .all(|(key, value)| key.is_finite() && value.is_finite()),
            _ => true,
        }
    }
}

/// Writes itself in pieces.
struct Pieces<'a>(&'a [&'a str]);

impl std::fmt::Display for Pieces<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|piece| f.write_str(piece))
    }
}

/// The longest prefix that is UTF-8.
fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).expect("it is valid so far")
        }
    }
}

impl Serialize for Any<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Any::Unit => to.serialize_unit(),
            Any::Bool(value) => to.serialize_bool(*value),
            Any::I8(value) => to.serialize_i8(*value),
            Any::I16(value) => to.serialize_i16(*value),
            Any::I32(value) => to.serialize_i32(*value),
            Any::I64(value) => to.serialize_i64(*value),
            Any::I128(value) => to.serialize_i128(*value),
            Any::U8(value) => to.serialize_u8(*value),
            Any::U16(value) => to.serialize_u16(*value),
            Any::U32(value) => to.serialize_u32(*value),
            Any::U64(value) => to.serialize_u64(*value),
            Any::U128(value) => to.serialize_u128(*value),
            Any::F32(value) => to.serialize_f32(*value),
            Any::F64(value) => to.serialize_f64(*value),
            Any::Char(value) => to.serialize_char(*value),
            Any::Str(value) => to.serialize_str(value),
            Any::Bytes(value) => to.serialize_bytes(value),
            Any::None => to.serialize_none(),
            Any::Some(value) => to.serialize_some(value),
            Any::Newtype(value) => to.serialize_newtype_struct("N", value),
            Any::Variant => to.serialize_unit_variant("E", 0, "un\"it"),
            Any::NewtypeVariant(value) => to.serialize_newtype_variant("E", 1, "new", value),
            Any::Seq(all) => {
                let mut seq = to.serialize_seq(None)?;
                all.iter().try_for_each(|one| seq.serialize_element(one))?;
                seq.end()
            }
            Any::TupleVariant(all) => {
                let mut seq = to.serialize_tuple_variant("E", 2, "tuple", all.len())?;
                all.iter().try_for_each(|one| seq.serialize_field(one))?;
                seq.end()
            }
            Any::Map(all) => {
                let mut map = to.serialize_map(Some(all.len()))?;
                all.iter()
                    .try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
            Any::Struct(all) => {
                let mut fields = to.serialize_struct("S", all.len())?;
                for (name, value) in FIELDS.into_iter().zip(all) {
                    fields.serialize_field(name, value)?;
                }
                fields.end()
            }
            Any::StructVariant(all) => {
                use serde::ser::SerializeStructVariant;
                let mut fields = to.serialize_struct_variant("E", 3, "struct", all.len())?;
                for (name, value) in FIELDS.into_iter().zip(all) {
                    fields.serialize_field(name, value)?;
                }
                fields.end()
            }
            Any::Raw(json) => json.as_json().serialize(to),
            Any::Refuses => Err(serde::ser::Error::custom("no")),
            Any::UnitStruct => to.serialize_unit_struct("U"),
            Any::TupleStruct(all) => {
                use serde::ser::SerializeTupleStruct;
                let mut seq = to.serialize_tuple_struct("T", all.len())?;
                all.iter().try_for_each(|one| seq.serialize_field(one))?;
                seq.end()
            }
            Any::Tuple(all) => {
                use serde::ser::SerializeTuple;
                let mut seq = to.serialize_tuple(all.len())?;
                all.iter().try_for_each(|one| seq.serialize_element(one))?;
                seq.end()
            }
            Any::Shown(pieces) => to.collect_str(&Pieces(pieces)),
            Any::Secret(raw, all) => {
                let name = SECRETS[usize::from(!raw)];
                let mut fields = to.serialize_struct(name, all.len())?;
                all.iter()
                    .try_for_each(|one| fields.serialize_field(name, one))?;
                fields.end()
            }
            Any::Disorder(value, how) => {
                let mut map = to.serialize_map(None)?;
                for bit in 0..4 {
                    // A type that breaks the rules may ignore a refusal, too.
                    let _ = match how >> bit & 1 {
                        0 => map.serialize_key("k"),
                        _ => map.serialize_value(value),
                    };
                }
                map.end()
            }
        }
    }
}

/// What was written of the value, or `None` if it was refused. The planted fault forgets the escape of
/// one character.
fn like_serde_json(value: &Any<'_>) -> Option<OwnedJson> {
    let ours = OwnedJson::from_value(value);
    if !value.is_plain() {
        return ours.ok();
    }
    let theirs = serde_json::to_string(value);
    match (&ours, theirs) {
        (Ok(ours), Ok(theirs)) => {
            let mut text = ours.as_str().to_string();
            if crate::PLANTED {
                text = text.replace("\\u001f", "\u{1f}");
            }
            assert_eq!(text, theirs);
            assert!(value.is_finite(), "a number without a form was written");
        }
        // serde_json writes null for it.
        (Err(error), Ok(_)) if error.kind() == EncodeErrorKind::NotFinite => {
            assert!(!value.is_finite(), "all its numbers have a form");
        }
        (Err(error), Err(_)) => {
            assert!(!format!("{error} {error:?} {:?}", error.kind()).is_empty());
            assert!(!error.message().contains('\u{0}') || error.message().is_empty());
        }
        // One takes what the other refuses.
        (ours, theirs) => panic!("ours {ours:?}, theirs {theirs:?} of {value:?}"),
    }
    ours.ok()
}

/// A call and a notification are read back as they were said, by a connection of the same dialect.
fn call(config: Config, method: &str, value: &Any<'_>, written: Json<'_>) {
    let mut near: Connection<u64> = Connection::new(config);
    let called = near.call(method, value, None, 0).is_ok();
    let told = near.notify(method, written).is_ok();
    // Not every connection may send batches; what is not sent must not arrive.
    let batched = {
        let mut batch = near.batch(None);
        let both =
            batch.call::<u8>(method, value, 1).is_ok() && batch.notify(method, value).is_ok();
        both && batch.send().is_ok()
    };
    let mut far: Connection<u64> = Connection::new(config);
    let mut heard = 0;
    hear(&mut near, &mut far, |event| match event {
        Event::Request(request) => {
            assert!(called || batched || told);
            said(&request.method, request.params, method, written);
            heard += 1;
        }
        Event::Notification(told) => {
            said(&told.method, told.params, method, written);
            heard += 1;
        }
        // Limits, and 1.0's ways, may differ from what the sender could know.
        Event::Refused(_)
        | Event::Malformed(_)
        | Event::UnmatchedResponse(_)
        | Event::Cancelled(_) => heard += 1,
        Event::Response(_) => panic!("nobody answered"),
        _ => {}
    });
    assert!(heard > 0 || !(called || told));
}

fn said(method: &str, params: Option<Json<'_>>, wanted: &str, value: Json<'_>) {
    assert_eq!(method, wanted);
    let value = (!value.is_null()).then_some(value);
    match (params, value) {
        (Some(params), Some(value)) => alike(params, value),
        // 1.0 has an array where 2.0 has nothing.
        (Some(params), None) => assert_eq!(params.as_str(), "[]"),
        (None, value) => assert!(value.is_none()),
    }
}

/// The same value; the text may have other blanks, and braces in strings may be escaped.
fn alike(one: Json<'_>, two: Json<'_>) {
    let read = |json: Json<'_>| serde_json::from_str::<serde_json::Value>(json.as_str());
    match (read(one), read(two)) {
        (Ok(one), Ok(two)) => assert_eq!(one, two),
        (one, two) => assert_eq!(one.is_err(), two.is_err()),
    }
}

/// What has no form is given back, and leaves nothing behind: the request can still be answered.
fn refused(mut config: Config, value: &Any<'_>) {
    config.framing = Framing::Messages;
    let mut conn: Connection<u64> = Connection::new(config);
    let called = conn.call("m", value, None, 3).expect_err("it has no form");
    assert_eq!(called.value, 3);
    assert!(!format!("{called} {called:?} {}", called.error).is_empty());
    assert!(conn.notify("m", value).is_err());
    assert_eq!(conn.poll_transmit(), None, "nothing is left behind");
    for asked in ONE_AND_MANY {
        let mut input = Input::text(asked);
        while let Some(event) = conn.poll_event(&mut input) {
            if let Event::Request(request) = event {
                let back = conn
                    .respond(request.token, value)
                    .expect_err("it has no form");
                let given = conn.respond_err(back.value, &ErrorObject::internal_error());
                assert!(given.is_ok(), "{given:?}");
            }
        }
    }
    let mut frame = Vec::new();
    while conn.take_transmit(&mut frame) {
        assert!(Json::parse(&frame).is_ok());
        frame.clear();
    }
}

const ONE_AND_MANY: [&str; 2] = [
    r#"{"jsonrpc":"2.0","method":"ask","params":[],"id":1}"#,
    r#"[{"jsonrpc":"2.0","method":"a","id":1},{"jsonrpc":"2.0","method":"b","id":2}]"#,
];

/// A result and an error read back as they were given.
fn answer(config: Config, value: &Any<'_>, written: Json<'_>) {
    let mut near: Connection<u64> = Connection::new(config);
    let mut far: Connection<u64> = Connection::new(config);
    for tag in 0..3 {
        // Calls that are refused are not answered.
        let _ = near.call("m", (), None, tag);
    }
    let error = ErrorObject::new(5, "\u{1}\u{2028}{").with_data(written);
    let mut fits = true;
    let mut turn = 0;
    let mut bytes = Vec::new();
    carry(&mut near, &mut bytes, |frame| {
        let mut input = Input::message(frame);
        while let Some(event) = far.poll_event(&mut input) {
            if let Event::Request(request) = event {
                let given = match turn % 3 {
                    0 => far.respond(request.token, value),
                    1 => far.respond(request.token, written),
                    _ => far.respond_err(request.token, &error),
                };
                fits &= given.is_ok();
                turn += 1;
            }
        }
    });
    hear(&mut far, &mut near, |event| match event {
        Event::Response(response) => match (response.tag, response.outcome) {
            (0 | 1, Outcome::Ok(result)) => alike(result, written),
            (2, Outcome::Err(back)) => {
                assert_eq!((back.code(), back.message()), (5, "\u{1}\u{2028}{"));
                alike(back.data().expect("it has data"), written);
                let owned = back.clone().into_owned();
                assert_eq!(
                    owned.as_error().text().map(Json::len),
                    back.text().map(Json::len)
                );
            }
            // A limit or a knob of the other side's, before it came to an answer.
            (_, Outcome::Err(error)) if antiphon::codes::is_reserved(error.code()) => {}
            (tag, outcome) => panic!("call {tag} gave {outcome:?}"),
        },
        Event::Closed(_) => {}
        event => assert!(!fits, "{event:?}"),
    });
}

/// Shows one side's output to the other and hands over what comes of it.
fn hear(
    from: &mut Connection<u64>,
    to: &mut Connection<u64>,
    mut each: impl FnMut(Event<'_, u64>),
) {
    let mut bytes = Vec::new();
    if from.config().framing == Framing::Messages {
        return carry(from, &mut bytes, |frame| {
            let mut input = Input::message(frame);
            while let Some(event) = to.poll_event(&mut input) {
                each(event);
            }
        });
    }
    while from.take_transmit(&mut bytes) {}
    let mut input = Input::stream(&bytes);
    while let Some(event) = to.poll_event(&mut input) {
        each(event);
    }
    assert_eq!(input.consumed(), bytes.len(), "what is written is whole");
}

fn carry(from: &mut Connection<u64>, bytes: &mut Vec<u8>, mut each: impl FnMut(&[u8])) {
    if from.config().framing == Framing::Messages {
        while from.take_transmit(bytes) {
            each(bytes);
            bytes.clear();
        }
        return;
    }
    // A stream is cut by the framer, as a driver without a connection would.
    while from.take_transmit(bytes) {}
    let config = *from.config();
    let mut framer = Framer::new(config.framing, 1 << 20, 4096);
    let mut rest = &bytes[..];
    while let Ok(cut) = framer.cut(rest, true) {
        let (taken, is_over) = (cut.consumed(), matches!(cut, Cut::End { .. }));
        if let Cut::Frame { body, .. } = cut {
            each(&rest[body]);
        }
        rest = &rest[taken..];
        if is_over {
            break;
        }
    }
    assert!(rest.is_empty(), "what is written is whole");
}

/// An error object of ours is written in the form of the specification.
fn errors(bytes: &[u8]) {
    let message = String::from_utf8_lossy(bytes);
    let made = OwnedError::new(-32000 - bytes.len() as i64, message.as_ref());
    let made = made
        .with_data(&BTreeMap::from([(bytes.len(), &message)]))
        .expect("it has a form");
    let written = antiphon::encode_error(antiphon::Id::NULL, &made.as_error());
    let read: serde_json::Value = serde_json::from_slice(&written).expect("it is JSON");
    assert_eq!(read["error"]["message"], *message);
    assert_eq!(read["error"]["code"], made.code());
    assert_eq!(read["id"], serde_json::Value::Null);
}
