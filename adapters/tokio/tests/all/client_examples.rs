//! Runs the examples of clients as programs: what they print, and what they say of wrong usage and of an
//! absent server.

use std::process::Output;
use std::time::Duration;

use antiphon_tokio::{Config, OwnedError, Router, TcpServer};

use crate::programs::example;

async fn run(name: &str, arguments: &[&str], token: Option<&str>) -> Output {
    let mut command = example(name);
    command.args(arguments).env_remove("API_TOKEN");
    command.envs(token.map(|token| ("API_TOKEN", token)));
    tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap()
}

/// What a program printed that has ended well.
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The one line of a program that has failed.
fn failed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

// USE-43
#[tokio::test]
async fn a_client_of_each_kind_is_made_by_one_line() {
    let router = Router::new().method("echo", ["text"], |text: String| Ok::<_, OwnedError>([text]));
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let url = format!("tcp://{}", server.local_addr());
    let running = server.start(Config::new(), router.into_make_service());
    assert_eq!(
        printed(&run("tcp_client", &[&url, "hello"], None).await),
        "hello\n"
    );
    running.shutdown(Duration::ZERO).await;
    let absent = failed(&run("tcp_client", &[&url, "hello"], None).await);
    assert!(absent.contains("cannot connect to 127.0.0.1:"), "{absent}");
    let unknown = failed(&run("tcp_client", &["ftp://a", "hello"], None).await);
    assert!(unknown.contains("it must begin with tcp://"), "{unknown}");

    let calculator = example("calculator").get_program().to_owned();
    let calculator = calculator.to_str().unwrap();
    let sum = run("child_client", &["add", "[10,5]", calculator], None).await;
    assert_eq!(printed(&sum), "15.0\n");
    let none = failed(&run("child_client", &["add", "[1,2]", "/nowhere/at/all"], None).await);
    assert!(none.contains("/nowhere/at/all"), "{none}");
    let wrong = failed(&run("child_client", &["add", "[1,", "cat"], None).await);
    assert!(wrong.contains("no JSON"), "{wrong}");
    for name in ["tcp_client", "child_client"] {
        assert!(failed(&run(name, &[], None).await).contains("usage: "));
    }
}

// USE-43
#[cfg(feature = "http")]
#[tokio::test]
async fn a_token_from_the_environment_is_sent_with_each_call_over_http() {
    let router = Router::new()
        .method("me", [], || Ok::<_, OwnedError>("Ada"))
        .check(
            |_, request| match request.peer().context().header("authorization") {
                Some("Bearer s3cret") => Ok(()),
                _ => Err(OwnedError::new(1001, "Unauthorized")),
            },
        );
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", server.local_addr());
    let _running = server.start_http(Config::new(), router);
    let known = run("http_token_client", &[&url, "me"], Some("s3cret")).await;
    assert_eq!(printed(&known), "\"Ada\"\n");
    let stranger = failed(&run("http_token_client", &[&url, "me"], None).await);
    assert!(stranger.contains("Unauthorized (1001)"), "{stranger}");
    assert!(failed(&run("http_token_client", &[], None).await).contains("usage: "));
}
