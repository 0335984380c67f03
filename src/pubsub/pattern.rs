//! Topics, and patterns that stand for many of them.
//!
//! A topic has tokens with dots between them: `stock.prices.ACME`. Upper and lower case differ. In a
//! pattern `*` stands for exactly one token, and `>`, the last token, for one or more.

use alloc::boxed::Box;
use core::fmt;
use core::str::Split;

/// What a peer subscribes to: a topic, or a pattern with wildcards.
///
/// ```
/// use antiphon::pubsub::{InvalidTopic, Pattern};
/// let one = Pattern::parse("events.*").unwrap();
/// assert!(one.matches("events.user") && !one.matches("events.user.login"));
/// let all = Pattern::parse("events.>").unwrap();
/// assert!(all.matches("events.user.login") && !all.matches("events"));
/// assert_eq!(Pattern::parse("events..user"), Err(InvalidTopic::EmptyToken));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern(Box<str>);

/// Why a text is no topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidTopic {
    /// It has more than [`Pattern::MAX_BYTES`] bytes.
    TooLong,
    /// It has more than [`Pattern::MAX_TOKENS`] tokens.
    TooManyTokens,
    /// There is nothing between two dots, before the first or after the last; or the text is empty.
    EmptyToken,
    /// It has white space or a control character.
    InvalidCharacter,
    /// `*` or `>` is a part of a token.
    PartOfToken,
    /// `>` is not the last token.
    NotLast,
    /// Its first token begins with `$`, as the topics of a broker itself do.
    Reserved,
    /// It has wildcards, and they are switched off.
    WildcardsOff,
    /// It has wildcards, and a publication needs one topic.
    NotOneTopic,
    /// It is not a string of valid Unicode.
    NotText,
}

impl Pattern {
    /// The most bytes of a topic or pattern.
    pub const MAX_BYTES: usize = 256;
    /// The most tokens of a topic or pattern.
    pub const MAX_TOKENS: usize = 16;

    /// Checks the rules of topics and patterns.
    ///
    /// # Errors
    /// The rule that `text` breaks.
    pub fn parse(text: &str) -> Result<Self, InvalidTopic> {
        if text.len() > Self::MAX_BYTES {
            return Err(InvalidTopic::TooLong);
        }
        if text.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return Err(InvalidTopic::InvalidCharacter);
        }
        if text.starts_with('$') {
            return Err(InvalidTopic::Reserved);
        }
        let mut tokens = text.split('.').enumerate().peekable();
        while let Some((index, token)) = tokens.next() {
            match token {
                "" => return Err(InvalidTopic::EmptyToken),
                ">" if tokens.peek().is_some() => return Err(InvalidTopic::NotLast),
                "*" | ">" => {}
                _ if token.contains(['*', '>']) => return Err(InvalidTopic::PartOfToken),
                _ => {}
            }
            if index == Self::MAX_TOKENS {
                return Err(InvalidTopic::TooManyTokens);
            }
        }
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether there are wildcards in it; if not, it is a topic.
    pub fn has_wildcards(&self) -> bool {
        self.0.contains(['*', '>'])
    }

    /// Whether it stands for this topic.
    pub fn matches(&self, topic: &str) -> bool {
        let mut topic = topic.split('.');
        for token in self.tokens() {
            match (token, topic.next()) {
                (">", Some(_)) => return true,
                (token, Some(given)) if token == "*" || token == given => {}
                _ => return false,
            }
        }
        topic.next().is_none()
    }

    pub(super) fn tokens(&self) -> Split<'_, char> {
        self.0.split('.')
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl InvalidTopic {
    /// The reason, as the peer is told it. It has nothing of the topic in it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "a topic has at most 256 bytes",
            Self::TooManyTokens => "a topic has at most 16 tokens",
            Self::EmptyToken => "a token of the topic is empty",
            Self::InvalidCharacter => "a topic has no white space and no control characters",
            Self::PartOfToken => "a wildcard is a whole token",
            Self::NotLast => "`>` is the last token",
            Self::Reserved => "topics that begin with `$` are reserved",
            Self::WildcardsOff => "wildcards are switched off",
            Self::NotOneTopic => "a publication has one topic, without wildcards",
            Self::NotText => "a topic is a string of valid Unicode",
        }
    }
}

impl fmt::Display for InvalidTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::error::Error for InvalidTopic {}
