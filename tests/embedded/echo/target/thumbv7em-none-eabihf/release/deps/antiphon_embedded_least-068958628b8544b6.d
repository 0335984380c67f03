/work/main/tests/embedded/echo/target/thumbv7em-none-eabihf/release/deps/antiphon_embedded_least-068958628b8544b6.d: src/least.rs src/board.rs src/echo.rs

/work/main/tests/embedded/echo/target/thumbv7em-none-eabihf/release/deps/antiphon_embedded_least-068958628b8544b6: src/least.rs src/board.rs src/echo.rs

src/least.rs:
src/board.rs:
src/echo.rs:
