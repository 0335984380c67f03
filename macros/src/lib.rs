#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod declared;
mod derive;
mod expand;
mod names;
mod options;

use proc_macro::TokenStream;

use options::Target;

fn service_in(target: Target, options: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = options::ServiceOptions::parse(target, options.into())
        .and_then(|options| {
            declared::Service::parse(&options, item.into()).map(|service| (options, service))
        })
        .map(|(options, service)| expand::service(&options, &service));
    expanded
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}

fn error_in(target: Target, item: TokenStream) -> TokenStream {
    let expanded = derive::expand(target.root, item.into());
    expanded
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}

macro_rules! entries {
    ($($service:ident $derive:ident $error:ident $root:literal $may_wait:literal $where:literal;)*) => {$(
        #[doc = concat!("Makes a server, a typed client and a description of a trait, ", $where, ".")]
        ///
        /// | option | default | what it does |
        /// |---|---|---|
        /// | `rename_all = "camelCase"` | none | names of methods and parameters on the wire; also `snake_case`, `PascalCase`, `kebab-case` |
        /// | `prefix = "calc"` | none | `calc.add` on the wire, on both sides |
        /// | `client = false` | `true` | no typed client |
        /// | `server = false` | `true` | no `into_service` |
        /// | `finish` | not so | `async` methods run to their end when their request is cancelled or its connection ends; otherwise they are dropped. On threads they always do |
        /// | `crate = "path"` | this adapter | where the types are |
        ///
        /// On a method or a parameter: `#[rpc(name = "…")]` is its name on the wire; on a parameter,
        /// `#[rpc(context)]` takes it from the request (`FromCall`), and the client leaves it out.
        /// On an `async` method, `#[rpc(finish)]` has it alone run to its end.
        /// A method that returns `NotificationOk` is a notification.
        #[proc_macro_attribute]
        pub fn $service(options: TokenStream, item: TokenStream) -> TokenStream {
            service_in(Target { root: $root, may_wait: $may_wait }, options, item)
        }

        #[doc = concat!("Makes an enum an error object, and reads it back, ", $where, ".")]
        ///
        /// Each variant has `#[rpc(code = 1001, message = "…")]`; without a message the name of the
        /// variant is one. Named fields are the members of `data`, a single unnamed field is `data`.
        /// `#[rpc(other)]` on a variant that holds an `OwnedError` takes every other error. An error whose
        /// `data` has other members than the fields is none of them.
        ///
        /// On the enum, `#[rpc(display = false)]` leaves `Display` and `Error` to you or another derive, and
        /// `#[rpc(crate = "path")]` says where the types are.
        #[proc_macro_derive($error, attributes(rpc))]
        pub fn $derive(item: TokenStream) -> TokenStream {
            error_in(Target { root: $root, may_wait: $may_wait }, item)
        }
    )*};
}

entries! {
    service rpc_error RpcError "::antiphon" true "for programs that drive the core";
    service_net rpc_error_net RpcErrorNet "::antiphon_net" true "for adapters";
    service_tokio rpc_error_tokio RpcErrorTokio "::antiphon_tokio" true "for `antiphon-tokio`";
    service_smol rpc_error_smol RpcErrorSmol "::antiphon_smol" true "for `antiphon-smol`";
    service_async_std rpc_error_async_std RpcErrorAsyncStd "::antiphon_async_std" true "for `antiphon-async-std`";
    service_blocking rpc_error_blocking RpcErrorBlocking "::antiphon_blocking" false "for `antiphon-blocking`, on threads";
}
