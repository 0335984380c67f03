use antiphon_macros::service;

struct Flow<T>(T);

#[service]
trait Clock {
    fn note(&self, numbers: Flow<u8>) -> antiphon::NotificationOk;
    #[rpc(flow)]
    fn doubled(&self, numbers: Flow<u8>) -> impl Stream<Item = Result<u8, antiphon::OwnedError>> + Send;
}

fn main() {}
