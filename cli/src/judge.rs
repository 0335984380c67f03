//! Compares what was heard with what is right.

use crate::answer::{Answer, Heard, NO_ID, read, same_id};
use crate::cases::{Case, Code, Want, Wanted};
use crate::catalogue::Level;
use crate::link::Message;

/// A way in which a server is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deviation {
    pub(crate) check: &'static str,
    pub(crate) level: Level,
    pub(crate) what: String,
    /// Whether more time could mend it: an answer is missing.
    pub(crate) is_missing: bool,
}

/// What came after a case.
#[derive(Default)]
pub(crate) struct After {
    pub(crate) messages: Vec<Message>,
    /// Whether the connection, or the command, ended.
    pub(crate) is_ended: bool,
    /// Whether a request behind it was answered; `None` where none was sent.
    pub(crate) is_alive: Option<bool>,
}

/// What is right for this server.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// The code for unknown methods; none where they have results.
    pub(crate) unknown: Option<i64>,
    /// Whether an error may have no id, as in MCP, where the id is not known.
    pub(crate) may_lack_id: bool,
}

struct Judge<'a> {
    case: &'a Case,
    after: &'a After,
    rules: Rules,
    found: Vec<Deviation>,
}

/// All that is wrong with what came after a case.
pub(crate) fn judge(case: &Case, after: &After, rules: Rules) -> Vec<Deviation> {
    let mut judge = Judge {
        case,
        after,
        rules,
        found: Vec::new(),
    };
    judge.all();
    judge.found
}

impl Judge<'_> {
    fn add(&mut self, check: &'static str, level: Level, what: impl Into<String>) {
        self.found.push(Deviation {
            check,
            level,
            what: what.into(),
            is_missing: false,
        });
    }

    /// The case itself is answered wrongly.
    fn wrong(&mut self, what: impl Into<String>) {
        self.add(self.case.check, self.case.level, what);
    }

    fn missing(&mut self, what: &str) {
        let end = match (self.after.is_ended, self.after.is_alive) {
            (true, _) => ", and the server ends",
            (_, Some(false)) => ", nor is the next request",
            _ => "",
        };
        let what = format!("{what}{end}");
        self.found.push(Deviation {
            check: self.case.check,
            level: self.case.level,
            what,
            is_missing: true,
        });
    }

    fn all(&mut self) {
        let mut single = Vec::new();
        let mut arrays = Vec::new();
        for message in &self.after.messages {
            match read(&message.body) {
                Heard::One(answer) => single.push(answer),
                Heard::Many(answers) => arrays.push(answers),
                Heard::Call => {}
                Heard::Scalar(_) if matches!(self.case.want, Want::Anything) => {}
                Heard::Scalar(text) => self.wrong(format!(
                    "it is answered with {}, which is no answer",
                    crate::bytes::shown(text.as_bytes())
                )),
                Heard::NotJson => self.not_json(message),
            }
        }
        if self.rules.may_lack_id {
            let unnamed = single
                .iter_mut()
                .chain(arrays.iter_mut().flatten())
                .filter(|answer| answer.is_error && answer.id.is_none());
            for answer in unnamed {
                answer.id = Some("null".to_owned());
                answer.faults.retain(|(_, what)| what != NO_ID);
            }
        }
        let heard = single.iter().chain(arrays.iter().flatten());
        let faults: Vec<_> = heard.flat_map(|answer| answer.faults.clone()).collect();
        for (check, what) in faults {
            // What is no id in the request is judged by its own check, and a server that speaks 1.0 too answers in its form.
            let is_id = matches!(self.case.check, "id.bool" | "id.object")
                && what.starts_with("the id of an answer");
            if !is_id && !self.case.check.starts_with("version.") {
                self.add(check, Level::Must, what);
            }
        }
        if self.found.iter().any(|one| one.check == self.case.check) {
            return;
        }
        match &self.case.want {
            Want::Anything => {}
            Want::Nothing => self.nothing(&single, &arrays),
            Want::One(wanted) => self.one(wanted, &single, &arrays),
            Want::Batch(wanted) => self.batch(wanted, &single, &arrays),
            Want::BatchOrError(wanted) => {
                let is_refused = arrays.is_empty() && single.len() == 1 && single[0].is_error;
                if !is_refused {
                    self.batch(wanted, &single, &arrays);
                }
            }
        }
        let is_dead = self.after.is_alive == Some(false);
        let is_said = self.found.iter().any(|one| one.check == self.case.check);
        if is_dead && !is_said && !self.case.may_end {
            let level = if self.case.is_valid {
                self.case.level
            } else {
                Level::Should
            };
            let what = match self.after.is_ended {
                true => "the server ends after it",
                false => "the next request is not answered",
            };
            self.found.push(Deviation {
                check: self.case.check,
                level,
                what: what.to_owned(),
                is_missing: true,
            });
        }
    }

    /// A message that is no JSON. Over HTTP a bad request may be refused by a status, and an empty body is no message.
    fn not_json(&mut self, message: &Message) {
        let is_refusal = message
            .status
            .is_some_and(|status| (400..500).contains(&status));
        match (message.status, &self.case.want) {
            (_, Want::Anything) => {}
            (Some(_), Want::Nothing) if message.body.is_empty() => {}
            (Some(status), Want::Nothing) if is_refusal => {
                self.add(
                    self.case.check,
                    Level::Should,
                    format!("it is answered with HTTP status {status}"),
                );
            }
            (Some(413), Want::BatchOrError(_)) => {}
            (Some(status), _) if is_refusal && !self.case.is_valid => {
                let what =
                    format!("it is refused with HTTP status {status} and without an error object");
                self.add(self.case.check, Level::Should, what);
            }
            (Some(status), _) if message.body.is_empty() => {
                self.wrong(format!(
                    "it is not answered: HTTP status {status} and no body"
                ));
            }
            (Some(status), _) => {
                self.wrong(format!("the answer, with HTTP status {status}, is no JSON"))
            }
            (None, _) => self.add(
                "answer.shape",
                Level::Must,
                "what the server writes is no JSON",
            ),
        }
    }

    fn nothing(&mut self, single: &[Answer], arrays: &[Vec<Answer>]) {
        if let Some(answer) = single.first().or_else(|| arrays.iter().flatten().next()) {
            self.wrong(match answer.code {
                Some(code) => format!("it is answered with the error {code}"),
                None => "it is answered".to_owned(),
            });
        } else if !arrays.is_empty() {
            self.wrong("it is answered with an empty array");
        }
    }

    fn one(&mut self, wanted: &Wanted, single: &[Answer], arrays: &[Vec<Answer>]) {
        if !arrays.is_empty() {
            self.wrong("it is answered with an array");
            return;
        }
        let (fit, other): (Vec<&Answer>, Vec<&Answer>) =
            single.iter().partition(|answer| is_for(answer, wanted));
        match (&fit[..], &other[..]) {
            ([], []) => self.missing("it is not answered"),
            ([], [answer, ..]) => self.wrong_id(wanted, answer),
            ([answer, more @ ..], _) => {
                self.code(wanted, answer);
                // How a string is escaped is nobody's business.
                let is_number = answer.id.as_deref().is_some_and(|id| !id.starts_with('"'));
                let is_rewritten =
                    is_number && !wanted.ids.iter().any(|id| answer.id.as_deref() == Some(id));
                if self.case.check == "id.exact-text" && is_rewritten {
                    let what = format!(
                        "the id {} comes back as {}",
                        wanted.ids.join(" or "),
                        id_of(answer)
                    );
                    self.add(self.case.check, Level::Should, what);
                }
                if !more.is_empty() {
                    self.add(
                        "answer.once",
                        Level::Must,
                        format!("it is answered {} times", more.len() + 1),
                    );
                }
                if let Some(answer) = other.first() {
                    let what = format!("there is one more answer, with the id {}", id_of(answer));
                    self.add("answer.own-id", Level::Must, what);
                }
            }
        }
    }

    fn wrong_id(&mut self, wanted: &Wanted, answer: &Answer) {
        // A missing member is reported as a fault of shape.
        if answer.id.is_none() {
            return;
        }
        let id = id_of(answer);
        let is_null = answer.id.as_deref() == Some("null");
        let what = match (is_null, answer.code) {
            (true, Some(code)) => format!("it is answered with the error {code} and the id null"),
            _ => format!(
                "the id of the answer is {id}, not {}",
                wanted.ids.join(" or ")
            ),
        };
        let is_own = is_null || self.case.check.starts_with("id.") || !self.case.is_valid;
        let check = if is_own {
            self.case.check
        } else {
            "answer.own-id"
        };
        self.add(check, self.case.level, what);
    }

    fn code(&mut self, wanted: &Wanted, answer: &Answer) {
        let right = match wanted.code {
            Code::Any => return,
            Code::AnyError if answer.is_error => return,
            Code::AnyError => "an error".to_owned(),
            Code::One(code) => code.to_string(),
            Code::Unknown => self
                .rules
                .unknown
                .map_or("a result".to_owned(), |code| code.to_string()),
        };
        let got = match (answer.is_error, answer.code) {
            (false, _) => "a result".to_owned(),
            (true, Some(code)) => code.to_string(),
            // A fault of shape.
            (true, None) => return,
        };
        if got != right {
            self.wrong(format!("it is answered with {got}, not {right}"));
        }
    }

    fn batch(&mut self, wanted: &[Wanted], single: &[Answer], arrays: &[Vec<Answer>]) {
        let answers = match (arrays, single) {
            ([], []) => return self.missing("it is not answered"),
            ([], [one]) if one.id.as_deref() == Some("null") && wanted.len() > 1 => {
                let code = one
                    .code
                    .map_or("an error".to_owned(), |code| code.to_string());
                return self.wrong(format!("the whole batch is answered with one {code}"));
            }
            ([], _) => return self.wrong("it is answered without an array"),
            ([answers], []) => answers,
            _ => return self.wrong("it is answered with more than one array"),
        };
        let mut left: Vec<&Answer> = answers.iter().collect();
        let mut missed = 0;
        for one in wanted {
            // The right code first, where several wait with one id.
            let place = left
                .iter()
                .position(|answer| is_for(answer, one) && self.fits(one, answer));
            match place.or_else(|| left.iter().position(|answer| is_for(answer, one))) {
                Some(place) => {
                    let answer = left.remove(place);
                    self.code(one, answer);
                }
                None => missed += 1,
            }
        }
        if missed > 0 {
            self.missing(&format!("{missed} of {} answers are missing", wanted.len()));
        }
        for answer in left {
            let is_known = wanted.iter().any(|one| is_for(answer, one));
            let twice = is_known && answer.id.as_deref() != Some("null");
            let check = if twice {
                "answer.once"
            } else {
                self.case.check
            };
            self.add(
                check,
                Level::Must,
                format!("there is one more answer, with the id {}", id_of(answer)),
            );
        }
    }

    fn fits(&self, wanted: &Wanted, answer: &Answer) -> bool {
        match wanted.code {
            Code::Any => true,
            Code::AnyError => answer.is_error,
            Code::One(code) => answer.code == Some(code),
            Code::Unknown => answer.code == self.rules.unknown,
        }
    }
}

fn is_for(answer: &Answer, wanted: &Wanted) -> bool {
    let id = answer.id.as_deref();
    id.is_some_and(|id| wanted.ids.iter().any(|one| same_id(one, id)))
}

fn id_of(answer: &Answer) -> String {
    answer.id.as_deref().map_or("missing".to_owned(), |id| {
        crate::bytes::shown(id.as_bytes())
    })
}
