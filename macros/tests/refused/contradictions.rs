use antiphon_macros::service;

#[service(prefix = "a", prefix = "b")]
trait Twice {
    fn add(&self, a: u8) -> Result<u8, antiphon::OwnedError>;
}

#[service(client = false, server = false)]
trait Nothing {
    fn add(&self, a: u8) -> Result<u8, antiphon::OwnedError>;
}

#[service]
#[rpc(name = "calc")]
trait Calculator {
    #[rpc(name = "a", name = "b")]
    fn add(&self, a: u8) -> Result<u8, antiphon::OwnedError>;
    #[rpc(name = "a")]
    #[rpc(name = "b")]
    fn add_apart(&self, a: u8) -> Result<u8, antiphon::OwnedError>;
    fn sub(&self, #[rpc(context, name = "x")] a: u8) -> Result<u8, antiphon::OwnedError>;
    fn mul(#[rpc(name = "me")] &self, a: u8) -> Result<u8, antiphon::OwnedError>;
    fn div(&self, #[cfg(unix)] a: u8) -> Result<u8, antiphon::OwnedError>;
    unsafe fn rem(&self, a: u8) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}
