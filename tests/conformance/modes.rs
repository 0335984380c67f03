//! Runs a case with every way in which its input can arrive, with the same expectations.
//!
//! Whole, byte by byte, cut at random; under every stream framing unless the case asks for one. And,
//! under one framing, cut once at every point (short cases) and as whole messages.

use antiphon::{Config, Framing, Json};

use super::case::{Action, Case, Piece};
use super::knobs::{self, Setup};
use super::player::{Feed, Observed, framed, play};

/// A case of at most so many bytes is cut before each of them but the first of a step.
const MAX_EVERY_CUT_BYTES: usize = 500;
/// A case of more bytes than this does not arrive byte by byte.
const MAX_SINGLE_BYTES: usize = 300_000;
/// How often a case is cut at random, each time by another seed.
const RANDOM_CUTS: u64 = 6;

/// Plays a case in all modes. Gives how often it was played, or what went wrong.
pub(crate) fn play_all(case: &Case) -> Result<usize, String> {
    let setup = knobs::setup(&case.config)?;
    let mut played = 0;
    for (index, framing) in framings(case, &setup).into_iter().enumerate() {
        let config = setup.config.framing(framing);
        let stream_bytes = input_bytes(case, framing);
        let mut feeds = vec![Feed::Whole];
        if !case.whole_only && framing != Framing::Messages {
            let bytes: usize = stream_bytes.iter().sum();
            if bytes <= MAX_SINGLE_BYTES {
                feeds.push(Feed::Bytes);
            }
            feeds.extend((1..=RANDOM_CUTS).map(Feed::Random));
            if bytes <= MAX_EVERY_CUT_BYTES && index == 0 {
                for (step, &bytes) in stream_bytes.iter().enumerate() {
                    feeds.extend((1..bytes).map(|at| Feed::SplitAt { step, at }));
                }
            }
            if can_be_messages(case) && index == 0 {
                feeds.push(Feed::Messages);
            }
        }
        for feed in feeds {
            let check = || {
                let observed = play(case, config, feed)?;
                compare(case, &observed)
            };
            check().map_err(|error| format!("{framing:?}, {feed:?}: {error}"))?;
            played += 1;
        }
    }
    if let Some(least) = case.differs_from_strict {
        let differing = exchanges_unlike_strict(case, &setup)?;
        if differing < least {
            return Err(format!(
                "only {differing} exchanges differ from strict 2.0, {least} should"
            ));
        }
    }
    Ok(played)
}

/// The framings under which the case is played.
fn framings(case: &Case, setup: &Setup) -> Vec<Framing> {
    let is_about_bytes = case.steps.iter().any(|step| {
        step.expected.raw.is_some()
            || matches!(&step.action, Action::Input(pieces)
                if pieces.iter().any(|piece| matches!(piece, Piece::Raw(_))))
    });
    if setup.framing_is_fixed || is_about_bytes {
        return vec![setup.config.framing];
    }
    let mut framings = vec![Framing::Newline, Framing::ContentLength];
    let bodies = || {
        case.steps.iter().flat_map(|step| match &step.action {
            Action::Input(pieces) => pieces.as_slice(),
            Action::Command(_) => &[],
        })
    };
    // Neither a message with a line break nor an empty one can stand in a line.
    let has_line_break = bodies().any(|piece| match piece {
        Piece::Body(body) | Piece::Raw(body) => body.contains(&b'\n') || body.is_empty(),
    });
    if has_line_break {
        framings.remove(0);
    }
    let all_json = bodies().all(|piece| match piece {
        Piece::Body(body) | Piece::Raw(body) => {
            matches!(body.first(), Some(b'{' | b'['))
                && std::str::from_utf8(body).is_ok_and(|text| Json::parse_str(text).is_ok())
        }
    });
    if all_json {
        framings.push(Framing::Concatenated);
    }
    framings
}

/// How many bytes each step puts into the stream.
fn input_bytes(case: &Case, framing: Framing) -> Vec<usize> {
    let bytes_of = |piece: &Piece| match piece {
        Piece::Body(body) => framed(body, framing).len(),
        Piece::Raw(raw) => raw.len(),
    };
    case.steps
        .iter()
        .map(|step| match &step.action {
            Action::Input(pieces) => pieces.iter().map(bytes_of).sum(),
            Action::Command(_) => 0,
        })
        .collect()
}

fn can_be_messages(case: &Case) -> bool {
    let is_body = |piece: &Piece| matches!(piece, Piece::Body(body) if !body.is_empty());
    !case.stream_only
        && case.steps.iter().all(|step| match &step.action {
            Action::Input(pieces) => pieces.iter().all(is_body),
            Action::Command(_) => true,
        })
}

fn compare(case: &Case, observed: &[Observed]) -> Result<(), String> {
    for (step, observed) in case.steps.iter().zip(observed) {
        let expected = &step.expected;
        let same_events = expected.events.len() == observed.events.len()
            && expected
                .events
                .iter()
                .zip(&observed.events)
                .all(|(line, shown)| shown.matches(line));
        let same_output = match &expected.raw {
            Some(raw) => *raw == observed.raw,
            None => expected.frames == observed.frames,
        };
        let states = expected.states.iter().zip(&observed.states);
        let same_states = states.clone().all(|((_, value), state)| value == state);
        if same_events && same_output && same_states {
            continue;
        }
        let mut report = format!("line {}:", step.line);
        for line in &expected.events {
            report.push_str(&format!("\n   expected ! {}", cut(line)));
        }
        for shown in &observed.events {
            let full = shown.with_offset.as_ref().unwrap_or(&shown.line);
            report.push_str(&format!("\n   observed ! {}", cut(full)));
        }
        if !same_output {
            for line in &expected.frames {
                report.push_str(&format!("\n   expected > {}", cut(line)));
            }
            for line in &observed.frames {
                report.push_str(&format!("\n   observed > {}", cut(line)));
            }
            if let Some(raw) = &expected.raw {
                report.push_str(&format!(
                    "\n   expected >> {}\n   observed >> {}",
                    raw.escape_ascii(),
                    observed.raw.escape_ascii()
                ));
            }
        }
        for ((name, value), state) in states {
            report.push_str(&format!("\n   expected ? {name} {value}, observed {state}"));
        }
        return Err(report);
    }
    Ok(())
}

/// A line short enough to be read.
fn cut(line: &str) -> String {
    let mut chars = line.chars();
    let head: String = chars.by_ref().take(300).collect();
    match chars.count() {
        0 => head,
        more => format!("{head} … and {more} more"),
    }
}

/// How many exchanges have other events or messages under strict 2.0 with the same framing.
fn exchanges_unlike_strict(case: &Case, setup: &Setup) -> Result<usize, String> {
    let strict = Config::strict().framing(setup.config.framing);
    let ours = play(case, setup.config, Feed::Whole)?;
    let theirs = play(case, strict, Feed::Whole)?;
    let mut unlike = Vec::new();
    for (step, (ours, theirs)) in case.steps.iter().zip(ours.iter().zip(&theirs)) {
        if ours.events != theirs.events || ours.frames != theirs.frames {
            unlike.push(step.exchange);
        }
    }
    unlike.dedup();
    Ok(unlike.len())
}
