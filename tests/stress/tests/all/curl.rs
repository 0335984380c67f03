//! The answers of an HTTP server, seen with an independent client: curl.

use std::process::Command;

use antiphon::Config;
use antiphon::OwnedError;
use antiphon::http::{Cors, Statuses, WebRules};
use antiphon_net::http::HttpConfig;
use antiphon_net::{Answer, Peer, Request, Service};
use antiphon_tokio::TcpServer;

struct Calculator;

impl Service for Calculator {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        match request.method() {
            "add" => {
                let (a, b): (f64, f64) = request.params()?;
                Ok((a + b).into())
            }
            "crash" => panic!("as asked"),
            _ => Err(request.unknown_method()),
        }
    }
}

/// The status and the body that curl saw.
fn curl(url: &str, arguments: &[&str]) -> (u16, String) {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "20", "--http1.1"]);
    command.args(["--write-out", "\n%{http_code}"]);
    let output = command.args(arguments).arg(url).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), body.to_owned())
}

const JSON: [&str; 2] = ["--header", "Content-Type: application/json"];

fn post(url: &str, body: &str) -> (u16, String) {
    curl(url, &[JSON[0], JSON[1], "--data-binary", body])
}

fn call(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":[1,2],"id":1}}"#)
}

// HTP-01 HTP-02 HTP-03 HTP-04 SEC-08
#[test]
fn curl_sees_the_status_of_everything() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("SKIPPED: there is no curl");
        return;
    }
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (plain, by_code, _running) = tokio.block_on(async {
        let mut rules = WebRules::new();
        rules.paths.push("/rpc".into());
        rules.origins.push("https://app.example".into());
        rules.cors = Some(Cors::new());
        let mut running = Vec::new();
        let mut urls = Vec::new();
        let mut by_code = WebRules::new();
        by_code.error_statuses = Statuses::by_code();
        for rules in [rules, by_code] {
            let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
            urls.push(format!("http://{}/rpc", server.local_addr()));
            let options = HttpConfig::new(Config::new()).with_rules(rules);
            running.push(server.start_http(options, Calculator));
        }
        let by_code = urls.pop().unwrap();
        (urls.pop().unwrap(), by_code, running)
    });

    let (add, nobody, crash) = (call("add"), call("nobody"), call("crash"));
    let notification = r#"{"jsonrpc":"2.0","method":"note"}"#;
    let reply = r#"{"jsonrpc":"2.0","result":3.0,"id":1}"#;
    assert_eq!(post(&plain, &add), (200, reply.to_owned()));
    assert_eq!(post(&plain, notification), (204, String::new()));

    // Each error is answered with 200, or with the status of its code where that is configured.
    for (body, code, status) in [
        (nobody.as_str(), -32601, 404),
        (r#"{"jsonrpc":"2.1","id":1}"#, -32600, 400),
        ("{", -32700, 500),
        (crash.as_str(), -32603, 500),
        (r#"{"jsonrpc":"2.0","method":"add","id":1}"#, -32602, 500),
    ] {
        for (url, wanted) in [(&plain, 200), (&by_code, status)] {
            let (seen, answer) = post(url, body);
            assert!(answer.contains(&format!("\"code\":{code}")), "{answer}");
            println!(
                "{code} {} {seen}",
                if *url == plain { "plain" } else { "by code" }
            );
            assert_eq!(seen, wanted, "{body}");
        }
    }

    for (what, arguments, wanted) in [
        ("GET", &["--request", "GET"][..], 405),
        ("PUT", &["--request", "PUT", "--data-binary", &add], 405),
        (
            "text/plain",
            &[
                "--header",
                "Content-Type: text/plain",
                "--data-binary",
                &add,
            ],
            415,
        ),
        (
            "foreign origin",
            &[
                "--header",
                "Origin: https://evil.example",
                JSON[0],
                JSON[1],
                "--data-binary",
                &add,
            ],
            403,
        ),
        (
            "preflight",
            &[
                "--request",
                "OPTIONS",
                "--header",
                "Origin: https://app.example",
            ],
            204,
        ),
    ] {
        let (seen, body) = curl(&plain, arguments);
        println!("{what}: {seen} {body}");
        assert_eq!(seen, wanted, "{what}");
    }
    let (seen, _) = curl(
        &plain.replace("/rpc", "/other"),
        &[JSON[0], JSON[1], "--data-binary", &add],
    );
    assert_eq!(seen, 404);

    let folder = std::env::temp_dir().join(format!("antiphon-curl-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // A body may have 1 MiB, and a head 8 KiB.
    let large = folder.join("large.json");
    std::fs::write(&large, vec![b'1'; 3 << 20]).unwrap();
    let (seen, body) = curl(
        &plain,
        &[
            JSON[0],
            JSON[1],
            "--data-binary",
            &format!("@{}", large.display()),
        ],
    );
    println!("3 MiB: {seen} {body}");
    assert_eq!(seen, 413);
    let header = format!("X-Large: {}", "x".repeat(20_000));
    let (seen, _) = curl(
        &plain,
        &[JSON[0], JSON[1], "--header", &header, "--data-binary", &add],
    );
    println!("20 kB of header: {seen}");
    assert_eq!(seen, 431);
    std::fs::remove_dir_all(&folder).unwrap();
}
