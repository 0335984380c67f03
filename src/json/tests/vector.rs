//! The vector code compared with the portable code and a naive search: every byte at every position
//! of a block, every length up to some blocks, and texts with many stops and many characters beyond
//! ASCII.

use std::vec;
use std::vec::Vec;

use super::Random;
use crate::json::judge;
use crate::json::plain::{self, skip_plain_naive};
use crate::json::swar;

/// Finds stops of a text block by block with the portable code. Returns their indexes, without a
/// stop that directly follows another in the list.
fn stops_by_swar(text: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    for (n, block) in text.chunks_exact(swar::WIDTH).enumerate() {
        let mut stops = swar::Stops::of(block.try_into().unwrap());
        while let Some(at) = stops.first() {
            found.push(n * swar::WIDTH + at);
            stops = stops.without_two(at);
        }
    }
    found
}

/// Returns the stops of [`stops_by_swar`], found with the code that this target uses.
fn stops_by_blocks(text: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    for (n, block) in text.chunks_exact(plain::WIDTH).enumerate() {
        let mut stops = plain::Stops::of(block.try_into().unwrap());
        while let Some(at) = stops.first() {
            found.push(n * plain::WIDTH + at);
            stops = stops.without_two(at);
        }
    }
    found
}

/// Returns the stops found in long blocks, as in long strings: by the portable code, then by the
/// code that this target uses.
fn stops_by_long_blocks(text: &[u8]) -> [Vec<usize>; 2] {
    let mut swar = Vec::new();
    for (n, block) in text.chunks_exact(swar::LONG).enumerate() {
        let mut stops = swar::Stops::of_long(block.try_into().unwrap());
        while let Some(at) = stops.first() {
            swar.push(n * swar::LONG + at);
            stops = stops.without_two(at);
        }
    }
    let mut ours = Vec::new();
    for (n, block) in text.chunks_exact(plain::LONG).enumerate() {
        let mut stops = plain::Stops::of_long(block.try_into().unwrap());
        while let Some(at) = stops.first() {
            ours.push(n * plain::LONG + at);
            stops = stops.without_two(at);
        }
    }
    [swar, ours]
}

/// Finds the stops a byte at a time, for blocks of `block` bytes. A stop that directly follows
/// another in the list is left out, unless it begins a block.
fn stops_by_hand(text: &[u8], block: usize) -> Vec<usize> {
    let is_stop = |&at: &usize| text[at] == b'"' || text[at] == b'\\' || text[at] < 0x20;
    let mut found: Vec<usize> = Vec::new();
    for at in (0..text.len()).filter(is_stop) {
        let is_behind = found.last().is_some_and(|&last| last + 1 == at);
        if !is_behind || at % block == 0 {
            found.push(at);
        }
    }
    found
}

/// Finds the stops of a block up to the first that is no backslash. Leaves out short escapes,
/// whether or not `of_escaped` has left them out. Also returns what `of_escaped` says of any stops.
macro_rules! judged {
    ($twin:ident, $block:expr) => {{
        let block: &[u8; $twin::LONG] = $block.first_chunk().unwrap();
        let (mut stops, is_any) = $twin::Stops::of_escaped(block);
        let mut found = Vec::new();
        while let Some(at) = stops.first() {
            let letter = block.get(at + 1).filter(|_| block[at] == b'\\');
            if !letter.is_some_and(|&letter| judge::is_short_escape(letter)) {
                found.push(at);
            }
            if block[at] != b'\\' {
                break;
            }
            stops = stops.without_two(at);
        }
        (found, is_any)
    }};
}

/// Returns what `judged!` returns for a block, found a byte at a time.
fn judged_by_hand(block: &[u8]) -> (Vec<usize>, bool) {
    let is_stop = |byte: u8| byte == b'"' || byte == b'\\' || byte < 0x20;
    let (mut found, mut at) = (Vec::new(), 0);
    while at < block.len() {
        if block[at] == b'\\' {
            let is_short = block[at + 1..]
                .first()
                .is_some_and(|letter| b"nrtbf/\"\\".contains(letter));
            if !is_short {
                found.push(at);
            }
            at += 1;
        } else if is_stop(block[at]) {
            found.push(at);
            break;
        }
        at += 1;
    }
    (found, block.iter().any(|&byte| is_stop(byte)))
}

#[test]
fn a_text_of_any_length_is_plain_without_stops() {
    for len in 0..100 {
        for at in 0..len {
            for byte in 0..=u8::MAX {
                let mut text = vec![b'x'; len];
                text[at] = byte;
                let is_plain = byte != b'"' && byte != b'\\' && byte >= 0x20;
                assert_eq!(plain::is_plain(&text), is_plain, "{byte} at {at} of {len}");
                if let (Some(first), Some(last), true) =
                    (text.first_chunk(), text.last_chunk(), len <= 16)
                {
                    let words = [first, last].map(|word| u64::from_le_bytes(*word));
                    assert_eq!(swar::are_plain(words), is_plain);
                }
            }
        }
        assert!(plain::is_plain(&vec![b'x'; len]));
    }
}

#[test]
fn short_escapes_are_passed_over_and_nothing_else_is() {
    let judge = |text: &[u8; 64]| {
        assert_eq!(judged!(plain, text), judged_by_hand(&text[..plain::LONG]));
        assert_eq!(judged!(swar, text), judged_by_hand(&text[..swar::LONG]));
    };
    // Every byte after a backslash at every position, and rows of backslashes of every length.
    for letter in 0..=u8::MAX {
        for at in 0..64 {
            let mut text = [b'x'; 64];
            text[at] = b'\\';
            if let Some(place) = text.get_mut(at + 1) {
                *place = letter;
            }
            judge(&text);
        }
    }
    for from in 0..64 {
        for to in from..64 {
            for behind in [b'"', b'x', b'n', b'\n'] {
                let mut text = [b'x'; 64];
                text[from..=to].fill(b'\\');
                if let Some(place) = text.get_mut(to + 1) {
                    *place = behind;
                }
                judge(&text);
            }
        }
    }
    let mut random = Random::new(5);
    for _ in 0..20_000 {
        let letters = b"\\\\\\\"nrtbf/ux0 \n\0\x80\xff";
        let plain = random.below(20);
        let text = core::array::from_fn(|_| match random.below(plain + 2) {
            0 | 1 => letters[random.below(letters.len())],
            _ => b'x',
        });
        judge(&text);
    }
}

/// Returns the length of the string at the beginning of a window, found a byte at a time, and the
/// number of its escapes. `None` if it does not end in the block after its quote, or is invalid.
/// The quote and the block are 17 bytes.
fn string_by_hand(window: &[u8]) -> Option<(usize, usize)> {
    let (mut at, mut escapes) = (1, 0);
    loop {
        match window[at] {
            b'"' => return Some((at + 1, escapes)),
            b'\\' => {
                escapes += 1;
                at += 1;
                if !window[..17]
                    .get(at)
                    .is_some_and(|letter| b"nrtbf/\"\\".contains(letter))
                {
                    return None;
                }
            }
            0..0x20 => return None,
            _ => {}
        }
        at += 1;
        if at == 17 {
            return None;
        }
    }
}

#[test]
fn a_short_string_with_one_escape_at_the_most_is_measured_and_no_other() {
    const WINDOW: usize = 16 + judge::BESIDE;
    let mut found = [0; 3];
    let mut measure = |window: [u8; WINDOW]| {
        assert_eq!(swar::short_string(window.first_chunk().unwrap()), None);
        // Code with smaller blocks does not search for short strings.
        let Some(window) = window.first_chunk().filter(|_| plain::WIDTH == 16) else {
            return;
        };
        let expected = string_by_hand(window);
        let len = expected
            .filter(|(_, escapes)| *escapes < 2)
            .map(|(len, _)| len);
        assert_eq!(
            plain::short_string(window),
            len,
            "{:?}",
            window.escape_ascii()
        );
        found[expected.map_or(2, |(_, escapes)| escapes.min(2))] += 1;
    };
    // Every byte at every position, alone and after a backslash, with the quote at every position.
    for byte in 0..=u8::MAX {
        for at in 1..WINDOW {
            for end in 1..WINDOW {
                for before in [b'x', b'\\'] {
                    let mut window = [b'x'; WINDOW];
                    window[end] = b'"';
                    window[at - 1] = before;
                    window[at] = byte;
                    window[0] = b'"';
                    measure(window);
                }
            }
        }
    }
    let mut random = Random::new(11);
    for _ in 0..100_000 {
        let letters = b"\\\\\\\"\"nrtbf/ux0 \n\0\x80\xff";
        let plain = random.below(20);
        let mut window = core::array::from_fn(|_| match random.below(plain + 2) {
            0 | 1 => letters[random.below(letters.len())],
            _ => b'x',
        });
        window[0] = b'"';
        measure(window);
    }
    assert!(
        plain::WIDTH != 16 || found.iter().all(|&count| count > 1000),
        "{found:?}"
    );
}

#[test]
fn every_byte_in_every_place_is_judged_alike() {
    for byte in 0..=u8::MAX {
        for at in 0..64 {
            for filler in [b'x', b'!', b'#', b' ', 0x7f, 0x80, 0xff, b'"', b'\\', 0] {
                let mut text = [filler; 64];
                text[at] = byte;
                let [by_swar, by_ours] = stops_by_long_blocks(&text);
                assert_eq!(by_swar, stops_by_hand(&text, swar::LONG));
                assert_eq!(by_ours, stops_by_hand(&text, plain::LONG));
                let expected = stops_by_hand(&text, swar::WIDTH);
                assert_eq!(stops_by_swar(&text), expected, "{byte} at {at} in {filler}");
                let [first, second] = [0, 32].map(|from| text[from..].first_chunk().unwrap());
                for half in [first, second] {
                    let found = !stops_by_hand(half, 1).is_empty();
                    assert_eq!(swar::has_stops_by_words(half), found);
                    assert_eq!(swar::has_stops_by_bytes(half), found);
                }
                let expected = stops_by_hand(&text, plain::WIDTH);
                assert_eq!(
                    stops_by_blocks(&text),
                    expected,
                    "{byte} at {at} in {filler}"
                );
            }
        }
    }
}

#[test]
fn stops_can_be_left_out_and_moved() {
    for at in 0..swar::WIDTH {
        for index in 0..24 {
            let mut text = [b'x'; swar::WIDTH];
            text[at] = b'"';
            let stops = swar::Stops::of(&text);
            if index < swar::WIDTH {
                let is_left = at != index && at != index + 1;
                assert_eq!(stops.without_two(index).first(), is_left.then_some(at));
            }
            if index <= swar::WIDTH {
                assert_eq!(stops.behind(index).first(), at.checked_sub(index));
                assert_eq!(stops.first_of::<5>(), (at < 5).then_some(at));
            }
        }
    }
    for at in 0..plain::WIDTH {
        for index in 0..40 {
            let mut text = [b'x'; plain::WIDTH];
            text[at] = b'"';
            let stops = plain::Stops::of(&text);
            if index < plain::WIDTH {
                let is_left = at != index && at != index + 1;
                assert_eq!(stops.without_two(index).first(), is_left.then_some(at));
            }
            if index <= plain::WIDTH {
                assert_eq!(stops.behind(index).first(), at.checked_sub(index));
                assert_eq!(stops.first_of::<5>(), (at < 5).then_some(at));
            }
        }
    }
}

#[test]
fn searches_agree_for_every_length_alignment_and_place() {
    let mut room = [b'x'; 200];
    for start in 0..16 {
        for len in 0..140 {
            let end = start + len;
            assert_eq!(plain::skip_plain(&room[start..end], 0), len);
            for at in 0..len {
                room[start + at] = b'\\';
                let text = &room[start..end];
                for pos in [0, at, at + 1, len] {
                    assert_eq!(plain::skip_plain(text, pos), skip_plain_naive(text, pos));
                }
                room[start + at] = b'x';
            }
        }
    }
}

#[test]
fn what_is_free_of_stops_is_free_of_stops() {
    let mut random = Random::new(11);
    for _ in 0..20_000 {
        let len = random.below(300);
        let rare = 1 + random.below(200);
        let byte = |random: &mut Random| match random.below(rare) {
            0 => random.next() as u8,
            _ => b'a',
        };
        let text: Vec<u8> = (0..len).map(|_| byte(&mut random)).collect();
        let pos = random.below(len + 2);
        let stop = skip_plain_naive(&text, pos);
        for count in [
            swar::free_of_stops(&text, pos),
            plain::free_of_stops(&text, pos),
        ] {
            assert!(count <= stop.saturating_sub(pos), "{text:?} from {pos}");
        }
        // It finds nearly all bytes: less than four blocks are left before the stop.
        let left = stop.saturating_sub(pos);
        // Code with blocks of one byte skips nothing here.
        assert!(plain::WIDTH == 1 || left - plain::free_of_stops(&text, pos) < 4 * plain::WIDTH);
        assert!(left - swar::free_of_stops(&text, pos) < 4 * swar::WIDTH);
    }
}

#[test]
fn utf8_is_told_from_what_is_not_for_every_length_and_place() {
    for len in 0..200 {
        let text = vec![b'x'; len];
        assert_eq!(plain::text_of(&text).map(str::len), Ok(len));
        for at in 0..len {
            for with in [
                &b"\x80"[..],
                b"\xff",
                b"\xc3\xa9",
                b"\xe2\x82\xac",
                b"\xed\xa0\x80",
            ] {
                let mut text = text.clone();
                let end = (at + with.len()).min(len);
                text[at..end].copy_from_slice(&with[..end - at]);
                let expected = core::str::from_utf8(&text);
                assert_eq!(plain::text_of(&text), expected, "{with:?} at {at} of {len}");
                assert_eq!(swar::text_of(&text), expected);
            }
        }
    }
}

/// Returns the window that a text must have at a position; `None` if the text ends before.
fn window_by_hand<const N: usize>(text: &[u8], pos: usize) -> Option<&[u8; N]> {
    text.get(pos..)?.first_chunk()
}

#[test]
fn a_window_is_whole_or_there_is_none() {
    let letters: Vec<u8> = (0..=80).collect();
    for length in 0..letters.len() {
        // The text ends where its allocation does.
        let text = letters[..length].to_vec().into_boxed_slice();
        let (ours, twin) = (plain::Windows::of(&text), swar::Windows::of(&text));
        for pos in (0..length + 40).chain([usize::MAX - 1, usize::MAX]) {
            // Code with blocks of one byte has no windows.
            if plain::WIDTH > 1 {
                assert_eq!(
                    ours.at(pos),
                    window_by_hand(&text, pos),
                    "{pos} of {length}"
                );
            }
            assert_eq!(
                twin.at(pos),
                window_by_hand(&text, pos),
                "{pos} of {length}"
            );
        }
    }
}

#[test]
fn a_value_is_cut_out_only_between_characters() {
    let text = "a\"é\u{10348}b\"\u{7f}ü";
    for start in 0..=text.len() + 1 {
        for end in 0..=text.len() + 1 {
            let is_ascii = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii);
            let fits = start < end && is_ascii(start) && is_ascii(end - 1);
            let value = fits.then(|| &text[start..end]);
            assert_eq!(plain::value_of(text, start, end), value);
            assert_eq!(swar::value_of(text, start, end), value);
            let inside = value
                .filter(|value| value.len() > 1)
                .map(|value| &value[1..value.len() - 1]);
            assert_eq!(plain::inside_of(text, start, end), inside);
            assert_eq!(swar::inside_of(text, start, end), inside);
        }
    }
}

#[test]
fn a_text_is_utf8_just_when_the_library_says_so() {
    let judge = |text: &[u8]| {
        assert_eq!(plain::text_of(text), core::str::from_utf8(text), "{text:?}");
    };
    // Every first and second byte, with limits of the third and fourth, across the end of a block.
    for (first, second) in (0..=u8::MAX).flat_map(|a| (0..=u8::MAX).map(move |b| (a, b))) {
        for rest in [[b'x', b'x'], [0x80, b'x'], [0xbf, 0x80], [0x80, 0xc0]] {
            let mut text = vec![b'a'; 140];
            text[62..64].copy_from_slice(&[first, second]);
            text[64..66].copy_from_slice(&rest);
            judge(&text);
        }
    }
    let characters = [
        "a",
        "\u{e9}",
        "\u{7ff}",
        "\u{800}",
        "\u{d7ff}",
        "\u{ffff}",
        "\u{10000}",
        "\u{10ffff}",
    ];
    let mut random = Random::new(21);
    for _ in 0..3000 {
        let mut text = std::string::String::new();
        for _ in 0..random.below(200) {
            text.push_str(characters[random.below(8)]);
        }
        let mut text = text.into_bytes();
        judge(&text);
        // Cut anywhere, and with a byte that may be wrong.
        text.truncate(random.below(text.len() + 1));
        judge(&text);
        if !text.is_empty() {
            let at = random.below(text.len());
            text[at] = random.below(256) as u8;
            judge(&text);
        }
    }
}
