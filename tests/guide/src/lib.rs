//! The code of README, of the adapters' READMEs, of the pages in `docs` and of the guide, compiled and
//! run as it stands there.
//!
//! Each page is the documentation of an empty module, so its code blocks are documentation tests.
//! `tools/links.py` checks that every page is here, also those without code.

/// README, and the pages of `docs` outside the guide.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/api/README.md")]
    mod api {}
    #[doc = include_str!("../../../docs/architecture.md")]
    mod architecture {}
    #[doc = include_str!("../../../docs/design.md")]
    mod design {}
    #[doc = include_str!("../../../docs/dialects.md")]
    mod dialects {}
    #[doc = include_str!("../../../docs/guarantees.md")]
    mod guarantees {}
    #[doc = include_str!("../../../docs/limits.md")]
    mod limits {}
    #[doc = include_str!("../../../docs/performance.md")]
    mod performance {}
    #[doc = include_str!("../../../docs/public-dependencies.md")]
    mod public_dependencies {}
    #[doc = include_str!("../../../docs/requirements.md")]
    mod requirements {}
}

/// The READMEs of the adapters.
#[cfg(doctest)]
mod adapters {
    #[doc = include_str!("../../../adapters/async-std/README.md")]
    mod async_std {}
    #[doc = include_str!("../../../adapters/blocking/README.md")]
    mod blocking {}
    #[doc = include_str!("../../../adapters/c/README.md")]
    mod c {}
    #[doc = include_str!("../../../adapters/lsp/README.md")]
    mod lsp {}
    #[doc = include_str!("../../../adapters/metrics/README.md")]
    mod metrics {}
    #[doc = include_str!("../../../adapters/nats/README.md")]
    mod nats {}
    #[doc = include_str!("../../../adapters/net/README.md")]
    mod net {}
    #[doc = include_str!("../../../adapters/otel/README.md")]
    mod otel {}
    #[doc = include_str!("../../../adapters/redb/README.md")]
    mod redb {}
    #[doc = include_str!("../../../adapters/shell/README.md")]
    mod shell {}
    #[doc = include_str!("../../../adapters/smol/README.md")]
    mod smol {}
    #[doc = include_str!("../../../adapters/tokio/README.md")]
    mod tokio {}
    #[doc = include_str!("../../../adapters/websocket/README.md")]
    mod websocket {}
}

/// The README of the command.
#[cfg(doctest)]
mod cli {
    #[doc = include_str!("../../../cli/README.md")]
    mod readme {}
}

/// The guide, in the order of its summary.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../docs/guide/src/introduction.md")]
    mod introduction {}
    #[doc = include_str!("../../../docs/guide/src/first-call.md")]
    mod first_call {}
    #[doc = include_str!("../../../docs/guide/src/calls.md")]
    mod calls {}
    #[doc = include_str!("../../../docs/guide/src/notifications.md")]
    mod notifications {}
    #[doc = include_str!("../../../docs/guide/src/batches.md")]
    mod batches {}
    #[doc = include_str!("../../../docs/guide/src/method-types.md")]
    mod method_types {}
    #[doc = include_str!("../../../docs/guide/src/clients.md")]
    mod clients {}
    #[doc = include_str!("../../../docs/guide/src/streams.md")]
    mod streams {}
    #[doc = include_str!("../../../docs/guide/src/durable.md")]
    mod durable {}
    #[doc = include_str!("../../../docs/guide/src/services.md")]
    mod services {}
    #[doc = include_str!("../../../docs/guide/src/serving.md")]
    mod serving {}
    #[doc = include_str!("../../../docs/guide/src/web.md")]
    mod web {}
    #[doc = include_str!("../../../docs/guide/src/errors.md")]
    mod errors {}
    #[doc = include_str!("../../../docs/guide/src/dialects.md")]
    mod dialects {}
    #[doc = include_str!("../../../docs/guide/src/lsp.md")]
    mod lsp {}
    #[doc = include_str!("../../../docs/guide/src/mcp.md")]
    mod mcp {}
    #[doc = include_str!("../../../docs/guide/src/ethereum.md")]
    mod ethereum {}
    #[doc = include_str!("../../../docs/guide/src/embedding.md")]
    mod embedding {}
    #[doc = include_str!("../../../docs/guide/src/adapter.md")]
    mod adapter {}
    #[doc = include_str!("../../../docs/guide/src/limits.md")]
    mod limits {}
    #[doc = include_str!("../../../docs/guide/src/conformance.md")]
    mod conformance {}
    #[doc = include_str!("../../../docs/guide/src/coming-from.md")]
    mod coming_from {}
}
