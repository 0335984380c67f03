use antiphon_macros::RpcError;

#[derive(RpcError)]
enum Wrong {
    NoCode,
}

fn main() {}
