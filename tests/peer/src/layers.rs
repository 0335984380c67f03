//! What `--layers` adds to the contract: topics, also durable ones, and a chain of blocks whose heads a client can follow. Where handlers
//! wait, `on_tasks` and `on_threads` add flows.
//!
//! The height of the chain grows by one every [`BLOCK_TIME`], whether anybody follows it or not. What is in a block
//! depends on its number alone.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use antiphon::pubsub::PublishError;
use antiphon::service::{Failure, MethodInfo, Methods, ResultText, ServiceInfo, write_result};
use antiphon::{ErrorObject, Internal, Json, JsonKind, OwnedError};
use antiphon_nats::NatsTopics;
use antiphon_net::{Durable, DurablePublishError, Hub, Request};
use serde::Serialize;

/// The time from one block to the next.
pub const BLOCK_TIME: Duration = Duration::from_millis(20);
/// How much the store in memory holds.
const MAX_BYTES: usize = 256 << 20;
/// The number of the first block.
const FIRST: u64 = 1;
/// The time of block 0, in seconds since 1970. From one block to the next it is a second.
const GENESIS: u64 = 1_700_000_000;
/// The hash of a list of uncles that is empty, and of a trie that is.
const NO_UNCLES: &str = "0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347";
const EMPTY_TRIE: &str = "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421";

/// Topics and the chain. Clones are the same ones.
#[derive(Clone, Debug)]
pub struct Layers {
    /// Where `publish` publishes.
    pub hub: Hub,
    /// How it is published at other servers as well.
    pub everywhere: Option<Arc<NatsTopics>>,
    /// Where `publish_durable` publishes.
    pub durable: Durable,
    /// The blocks.
    pub chain: Chain,
}

impl Default for Layers {
    fn default() -> Self {
        Self::over(Durable::in_memory(MAX_BYTES))
    }
}

impl Layers {
    /// With topics that are stored so.
    pub fn over(durable: Durable) -> Self {
        Self {
            hub: Hub::new(),
            everywhere: None,
            durable,
            chain: Chain {
                began: Instant::now(),
            },
        }
    }
}

/// The methods of the layers that answer at once.
static LAYERED: ServiceInfo = ServiceInfo {
    name: "Layers",
    doc: "",
    prefix: "",
    methods: &[
        MethodInfo::request("publish", &[]),
        MethodInfo::request("eth_blockNumber", &[]),
        MethodInfo::request("eth_getBlockByNumber", &[]),
    ],
};

impl Methods<Request, ()> for Layers {
    fn info(&self) -> &'static ServiceInfo {
        &LAYERED
    }

    fn call(
        &self,
        method: usize,
        params: Option<Json<'_>>,
        _: &Request,
        (): &(),
        result: &mut ResultText,
    ) -> Result<(), Failure> {
        match LAYERED.methods[method].name() {
            "publish" => write_result(self.publish(params), result),
            "eth_blockNumber" => {
                let height = Hex(self.chain.height());
                write_result(Ok::<_, OwnedError>(height), result)
            }
            _ => write_result(self.chain.block(params), result),
        }
    }
}

impl Layers {
    /// Publishes what `[topic, data]` says, and gives the number of connections that get it.
    fn publish(&self, params: Option<Json<'_>>) -> Result<usize, OwnedError> {
        let (topic, data) = pair(params).ok_or(ErrorObject::invalid_params())?;
        let topic = topic.as_string().ok_or(ErrorObject::invalid_params())?;
        let topic = topic.to_cow_lossy();
        let published = match &self.everywhere {
            Some(everywhere) => everywhere.publish(&topic, data),
            None => self.hub.publish(&topic, data),
        };
        published.map_err(invalid)
    }

    /// Publishes to a durable topic, and gives the sequence when it is stored.
    pub fn publish_durable(
        &self,
        topic: &str,
        data: Json<'_>,
    ) -> impl Future<Output = Result<u64, OwnedError>> + Send + use<> {
        let stored = self.durable.publish(topic, data);
        async move {
            match stored.await {
                Err(DurablePublishError::Invalid(error)) => Err(invalid(error)),
                stored => stored.internal(),
            }
        }
    }
}

fn invalid(error: PublishError) -> OwnedError {
    let reason = match error {
        PublishError::Topic(why) => why.to_string(),
        error => error.to_string(),
    };
    let error = OwnedError::from(ErrorObject::invalid_params());
    // A string always has a JSON form.
    error.clone().with_data(&reason).unwrap_or(error)
}

/// Reads two params by position.
fn pair(params: Option<Json<'_>>) -> Option<(Json<'_>, Json<'_>)> {
    let params = params.filter(|params| params.kind() == JsonKind::Array)?;
    let mut elements = params.elements();
    let pair = (elements.next()?, elements.next()?);
    elements.next().is_none().then_some(pair)
}

/// A chain of blocks, which began with the server. Clones are the same chain.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    began: Instant,
}

impl Chain {
    /// The number of the newest block.
    pub fn height(&self) -> u64 {
        let blocks = self.began.elapsed().as_millis() / BLOCK_TIME.as_millis();
        FIRST + u64::try_from(blocks).unwrap_or(u64::MAX - FIRST)
    }

    /// How long it takes until there is a block of this number; zero if there is one.
    pub fn time_to(&self, number: u64) -> Duration {
        let blocks = u32::try_from(number.saturating_sub(FIRST)).unwrap_or(u32::MAX);
        (BLOCK_TIME * blocks).saturating_sub(self.began.elapsed())
    }

    /// The numbers of the blocks that a subscription brings: those after the newest, without end or this many.
    ///
    /// # Errors
    /// There is no such subscription.
    pub fn numbers(
        &self,
        kind: &str,
        count: Option<u64>,
    ) -> Result<impl Iterator<Item = u64> + use<>, OwnedError> {
        if kind != "newHeads" {
            return Err(ErrorObject::invalid_params().into());
        }
        let next = self.height() + 1;
        Ok(next..next.saturating_add(count.unwrap_or(u64::MAX)))
    }

    /// The block of the number that stands first in the params; `None` if there is none yet.
    fn block(&self, params: Option<Json<'_>>) -> Result<Option<Block>, OwnedError> {
        let wanted = params.and_then(|params| params.elements().next());
        let wanted = wanted.and_then(Json::as_string);
        let wanted = wanted.ok_or(ErrorObject::invalid_params())?.to_cow_lossy();
        let height = self.height();
        let number = match &*wanted {
            "latest" => height,
            wanted => {
                let digits = wanted.strip_prefix("0x");
                let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
                number.ok_or(ErrorObject::invalid_params())?
            }
        };
        Ok((FIRST..=height).contains(&number).then(|| Block {
            head: Head::of(number),
            size: Hex(508),
            transactions: [],
            uncles: [],
        }))
    }
}

/// A number as Ethereum writes it.
#[derive(Clone, Copy, Debug)]
struct Hex(u64);

impl Serialize for Hex {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
    }
}

/// So many bytes that hold a number.
#[derive(Clone, Copy, Debug)]
struct Bytes<const N: usize>(u64);

impl<const N: usize> fmt::Display for Bytes<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:0width$x}", self.0, width = 2 * N)
    }
}

impl<const N: usize> Serialize for Bytes<N> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The header of a block, with all that clients demand. There are no transactions.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    number: Hex,
    hash: Bytes<32>,
    parent_hash: Bytes<32>,
    #[serde(rename = "sha3Uncles")]
    uncles_hash: &'static str,
    miner: Bytes<20>,
    state_root: &'static str,
    transactions_root: &'static str,
    receipts_root: &'static str,
    logs_bloom: Bytes<256>,
    difficulty: Hex,
    gas_limit: Hex,
    gas_used: Hex,
    timestamp: Hex,
    extra_data: &'static str,
    mix_hash: Bytes<32>,
    nonce: Bytes<8>,
    base_fee_per_gas: Hex,
}

impl Head {
    /// The header of the block with this number. Its hash is the number, too.
    pub fn of(number: u64) -> Self {
        Self {
            number: Hex(number),
            hash: Bytes(number),
            parent_hash: Bytes(number.saturating_sub(1)),
            uncles_hash: NO_UNCLES,
            miner: Bytes(0),
            state_root: EMPTY_TRIE,
            transactions_root: EMPTY_TRIE,
            receipts_root: EMPTY_TRIE,
            logs_bloom: Bytes(0),
            difficulty: Hex(0),
            gas_limit: Hex(30_000_000),
            gas_used: Hex(0),
            timestamp: Hex(GENESIS.saturating_add(number)),
            extra_data: "0x",
            mix_hash: Bytes(0),
            nonce: Bytes(0),
            base_fee_per_gas: Hex(1_000_000_000),
        }
    }
}

/// A block.
#[derive(Debug, Serialize)]
struct Block {
    #[serde(flatten)]
    head: Head,
    size: Hex,
    transactions: [(); 0],
    uncles: [(); 0],
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BLOCK_TIME, Head, Layers};
    use antiphon::{Json, OwnedJson};

    #[test]
    fn blocks_refer_to_the_ones_before_them() {
        let text = |number| OwnedJson::from_value(&Head::of(number)).unwrap();
        let (first, second) = (text(0x1f), text(0x20));
        let hash = format!("\"0x{}1f\"", "0".repeat(62));
        let member = |head: &OwnedJson, name| {
            let head = head.as_json();
            head.get(name).unwrap().as_str().to_owned()
        };
        assert_eq!(member(&first, "hash"), hash);
        assert_eq!(member(&second, "parentHash"), hash);
        assert_eq!(member(&second, "number"), "\"0x20\"");
        assert_eq!(member(&second, "timestamp"), "\"0x6553f120\"");
        assert_eq!(member(&second, "logsBloom").len(), 2 + 2 + 512);
    }

    #[test]
    fn a_subscription_begins_behind_the_newest_block() {
        let chain = Layers::default().chain;
        let next = chain.numbers("newHeads", Some(2)).unwrap();
        let numbers: Vec<u64> = next.collect();
        assert!(numbers[0] > 1 && numbers[1] == numbers[0] + 1 && numbers.len() == 2);
        assert!(chain.time_to(numbers[0] + 50) > 40 * BLOCK_TIME);
        assert_eq!(chain.time_to(1), Duration::ZERO);
        assert!(chain.numbers("logs", None).is_err());
        let block = |params| chain.block(Some(Json::parse_str(params).unwrap()));
        assert!(block(r#"["0x1",false]"#).unwrap().is_some());
        assert!(block(r#"["0xffffff",false]"#).unwrap().is_none());
        assert!(block(r#"[1]"#).is_err());
    }

    #[test]
    fn only_topics_are_published_to() {
        let layers = Layers::default();
        let publish = |params| layers.publish(Some(Json::parse_str(params).unwrap()));
        assert_eq!(publish(r#"["a.b",{}]"#).unwrap(), 0);
        for params in [r#"["a.*",1]"#, r#"["a"]"#, r#"[1,2]"#, r#"{"topic":"a"}"#] {
            assert_eq!(publish(params).unwrap_err().code(), -32602, "{params}");
        }
    }
}
