//! The examples as programs.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// An example's program, fresh.
pub(crate) fn example(name: &str) -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let mut build = Command::new(env!("CARGO"));
        // Of the whole workspace, as its tests build them: for this crate alone the features would be
        // others, and everything would be built once more.
        build.args(["build", "--quiet", "--workspace", "--examples"]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(built.expect("cargo").success(), "the examples do not build");
        // Tests stand in `deps`, beside `examples`.
        let test = std::env::current_exe().expect("a path");
        let target = test.parent().and_then(|deps| deps.parent());
        target.expect("a folder").join("examples")
    });
    Command::new(folder.join(name))
}
