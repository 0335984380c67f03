//! Services as their users write them: one trait, a server, a client, a description.

use std::time::Duration;

use antiphon_tokio::{
    CallError, Config, Link, NotificationOk, Router, RpcError, TcpServer, attach, method_info,
    service,
};

const SECOND: Duration = Duration::from_secs(1);

/// Arithmetic.
#[service(rename_all = "camelCase")]
trait Calculator {
    /// Adds two numbers.
    async fn add(&self, a: f64, b: f64) -> Result<f64, CalcError>;
    async fn divide(&self, a: f64, b: f64) -> Result<f64, CalcError>;
    async fn log_calculation(&self, operation: String, result: f64) -> NotificationOk;
}

#[derive(Debug, PartialEq, RpcError)]
enum CalcError {
    #[rpc(code = -32602, message = "Division by zero")]
    DivisionByZero,
    #[rpc(code = 1001)]
    OutOfRange { limit: f64 },
}

struct Mine;

impl Calculator for Mine {
    async fn add(&self, a: f64, b: f64) -> Result<f64, CalcError> {
        match a > 1e9 {
            true => Err(CalcError::OutOfRange { limit: 1e9 }),
            false => Ok(a + b),
        }
    }

    async fn divide(&self, a: f64, b: f64) -> Result<f64, CalcError> {
        match b {
            0.0 => Err(CalcError::DivisionByZero),
            _ => Ok(a / b),
        }
    }

    async fn log_calculation(&self, _operation: String, _result: f64) -> NotificationOk {
        NotificationOk
    }
}

#[tokio::test]
async fn a_trait_is_a_server_and_a_client() {
    let router = Router::new()
        .service(Mine.into_service())
        .describe("Calculator", "1.0.0");
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr();
    let _running = server.start(Config::new(), router.into_make_service());
    let peer = attach(Link::tcp(address).await.unwrap(), Config::new(), ());
    let calc = CalculatorClient::new(peer.clone());
    assert_eq!(calc.add(10.0, 5.0).await.unwrap(), 15.0);
    match calc.divide(1.0, 0.0).timeout(SECOND).await {
        Err(CallError::Remote(CalcError::DivisionByZero)) => {}
        other => panic!("{other:?}"),
    }
    match calc.add(1e10, 0.0).await {
        Err(CallError::Remote(CalcError::OutOfRange { limit })) => assert_eq!(limit, 1e9),
        other => panic!("{other:?}"),
    }
    calc.log_calculation("add".into(), 15.0).await.unwrap();
    let (sum, mut outcomes) = peer
        .batch(|batch| {
            let calc = CalculatorClient::new(batch).by_position();
            calc.log_calculation("add".into(), 3.0)?;
            calc.add(1.0, 2.0)
        })
        .await
        .unwrap();
    assert_eq!(outcomes.fetch(sum).unwrap(), 3.0);
    let names: Vec<String> = peer.call("rpc.listMethods", ()).await.unwrap();
    assert_eq!(names, ["add", "divide", "logCalculation"]);
    let document = peer.call("rpc.discover", ()).raw().await.unwrap();
    let number = match cfg!(feature = "openrpc") {
        true => r#"{"type":"number"}"#,
        false => "{}",
    };
    let method = |name, doc, a, b, result| {
        format!(
            r#"{{"name":"{name}"{doc},"params":[{{"name":"{a}","required":true,"schema":{}}},{{"name":"{b}","required":true,"schema":{number}}}],"result":{{"name":"result","schema":{result}}}}}"#,
            match (a, cfg!(feature = "openrpc")) {
                ("operation", true) => r#"{"type":"string"}"#,
                _ => number,
            }
        )
    };
    let expected = [
        method("add", r#","summary":"Adds two numbers.""#, "a", "b", number),
        method("divide", "", "a", "b", number),
        method(
            "logCalculation",
            "",
            "operation",
            "result",
            r#"{"type":"null"}"#,
        ),
    ];
    assert_eq!(
        document.as_str(),
        format!(
            r#"{{"openrpc":"1.0.0","info":{{"title":"Calculator","version":"1.0.0"}},"methods":[{}]}}"#,
            expected.join(",")
        )
    );
}

// GEN-01 EXT-08
#[test]
fn a_router_by_hand_has_the_document_of_the_trait() {
    let by_macro = Router::new()
        .service(Mine.into_service())
        .describe("Calculator", "1.0.0");
    let mine = || Mine;
    let by_hand: Router = Router::new()
        .method_with(
            method_info!("add"("a": f64, "b": f64) -> f64).with_doc("Adds two numbers."),
            move |a: f64, b: f64| async move { mine().add(a, b).await },
        )
        .method_with(
            method_info!("divide"("a": f64, "b": f64) -> f64),
            move |a: f64, b: f64| async move { mine().divide(a, b).await },
        )
        .method_with(
            method_info!("logCalculation"("operation": String, "result": f64)),
            async |_: String, _: f64| NotificationOk,
        )
        .describe("Calculator", "1.0.0");
    assert_eq!(by_hand.document().unwrap(), by_macro.document().unwrap());
}
