use antiphon_macros::RpcError;

#[derive(Debug, RpcError)]
enum Wrong {}

fn main() {}
