//! One warning about a call that is not awaited, and not two.
#![deny(unused_must_use)]

use std::borrow::Cow;
use std::marker::PhantomData;

use antiphon::service::Caller;
use antiphon::{OwnedError, Payload, RpcError};
use antiphon_macros::service;
use serde::de::DeserializeOwned;

#[service(server = false)]
trait Calculator {
    async fn add(&self, a: u8) -> Result<u8, OwnedError>;
}

#[must_use = "nothing is sent before it is awaited"]
struct Call<'c, R, E>(PhantomData<&'c (R, E)>);

struct Peer;

impl Caller for Peer {
    type Call<'c, R, E>
        = Call<'c, R, E>
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c;
    type Notified<'c> = ();

    fn start<'c, R, E>(&'c self, _: Cow<'c, str>, _: impl Payload) -> Call<'c, R, E>
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c,
    {
        Call(PhantomData)
    }

    fn tell(&self, _: Cow<'_, str>, _: impl Payload) {}
}

fn main() {
    CalculatorClient::new(Peer).add(1);
}
