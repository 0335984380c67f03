use antiphon_macros::RpcError;

#[derive(Debug, RpcError)]
enum Wrong {
    #[rpc(code = 1)]
    One { word: &'static str },
    #[rpc(code = 2)]
    Two(Option<&'static str>),
}

fn main() {}
