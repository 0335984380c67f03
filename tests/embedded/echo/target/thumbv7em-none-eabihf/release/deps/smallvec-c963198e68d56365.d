/work/main/tests/embedded/echo/target/thumbv7em-none-eabihf/release/deps/smallvec-c963198e68d56365.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/smallvec-1.16.5/src/lib.rs

/work/main/tests/embedded/echo/target/thumbv7em-none-eabihf/release/deps/libsmallvec-c963198e68d56365.rlib: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/smallvec-1.16.5/src/lib.rs

/work/main/tests/embedded/echo/target/thumbv7em-none-eabihf/release/deps/libsmallvec-c963198e68d56365.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/smallvec-1.16.5/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/smallvec-1.16.5/src/lib.rs:
