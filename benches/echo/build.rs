//! Writes the client and the server of the service for tonic, from a description instead of a `.proto` file, which would take
//! a compiler of its own.

fn main() {
    #[cfg(feature = "peers")]
    {
        use tonic_build::manual::{Builder, Method, Service};
        let echo = Method::builder()
            .name("echo")
            .route_name("Echo")
            .input_type("crate::rpc::Word")
            .output_type("crate::rpc::Word")
            .codec_path("tonic_prost::ProstCodec")
            .build();
        let service = Service::builder()
            .name("Words")
            .package("echo")
            .method(echo)
            .build();
        Builder::new().compile(&[service]);
    }
    println!("cargo::rerun-if-changed=build.rs");
}
