//! The command `antiphon`. All of it is in the library of this package.

fn main() -> std::process::ExitCode {
    antiphon_cli::main()
}
