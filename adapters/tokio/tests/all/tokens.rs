//! Tokens from a source that has to be awaited.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_metrics::Metrics;
use antiphon_tokio::service::{AnyRequest, Authorization, BearerAuth, Cx, Decision, Interceptor};
use antiphon_tokio::{
    CallError, Config, ConnectionConfig, Link, OwnedJson, OwnedOutcome, Peer, Router, SendError,
    attach,
};
use tokio::time::{Instant, sleep};

use crate::measured::measured;

const SECOND: Duration = Duration::from_secs(1);

/// Shows the peer the token of each call as its params.
struct Shows;

impl<R: AnyRequest + ?Sized> Interceptor<R> for Shows {
    fn request(&self, cx: &mut Cx, _: &R) -> Decision {
        let token = cx.attributes().get().map(Authorization::as_str);
        let params = OwnedJson::from_value(&[token.unwrap_or("none")]);
        cx.set_params(params.unwrap());
        Decision::Continue
    }
}

/// A client with `auth`; its peer, which answers `say` with the token that came as its params; and
/// the tokens that came with `tell`.
fn echo(auth: BearerAuth, metrics: Metrics) -> (Peer, Peer, Arc<Mutex<Vec<String>>>) {
    let told = Arc::<Mutex<Vec<String>>>::default();
    let keep = Arc::clone(&told);
    let router = Router::new()
        .method("say", ["token"], |token: String| {
            Ok::<_, antiphon_tokio::OwnedError>(token)
        })
        .notification("tell", ["token"], move |token: String| {
            keep.lock().unwrap().push(token);
        });
    let options = ConnectionConfig::from(Config::new())
        .intercept(metrics)
        .intercept(auth)
        .intercept(Shows);
    let (near, far) = Link::pair();
    let serving = attach(far, Config::new(), router);
    (attach(near, options, ()), serving, told)
}

// INT-08 SEC-02
#[tokio::test(start_paused = true)]
async fn whatever_is_called_waits_for_its_token() {
    let count = Arc::new(Mutex::new(0));
    let auth = BearerAuth::from_async(move || {
        let count = Arc::clone(&count);
        async move {
            sleep(SECOND).await;
            let mut count = count.lock().unwrap();
            *count += 1;
            match *count {
                6 => Ok(None),
                7 => Err("the vault is shut".into()),
                n => Ok(Some(format!("s3cret{n}"))),
            }
        }
    });
    let (metrics, shown) = measured();
    let (peer, _serving, told) = echo(auth.clone(), metrics);
    let began = Instant::now();

    let said: String = peer.call("say", ()).await.unwrap();
    assert_eq!(said, "Bearer s3cret1");
    let started = peer.call("say", ()).start().await.unwrap();
    assert_eq!(started.result::<String>().await.unwrap(), "Bearer s3cret2");
    let (sent, came) = tokio::sync::oneshot::channel();
    peer.call("say", ())
        .then(|outcome| drop(sent.send(outcome)))
        .await
        .unwrap();
    let outcome = came.await.unwrap();
    assert!(matches!(outcome, OwnedOutcome::Ok(said) if said.as_str() == r#""Bearer s3cret3""#));
    peer.notify("tell", ()).await.unwrap();
    assert_eq!(began.elapsed(), 4 * SECOND, "one after another");

    // The tokens of a batch are asked for at the same time.
    let build = |batch: &antiphon_tokio::BatchBuilder| {
        batch.notify("tell", ())?;
        let first = batch.call::<String>("say", ())?;
        Ok((first, batch.call::<String>("say", ())?))
    };
    let ((first, last), mut came) = peer.batch(build).await.unwrap();
    assert_eq!(came.fetch(first).unwrap(), "none");
    let kept_back = came.fetch(last).unwrap_err();
    assert!(
        kept_back.to_string().contains("Internal error"),
        "{kept_back}"
    );
    assert_eq!(began.elapsed(), 5 * SECOND);
    let (handles, came) = peer.batch(build).start().await.unwrap();
    assert_eq!(came.await.fetch(handles.1).unwrap(), "Bearer s3cret10");
    assert_eq!(
        *told.lock().unwrap(),
        ["Bearer s3cret4", "Bearer s3cret5", "Bearer s3cret8"]
    );
    // Of the first batch two were sent, of the second all three.
    let text = shown.render();
    assert!(text.contains("antiphon_client_batch_size_sum{rpc_system_name=\"jsonrpc\"} 5\n"));
    assert!(text.contains("antiphon_client_calls_running 0\n"), "{text}");

    // `try_notify` cannot wait for a token, so nothing is sent.
    let unsent = peer.try_notify("tell", ());
    assert_eq!(unsent, Err(SendError::Interceptor));
    let said: String = peer.call("say", ()).await.unwrap();
    assert_eq!(said, "Bearer s3cret11");
    assert_eq!(told.lock().unwrap().len(), 3);
    let now = auth.authorization().unwrap_err().to_string();
    assert_eq!(now, "the source of tokens has to be awaited");
}

// INT-08
#[tokio::test(start_paused = true)]
async fn a_call_waits_for_its_token_no_longer_than_for_its_answer() {
    let (dropped, seen) = (Arc::new(()), Arc::new(Mutex::new(0)));
    let (held, count) = (Arc::clone(&dropped), Arc::clone(&seen));
    let auth = BearerAuth::from_async(move || {
        *count.lock().unwrap() += 1;
        let held = Arc::clone(&held);
        async move {
            let _held = held;
            pending().await
        }
    });
    let (metrics, shown) = measured();
    let (peer, _serving, told) = echo(auth, metrics);
    let began = Instant::now();
    let kept_back = peer.call::<String>("say", ()).timeout(2 * SECOND).await;
    let error = kept_back.unwrap_err();
    assert!(matches!(error, CallError::Interceptor(_)));
    assert_eq!(
        error.to_string(),
        "the call was kept back: an interceptor has not decided in time"
    );
    assert_eq!(began.elapsed(), 2 * SECOND);
    let (handle, mut came) = peer
        .batch(|batch| batch.call::<String>("say", ()))
        .timeout(SECOND)
        .await
        .unwrap();
    came.fetch(handle).unwrap_err();
    assert_eq!(began.elapsed(), 3 * SECOND);
    // A call that is dropped drops the future of the source, too.
    let given_up = tokio::time::timeout(SECOND, peer.call::<String>("say", ())).await;
    assert!(given_up.is_err());
    // This test holds one, and the source itself the other.
    assert_eq!(Arc::strong_count(&dropped), 2);
    assert_eq!((*seen.lock().unwrap(), told.lock().unwrap().len()), (3, 0));
    let text = shown.render();
    assert!(text.contains("antiphon_client_calls_running 0\n"), "{text}");
    assert!(text.contains(r#"error_type="cancelled"} 1"#), "{text}");
}
