//! The C interface of antiphon: a connection of JSON-RPC as a state machine, for programs that bring their own loop. The functions are
//! declared in `include/antiphon.h`, which also says who owns what a pointer leads to, and for how long; README.md has a server.
//!
//! `functions` has what C calls: it checks pointers and handles, and only it and `memory` touch memory of the caller. `connection`,
//! `config` and `events` are safe code around the core. No function calls back, blocks or reads a clock.
//!
//! On targets without an operating system, `bare` takes memory from C's `malloc`.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
// The header states once for all functions what callers have to keep to.
#![allow(clippy::missing_safety_doc)]
#![deny(unsafe_op_in_unsafe_fn)]

extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

#[cfg(target_os = "none")]
mod bare;
mod code;
mod config;
mod connection;
mod events;
mod functions;
mod memory;

pub use code::antiphon_code;
pub use config::antiphon_config;
pub use config::{
    ANTIPHON_CONCATENATED, ANTIPHON_CONTENT_LENGTH, ANTIPHON_DETECT, ANTIPHON_MESSAGES,
    ANTIPHON_NEVER, ANTIPHON_NEWLINE,
};
pub use connection::{antiphon_connection, antiphon_state};
pub use events::{antiphon_event, antiphon_kind, antiphon_text};
pub use functions::{
    antiphon_ask_cancel, antiphon_batch, antiphon_batch_call, antiphon_batch_drop,
    antiphon_batch_notify, antiphon_batch_send, antiphon_call, antiphon_cancel, antiphon_close,
    antiphon_code_text, antiphon_config_free, antiphon_config_new, antiphon_config_set,
    antiphon_deadline, antiphon_drain, antiphon_free, antiphon_input, antiphon_input_end,
    antiphon_message, antiphon_new, antiphon_next_event, antiphon_notify, antiphon_output,
    antiphon_output_failed, antiphon_output_sent, antiphon_respond, antiphon_respond_cancelled,
    antiphon_respond_error, antiphon_state_of, antiphon_time, antiphon_timeout, antiphon_too_large,
};
