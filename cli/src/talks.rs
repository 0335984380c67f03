//! Made-up conversations: several messages in one stream, which arrives in pieces.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use crate::answer::{Heard, read};
use crate::cases::{Case, Code, Want, Wanted, call};
use crate::catalogue::Level;
use crate::judge::{After, judge};
use crate::link::{Link, Message, Next, Place, Step};
use crate::random::Random;
use crate::run::{LONG_PATIENCE, PATIENCE, QUIET, Run};

const CHECK: &str = "fuzz.conversation";
/// The most messages and the most cuts of a conversation.
const MESSAGES_MAX: u64 = 6;
const CUTS_MAX: u64 = 4;
/// The most attempts to make something smaller.
pub(crate) const ATTEMPTS: usize = 60;
/// The pause between two pieces.
const PAUSE: Duration = Duration::from_millis(4);

/// Messages that are answered rightly one by one, and where the stream of them is cut: in which message, and where in it.
#[derive(Clone)]
struct Talk {
    cases: Vec<Case>,
    cuts: BTreeSet<(usize, usize)>,
}

/// What came after a conversation.
struct Played {
    heard: Vec<Message>,
    received: Vec<u8>,
    is_ended: bool,
    /// Whether the request behind it was answered.
    is_alive: bool,
}

/// The conversations of a run.
#[derive(Default)]
pub(crate) struct Talks {
    /// What was found, with the level of its smallest conversation.
    seen: BTreeMap<String, Level>,
    /// A connection whose last conversation went well.
    idle: Option<Link>,
    sent: usize,
}

impl Talks {
    /// Plays a conversation of some of these messages. What is wrong is made smaller, once for each cause.
    pub(crate) fn one(
        &mut self,
        run: &mut Run<'_>,
        good: &[Case],
        random: &mut Random,
        end: Instant,
    ) {
        *run.ran.entry(CHECK).or_default() += 1;
        let mut talk = Talk::of(run.place, good, random);
        let idle = self.idle.take();
        let Some((what, mut received)) = self.probe(run, &talk, idle) else {
            return;
        };
        if !self.seen.contains_key(&what) {
            let smallest = self.minimise(run, &talk, &what, end);
            // Attempts are made once each, so their end must be wrong twice too.
            if let Some((again, theirs)) = self.probe(run, &smallest, None) {
                if again == what {
                    (talk, received) = (smallest, theirs);
                }
            }
        }
        let level = *self
            .seen
            .entry(what.clone())
            .or_insert_with(|| talk.level());
        let steps = [&begin(run.pace)[..], &talk.steps(run.place)].concat();
        run.add(CHECK, level, &what, &steps, &received);
    }

    fn minimise(&mut self, run: &Run<'_>, first: &Talk, what: &str, end: Instant) -> Talk {
        let mut smallest = first.clone();
        let mut attempts = 0;
        'smaller: loop {
            for candidate in smallest.parts() {
                attempts += 1;
                if attempts > ATTEMPTS || Instant::now() > end {
                    return smallest;
                }
                let played = self.play(run, &candidate, None, PATIENCE);
                let again = played
                    .ok()
                    .and_then(|(played, _)| candidate.wrong(run, &played));
                if again.is_some_and(|again| again == what) {
                    smallest = candidate;
                    continue 'smaller;
                }
            }
            return smallest;
        }
    }

    /// What is wrong, if it is so twice, the second time over a new connection; and what was received.
    fn probe(
        &mut self,
        run: &Run<'_>,
        talk: &Talk,
        idle: Option<Link>,
    ) -> Option<(String, Vec<u8>)> {
        let first = self.play(run, talk, idle, PATIENCE);
        if let Ok((played, link)) = first {
            if talk.wrong(run, &played).is_none() {
                self.idle = Some(link);
                return None;
            }
        }
        let (played, _) = self.play(run, talk, None, LONG_PATIENCE * 2).ok()?;
        Some((talk.wrong(run, &played)?, played.received))
    }

    fn play(
        &mut self,
        run: &Run<'_>,
        talk: &Talk,
        idle: Option<Link>,
        patience: Duration,
    ) -> io::Result<(Played, Link)> {
        let mut link = match idle {
            Some(link) => link,
            None => {
                let mut link = run.place.open()?;
                for step in begin(run.pace) {
                    link.step(&step)?;
                }
                link
            }
        };
        for step in talk.steps(run.place) {
            // A server that ends early is seen below.
            let _ = link.step(&step);
        }
        self.sent += 1;
        let sentinel = format!("\"antiphon-still-there-{}\"", self.sent);
        let _ = link.send(call(&sentinel).as_bytes());
        let mut played = Played {
            heard: Vec::new(),
            received: Vec::new(),
            is_ended: false,
            is_alive: false,
        };
        let begin = Instant::now();
        // Before it is a finding, a slow answer has all the time that an answer may take.
        let wait = match patience < LONG_PATIENCE {
            true => run.pace,
            false => run.place.dialler.timeout.max(run.pace),
        };
        let end = begin + wait + patience * 2;
        let mut deadline = begin + wait;
        loop {
            match link.next(deadline.min(end)) {
                Next::Message(message) => match read(&message.body) {
                    Heard::Call => continue,
                    Heard::One(answer) if answer.id.as_deref() == Some(&sentinel) => {
                        played.is_alive = true
                    }
                    _ => {
                        played.received.extend_from_slice(&message.body);
                        played.received.push(b'\n');
                        played.heard.push(message);
                    }
                },
                Next::Ended => {
                    played.is_ended = true;
                    break;
                }
                Next::Nothing => break,
            }
            if played.is_alive {
                let is_missing = talk.unmatched(run, &played.heard).0 > 0;
                deadline = Instant::now() + if is_missing { patience } else { QUIET };
            }
        }
        Ok((played, link))
    }
}

impl Talk {
    fn of(place: &Place, good: &[Case], random: &mut Random) -> Self {
        let cases: Vec<Case> = (0..2 + random.next() % (MESSAGES_MAX - 1))
            .map(|_| good[random.below(good.len())].clone())
            .collect();
        let places: Vec<(usize, usize, u8)> = cases
            .iter()
            .enumerate()
            .flat_map(|(at, case)| {
                let bytes = place.on_wire(&case.message).into_iter().enumerate();
                bytes.map(move |(place, byte)| (at, place, byte))
            })
            .collect();
        // Many servers are wrong inside a character, so half of the cuts are there.
        let inside: Vec<_> = places
            .iter()
            .filter(|(_, _, byte)| byte & 0xc0 == 0x80)
            .copied()
            .collect();
        let mut cuts = BTreeSet::new();
        for _ in 0..random.next() % (CUTS_MAX + 1) {
            let from = match inside.is_empty() || random.next() % 2 == 0 {
                true => &places,
                false => &inside,
            };
            let (at, place, _) = from[random.below(from.len())];
            cuts.insert((at, place));
        }
        Self { cases, cuts }
    }

    /// Smaller conversations: of plain calls alone, without one message, without one cut, or with one more plain call.
    fn parts(&self) -> Vec<Self> {
        let plain = |at: usize| {
            let id = (at + 1).to_string();
            Case {
                message: call(&id).into_bytes(),
                want: Want::One(Wanted {
                    ids: vec![id],
                    code: Code::Unknown,
                }),
                level: Level::Must,
                ..self.cases[at].clone()
            }
        };
        let is_plain = |at: &usize| self.cases[*at].message == plain(*at).message;
        // Behind its end nothing can be cut.
        let calls = |chosen: &dyn Fn(usize) -> bool| {
            let cases: Vec<Case> = (0..self.cases.len())
                .map(|at| match chosen(at) {
                    true => plain(at),
                    false => self.cases[at].clone(),
                })
                .collect();
            let is_inside = |(at, place): &&(usize, usize)| *place < cases[*at].message.len();
            let cuts = self.cuts.iter().filter(is_inside).copied().collect();
            Self { cases, cuts }
        };
        let without = |gone: usize| {
            let mut cases = self.cases.clone();
            cases.remove(gone);
            let kept = self.cuts.iter().filter(|(at, _)| *at != gone);
            let cuts = kept
                .map(|(at, place)| (at - usize::from(*at > gone), *place))
                .collect();
            Self { cases, cuts }
        };
        let n = self.cases.len();
        let others: Vec<usize> = (0..n).filter(|at| !is_plain(at)).collect();
        let mut parts = Vec::new();
        if others.len() > 1 {
            parts.push(calls(&|_| true));
        }
        if n > 1 {
            parts.extend((0..n).map(without));
        }
        parts.extend(self.cuts.iter().map(|cut| {
            let mut smaller = self.clone();
            smaller.cuts.remove(cut);
            smaller
        }));
        parts.extend(others.iter().map(|other| calls(&|at| at == *other)));
        parts
    }

    fn steps(&self, place: &Place) -> Vec<Step> {
        let (mut steps, mut piece) = (Vec::new(), Vec::new());
        for (at, case) in self.cases.iter().enumerate() {
            let bytes = place.on_wire(&case.message);
            let mut from = 0;
            for (_, cut) in self.cuts.range((at, 0)..(at + 1, 0)) {
                piece.extend_from_slice(&bytes[from..*cut]);
                from = *cut;
                if !piece.is_empty() {
                    steps.push(Step::Bytes(std::mem::take(&mut piece)));
                    steps.push(Step::Pause(PAUSE));
                }
            }
            piece.extend_from_slice(&bytes[from..]);
        }
        steps.push(Step::Bytes(piece));
        steps
    }

    /// *must* where all messages are valid beyond doubt.
    fn level(&self) -> Level {
        match self.cases.iter().all(|case| case.level == Level::Must) {
            true => Level::Must,
            false => Level::Should,
        }
    }

    fn wrong(&self, run: &Run<'_>, played: &Played) -> Option<String> {
        let (missing, more) = self.unmatched(run, &played.heard);
        let what = match (missing, more) {
            _ if played.is_ended => "the server ends",
            (0, 0) if played.is_alive => return None,
            (0, 0) => "the next request is not answered",
            (_, 0) => "what is answered alone is not answered in this conversation",
            (0, _) => "there are more answers than requests",
            _ => "what is answered rightly alone is answered wrongly in this conversation",
        };
        Some(what.to_owned())
    }

    /// How many messages have no right answer, and how many answers are left over. An answer may be right for several
    /// messages, so those are matched in the best way.
    fn unmatched(&self, run: &Run<'_>, heard: &[Message]) -> (usize, usize) {
        let asked = self
            .cases
            .iter()
            .filter(|case| !matches!(case.want, Want::Nothing));
        let fits: Vec<Vec<usize>> = asked
            .map(|case| {
                let is_right = |at: &usize| {
                    let after = After {
                        messages: vec![heard[*at].clone()],
                        is_ended: false,
                        is_alive: Some(true),
                    };
                    judge(case, &after, run.rules).is_empty()
                };
                (0..heard.len()).filter(is_right).collect()
            })
            .collect();
        let mut owner = vec![None; heard.len()];
        let matched = (0..fits.len())
            .filter(|case| assign(*case, &fits, &mut owner, &mut vec![false; heard.len()]))
            .count();
        (fits.len() - matched, heard.len() - matched)
    }
}

/// A call that is answered first: then the server reads already when the pieces come.
fn begin(pace: Duration) -> [Step; 2] {
    let first = call("\"antiphon-first\"");
    [Step::Message(first.into_bytes()), Step::Hear(pace)]
}

/// Finds an answer for a message. Others that have it may have to take another one.
fn assign(
    case: usize,
    fits: &[Vec<usize>],
    owner: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    for &at in &fits[case] {
        if std::mem::replace(&mut tried[at], true) {
            continue;
        }
        if owner[at].is_none_or(|other| assign(other, fits, owner, tried)) {
            owner[at] = Some(case);
            return true;
        }
    }
    false
}
