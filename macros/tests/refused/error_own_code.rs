use antiphon_macros::RpcError;

#[derive(Debug, RpcError)]
enum Wrong {
    #[rpc(code = -32601)]
    NoMethod,
    #[rpc(code = -32602, message = "Invalid params")]
    Params,
    #[rpc(code = -32002)]
    ServerBusy,
}

fn main() {}
