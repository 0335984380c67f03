/work/main/tests/embedded/echo/target/thumbv7em-none-eabihf/release/deps/serde_embedded_echo-b25e6ac405f0d518.d: src/serde_json.rs src/board.rs

/work/main/tests/embedded/echo/target/thumbv7em-none-eabihf/release/deps/serde_embedded_echo-b25e6ac405f0d518: src/serde_json.rs src/board.rs

src/serde_json.rs:
src/board.rs:
