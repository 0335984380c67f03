//! What the key of a subscription has: `FENCE HUB TOPIC START FLOOR ABOVE…`.

use std::sync::Arc;

use antiphon::durable::Cursor;

/// What a key has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) fence: u64,
    pub(crate) hub: String,
    pub(crate) topic: Arc<str>,
    pub(crate) cursor: Cursor,
}

impl Position {
    pub(crate) fn write(&self) -> String {
        let Cursor {
            start,
            floor,
            above,
        } = &self.cursor;
        let mut text = format!("{} {} {} {start} {floor}", self.fence, self.hub, self.topic);
        above
            .iter()
            .for_each(|sequence| text.push_str(&format!(" {sequence}")));
        text
    }

    /// The highest sequence that is acknowledged.
    pub(crate) fn end(&self) -> u64 {
        *self.cursor.above.last().unwrap_or(&self.cursor.floor)
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        Some(Self {
            fence: words.next()?.parse().ok()?,
            hub: words.next()?.into(),
            topic: words.next()?.into(),
            cursor: Cursor {
                start: words.next()?.parse().ok()?,
                floor: words.next()?.parse().ok()?,
                above: words.map(str::parse).collect::<Result<_, _>>().ok()?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use antiphon::durable::Cursor;

    use super::Position;

    #[test]
    fn a_position_is_read_as_it_was_written_and_nothing_else_is() {
        let mut position = Position {
            fence: 7,
            hub: "h".into(),
            topic: "a.b".into(),
            cursor: Cursor::at(3),
        };
        assert_eq!(position.write(), "7 h a.b 3 3");
        position.cursor.above = vec![9, 12];
        let text = position.write();
        assert_eq!(Position::read(&text), Some(position));
        for text in ["", "7 h a.b 3", "7 h a.b 3 3 x", "x h a.b 3 3"] {
            assert_eq!(Position::read(text), None, "{text}");
        }
    }
}
