//! Takes the calculator out of README, so that `tests/readme.rs` runs that very text on tokio, smol and
//! threads.

use std::path::Path;
use std::{env, fs};

fn main() {
    let readme = "../../README.md";
    println!("cargo::rerun-if-changed={readme}");
    let text = fs::read_to_string(readme).expect("there is a README");
    // All from the trait to the first `main`, and `divide` and the router of the program without a trait.
    let service = between(&text, "/// Arithmetic.\n", "#[tokio::main]");
    let divide = between(&text, "async fn divide(a: f64", "\n\n");
    let router = between(&text, "Router::new()\n        .method", ";\n    let server");
    let by_hand = format!("{divide}\npub(super) fn router() -> Router {{ {router} }}\n");
    let out = env::var("OUT_DIR").expect("cargo sets it");
    let write = |name: &str, text: &str| {
        fs::write(Path::new(&out).join(name), text).expect("the directory is there");
    };
    write("service.rs", service);
    write("by_hand.rs", &by_hand);
    // On threads functions do not wait; nothing else is different.
    write("service_on_threads.rs", &service.replace("async fn", "fn"));
    write("by_hand_on_threads.rs", &by_hand.replace("async fn", "fn"));
}

/// The part of `text` that begins with `from` and ends before `to`.
fn between<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    let start = text
        .find(from)
        .unwrap_or_else(|| panic!("README has no {from:?}"));
    let rest = &text[start..];
    let end = rest
        .find(to)
        .unwrap_or_else(|| panic!("README has no {to:?} behind {from:?}"));
    &rest[..end]
}
