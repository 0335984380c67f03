//! A client that is closed while it follows streams.

use std::time::Duration;

use antiphon_tokio::{Config, Style, SubscriptionError, connect, reconnect};
use tokio::time::timeout;

use crate::support::lines::Lines;

const PATIENCE: Duration = Duration::from_secs(10);

fn publication(topic: &str, data: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"rpc.notification","params":{{"topic":"{topic}","data":{data}}}}}"#
    )
}

// PUB-08: also over a connection that would be replaced. What comes until the answers is still read.
#[tokio::test]
async fn a_client_unsubscribes_before_a_clean_close() {
    for reconnects in [false, true] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = format!("tcp://{}", listener.local_addr().unwrap());
        let serves = async {
            let (stream, _) = listener.accept().await.unwrap();
            let mut lines = Lines::on(stream);
            for (id, asked, result) in [
                (
                    1,
                    r#""rpc.subscribe","params":{"topic":"b.>"}"#,
                    r#"{"subscribed":true}"#,
                ),
                (
                    2,
                    r#""rpc.subscribe","params":{"topic":"a"}"#,
                    r#"{"subscribed":true}"#,
                ),
                (3, r#""eth_subscribe","params":["newHeads"]"#, r#""0xcd""#),
            ] {
                let asked = format!(r#"{{"jsonrpc":"2.0","method":{asked},"id":{id}}}"#);
                lines.hear(&[&asked]).await;
                let answer = format!(r#"{{"jsonrpc":"2.0","result":{result},"id":{id}}}"#);
                lines.say(&answer).await;
            }
            lines
                .hear(&[
                    r#"{"jsonrpc":"2.0","method":"rpc.unsubscribe","params":{"topic":"a"},"id":4}"#,
                    r#"{"jsonrpc":"2.0","method":"rpc.unsubscribe","params":{"topic":"b.>"},"id":5}"#,
                    r#"{"jsonrpc":"2.0","method":"eth_unsubscribe","params":["0xcd"],"id":6}"#,
                ])
                .await;
            lines
                .say(&format!(
                    r#"{{"jsonrpc":"2.0","method":"eth_subscription","params":{{"subscription":"0xcd","result":7}}}}
{}
{{"jsonrpc":"2.0","result":{{"unsubscribed":true}},"id":4}}
{{"jsonrpc":"2.0","result":{{"unsubscribed":true}},"id":5}}
{{"jsonrpc":"2.0","result":true,"id":6}}"#,
                    publication("a", "8")
                ))
                .await;
            assert_eq!(lines.hear_rest().await, "", "and then the end");
        };
        let reads = async {
            let client = match reconnects {
                false => connect(&*target, Config::new(), ()).await.unwrap(),
                true => reconnect(&*target, Config::new(), ()).await.unwrap(),
            };
            let all = client.topic::<u32>("b.>").await.unwrap();
            let mut one = client.topic::<u32>("a").await.unwrap();
            let mut heads = client
                .subscribe::<u32>(Style::ETHEREUM, &["newHeads"])
                .await
                .unwrap();
            client.close();
            assert_eq!(heads.next().await.unwrap().unwrap(), 7);
            assert_eq!(one.next().await.unwrap().unwrap().data, 8);
            assert!(matches!(
                heads.next().await,
                Some(Err(SubscriptionError::Ended(_)))
            ));
            assert!(matches!(
                one.next().await,
                Some(Err(SubscriptionError::Ended(_)))
            ));
            drop(all);
        };
        let both = async { tokio::join!(reads, serves) };
        timeout(PATIENCE, both).await.expect("in time");
    }
}

// PUB-08: a server that does not answer keeps the connection no longer than a drain may take.
#[tokio::test]
async fn a_clean_close_does_not_wait_for_ever_for_the_answer() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("tcp://{}", listener.local_addr().unwrap());
    let serves = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut lines = Lines::on(stream);
        lines.hear_line().await;
        lines
            .say(r#"{"jsonrpc":"2.0","result":{"subscribed":true},"id":1}"#)
            .await;
        let rest = lines.hear_rest().await;
        assert_eq!(
            rest,
            "{\"jsonrpc\":\"2.0\",\"method\":\"rpc.unsubscribe\",\"params\":{\"topic\":\"t\"},\"id\":2}\n"
        );
    };
    let reads = async {
        let mut config = Config::new();
        config.timeouts.drain_timeout = Some(Duration::from_millis(50));
        let client = connect(&*target, config, ()).await.unwrap();
        let topic = client.topic::<u32>("t").await.unwrap();
        client.close();
        client
            .peer()
            .unwrap()
            .wait_closed(PATIENCE)
            .await
            .expect("it ends");
        drop(topic);
    };
    let both = async { tokio::join!(reads, serves) };
    timeout(PATIENCE, both).await.expect("in time");
}
