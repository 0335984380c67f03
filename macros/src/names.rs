//! Names in messages.

use proc_macro2::Span;
use syn::{Error, LitStr, Result};

/// The rule by which declared names become names in messages.
#[derive(Clone, Copy)]
pub(crate) enum Rename {
    Camel,
    Snake,
    Pascal,
    Kebab,
}

impl Rename {
    pub(crate) fn parse(rule: &LitStr) -> Result<Self> {
        Ok(match rule.value().as_str() {
            "camelCase" => Self::Camel,
            "snake_case" => Self::Snake,
            "PascalCase" => Self::Pascal,
            "kebab-case" => Self::Kebab,
            _ => {
                let rules = "use camelCase, snake_case, PascalCase or kebab-case";
                return Err(Error::new(rule.span(), rules));
            }
        })
    }

    /// Applies the rule as serde does for fields: names are in `snake_case`, and letters that are capital
    /// already stay capital, so `getBlock` is `getBlock` in `camelCase`.
    pub(crate) fn apply(self, name: &str) -> String {
        let words = name.split('_');
        let pascal: String = words
            .map(|word| first(word, char::to_ascii_uppercase))
            .collect();
        match self {
            Self::Snake => name.into(),
            Self::Kebab => name.replace('_', "-"),
            Self::Pascal => pascal,
            Self::Camel => first(&pascal, char::to_ascii_lowercase),
        }
    }
}

/// Changes the first letter of a word.
fn first(word: &str, change: fn(&char) -> char) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| change(&letter));
    first.into_iter().chain(letters).collect()
}

/// Writes `OutOfRange` as a sentence: "Out of range"; `HTTPError`: "HTTP error".
pub(crate) fn sentence(variant: &str) -> String {
    let letters: Vec<char> = variant.chars().collect();
    let mut sentence = String::new();
    for (place, &letter) in letters.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|place| letters.get(place));
        let is_word = letters
            .get(place + 1)
            .is_some_and(|next| next.is_lowercase());
        let begins = before.is_some_and(|before| before.is_lowercase() || is_word);
        if letter.is_uppercase() && begins {
            sentence.push(' ');
        }
        match letter.is_uppercase() && is_word && place > 0 {
            true => sentence.extend(letter.to_lowercase()),
            false => sentence.push(letter),
        }
    }
    sentence
}

/// The names on the wire of a trait's methods, of one method's parameters, or of the fields of one
/// variant of an error. Refuses names that are not allowed, and a name that another of them has.
pub(crate) struct Names {
    what: &'static str,
    seen: Vec<String>,
}

impl Names {
    pub(crate) fn of(what: &'static str) -> Self {
        let seen = Vec::new();
        Self { what, seen }
    }

    /// Adds a name, or returns why it is refused.
    pub(crate) fn take(&mut self, name: &str, span: Span) -> Result<()> {
        let what = self.what;
        if name.trim().is_empty() {
            return Err(Error::new(
                span,
                format!("a {what} needs a name that is not blank"),
            ));
        }
        if what == "method" && name.starts_with("rpc.") {
            let reserved =
                "names that begin with `rpc.` are reserved; serve it with `Router::extension`";
            return Err(Error::new(span, reserved));
        }
        if self.seen.iter().any(|seen| seen == name) {
            let taken = format!(
                "another {what} has the name `{name}` on the wire; set one with `#[rpc(name = \"…\")]`"
            );
            return Err(Error::new(span, taken));
        }
        self.seen.push(name.into());
        Ok(())
    }
}
