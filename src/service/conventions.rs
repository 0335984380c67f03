//! Names of OpenTelemetry's semantic conventions for RPC and JSON-RPC, as they are after version
//! 1.44.0. Version 1.44.0 itself has another name for the status code:
//! [`RPC_RESPONSE_STATUS_CODE`].

use crate::config::VersionPolicy;

/// The value of [`RPC_SYSTEM_NAME`], and the name of a span whose method is unknown.
pub const SYSTEM_NAME: &str = "jsonrpc";
/// The value of [`RPC_METHOD`] for every unknown method, because peers may invent any number of
/// names.
pub const OTHER: &str = "_OTHER";

/// The kind of RPC.
pub const RPC_SYSTEM_NAME: &str = "rpc.system.name";
/// The method, or [`OTHER`].
pub const RPC_METHOD: &str = "rpc.method";
/// The method as the peer wrote it, if [`RPC_METHOD`] is [`OTHER`]. On spans only.
pub const RPC_METHOD_ORIGINAL: &str = "rpc.method_original";
/// The code of the error object, as a string.
pub const RPC_STATUS_CODE: &str = "rpc.status_code";
/// The name of [`RPC_STATUS_CODE`] up to version 1.44.0.
pub const RPC_RESPONSE_STATUS_CODE: &str = "rpc.response.status_code";
/// Why a call failed: the code, or one word if there was no answer.
pub const ERROR_TYPE: &str = "error.type";
/// The id of the request, as a string.
pub const JSONRPC_REQUEST_ID: &str = "jsonrpc.request.id";
/// The version of JSON-RPC.
pub const JSONRPC_PROTOCOL_VERSION: &str = "jsonrpc.protocol.version";
/// The name or address of the server.
pub const SERVER_ADDRESS: &str = "server.address";
/// The port of the server.
pub const SERVER_PORT: &str = "server.port";
/// The address at the other end of the connection.
pub const NETWORK_PEER_ADDRESS: &str = "network.peer.address";
/// The port at the other end of the connection.
pub const NETWORK_PEER_PORT: &str = "network.peer.port";

/// The histogram of how long calls of the peer took, in seconds.
pub const RPC_SERVER_CALL_DURATION: &str = "rpc.server.call.duration";
/// The histogram of how long calls of this side took, in seconds.
pub const RPC_CLIENT_CALL_DURATION: &str = "rpc.client.call.duration";
/// The upper bounds of both histograms' buckets, in seconds.
pub const DURATION_BOUNDS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];

/// The number of connections that have begun and not ended. This name and the following are ours: the
/// conventions have none.
pub const SERVER_CONNECTIONS_OPEN: &str = "antiphon.server.connections.open";
/// The number of connections that have begun.
pub const SERVER_CONNECTIONS: &str = "antiphon.server.connections";
/// The number of calls of the peer that have begun and not ended.
pub const SERVER_CALLS_RUNNING: &str = "antiphon.server.calls.running";
/// The number of calls of this side that have begun and not ended.
pub const CLIENT_CALLS_RUNNING: &str = "antiphon.client.calls.running";
/// The histogram of the number of items in batches of the peer.
pub const SERVER_BATCH_SIZE: &str = "antiphon.server.batch.size";
/// The histogram of the number of items in batches of this side.
pub const CLIENT_BATCH_SIZE: &str = "antiphon.client.batch.size";
/// The upper bounds of both histograms' buckets, in items. A batch has at most
/// [`max_batch_items`](crate::Limits::max_batch_items), 100 by default.
pub const BATCH_BOUNDS: [f64; 9] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0, 10_000.0];

/// The value of [`JSONRPC_PROTOCOL_VERSION`]; `None` where several versions are spoken.
pub const fn protocol_version(spoken: VersionPolicy) -> Option<&'static str> {
    match spoken {
        VersionPolicy::V2Only => Some("2.0"),
        VersionPolicy::V1Only => Some("1.0"),
        VersionPolicy::V1AndV2 => None,
    }
}
