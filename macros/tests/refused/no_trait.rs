use antiphon_macros::service;

#[service]
struct Calculator;

fn main() {}
