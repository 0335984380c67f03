//! The examples as programs.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Builds the examples, and returns the command that runs one.
pub(crate) fn example(name: &str) -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let mut build = Command::new(env!("CARGO"));
        // All examples of the workspace, as its tests build them. For one crate alone the features
        // would differ, and everything would be built again.
        build.args(["build", "--quiet", "--workspace", "--examples"]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(built.expect("cargo").success(), "the examples do not build");
        // The programs of tests are in `deps`, a folder beside `examples`.
        let test = std::env::current_exe().expect("a path");
        let target = test.parent().and_then(|deps| deps.parent());
        target.expect("a folder").join("examples")
    });
    Command::new(folder.join(name))
}
