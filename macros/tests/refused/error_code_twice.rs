use antiphon_macros::RpcError;

#[derive(RpcError)]
enum Wrong {
    #[rpc(code = 1)]
    One,
    #[rpc(code = 1)]
    Two,
}

fn main() {}
