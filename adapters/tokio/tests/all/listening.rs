//! Calls that listen, as those of MCP do: what is sent, and what the reader is told at which place.

use antiphon_tokio::{Config, McpRevision, Peer};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::subscriptions::{SECOND, Told, node, parts, settle};
use crate::support::Raw;

const LISTEN: &str = r#"{"jsonrpc":"2.0","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}},"id":1}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":1}}}"#;

/// What is read of a notification.
#[derive(Debug, serde::Deserialize)]
#[serde(tag = "method", content = "params")]
enum Change {
    #[serde(rename = "notifications/subscriptions/acknowledged")]
    Acknowledged {},
    #[serde(rename = "notifications/resources/updated")]
    Updated {
        #[serde(rename = "uri")]
        _uri: String,
    },
}

fn peer() -> (Peer, Raw, Told) {
    node(Config::mcp(McpRevision::V2026_07_28))
}

/// A notification of the stream `id`, with these params beside the id.
fn told(method: &str, id: &str, params: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{method}\",\"params\":\
         {{\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{id}}}{params}}}}}\n"
    )
}

fn updated(id: &str, uri: &str) -> String {
    told("resources/updated", id, &format!(",\"uri\":\"{uri}\""))
}

// USE-15
#[tokio::test(start_paused = true)]
async fn a_call_that_listens_has_its_notifications_as_a_stream_until_its_answer() {
    let (peer, mut node, service) = peer();
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let call = peer.call::<Value>("subscriptions/listen", &filter);
    let serving = async {
        assert_eq!(node.line().await, LISTEN);
        node.send(told("subscriptions/acknowledged", "1", ""))
            .await
            .unwrap();
        // It has no timeout.
        sleep(3600 * SECOND).await;
        let read = [
            &*updated("1", "a"),
            // Those of other streams, and those of none.
            &updated("2", "b"),
            &updated("\"1\"", "b"),
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"b\"}}\n",
            "{\"jsonrpc\":\"2.0\",\"method\":\"subscriptions/listen\"}\n",
            &told("message", "1", ""),
            &updated("1", "c"),
            ANSWER,
            "\n",
            // The answer is the end.
            &updated("1", "d"),
        ];
        node.send(read.concat()).await.unwrap();
        settle().await;
    };
    let (items, ()) = tokio::join!(parts(call.listen::<Change>()), serving);
    let result = r#"= Object {"_meta": Object {"io.modelcontextprotocol/subscriptionId": Number(1)}, "resultType": String("complete")}"#;
    let expected = [
        "Acknowledged",
        r#"Updated { _uri: "a" }"#,
        "?",
        r#"Updated { _uri: "c" }"#,
        result,
    ];
    assert_eq!(items, expected);
    let others = service.all();
    let own = "notifications/resources/updated";
    assert_eq!(others, [own, own, own, "subscriptions/listen", own]);
}

// USE-15
#[tokio::test(start_paused = true)]
async fn two_calls_that_listen_are_told_apart_by_their_ids() {
    let (peer, mut node, service) = peer();
    let call = || peer.call::<Value>("subscriptions/listen", &json!({}));
    let (mut one, mut two) = (
        call().listen::<Value>(),
        call().id("web/\"2\"").listen::<Value>(),
    );
    assert!(timeout(SECOND, one.next()).await.is_err());
    assert!(timeout(SECOND, two.next()).await.is_err());
    node.line().await;
    assert!(node.line().await.ends_with(r#""id":"web/\"2\""}"#));
    let read = [
        updated(r#""web/\u00222\"""#, "two"),
        updated("1", "one"),
        ANSWER.to_owned() + "\n",
    ];
    node.send(read.concat()).await.unwrap();
    let items = parts(one).await;
    assert_eq!(items.len(), 2, "{items:?}");
    let event = r#"Object {"method": String("notifications/resources/updated"), "params": Object {"_meta": Object {"io.modelcontextprotocol/subscriptionId": Number(1)}, "uri": String("one")}}"#;
    assert_eq!(items[0], event);
    let other = two.next().await.unwrap();
    assert!(format!("{other:?}").contains(r#"String("two")"#));
    // A stream that is dropped cancels its call; what still comes is an ordinary notification.
    drop(two);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"web/\"2\""}}"#;
    assert_eq!(node.line().await, cancel);
    node.send(updated(r#""web/\"2\"""#, "late")).await.unwrap();
    settle().await;
    assert_eq!(service.all(), ["notifications/resources/updated"]);
}

// USE-15
#[tokio::test(start_paused = true)]
async fn a_listener_that_is_slow_is_told_where_notifications_are_missing() {
    let (peer, mut node, _) = peer();
    let call = peer.call::<Value>("subscriptions/listen", &json!({}));
    let mut changes = call.listen::<Change>();
    assert!(timeout(SECOND, changes.next()).await.is_err());
    node.line().await;
    for uri in 0..1030 {
        let uri = uri.to_string();
        node.send(updated("1", &uri)).await.unwrap();
    }
    node.send(ANSWER.to_owned() + "\n").await.unwrap();
    settle().await;
    let items = parts(changes).await;
    assert_eq!(items.len(), 1 + 1024 + 1);
    let first = [r#"-6"#, r#"Updated { _uri: "6" }"#];
    assert_eq!(items[..2], first);
}
