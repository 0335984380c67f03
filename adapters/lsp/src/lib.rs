//! Language servers over antiphon.
//!
//! A [`LanguageServer`] is a service around a router. It enforces the life cycle of the Language
//! Server Protocol 3.17, and its handlers use the types of [`gen_lsp_types`], re-exported as
//! [`types`]. It runs on every async runtime that antiphon has an adapter for, but not on
//! `antiphon-blocking`, whose services are not async. [`LspPeer`] calls the other side with these
//! types, from a server or from an editor, on threads too. [`WorkDone`] and [`Trace`] report to the
//! editor what the server does.
//!
//! ```
//! use antiphon::Config;
//! use antiphon_lsp::types::{
//!     Contents, Hover, HoverProvider, HoverRequest, InitializeRequest, InitializeResult,
//!     MarkupContent, MarkupKind, ServerCapabilities,
//! };
//! use antiphon_lsp::LanguageServer;
//!
//! let server = LanguageServer::new()
//!     .on::<InitializeRequest>(|_, _| async {
//!         let hover_provider = Some(HoverProvider::Bool(true));
//!         let capabilities = ServerCapabilities { hover_provider, ..Default::default() };
//!         Ok(InitializeResult { capabilities, server_info: None })
//!     })
//!     .on::<HoverRequest>(|params, _| async move {
//!         let line = params.text_document_position_params.position.line;
//!         let (kind, value) = (MarkupKind::PlainText, format!("line {line}"));
//!         let contents = Contents::MarkupContent(MarkupContent { kind, value });
//!         Ok(Some(Hover { contents, range: None }))
//!     });
//! // An adapter runs it: `serve_stdio(Config::lsp(), server.clone()).await`, and the program ends
//! // with `server.exit_code()`.
//! # let _: (Config, LanguageServer) = (Config::lsp(), server);
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod changes;
mod client;
mod process;
mod server;
mod trace;
mod typed;
mod work_done;

pub use changes::{apply_changes, offset};
pub use gen_lsp_types as types;
pub use server::LanguageServer;
pub use trace::Trace;
pub use typed::{LspNotification, LspPeer, LspRequest};
pub use work_done::{WorkDone, WorkDoneStep, WorkSteps};
