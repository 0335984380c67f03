//! Hands the linker the memory map of this folder.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo:rustc-link-arg-bins=-T{folder}/memory.x");
    println!("cargo:rerun-if-changed=memory.x");
}
