use antiphon_macros::RpcError;

#[derive(RpcError)]
enum Wrong {
    #[rpc(code = -32001)]
    One,
}

fn main() {}
