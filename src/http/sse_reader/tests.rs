use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::SseReader;

/// What the events of `stream` say, which comes in pieces of `step` bytes.
fn read(stream: &[u8], step: usize, max_event_bytes: usize) -> String {
    let mut reader = SseReader::new(max_event_bytes);
    let mut said = String::new();
    for mut piece in stream.chunks(step) {
        while !piece.is_empty() {
            match reader.read(&mut piece) {
                Ok(Some(event)) => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\n', "|");
                    let [event, data, id] =
                        [&event.event, &event.data, &event.id].map(|part| text(part));
                    said += &format!("[{event}/{data}/{id}]");
                }
                Ok(None) => assert!(piece.is_empty()),
                Err(error) => return said + &format!("{error:?}"),
            }
        }
    }
    said
}

// USE-14
#[test]
fn events_are_read_whole_and_split_at_every_byte() {
    for (stream, said) in [
        ("", ""),
        ("data: a\n\n", "[/a/]"),
        ("data:a\r\rdata: b\r\n\r\ndata: c\n\n", "[/a/][/b/][/c/]"),
        ("data: a\ndata\ndata:  b\n\n", "[/a|| b/]"),
        // A byte order mark begins the stream only once.
        ("\u{feff}data: a\n\n\u{feff}data: b\n\n", "[/a/]"),
        ("\u{feff}\ndata: a\n\n", "[/a/]"),
        ("\u{feff}: c\n\u{feff}data: a\n\n", ""),
        (": comment\n:\n::\ndata: a\n: in it\n\n", "[/a/]"),
        ("event: tick\ndata: 1\n\ndata: 2\n\n", "[tick/1/][/2/]"),
        ("event: a\nevent: b\ndata\n\n", "[b//]"),
        // Without data there is no event, and its type is forgotten; its id stays.
        ("event: tick\nid: 7\n\ndata: 1\n\n", "[/1/7]"),
        (
            "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
            "[/a/1][/b/1][/c/]",
        ),
        ("id: 1\nid: a\0b\ndata: a\n\n", "[/a/1]"),
        ("data: a: b\nDATA: c\n data: d\nother: e\n\n", "[/a: b/]"),
        // An event whose blank line never comes is none.
        ("data: a\n\ndata: b\n", "[/a/]"),
        ("data: a\n\ndata: b", "[/a/]"),
        ("data: a\r\n", ""),
        ("data: a\r\n\r", "[/a/]"),
        ("data: a\n\r\n\ndata: b\r\r\n", "[/a/][/b/]"),
        (
            "data: \u{e9}\u{2028}\u{85}x\n\n",
            "[/\u{e9}\u{2028}\u{85}x/]",
        ),
    ] {
        for step in 1..=stream.len().max(1) {
            assert_eq!(
                read(stream.as_bytes(), step, 1024),
                said,
                "{stream:?} in steps of {step}"
            );
        }
    }
    assert_eq!(read(b"data: \xff\n\n", 1, 1024), "[/\u{fffd}/]");
}

#[test]
fn a_retry_is_a_number_of_milliseconds() {
    let mut reader = SseReader::new(64);
    assert_eq!(reader.retry(), None);
    for (line, retry) in [
        ("retry: 1500\n", 1500),
        ("retry\n", 1500),
        ("retry: -1\n", 1500),
        ("retry: 1.5\n", 1500),
        ("retry: +1\n", 1500),
        ("retry: 99999999999999999999999\n", 1500),
        ("retry:020\n", 20),
    ] {
        assert_eq!(reader.read(&mut line.as_bytes()), Ok(None));
        assert_eq!(reader.retry(), Some(Duration::from_millis(retry)), "{line}");
    }
}

// USE-14
#[test]
fn an_event_over_the_limit_is_refused_before_it_is_held() {
    let max = 16;
    let data = "d".repeat(max);
    let comment = format!(":{}\n", "c".repeat(1000));
    for (stream, said) in [
        (format!("data: {data}\n\n"), format!("[/{data}/]")),
        (
            format!("{comment}data: {data}\n{comment}\n"),
            format!("[/{data}/]"),
        ),
        (
            format!("data: a\n\n{}", "x".repeat(100)),
            String::from("[/a/]TooLarge { max_bytes: 16 }"),
        ),
        (
            format!("data: a\n\ndata: {data}{data}"),
            String::from("[/a/]TooLarge { max_bytes: 16 }"),
        ),
        (
            "data: 1\n".repeat(100),
            String::from("TooLarge { max_bytes: 16 }"),
        ),
        (
            format!("event: {data}\ndata: {data}\n"),
            String::from("TooLarge { max_bytes: 16 }"),
        ),
        (
            format!("id: {data}\nid: {data}\ndata: {data}\n\n"),
            format!("[/{data}/{data}]"),
        ),
    ] {
        for step in 1..=stream.len() {
            assert_eq!(
                read(stream.as_bytes(), step, max),
                said,
                "{stream:?} in steps of {step}"
            );
        }
    }
}

#[test]
fn a_media_type_names_a_stream_of_events() {
    for named in [
        "text/event-stream",
        "Text/Event-Stream ; charset=utf-8",
        " text/event-stream;x",
    ] {
        assert!(SseReader::is_named_by(named), "{named}");
    }
    for other in [
        "",
        "text/event-streams",
        "application/json; a=text/event-stream",
        "text/plain",
    ] {
        assert!(!SseReader::is_named_by(other), "{other}");
    }
    let event = |event: &str| super::OwnedSseEvent {
        event: event.into(),
        data: Vec::new(),
        id: Vec::new(),
    };
    assert!(event("").is_message() && event("message").is_message() && !event("ping").is_message());
}
