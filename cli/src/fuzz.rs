//! Made-up messages, compared with what antiphon answers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use antiphon::generate::{AnyBatch, AnyMessage};
use antiphon::{Config, Json, JsonKind, Message, Reader};
use arbitrary::Unstructured;

use crate::answer::{Answer, Heard, read};
use crate::args::Preset;
use crate::cases::{Case, Code, NO_METHOD, Want, Wanted};
use crate::catalogue::Level;
use crate::http;
use crate::judge::Deviation;
use crate::oracle::own_answer;
use crate::random::Random;
use crate::run::{Played, Run, cause};
use crate::talks::{ATTEMPTS, Talks};

/// How many random bytes a message is made from.
const BYTES: usize = 300;
/// How many messages are kept for conversations.
const GOOD_MAX: usize = 64;

/// Sends messages for so long. Equal seeds send equal messages.
pub(crate) fn run(run: &mut Run<'_>, preset: Preset, time: Duration, seed: u64) {
    let end = Instant::now() + time;
    let mut random = Random(seed);
    let mut seen = BTreeSet::new();
    // Messages that were answered rightly make conversations. Over HTTP each message is alone. What conversations are
    // made of is the server's doing, so they draw for themselves.
    let (can_talk, mut in_talks) = (!run.place.is_http(), Random(!seed));
    let (mut good, mut talks) = (Vec::new(), Talks::default());
    while Instant::now() < end && run.stopped.is_none() {
        if can_talk && random.next() % 3 == 0 {
            if good.len() > 1 {
                talks.one(run, &good, &mut in_talks, end);
            }
            continue;
        }
        let bytes: Vec<u8> = (0..BYTES / 8)
            .flat_map(|_| random.next().to_le_bytes())
            .collect();
        let mut source = Unstructured::new(&bytes);
        let is_batch = preset == Preset::Strict && random.next() % 4 == 0;
        let made = match is_batch {
            true => AnyBatch::of(&mut source, &[NO_METHOD]).map(|batch| batch.as_str().to_owned()),
            false => AnyMessage::of(&mut source, &[NO_METHOD]).map(|one| one.as_str().to_owned()),
        };
        let Some(case) = made.ok().and_then(|text| case(&text, preset)) else {
            continue;
        };
        let Some((played, found)) = run.probe(&case) else {
            // A cancel rightly changes what others are answered with.
            let is_cancel = http::find(&case.message, b"/cancel").is_some();
            match good.len() {
                _ if is_cancel => {}
                ..GOOD_MAX => good.push(case),
                n => good[random.below(n)] = case,
            }
            continue;
        };
        for deviation in found {
            let key = (deviation.check, deviation.level, cause(&deviation.what));
            let smallest = match seen.insert(key.clone()) {
                true => minimise(run, preset, &case, &key, end),
                false => None,
            };
            match smallest {
                Some((case, played, deviation)) => run.add_case(&case, &played, deviation),
                None => run.add_case(&case, &played, deviation),
            }
        }
    }
}

/// What a deviation is told from others by.
type Key = (&'static str, Level, String);

/// A message with what antiphon answers. `None` where servers may differ without being wrong.
fn case(text: &str, preset: Preset) -> Option<Case> {
    let json = Json::parse_str(text).ok();
    let (check, level) = class(text, json);
    // The order in which repeated members count is nobody's fault.
    if json.is_some_and(has_repeated) {
        return None;
    }
    let is_valid = level == Level::Must;
    let wanted = |answer: &Answer| {
        let mut ids: Vec<String> = answer.id.iter().cloned().collect();
        if answer.code != Some(-32601) {
            ids.push("null".to_owned());
            ids.extend(
                json.and_then(|json| json.get("id"))
                    .map(|id| id.as_str().to_owned()),
            );
        }
        let code = match answer.code {
            Some(-32601) => Code::Unknown,
            Some(code) if is_valid => Code::One(code),
            _ => Code::AnyError,
        };
        Wanted { ids, code }
    };
    let want = match own_answer(text.as_bytes(), preset).map(|answer| read(&answer)) {
        None => Want::Nothing,
        Some(Heard::One(answer)) => Want::One(wanted(&answer)),
        Some(Heard::Many(answers)) => Want::Batch(answers.iter().map(wanted).collect()),
        Some(_) => return None,
    };
    Some(Case {
        check,
        message: text.as_bytes().to_vec(),
        want,
        level,
        may_end: false,
        is_valid,
    })
}

/// The check that a message belongs to. *must* is for what is valid beyond doubt.
fn class(text: &str, json: Option<Json<'_>>) -> (&'static str, Level) {
    let mut reader = Reader::new(Config::strict());
    let Ok(messages) = reader.read(text.as_bytes()) else {
        return ("fuzz.syntax", Level::Should);
    };
    let is_batch = messages.is_batch();
    let kinds: Vec<(&str, bool)> = messages
        .map(|message| match message {
            Message::Request { .. } => ("fuzz.request", true),
            Message::Notification { .. } => ("fuzz.notification", true),
            Message::Response { .. } => ("fuzz.response", false),
            _ => ("fuzz.invalid", false),
        })
        .collect();
    let is_plain = |json: Json<'_>| {
        json.members().all(|(name, _)| {
            ["jsonrpc", "method", "params", "id"]
                .iter()
                .any(|known| name.eq_str(known))
        })
    };
    let is_plain = json.is_some_and(|json| is_plain(json) && json.elements().all(is_plain));
    let is_valid = is_plain && !kinds.is_empty() && kinds.iter().all(|(_, is_valid)| *is_valid);
    let level = if is_valid { Level::Must } else { Level::Should };
    match (&kinds[..], is_batch) {
        (_, true) => ("fuzz.batch", level),
        ([(check, _)], _) => (check, level),
        _ => ("fuzz.invalid", level),
    }
}

fn has_repeated(json: Json<'_>) -> bool {
    let mut names = BTreeSet::new();
    let is_twice = json
        .members()
        .any(|(name, _)| !names.insert(name.to_cow_lossy().into_owned()));
    is_twice || json.elements().any(has_repeated)
}

/// The smallest message that is found to be answered wrongly in the same way; `None` if that is the first.
fn minimise(
    run: &mut Run<'_>,
    preset: Preset,
    first: &Case,
    key: &Key,
    end: Instant,
) -> Option<(Case, Played, Deviation)> {
    let mut smallest = None;
    let mut text = String::from_utf8_lossy(&first.message).into_owned();
    let mut attempts = 0;
    'smaller: loop {
        let candidates = Json::parse_str(&text).map(parts).unwrap_or_default();
        for candidate in candidates {
            attempts += 1;
            if attempts > ATTEMPTS || Instant::now() > end {
                return smallest;
            }
            let Some(case) = self::case(&candidate, preset) else {
                continue;
            };
            let Some((played, found)) = run.probe(&case) else {
                continue;
            };
            let same = found
                .into_iter()
                .find(|one| (one.check, one.level, cause(&one.what)) == *key);
            if let Some(deviation) = same {
                smallest = Some((case, played, deviation));
                text = candidate;
                continue 'smaller;
            }
        }
        return smallest;
    }
}

/// The text without one of its members or elements, and with one of these made smaller.
fn parts(json: Json<'_>) -> Vec<String> {
    let (open, close, all): (char, char, Vec<(String, Json<'_>)>) = match json.kind() {
        JsonKind::Object => {
            let members = json
                .members()
                .map(|(name, value)| (format!("\"{}\":", name.raw()), value));
            ('{', '}', members.collect())
        }
        JsonKind::Array => (
            '[',
            ']',
            json.elements()
                .map(|value| (String::new(), value))
                .collect(),
        ),
        _ => return Vec::new(),
    };
    let with = |change: usize, to: Option<&str>| {
        let kept =
            all.iter()
                .enumerate()
                .filter_map(|(at, (name, value))| match (at == change, to) {
                    (true, Some(text)) => Some(format!("{name}{text}")),
                    (true, None) => None,
                    (false, _) => Some(format!("{name}{}", value.as_str())),
                });
        format!("{open}{}{close}", kept.collect::<Vec<_>>().join(","))
    };
    let mut found: Vec<String> = (0..all.len()).map(|at| with(at, None)).collect();
    for (at, (_, value)) in all.iter().enumerate() {
        found.extend(parts(*value).iter().map(|text| with(at, Some(text))));
    }
    found
}
