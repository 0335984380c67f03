//! Every setting of `Config` has a case with its default and one with another value.

use antiphon::Config;

use crate::case::Case;
use crate::{harness, knobs};

/// What the cases together lack. There must be a case for every field of `Config` with the value
/// that it has in strict 2.0, its default, and one for every other value, or, if it is a number or
/// a span, for any other value. Such a case is titled `field = value (default)…` or
/// `field = value…`, and must run with that value.
pub(crate) fn missing(cases: &[Case]) -> Vec<String> {
    let mut missing = Vec::new();
    let fields = format!("{:#?}", Config::strict());
    for field in fields.lines().filter_map(field_name) {
        let is_of_routers = knobs::OF_ROUTERS.contains(&field);
        if !is_of_routers && !knobs::KNOBS.iter().any(|knob| knob.name == field) {
            missing.push(format!("the player does not know the knob {field}"));
        }
    }
    for knob in knobs::KNOBS {
        let shown: Vec<Value<'_>> = cases
            .iter()
            .filter_map(|case| Value::of_title(case, knob.name))
            .collect();
        let default = (knob.get)(&Config::strict());
        if !shown.iter().any(|value| value.is_default) {
            missing.push(format!("no case shows {} = {default} (default)", knob.name));
        }
        for value in knob.values {
            if !shown.iter().any(|shown| shown.value == *value) {
                missing.push(format!("no case shows {} = {value}", knob.name));
            }
        }
        if knob.values.is_empty() && shown.iter().all(|value| value.is_default) {
            missing.push(format!("no case shows {} off its default", knob.name));
        }
        for shown in &shown {
            let wanted = knobs::setup(&shown.case.config)
                .map_or_else(|error| error, |setup| (knob.get)(&setup.config));
            let says_so = (shown.value == default) == shown.is_default;
            if wanted != shown.value || !says_so {
                let name = harness::name(shown.case);
                missing.push(format!(
                    "{name} runs with {wanted}; the default is {default}"
                ));
            }
        }
    }
    missing
}

/// The name of the field in a line of debug text, unless a group of fields begins there.
fn field_name(line: &str) -> Option<&str> {
    let (name, value) = line.trim_start().split_once(": ")?;
    (!value.ends_with('{')).then_some(name)
}

/// The value of a field of `Config` that the title of a case names.
struct Value<'c> {
    case: &'c Case,
    value: &'c str,
    is_default: bool,
}

impl<'c> Value<'c> {
    fn of_title(case: &'c Case, knob: &str) -> Option<Self> {
        let rest = case.title.strip_prefix(knob)?.strip_prefix(" = ")?;
        let end = rest.find([' ', ':', ',']).unwrap_or(rest.len());
        let (value, rest) = rest.split_at(end);
        Some(Self {
            case,
            value,
            is_default: rest.starts_with(" (default)"),
        })
    }
}
