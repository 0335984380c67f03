use antiphon_macros::RpcError;

#[derive(Debug, RpcError)]
enum Wrong {
    #[rpc(code = 1)]
    One,
    #[rpc(other)]
    Other(String),
}

fn main() {}
