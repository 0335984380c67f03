/work/main/tests/embedded/echo/target/thumbv7em-none-eabihf/release/deps/antiphon_embedded_echo-8081e85eb9a81aea.d: src/main.rs src/board.rs src/echo.rs

/work/main/tests/embedded/echo/target/thumbv7em-none-eabihf/release/deps/antiphon_embedded_echo-8081e85eb9a81aea: src/main.rs src/board.rs src/echo.rs

src/main.rs:
src/board.rs:
src/echo.rs:
