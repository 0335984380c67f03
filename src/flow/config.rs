//! The names of the two methods, the limits, and the ids of flows.

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use serde::{Serialize, Serializer};

use crate::codes;
use crate::error_object::{ErrorObject, OwnedError};
use crate::json::{Decimal, Json, JsonKind, OwnedJson};

/// The names and the limits of flows on one connection. Both ends need the same `prefix` and
/// `completion_code`.
///
/// ```
/// use antiphon::flow::{FlowConfig, FlowMethod};
/// let mut config = FlowConfig::new();
/// assert_eq!(config.name(FlowMethod::Next), "kotlinx.rpc.jsonrpc.internal.nextFlowValue");
/// config.prefix = "flows/";
/// assert_eq!(config.method("flows/cancelFlow"), Some(FlowMethod::Cancel));
/// assert_eq!(config.method("cancelFlow"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowConfig {
    /// The beginning of the names of the two methods. Default `kotlinx.rpc.jsonrpc.internal.`, as
    /// kotlinx.rpc has it.
    pub prefix: &'static str,
    /// The code of the error that ends a flow in order. Default −32001, as kotlinx.rpc has it. It must be
    /// none of −32000, −32002 and −32602, by which a flow fails.
    pub completion_code: i64,
    /// How many flows may be open in each direction. Default 64. Beyond that this end opens none, and
    /// cancels those that the peer offers. A flow costs less than 256 bytes, without what produces it and
    /// without the items that wait for its consumer.
    pub max_flows: usize,
    /// How many pulls of the peer may wait, of all flows together. Default 512, which is eight for each of
    /// 64 flows. A further one is answered −32002. As consumer, this end has at most so many pulls open
    /// too. A waiting pull costs what the connection keeps of a request, and a token.
    pub max_pulls: usize,
    /// After how long a flow is given up that the peer does not pull. Default `None`, never. The next pull
    /// is answered −32602.
    pub idle_timeout: Option<Duration>,
}

impl FlowConfig {
    /// Returns the default names and limits.
    pub const fn new() -> Self {
        Self {
            prefix: "kotlinx.rpc.jsonrpc.internal.",
            completion_code: codes::STREAM_COMPLETED,
            max_flows: 64,
            max_pulls: 512,
            idle_timeout: None,
        }
    }

    /// Returns which of the two methods has this name. No other method may have the name of one, and
    /// lists of methods leave them out.
    pub fn method(&self, name: &str) -> Option<FlowMethod> {
        let name = name.strip_prefix(self.prefix)?;
        [FlowMethod::Next, FlowMethod::Cancel]
            .into_iter()
            .find(|method| method.suffix() == name)
    }

    /// Returns the whole name of a method.
    pub fn name(&self, method: FlowMethod) -> String {
        [self.prefix, method.suffix()].concat()
    }

    /// The error that ends a flow in order.
    pub(super) fn completed(&self) -> OwnedError {
        OwnedError::new(self.completion_code, "Flow completed")
    }

    /// The error of a producer, with another code if a consumer would read it as the end in order.
    pub(super) fn failed(&self, error: OwnedError) -> OwnedError {
        if error.code() != self.completion_code {
            return error;
        }
        let failed = ErrorObject::new(codes::FLOW_BROKEN, error.message());
        match error.as_error().data() {
            Some(data) => failed.with_data(data).into_owned(),
            None => failed.into_owned(),
        }
    }
}

impl Default for FlowConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// One of the two methods of which flows are made. Its params are the id of the flow, alone in an array
/// or in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowMethod {
    /// `nextFlowValue`: the consumer pulls an item, which is the result.
    Next,
    /// `cancelFlow`: the consumer wants no more. The result is null.
    Cancel,
}

impl FlowMethod {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Next => "nextFlowValue",
            Self::Cancel => "cancelFlow",
        }
    }
}

/// The id of a flow that this end produces: sent as a number where the flow's value would stand, as the
/// result of a call or in the params of one.
///
/// It counts up from 1, is never used again on its connection, and has nothing to do with ids of
/// requests. A flow of the peer may have the same id. The id of a flow of the peer is kept as text, as
/// [`Consumers`](super::Consumers) does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub(super) u64);

impl FlowId {
    /// The number that is sent.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl Serialize for FlowId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reads the id of a flow from params: the only value of an array or an object, an integer.
pub(super) fn read_params(params: Option<Json<'_>>) -> Option<Json<'_>> {
    let params = params?;
    let members = params.members().map(|(_, value)| value);
    let mut values = params.elements().chain(members);
    let id = values.next().filter(is_flow_id)?;
    values.next().is_none().then_some(id)
}

/// Writes the params of both methods.
pub(super) fn write_params(id: &OwnedJson) -> OwnedJson {
    // An array of one value is valid, and nests one deep.
    OwnedJson::of_parts(["[", id.as_str(), "]"].concat().into_bytes())
        .unwrap_or_else(|_| id.clone())
}

/// Whether a value can be the id of a flow: a number that is an integer, however it is written.
pub(super) fn is_flow_id(json: &Json<'_>) -> bool {
    json.kind() == JsonKind::Number && Decimal::read(json.as_bytes()).whole().is_some()
}
