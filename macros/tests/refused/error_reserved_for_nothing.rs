use antiphon_macros::RpcError;

#[derive(Debug, RpcError)]
enum Wrong {
    #[rpc(code = 1001, reserved)]
    One,
}

fn main() {}
