//! Generates the server, the client and the description from a trait.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Ident, ReturnType, TraitItem, Type, parse_quote};

use crate::declared::{Argument, Method, Service, Subscription};
use crate::options::ServiceOptions;

pub(crate) fn service(options: &ServiceOptions, service: &Service) -> TokenStream {
    // A trait with parameters is refused, and only repeated.
    let is_whole = service.item.generics.params.is_empty();
    let declared = declaration(options, service, options.has_server && is_whole);
    let server = (options.has_server && is_whole).then(|| server(options, service));
    let client = (options.has_client && is_whole).then(|| client(options, service));
    quote! { #declared #server #client }
}

/// Generates the trait, with futures that can be sent between threads.
fn declaration(options: &ServiceOptions, service: &Service, has_server: bool) -> TokenStream {
    let (mut item, root) = (service.item.clone(), &options.root);
    for member in &mut item.items {
        let TraitItem::Fn(member) = member else {
            continue;
        };
        if member.sig.asyncness.take().is_some() {
            let output: Type = match &member.sig.output {
                ReturnType::Default => parse_quote!(()),
                ReturnType::Type(_, ty) => (**ty).clone(),
            };
            member.sig.output = parse_quote! {
                -> impl ::core::future::Future<Output = #output> + ::core::marker::Send
            };
            if let Some(block) = &member.default {
                member.default = Some(parse_quote!({ async move #block }));
            }
        }
    }
    item.supertraits.push(parse_quote!(::core::marker::Send));
    item.supertraits.push(parse_quote!(::core::marker::Sync));
    item.supertraits.push(parse_quote!('static));
    if has_server {
        let methods = format_ident!("{}Methods", item.ident);
        item.items.push(parse_quote! {
            /// Makes a service of this, to be registered with a router.
            fn into_service(self) -> #root::service::Implementation<#methods<Self>>
            where
                Self: ::core::marker::Sized,
            {
                #root::service::Implementation::new(#methods(self))
            }
        });
    }
    // If only the client is wanted, the trait has no implementation.
    let may_be_unused = (!options.has_server).then(|| quote!(#[allow(dead_code)]));
    quote!(#may_be_unused #item)
}

/// Generates the type that serves the methods.
fn server(options: &ServiceOptions, service: &Service) -> TokenStream {
    let (root, item) = (&options.root, &service.item);
    let (name, visibility) = (&item.ident, &item.vis);
    let methods = format_ident!("{name}Methods");
    let about = format!("Serves the methods of [`{name}`]: what its `into_service` makes.");
    let description = description(options, service);
    let is_async = service.methods.iter().any(|method| method.is_async);
    let arms = service
        .methods
        .iter()
        .enumerate()
        .map(|(place, method)| arm(root, name, place, method));
    let contexts = service.methods.iter().flat_map(|method| &method.arguments);
    let contexts = contexts
        .filter(|argument| argument.name.is_none())
        .map(|argument| &argument.ty);
    let events = service
        .methods
        .iter()
        .filter_map(|method| method.subscription.as_ref())
        .map(|subscription| &subscription.event);
    let taken = service.methods.iter().flat_map(Method::flows);
    let taken = taken.map(|argument| &argument.ty);
    let has_flow = service.methods.iter().any(|method| method.flow.is_some());
    let flows = has_flow.then(|| quote!(#root::FlowSink: #root::FromCall<__R, __S>,));
    let bounds = quote! {
        where
            __T: #name,
            #flows
            __R: ?::core::marker::Sized + ::core::marker::Sync,
            __S: ?::core::marker::Sized + ::core::marker::Sync,
            #(#contexts: #root::FromCall<__R, __S>,)*
            #(#root::SubscriptionSink<#events>: #root::FromCall<__R, __S>,)*
            #(#taken: #root::service::FlowParameter<__R>,)*
    };
    let body = quote! {
        match method {
            #(#arms)*
            _ => ::core::result::Result::Err(#root::service::Failure::Error(
                #root::OwnedError::from(#root::ErrorObject::method_not_found()),
            )),
        }
    };
    let info = quote! {
        fn info(&self) -> &'static #root::service::ServiceInfo {
            #description
        }
    };
    let serves = match is_async {
        true => quote! {
            impl<__T, __R, __S> #root::service::AsyncMethods<__R, __S> for #methods<__T> #bounds {
                #info

                async fn call<'c>(
                    &'c self,
                    method: usize,
                    params: ::core::option::Option<#root::Json<'c>>,
                    request: &'c __R,
                    state: &'c __S,
                    result: &'c mut #root::service::ResultText,
                ) -> ::core::result::Result<(), #root::service::Failure> {
                    #body
                }
            }
        },
        false => quote! {
            impl<__T, __R, __S> #root::service::Methods<__R, __S> for #methods<__T> #bounds {
                #info

                fn call(
                    &self,
                    method: usize,
                    params: ::core::option::Option<#root::Json<'_>>,
                    request: &__R,
                    state: &__S,
                    result: &mut #root::service::ResultText,
                ) -> ::core::result::Result<(), #root::service::Failure> {
                    #body
                }
            }
        },
    };
    quote! {
        #[doc = #about]
        #[derive(Clone, Debug)]
        #visibility struct #methods<__T>(__T);

        #[automatically_derived]
        #[allow(unused_variables, deprecated, clippy::all, clippy::pedantic)]
        const _: () = {
            #serves
        };
    }
}

/// Generates the description of the service and of each method.
fn description(options: &ServiceOptions, service: &Service) -> TokenStream {
    let (root, doc) = (&options.root, &service.doc);
    let (prefix, separator) = (&options.prefix, &options.separator);
    let name = service.item.ident.unraw().to_string();
    let infos = service.methods.iter().map(|method| {
        let Method { name, doc, .. } = method;
        let params = method.params().map(|argument| {
            let Argument { described, ty, .. } = argument;
            let (info, schema) = match argument.item() {
                Some(item) => (quote!(#root::service::ParamInfo::flow(#described)), item),
                None => {
                    let info = parameter(root, ty, "INFO");
                    (quote!(#info.named(#described)), ty)
                }
            };
            quote!(#info.with_schema(#root::schema_of!(#schema)))
        });
        let (kind, style) = match (&method.subscription, method.is_notification) {
            (Some(subscription), _) => {
                let style = style(root, subscription);
                (quote!(subscription), Some(quote!(, #style)))
            }
            (None, _) if method.flow.is_some() => (quote!(flow), None),
            (None, true) => (quote!(notification), None),
            (None, false) => (quote!(request), None),
        };
        let value = match (&method.subscription, &method.flow) {
            (Some(_), _) => None,
            (None, Some(item)) => Some(quote!(#item)),
            (None, None) => Some(value(root, method)),
        };
        let result = value.map(|value| quote!(.with_result(#root::schema_of!(#value))));
        let run_to_end = method.runs_to_end.then(|| quote!(.run_to_end()));
        let unknown = method.ignores_unknown.map(|ignores| {
            let what = match ignores {
                true => quote!(Ignore),
                false => quote!(Reject),
            };
            quote!(.with_unknown_params(#root::UnknownParams::#what))
        });
        quote! {
            #root::service::MethodInfo::#kind(#name, &[#(#params),*] #style)
                .with_doc(#doc)
                #result
                .with_separator(#separator)
                #run_to_end
                #unknown
        }
    });
    // The methods that unsubscribe come last: no code is generated for them.
    let subscriptions = service
        .methods
        .iter()
        .filter_map(|method| method.subscription.as_ref());
    let ends = subscriptions.map(|subscription| {
        let (name, style) = (&subscription.names[2], style(root, subscription));
        quote!(#root::service::MethodInfo::unsubscription(#name, #style))
    });
    quote! {
        static METHODS: &[#root::service::MethodInfo] = &[#(#infos,)* #(#ends),*];
        static INFO: #root::service::ServiceInfo = #root::service::ServiceInfo {
            name: #name,
            doc: #doc,
            prefix: #prefix,
            methods: METHODS,
        };
        &INFO
    }
}

/// Generates the code that reads the arguments of a method, calls it and writes its result.
fn arm(root: &syn::Path, service: &syn::Ident, place: usize, method: &Method) -> TokenStream {
    let ident = &method.ident;
    let names = method.params().map(|argument| &argument.name);
    let mut next = 0_usize;
    let taken = method
        .arguments
        .iter()
        .map(|argument @ Argument { ty, name, .. }| match name {
            Some(_) => {
                next += 1;
                let place = next - 1;
                if argument.item().is_some() {
                    return quote!(arguments.flow::<#ty, __R>(#place, request)?);
                }
                let read = parameter(root, ty, "read");
                quote!(#read(&arguments, #place)?)
            }
            None => quote!(<#ty as #root::FromCall<__R, __S>>::from_call(request, state)?),
        });
    let arguments: Vec<_> = (0..method.arguments.len())
        .map(|place| format_ident!("argument_{place}"))
        .collect();
    let wait = method.is_async.then(|| quote!(.await));
    let write = match &method.subscription {
        None if method.flow.is_some() => quote! {
            let items = <__T as #service>::#ident(&self.0, #(#arguments),*);
            sink.send_all(items).await;
            ::core::result::Result::Ok(())
        },
        Some(_) => quote! {
            let events = <__T as #service>::#ident(&self.0, #(#arguments),*);
            let sent = sink.send_all(events).await;
            sent.map_err(|error| #root::service::Failure::Error(error.into()))
        },
        None => quote! {
            let output = <__T as #service>::#ident(&self.0, #(#arguments),*)#wait;
            #root::service::write_result(output, result)
        },
    };
    let sink = match (&method.subscription, &method.flow) {
        (Some(Subscription { event, .. }), _) => Some(quote!(#root::SubscriptionSink<#event>)),
        (None, Some(_)) => Some(quote!(#root::FlowSink)),
        (None, None) => None,
    };
    let sink = sink.map(|sink| {
        quote! {
            let sink = <#sink as #root::FromCall<__R, __S>>::from_call(request, state)?;
        }
    });
    quote! {
        #place => {
            let (#(#arguments,)*) = {
                let arguments = #root::service::Arguments::of(params, &[#(#names),*])?;
                (#(#taken,)*)
            };
            #sink
            #write
        }
    }
}

/// Names the style of a subscription.
fn style(root: &syn::Path, subscription: &Subscription) -> TokenStream {
    let names = &subscription.names;
    quote!(#root::Style::named(#(#names),*))
}

/// Names an item of the trait `Parameter` for a type. If the type cannot be read from params, the compiler
/// reports that at it.
fn parameter(root: &syn::Path, ty: &Type, item: &str) -> TokenStream {
    let span = Span::call_site().located_at(ty.span());
    let item = Ident::new(item, span);
    quote_spanned!(span=> <#ty as #root::service::Parameter>::#item)
}

/// Returns the type of a method's result.
fn value(root: &syn::Path, method: &Method) -> TokenStream {
    let output = &method.output;
    match &method.parts {
        Some((value, _)) => quote!(#value),
        None => quote!(<#output as #root::service::IntoResult>::Value),
    }
}

/// Generates the typed client.
fn client(options: &ServiceOptions, service: &Service) -> TokenStream {
    let (root, item) = (&options.root, &service.item);
    let (prefix, separator) = (&options.prefix, &options.separator);
    let (name, visibility) = (&item.ident, &item.vis);
    let client = format_ident!("{name}Client");
    let about = format!("Calls the methods of [`{name}`] with a peer, a client or a batch.");
    let methods = service.methods.iter().map(|method| {
        let Method {
            ident,
            attributes,
            name,
            ..
        } = method;
        let params: Vec<&Argument> = method.params().collect();
        let (idents, types) = (
            params.iter().map(|p| &p.ident),
            params.iter().map(|p| &p.ty),
        );
        let values = params.iter().map(|Argument { ident, ty, .. }| {
            // If the type cannot be sent, the compiler reports that at it.
            quote_spanned!(Span::call_site().located_at(ty.span())=> &#ident)
        });
        let names = params.iter().map(|p| &p.name);
        let about = match method.doc.is_empty() {
            true => {
                let about = format!("Calls `{name}`.");
                Some(quote!(#[doc = #about]))
            }
            false => None,
        };
        if let Some(subscription) = &method.subscription {
            let (event, style) = (&subscription.event, style(root, subscription));
            return quote! {
                #(#attributes)*
                #about
                #[allow(clippy::too_many_arguments)]
                #visibility fn #ident(&self, #(#idents: #types),*) -> __C::Subscribe<#event>
                where
                    __C: #root::service::StreamCaller,
                {
                    self.0.subscribe(#style, &[#(#names),*], &(#(#values,)*))
                }
            };
        }
        if let Some(item) = &method.flow {
            return quote! {
                #(#attributes)*
                #about
                #[allow(clippy::too_many_arguments)]
                #visibility fn #ident(&self, #(#idents: #types),*) -> __C::Flow<#item>
                where
                    __C: #root::service::StreamCaller,
                {
                    self.0.flow(#name, &[#(#names),*], &(#(#values,)*))
                }
            };
        }
        let (output, value) = (&method.output, value(root, method));
        let error = match &method.parts {
            Some((_, error)) => quote!(#error),
            None => quote!(<#output as #root::service::IntoResult>::Error),
        };
        let (returned, how) = match method.is_notification {
            true => (quote!(__C::Notified<'_>), quote!(notify)),
            false => (quote!(__C::Call<'_, #value, #error>), quote!(call)),
        };
        // An entry of a batch has no flows.
        let sends_flows = method.flows().next();
        let sends_flows = sends_flows.map(|_| quote!(where __C: #root::service::StreamCaller));
        quote! {
            #(#attributes)*
            #about
            #[allow(clippy::too_many_arguments)]
            #visibility fn #ident(&self, #(#idents: #types),*) -> #returned #sends_flows {
                self.0.#how(#name, &[#(#names),*], &(#(#values,)*))
            }
        }
    });
    quote! {
        #[doc = #about]
        #[derive(Clone, Debug)]
        #visibility struct #client<__C>(#root::service::Stub<__C>);

        #[allow(dead_code)]
        impl<__C: #root::service::Caller> #client<__C> {
            /// Calls with `caller`, and sends params by name.
            #visibility fn new(caller: __C) -> Self {
                Self(#root::service::Stub::new(caller, #prefix).with_separator(#separator))
            }

            /// Sends params by position.
            #[must_use]
            #visibility fn by_position(self) -> Self {
                Self(self.0.with_encoding(#root::service::Encoding::ByPosition))
            }

            /// Sets the prefix of the methods' names; an empty one adds nothing.
            #[must_use]
            #visibility fn with_prefix(self, prefix: impl ::core::convert::Into<#root::service::Prefix>) -> Self {
                Self(self.0.with_prefix(prefix))
            }

            #(#methods)*
        }
    }
}
