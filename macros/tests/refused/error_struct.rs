use antiphon_macros::RpcError;

#[derive(RpcError)]
struct Wrong;

fn main() {}
