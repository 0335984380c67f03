//! Which calls an HTTP client sends again after a reply, and after how long.
#![cfg(feature = "http")]

use std::sync::Arc;
use std::time::Duration;

use antiphon::{Config, Retry};
use antiphon_tokio::http::{HttpResponse, with_send};
use antiphon_tokio::{Client, ClientConfig};
use tokio::time::Instant;

use crate::http_client::http_mock::HttpMock;
use crate::http_client::{URL, result};

fn client(change: impl FnOnce(&mut Retry)) -> (Client, Arc<HttpMock>) {
    let mock = Arc::new(HttpMock::new());
    let mut retry = Retry::new();
    retry.jitter = 0.0;
    change(&mut retry);
    let options = ClientConfig::new(Config::new()).with_retry(retry);
    let client = with_send(URL, options, Arc::clone(&mock)).expect("a client");
    (client, mock)
}

fn reply(mock: &HttpMock, status: u16, headers: &[(&str, &str)], body: &str) {
    let mut response = HttpResponse::new(status, body);
    for (name, value) in headers {
        response.headers.push(name, value.as_bytes());
    }
    mock.answer(Ok(response));
}

fn error(code: i64, id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","error":{{"code":{code},"message":"limit exceeded"}},"id":{id}}}"#)
}

/// What a call that is first answered so ends with, how often it was sent, and how many milliseconds it took.
async fn call(
    (client, mock): &(Client, Arc<HttpMock>),
    is_idempotent: bool,
) -> (String, usize, u128) {
    let (begun, before) = (Instant::now(), mock.sent().len());
    mock.reply(200, &result(u32::try_from(before).unwrap() + 2));
    let call = client
        .call::<u32>("pay", ())
        .timeout(Duration::from_secs(100));
    let ended = match is_idempotent {
        true => call.idempotent().await,
        false => call.await,
    };
    let ended = ended.map_or_else(|error| error.to_string(), |_| "ok".to_owned());
    (
        ended,
        mock.sent().len() - before,
        begun.elapsed().as_millis(),
    )
}

// HTP-07 CON-06
#[tokio::test(start_paused = true)]
async fn a_refused_call_is_sent_again_when_the_server_says() {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let later = "Sun, 06 Nov 1994 08:49:40 GMT";
    for (status, headers, body, is_idempotent, sent, took) in [
        (429, &[][..], "slow down", false, 2, 100),
        (429, &[("retry-after", "7")], "slow down", false, 2, 7000),
        (
            429,
            &[("Retry-After", later), ("Date", date)],
            "",
            false,
            2,
            3000,
        ),
        // Sooner than it would have been sent anyway.
        (429, &[("retry-after", "0")], "", false, 2, 100),
        // With an answer, too: the status says that the call was not run.
        (429, &[("retry-after", "7")], &*error(-1, 1), false, 2, 7000),
        // A proxy sends it for a server that was lost while it ran the call.
        (503, &[("retry-after", "7")], "", false, 1, 0),
        (503, &[("retry-after", "7")], "", true, 2, 7000),
        (503, &[], "", true, 2, 100),
        // It asks for too much: more than 60 s, or than the call has.
        (429, &[("retry-after", "61")], "", false, 1, 0),
        (
            429,
            &[("retry-after", "99999999999999999999")],
            "",
            true,
            1,
            0,
        ),
        // Other failures may come after the call was run.
        (500, &[("retry-after", "1")], "", true, 1, 0),
        (502, &[("retry-after", "1")], "", true, 1, 0),
        (504, &[("retry-after", "1")], "", false, 1, 0),
        (200, &[("retry-after", "1")], &*error(-32005, 1), true, 1, 0),
    ] {
        let client = client(|_| {});
        reply(&client.1, status, headers, body);
        let (ended, times, millis) = call(&client, is_idempotent).await;
        let what = format!("{status} {headers:?} {is_idempotent}: {ended}");
        assert_eq!((times, millis), (sent, took), "{what}");
        assert_eq!(ended == "ok", sent == 2, "{what}");
    }
    // Not for ever, and not after its deadline.
    let client = client(|retry| retry.max_resends = 2);
    (0..5).for_each(|_| reply(&client.1, 429, &[("retry-after", "1")], ""));
    assert_eq!(call(&client, false).await.1, 3);
    let client = self::client(|_| {});
    (0..5).for_each(|_| reply(&client.1, 429, &[("retry-after", "40")], ""));
    let (_, times, millis) = call(&client, false).await;
    assert_eq!((times, millis), (3, 80_000));
}

// HTP-07
#[tokio::test(start_paused = true)]
async fn statuses_and_codes_that_mean_a_call_was_not_run_are_data() {
    for code in Retry::ETHEREUM_LIMITS {
        let client = client(|retry| *retry = retry.clone().when_code(&Retry::ETHEREUM_LIMITS));
        reply(&client.1, 200, &[("retry-after", "2")], &error(code, 1));
        assert_eq!(
            call(&client, false).await,
            ("ok".to_owned(), 2, 2000),
            "{code}"
        );
    }
    let client = client(|retry| retry.statuses.push(503));
    reply(&client.1, 503, &[], "");
    assert_eq!(call(&client, false).await, ("ok".to_owned(), 2, 100));
    // Without a policy nothing is sent again.
    let mock = Arc::new(HttpMock::new());
    let client = with_send(URL, Config::new(), Arc::clone(&mock)).expect("a client");
    reply(&mock, 429, &[("retry-after", "1")], "");
    assert_eq!(call(&(client, mock), true).await.1, 1);
}
