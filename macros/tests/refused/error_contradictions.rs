use antiphon_macros::RpcError;

#[derive(Debug, RpcError)]
enum Wrong {
    #[rpc(code = 1, code = 2)]
    Twice,
    #[rpc(code = 3)]
    #[rpc(code = 4)]
    TwiceApart,
    #[rpc(code = 5, other)]
    Both(antiphon::OwnedError),
    #[rpc(code = 6)]
    Named(#[rpc(name = "data")] u8),
    #[rpc(code = "7")]
    Text,
    #[rpc(code = CODE)]
    Constant,
}

const CODE: i64 = 8;

fn main() {}
