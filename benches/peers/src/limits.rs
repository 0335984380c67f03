//! What the machine can do with the same bytes without reading them as JSON.

use std::hint::black_box;

use crate::{Kind, Reader, Row};

pub fn all() -> Vec<Row> {
    let row = |name, reader| Row {
        name,
        reader,
        is_limit: true,
    };
    vec![
        row(
            "limit memcpy",
            Box::new(Copy(Vec::new())) as Box<dyn Reader>,
        ),
        row("limit str::from_utf8", Box::new(Utf8)),
    ]
}

struct Copy(Vec<u8>);

impl Reader for Copy {
    fn read(&mut self, text: &[u8], expected: Kind) -> Option<Kind> {
        self.0.clear();
        self.0.extend_from_slice(text);
        black_box(&self.0);
        Some(expected)
    }
}

struct Utf8;

impl Reader for Utf8 {
    fn read(&mut self, text: &[u8], expected: Kind) -> Option<Kind> {
        black_box(std::str::from_utf8(text)).ok().map(|_| expected)
    }
}
