//! Runs the examples as a newcomer would, and checks what they print.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc;
use std::time::Duration;

/// Longer than any example takes that works.
const LONG: Duration = Duration::from_secs(60);

/// The command that runs an example; the examples are built before the first.
fn example(name: &str) -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--examples", "--package", "antiphon"]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(built.unwrap().success(), "the examples do not build");
        // Tests stand in `deps`, beside `examples`.
        let test = std::env::current_exe().unwrap();
        test.parent().unwrap().parent().unwrap().join("examples")
    });
    Command::new(folder.join(name))
}

/// Runs a program to its end with something on its standard input.
fn run(mut command: Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that has refused its arguments may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    ended(child)
}

/// Waits for the end of a program, for [`LONG`] at most.
fn ended(child: Child) -> Output {
    let (done, output) = mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    output.recv_timeout(LONG).expect("it does not end").unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// What the calculator prints for these lines.
fn calculate(input: &str) -> String {
    let output = run(example("calculator"), input);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    text(&output.stdout).to_owned()
}

// EXA-01
#[test]
fn the_calculator_adds_for_the_line_in_the_readme() {
    assert_eq!(
        calculate("{\"jsonrpc\":\"2.0\",\"method\":\"add\",\"params\":[10,5],\"id\":1}\n"),
        "{\"jsonrpc\":\"2.0\",\"result\":15.0,\"id\":1}\n"
    );
}

// EXA-01
#[test]
fn the_calculator_takes_params_both_ways_and_names_what_is_wrong() {
    let answer = |method: &str, params: &str| {
        let request =
            format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params},"id":1}}"#);
        let printed = calculate(&format!("{request}\n"));
        let outcome = printed.strip_prefix(r#"{"jsonrpc":"2.0","#).unwrap();
        outcome.strip_suffix(",\"id\":1}\n").unwrap().to_owned()
    };
    assert_eq!(answer("subtract", "[10,5]"), r#""result":5.0"#);
    assert_eq!(answer("subtract", r#"{"b":5,"a":10}"#), r#""result":5.0"#);
    assert_eq!(answer("divide", "[1,4]"), r#""result":0.25"#);
    assert_eq!(
        answer("divide", "[1,0]"),
        r#""error":{"code":-32602,"message":"Division by zero"}"#
    );
    let wrong = r#""error":{"code":-32602,"message":"Invalid params"}"#;
    for params in [
        "[1]",
        "[1,2,3]",
        r#"["1",2]"#,
        r#"{"a":1}"#,
        r#"{"a":1,"b":2,"c":3}"#,
    ] {
        assert_eq!(answer("add", params), wrong, "{params}");
    }
    assert_eq!(
        answer("multiply", "[1,2]"),
        r#""error":{"code":-32601,"message":"Method not found"}"#
    );
}

// EXA-01 STD-07 D-35 TST-19
#[test]
fn d_35_the_calculator_logs_to_standard_error_and_prints_nothing_but_messages() {
    let input = concat!(
        r#"{"jsonrpc":"2.0","method":"logCalculation","params":["add",15]}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"logCalculation","params":{"operation":"sub","result":-1.5}}"#,
        "\n",
        "nonsense\n",
    );
    let output = run(example("calculator"), input);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        text(&output.stdout),
        "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,\"message\":\"Parse error\"},\"id\":null}\n"
    );
    let log: Vec<_> = text(&output.stderr).lines().collect();
    assert_eq!(log[..2], ["calculator: add = 15", "calculator: sub = -1.5"]);
    assert!(log[2].contains("malformed"), "{log:?}");
}

#[test]
fn the_calculator_meets_wrong_usage_and_a_taken_port_with_one_line() {
    let refused = |arguments: &[&str]| {
        let mut command = example("calculator");
        command.args(arguments);
        let output = run(command, "");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty());
        let said = text(&output.stderr).to_owned();
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    assert!(refused(&["--port", "many"]).contains("usage"));
    assert!(refused(&["--verbose"]).contains("usage"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    assert!(refused(&["--port", &port]).contains("cannot listen on"));
}

#[test]
fn the_calculator_meets_a_reader_that_has_left_with_one_line() {
    let mut command = example("calculator");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"add\",\"params\":[1,2],\"id\":1}\n")
        .unwrap();
    // Its input is still open: it ends because nobody reads its output.
    let output = ended(child);
    drop(stdin);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(text(&output.stderr).lines().count(), 1, "{output:?}");
}

#[test]
fn the_calculator_serves_a_port() {
    let mut command = example("calculator");
    let mut server = command
        .args(["--port", "0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(server.stderr.take().unwrap()).lines();
    let ready = log.next().unwrap().unwrap();
    let address = ready.strip_prefix("listening ").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
        .write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"divide\",\"params\":[1,2],\"id\":9}\n")
        .unwrap();
    let answer = BufReader::new(stream).lines().next();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(
        answer.unwrap().unwrap(),
        r#"{"jsonrpc":"2.0","result":0.5,"id":9}"#
    );
}

// EXA-12
#[test]
fn the_embedding_sees_everything_through_its_fixed_buffer() {
    let output = run(example("embedding"), "");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = text(&output.stdout);
    for line in [
        "led is now true",
        "too large",
        "call weather timed out",
        "-32004",
    ] {
        assert!(printed.contains(line), "{printed}");
    }
}

#[test]
fn the_lsp_client_speaks_with_a_real_language_server() {
    if Command::new("ruff").arg("--version").output().is_err() {
        // Past the capture of the test harness, which hides what the macros print.
        let why = "SKIPPED: no `ruff` in PATH; `pip install ruff==0.17.5` to run this test";
        writeln!(std::io::stderr(), "{why}").unwrap();
        return;
    }
    let output = run(example("lsp_client"), "");
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut lines = printed.lines();
    // In this order, whatever else is said between.
    for expected in [
        "client asks     initialize",
        "server answers  initialize",
        "server tells    textDocument/publishDiagnostics",
        "server answers  textDocument/hover",
        "server answers  shutdown",
        "server exits",
    ] {
        assert!(
            lines.any(|line| line.starts_with(expected)),
            "{expected}:\n{printed}"
        );
    }
    assert!(
        printed.contains("client answers  client/registerCapability"),
        "{printed}"
    );
}

#[test]
fn the_lsp_client_says_in_one_line_that_there_is_no_server() {
    let mut command = example("lsp_client");
    command.arg("no-such-language-server");
    let output = run(command, "");
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("no-such-language-server") && said.contains("pip install ruff=="));
}

#[test]
fn the_lsp_client_does_not_take_a_program_that_echoes_for_a_server() {
    let mut command = example("lsp_client");
    command.arg("cat");
    let output = run(command, "");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("Method not found"));
}

// EXA-11
#[test]
fn the_wire_shows_three_fields_of_use() {
    let output = run(example("wire"), "");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut lines = text(&output.stdout).lines();
    // In this order, whatever stands between.
    for wanted in [
        r#"→ {"jsonrpc":"2.0","method":"eth_getBalance","params":["0x407d73d8a49eeb85d32cf465507dd71d507100c1","latest"],"id":1}"#,
        "  balance is 158972490234375000",
        "→ Content-Length: 139",
        r#"  hover shows "fn größe()""#,
        "  told task.progress",
        r#"→ {"jsonrpc":"2.0","result":"at eight","id":"q-1"}"#,
        r#"→ [{"jsonrpc":"2.0","method":"task.status","params":["t-7"],"id":2},{"jsonrpc":"2.0","method":"log","params":["still here"]},{"jsonrpc":"2.0","method":"agent.load","id":3}]"#,
        r#"  status is "done""#,
    ] {
        assert!(lines.any(|line| line == wanted), "{wanted}\n{output:?}");
    }
}

// EXA-04 SEC-13
#[test]
fn d_40_the_mcp_server_runs_tools_side_by_side_and_keeps_a_log() {
    let mut child = example("mcp_server")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let begun = concat!(
        r#"{"jsonrpc":"2.0","id":"w","method":"tools/call","params":{"name":"wait","arguments":{"milliseconds":60000}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2.5}}}"#,
        "\n",
    );
    input.write_all(begun.as_bytes()).unwrap();
    // Answered while the other one waits.
    let mut first = String::new();
    output.read_line(&mut first).unwrap();
    assert!(
        first.contains(r#"[{"text":"3.5","type":"text"}],"isError":false},"id":1}"#),
        "{first}"
    );
    let then = concat!(
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w"}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":"s3cret"}}}"#,
        "\n",
        r#"[{"jsonrpc":"2.0","id":3,"method":"ping"}]"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        "\n",
    );
    input.write_all(then.as_bytes()).unwrap();
    drop(input);
    let mut answers = String::new();
    output.read_to_string(&mut answers).unwrap();
    // The call that was cancelled gets none.
    assert_eq!(answers.lines().count(), 3, "{answers}");
    assert!(!answers.contains(r#""id":"w""#), "{answers}");
    assert!(answers.contains(r#""isError":true},"id":2}"#), "{answers}");
    assert_eq!(answers.matches("-32600").count(), 2, "{answers}");
    let ended = ended(child);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let log = text(&ended.stderr);
    assert_eq!(log.matches("mcp: audit: ").count(), 3, "{log}");
    assert!(log.contains("bytes of arguments is refused"), "{log}");
    assert!(!log.contains("s3cret"), "{log}");
}
