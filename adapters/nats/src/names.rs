//! The names of streams, subjects and keys.
//!
//! | what | name |
//! |---|---|
//! | the messages of a topic | stream `PREFIX-log-TOPIC`, subjects `PREFIX.log.TOPIC.NAME` |
//! | the server's notice of each stored message | subject `PREFIX.grown.` and that of the message |
//! | the positions of subscriptions | bucket `PREFIX`, a key for each |
//! | the last fence | stream `PREFIX-fence` |
//! | what hubs ask each other | subject `PREFIX.hub.HUB` |
//! | ephemeral topics | subject `PREFIX.topic.` and the topic |

use sha2::{Digest, Sha256};

/// A name longer than this is cut, and has its hash behind it.
const MAX_BYTES: usize = 160;
/// How many letters stand for the name of a message.
pub(crate) const NAME_BYTES: usize = 32;

#[derive(Clone, Debug)]
pub(crate) struct Names(pub(crate) String);

impl Names {
    pub(crate) fn of(&self, rest: &str) -> String {
        format!("{}{rest}", self.0)
    }

    pub(crate) fn log_stream(&self, topic: &str) -> String {
        format!("{}-log-{}", self.0, token(topic))
    }

    /// What the subjects of a topic's messages begin with.
    pub(crate) fn log(&self, topic: &str) -> String {
        format!("{}.log.{}.", self.0, token(topic))
    }

    /// The subject of a message. A topic has one message of a name, and any number of messages without a name.
    pub(crate) fn message(&self, topic: &str, name: Option<&str>) -> String {
        let name = name.map_or_else(|| "0".repeat(NAME_BYTES), hash);
        self.log(topic) + &name
    }

    pub(crate) fn bucket_stream(&self) -> String {
        format!("KV_{}", self.0)
    }

    pub(crate) fn key(&self, key: &str) -> String {
        format!("$KV.{}.{key}", self.0)
    }
}

/// Writes any text in letters that stream names, subjects and keys may have. No two texts give one token.
pub(crate) fn token(text: &str) -> String {
    let mut token = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => token.push(char::from(byte)),
            _ => token.push_str(&format!("={byte:02x}")),
        }
    }
    if token.len() > MAX_BYTES {
        token.truncate(MAX_BYTES - NAME_BYTES);
        // This does not come of any letter.
        token.push_str("==");
        token.push_str(&hash(text));
    }
    token
}

fn hash(text: &str) -> String {
    let digest = Sha256::digest(text);
    let bytes = digest.iter().take(NAME_BYTES / 2);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{MAX_BYTES, NAME_BYTES, Names, token};

    #[test]
    fn every_text_has_a_token_of_its_own_that_is_valid_anywhere() {
        assert_eq!(token("orders.eu"), "orders=2eeu");
        let long = "ä/=".repeat(100);
        let texts = ["a.b", "a=2eb", "a b", "A.b", &long, &long[..299], ""];
        for (index, text) in texts.iter().enumerate() {
            let token = token(text);
            assert!(token.len() <= MAX_BYTES + 2, "{token}");
            assert!(!token.contains(['.', ' ', '*', '>', '/', '\\']), "{token}");
            let others = texts.iter().skip(index + 1);
            assert!(others.clone().all(|other| super::token(other) != token));
        }
    }

    #[test]
    fn all_subjects_of_a_topic_have_one_length() {
        let names = Names("p".into());
        let (without, with) = (names.message("t", None), names.message("t", Some("n")));
        assert_eq!(without, format!("p.log.t.{}", "0".repeat(NAME_BYTES)));
        assert_eq!(with.len(), without.len());
        assert_ne!(with, names.message("t", Some("m")));
    }
}
