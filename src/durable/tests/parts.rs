//! The clock's text, values, the store in memory, and sizes.

use alloc::string::ToString;

use crate::durable::{
    Command, Completion, Cursor, DurableTopic, Log, MemoryStore, MessageData, Start, StoreError,
    Wall,
};
use crate::pubsub::InvalidTopic;

// PER-10
#[test]
fn times_are_written_in_iso_8601_with_z() {
    for (millis, text) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_399_999, "2000-02-28T23:59:59.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (951_868_800_000, "2000-03-01T00:00:00.000Z"),
        (978_307_199_001, "2000-12-31T23:59:59.001Z"),
        (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
        (1_735_689_600_010, "2025-01-01T00:00:00.010Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "9999-12-31T23:59:59.999Z"),
        (u64::MAX, "9999-12-31T23:59:59.999Z"),
    ] {
        let wall = Wall::from_millis(millis);
        assert_eq!(wall.to_string(), text);
        assert_eq!(wall.as_millis(), millis.min(Wall::LAST.as_millis()));
    }
    // Each day follows the one before it.
    let mut days = (0..2_932_896_u64).step_by(1);
    let mut last = ("1970".to_string(), 1, 1);
    days.next();
    for day in days {
        let text = Wall::from_millis(day * 86_400_000).to_string();
        let (year, month, number) = (&text[..4], &text[5..7], &text[8..10]);
        let (month, number): (u64, u64) = (month.parse().unwrap(), number.parse().unwrap());
        let follows = number == last.2 + 1 && month == last.1 && year == last.0;
        assert!(follows || number == 1, "{text}");
        last = (year.to_string(), month, number);
        if day > 40_000 {
            break;
        }
    }
}

// PER-02
#[test]
fn values_are_json_that_fits_a_notification() {
    assert_eq!(MessageData::write(()).unwrap().as_json().as_str(), "null");
    let deep = |depth| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(MessageData::parse(&deep(126)).unwrap().bytes(), 252);
    for text in ["", "1,2", "1],[2", "tru", &deep(127), &deep(128)] {
        assert!(MessageData::parse(text).is_err(), "{text}");
    }
}

// PER-19
#[test]
fn topics_are_literal() {
    let topic = DurableTopic::parse("orders.eu").unwrap();
    assert_eq!(topic.to_string(), topic.as_str());
    for text in ["orders.*", ">"] {
        assert_eq!(DurableTopic::parse(text), Err(InvalidTopic::WildcardsOff));
    }
    assert_eq!(DurableTopic::parse("$x"), Err(InvalidTopic::Reserved));
}

fn append(dedupe: Option<&str>) -> Command {
    Command::Append {
        topic: "t".into(),
        at: Wall::from_millis(5),
        data: MessageData::write(&1234).unwrap(),
        dedupe: dedupe.map(Into::into),
    }
}

fn attach(name: &str, topic: &str) -> Command {
    Command::Attach {
        subscription: name.into(),
        topic: topic.into(),
        start: Start::Latest,
        takes_over: false,
    }
}

fn trim(up_to: u64) -> Command {
    Command::Trim {
        topic: "t".into(),
        up_to,
    }
}

// PER-04 PER-05
#[test]
fn the_store_in_memory_is_bounded() {
    // A topic of 129 bytes, and messages of 132.
    let mut store = MemoryStore::new(129 + 3 * 132);
    for sequence in 1..=3 {
        let stored = store.execute(&append(None));
        assert_eq!(stored, Ok(Completion::Appended { sequence }));
    }
    assert_eq!(store.bytes(), 129 + 3 * 132);
    assert_eq!(store.execute(&append(None)), Err(StoreError::Full));
    assert_eq!(store.execute(&attach("a", "t")), Err(StoreError::Full));
    assert_eq!(store.execute(&trim(2)), Ok(Completion::Trimmed));
    assert_eq!(store.bytes(), 129 + 132);
    // 130 bytes, and space for no further message of a name.
    assert!(store.execute(&attach("a", "t")).is_ok());
    assert_eq!(store.bytes(), 129 + 132 + 130);
    assert_eq!(store.execute(&append(Some("named"))), Err(StoreError::Full));
    let fence = |fence| Command::Delete {
        subscription: "a".into(),
        fence,
    };
    assert_eq!(store.execute(&fence(2)), Err(StoreError::Fenced));
    assert_eq!(store.execute(&fence(1)), Ok(Completion::Deleted));
    assert_eq!(store.execute(&fence(0)), Err(StoreError::Unknown));
    assert_eq!(store.bytes(), 129 + 132);
    // The same name again is another owner.
    let again = store.execute(&attach("a", "t")).unwrap();
    assert!(matches!(again, Completion::Attached { fence: 2, .. }));
    assert_eq!(store.execute(&fence(0)), Ok(Completion::Deleted));
    let sequence = 4;
    let named = store.execute(&append(Some("n")));
    assert_eq!(named, Ok(Completion::Appended { sequence }));
    assert_eq!(store.execute(&append(Some("n"))), named);
    // Removing everything forgets the name, and not the number.
    assert_eq!(store.execute(&trim(u64::MAX)), Ok(Completion::Trimmed));
    assert_eq!(store.bytes(), 129);
    let sequence = 5;
    let stored = store.execute(&append(Some("n")));
    assert_eq!(stored, Ok(Completion::Appended { sequence }));
    assert_eq!(store.execute(&trim(3)), Ok(Completion::Trimmed));
    let other = Command::Trim {
        topic: "u".into(),
        up_to: 1,
    };
    assert_eq!(store.execute(&other), Ok(Completion::Trimmed));
    assert_eq!(store.bytes(), 129 + 133);
}

// PER-04 PER-06
#[test]
fn the_store_in_memory_keeps_positions() {
    let mut store = MemoryStore::new(1 << 20);
    let position = |store: &mut MemoryStore, name| match store.execute(&attach(name, "t")) {
        Ok(Completion::Attached { fence, cursor, log }) => (fence, cursor, log),
        other => panic!("{other:?}"),
    };
    assert_eq!(position(&mut store, "a"), (1, Cursor::at(0), Log::EMPTY));
    store.execute(&append(None)).unwrap();
    let log = Log {
        first: 1,
        last: 1,
        bytes: 4,
    };
    assert_eq!(position(&mut store, "b"), (2, Cursor::at(1), log));
    assert_eq!(
        store.execute(&attach("a", "u")),
        Err(StoreError::OtherTopic)
    );
    let save = |fence| Command::Save {
        subscription: "a".into(),
        fence,
        cursor: Cursor {
            start: 0,
            floor: 1,
            above: [3].to_vec(),
        },
    };
    assert_eq!(store.execute(&save(2)), Err(StoreError::Fenced));
    assert_eq!(store.execute(&save(1)), Ok(Completion::Saved));
    let (fence, cursor, _) = position(&mut store, "a");
    assert_eq!((fence, cursor.floor, cursor.above), (3, 1, [3].to_vec()));
}
