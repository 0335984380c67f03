#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod declared;
mod derive;
mod docs;
mod expand;
mod names;
mod options;
mod types;

use proc_macro::TokenStream;

use options::Target;

fn service_in(target: Target, options: TokenStream, item: TokenStream) -> TokenStream {
    let (options, wrong) = options::ServiceOptions::parse(target, options.into());
    let expanded = match declared::Service::parse(&options, item.into()) {
        Ok((service, errors)) => {
            let errors = wrong.into_iter().chain(errors);
            let errors = errors.map(|error| error.to_compile_error());
            let made = expand::service(&options, &service);
            quote::quote!(#(#errors)* #made)
        }
        Err(error) => error.to_compile_error(),
    };
    expanded.into()
}

fn error_in(target: Target, item: TokenStream) -> TokenStream {
    let expanded = derive::expand(target, item.into());
    expanded
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}

macro_rules! entries {
    ($($service:ident $derive:ident $error:ident $root:literal $may_wait:literal $where:literal;)*) => {$(
        #[doc = concat!("Makes a server, a typed client and a description of the server from a trait, ", $where, ".")]
        ///
        /// The built-in method `rpc.discover` returns the description, in OpenRPC's format.
        ///
        /// | option | default | what it does |
        /// |---|---|---|
        /// | `rename_all = "camelCase"` | none | names of methods and parameters on the wire; also `snake_case`, `PascalCase`, `kebab-case`. As serde's rule, it takes the names to be in snake case: `get_block` becomes `getBlock`, and `getBlock` stays |
        /// | `prefix = "calc"` | none | names on the wire are `calc.add`, in the server and in the client |
        /// | `separator = "_"` | `.` | stands between a prefix and the name: with `prefix = "eth"` names are `eth_call` |
        /// | `client = false` | `true` | makes no typed client |
        /// | `server = false` | `true` | makes no server: the trait has no `into_service` |
        /// | `run_to_end` | off | `async` methods run to their end even if their request is cancelled or its connection ends; without `run_to_end` their futures are dropped then. Methods on threads always run to their end |
        /// | `crate = "path"` | `antiphon`, or the adapter that re-exports the macro | the crate whose types the generated code uses, if your dependency has another name |
        ///
        /// On a method or a parameter: `#[rpc(name = "…")]` is its name on the wire; on a parameter,
        /// `#[rpc(context)]` makes the server take it from the request (`FromCall`); the client has
        /// no such parameter. On an `async` method, `#[rpc(run_to_end)]` does for this method what the
        /// option `run_to_end` does for all. `#[rpc(unknown_params = "ignore")]` makes a method ignore params by
        /// names that it does not have, and `"reject"` makes it refuse them, whatever the router and the
        /// configuration say. A method that returns `NotificationOk` is a notification.
        ///
        /// On threads a connection runs one method at a time, and its later requests wait. A method
        /// cannot pass its work on: if it runs long, serve it with `Router::raw` and `Responder::spawn`.
        #[proc_macro_attribute]
        pub fn $service(options: TokenStream, item: TokenStream) -> TokenStream {
            service_in(Target { root: $root, may_wait: $may_wait }, options, item)
        }

        #[doc = concat!("Makes an enum an error object, and reads it back, ", $where, ".")]
        ///
        /// Each variant has `#[rpc(code = 1001, message = "…")]`; without a `message` it is made from the
        /// variant's name: `OutOfRange` gives "Out of range". Named fields are the members of `data`, a
        /// single unnamed field is `data`.
        ///
        /// A received error object becomes the variant that has its code, if its `data` has the
        /// variant's fields and no other members (an `Option` may be missing); a variant without fields
        /// accepts any `data`. Any other error object becomes the variant that has `#[rpc(other)]` and
        /// holds an `OwnedError`. Without such a variant it is not converted: a typed client returns it as
        /// `CallError::Unexpected`.
        ///
        /// JSON-RPC 2.0 reserves the codes from −32768 to −32000, and leaves −32099 to −32000 to servers,
        /// so those may be used like others. The library itself sends −32700, −32600 to −32603 and −32001
        /// to −32005. To use one of them, write a `message` of your own: the library's own answers, such as
        /// "Invalid params", are then told apart by their message, and do not become the variant. Or write
        /// `#[rpc(code = -32601, reserved)]`: then every error object with the code becomes the variant.
        /// All other reserved codes need `reserved`.
        ///
        /// On the enum, `#[rpc(display = false)]` leaves `Display` and `Error` to you or another derive, and
        /// `#[rpc(crate = "path")]` names the crate whose types the generated code uses.
        #[proc_macro_derive($error, attributes(rpc))]
        pub fn $derive(item: TokenStream) -> TokenStream {
            error_in(Target { root: $root, may_wait: $may_wait }, item)
        }
    )*};
}

entries! {
    service rpc_error RpcError "::antiphon" true "for programs that drive the core";
    service_tokio rpc_error_tokio RpcErrorTokio "::antiphon_tokio" true "for `antiphon-tokio`";
    service_smol rpc_error_smol RpcErrorSmol "::antiphon_smol" true "for `antiphon-smol`";
    service_async_std rpc_error_async_std RpcErrorAsyncStd "::antiphon_async_std" true "for `antiphon-async-std`";
    service_blocking rpc_error_blocking RpcErrorBlocking "::antiphon_blocking" false "for `antiphon-blocking`, on threads";
}
