use antiphon_macros::RpcError;

#[derive(Debug, RpcError)]
enum Wrong {
    #[rpc(other)]
    Other,
}

fn main() {}
