use antiphon_macros::RpcError;

#[derive(RpcError)]
enum Wrong {
    #[rpc(code = 1)]
    One(u8, u8),
}

fn main() {}
