//! lsp-server 0.7 as a server without methods, over stdin and stdout.

use lsp_server_0_7::{Connection, ErrorCode, Message, Response};

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (connection, threads) = Connection::stdio();
    for message in &connection.receiver {
        if let Message::Request(request) = message {
            let code = ErrorCode::MethodNotFound as i32;
            let answer = Response::new_err(request.id, code, "Method not found".to_owned());
            connection.sender.send(answer.into())?;
        }
    }
    drop(connection);
    Ok(threads.join()?)
}
