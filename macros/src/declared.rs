//! Reads the trait, and finds its faults.

use proc_macro2::TokenStream;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, GenericArgument, Ident, ItemTrait, Pat, PathArguments, ReceiverKind,
    Result, ReturnType, TraitItem, TraitItemFn, Type,
};

use crate::names::Names;
use crate::options::{RpcOptions, ServiceOptions, doc};

/// The most parameters of a method, without the arguments that are made from the request. A typed client
/// passes parameters as a tuple, and tuples of at most ten implement `Values`.
const MAX_PARAMS: usize = 10;

/// The names of functions that the macro generates; no method may have one.
const GENERATED: [&str; 4] = ["new", "by_position", "with_prefix", "into_service"];

/// A declared service.
pub(crate) struct Service {
    /// The trait without our attributes.
    pub(crate) item: ItemTrait,
    pub(crate) doc: String,
    pub(crate) methods: Vec<Method>,
}

pub(crate) struct Method {
    pub(crate) ident: Ident,
    /// All attributes except `#[rpc]`, such as documentation and lints. The client's method gets them too.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) name: String,
    pub(crate) doc: String,
    pub(crate) is_async: bool,
    pub(crate) is_notification: bool,
    /// Whether it runs to its end even if its request is cancelled or its connection ends.
    pub(crate) finishes: bool,
    pub(crate) arguments: Vec<Argument>,
    /// The return type; `()` if there is none.
    pub(crate) output: Type,
    /// The types of the result and of the error, if the return type is written as `Result<T, E>`.
    pub(crate) parts: Option<(Type, Type)>,
}

pub(crate) struct Argument {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    /// The name in messages; `None` for an argument that is made from the request.
    pub(crate) name: Option<String>,
}

impl Method {
    pub(crate) fn params(&self) -> impl Iterator<Item = &Argument> {
        self.arguments
            .iter()
            .filter(|argument| argument.name.is_some())
    }
}

impl Service {
    pub(crate) fn parse(options: &ServiceOptions, tokens: TokenStream) -> Result<Self> {
        let wrong = "`#[service]` stands on a trait";
        let mut item: ItemTrait = syn::parse2(tokens).map_err(|error| {
            let mut error = error;
            error.combine(Error::new(proc_macro2::Span::call_site(), wrong));
            error
        })?;
        if !item.generics.params.is_empty() {
            let wrong = "a service has no generic parameters; use concrete types";
            return Err(Error::new(item.generics.span(), wrong));
        }
        let (mut methods, mut names) = (Vec::new(), Names::of("method"));
        let mut errors: Option<Error> = None;
        for member in &mut item.items {
            let method = match member {
                TraitItem::Fn(member) => Method::parse(options, member),
                other => Err(Error::new(other.span(), "a service has methods only")),
            };
            let method = method.and_then(|method| {
                names.take(&method.name, method.ident.span())?;
                Ok(method)
            });
            match method {
                Ok(method) => methods.push(method),
                Err(error) => match &mut errors {
                    Some(errors) => errors.combine(error),
                    None => errors = Some(error),
                },
            }
        }
        match errors {
            Some(error) => Err(error),
            None => Ok(Self {
                doc: doc(&item.attrs),
                item,
                methods,
            }),
        }
    }
}

impl Method {
    fn parse(options: &ServiceOptions, member: &mut TraitItemFn) -> Result<Self> {
        let said = RpcOptions::take(&mut member.attrs, &["name", "finish"])?;
        if let Some(cfg) = member
            .attrs
            .iter()
            .find(|attribute| attribute.path().is_ident("cfg"))
        {
            let what = "`#[cfg]` cannot be on a method, because server and client have the same methods: put it on the trait";
            return Err(Error::new(cfg.span(), what));
        }
        let signature = &mut member.sig;
        let ident = signature.ident.clone();
        let wrong = |span, what: &str| Err(Error::new(span, what));
        if GENERATED.iter().any(|generated| ident == generated) {
            let what = format!(
                "`{ident}` is a function of what is made of the trait: write another name here, and `#[rpc(name = \"{ident}\")]`"
            );
            return wrong(ident.span(), &what);
        }
        if !signature.generics.params.is_empty() {
            return wrong(
                signature.generics.span(),
                "a method of a service has no generic parameters; use concrete types",
            );
        }
        if signature.asyncness.is_some() && !options.may_wait {
            let what = format!(
                "`{ident}` is `async`, and threads do not wait for futures: write `fn {ident}`"
            );
            return wrong(signature.fn_token.span(), &what);
        }
        if let (Some(finish), None, true) = (said.finishes, signature.asyncness, options.may_wait) {
            let what = format!(
                "`{ident}` answers at once, and always runs to its end: leave `finish` out, or write `async fn {ident}`"
            );
            return wrong(finish, &what);
        }
        let mut inputs = signature.inputs.iter_mut();
        match inputs.next() {
            Some(FnArg::Receiver(receiver))
                if matches!(receiver.kind, ReceiverKind::Reference(_, None, None)) => {}
            Some(other) => {
                return wrong(
                    other.span(),
                    "a method of a service takes `&self`: calls run side by side, so state is behind a lock",
                );
            }
            None => return wrong(ident.span(), "a method of a service takes `&self`"),
        }
        let (mut arguments, mut names) = (Vec::new(), Names::of("parameter"));
        for input in inputs {
            let FnArg::Typed(input) = input else { continue };
            let place = arguments.len();
            let said = RpcOptions::take(&mut input.attrs, &["name", "context"])?;
            if let Type::Reference(reference) = &*input.ty {
                return wrong(
                    reference.span(),
                    "a parameter is an owned value: write `String` for `&str`, `Vec<T>` for `&[T]`",
                );
            }
            if let Type::ImplTrait(ty) = &*input.ty {
                return wrong(ty.span(), "a parameter has a concrete type");
            }
            let (ident, written) = match &*input.pat {
                Pat::Ident(pattern) => (pattern.ident.clone(), Some(pattern.ident.to_string())),
                other => (Ident::new(&format!("argument_{place}"), other.span()), None),
            };
            let name = match (said.is_context, &said.name, written) {
                (true, _, _) => None,
                (false, Some(name), _) => Some(name.value()),
                (false, None, Some(written)) => {
                    let bare = written.trim_start_matches("r#");
                    Some(
                        options
                            .rename
                            .map_or(bare.into(), |rename| rename.apply(bare)),
                    )
                }
                // A pattern has no name. Clients send this one, which nobody needs to write by hand.
                (false, None, None) => Some(format!("<param{place}>")),
            };
            if let Some(name) = &name {
                names.take(name, input.pat.span())?;
            }
            arguments.push(Argument {
                ident,
                ty: (*input.ty).clone(),
                name,
            });
        }
        let params = arguments.iter().filter(|argument| argument.name.is_some());
        if params.count() > MAX_PARAMS {
            let what = format!(
                "`{ident}` has more than {MAX_PARAMS} parameters: take one struct that has them as fields"
            );
            return wrong(ident.span(), &what);
        }
        let output: Type = match &signature.output {
            ReturnType::Default => syn::parse_quote!(()),
            ReturnType::Type(_, ty) => (**ty).clone(),
        };
        let (kind, parts) = returned(&output);
        if kind == Kind::Other {
            return wrong(
                output.span(),
                "a method returns `Result<T, E>`, `NotificationOk` or nothing",
            );
        }
        let bare = ident.to_string();
        let bare = bare.trim_start_matches("r#");
        Ok(Self {
            name: match &said.name {
                Some(name) => name.value(),
                None => options
                    .rename
                    .map_or(bare.into(), |rename| rename.apply(bare)),
            },
            doc: doc(&member.attrs),
            attributes: member.attrs.clone(),
            is_async: signature.asyncness.is_some(),
            is_notification: kind == Kind::Notification,
            finishes: options.finishes || said.finishes.is_some(),
            ident,
            arguments,
            output,
            parts,
        })
    }
}

#[derive(PartialEq)]
enum Kind {
    Answered,
    Notification,
    Other,
}

/// Returns whether a method with this return type is answered or is a notification. If the type is
/// a `Result<T, E>`, returns `T` and `E` too.
fn returned(output: &Type) -> (Kind, Option<(Type, Type)>) {
    let last = match output {
        Type::Tuple(tuple) if tuple.elems.is_empty() => return (Kind::Answered, None),
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    };
    let Some(last) = last else {
        return (Kind::Other, None);
    };
    if last.ident == "NotificationOk" {
        return (Kind::Notification, None);
    }
    // An alias such as `io::Result<T>` or `MyResult<T>` counts as a `Result`; if it is an alias of
    // another type, the compiler reports that.
    if !last.ident.to_string().ends_with("Result") {
        return (Kind::Other, None);
    }
    if last.ident != "Result" {
        return (Kind::Answered, None);
    }
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return (Kind::Answered, None);
    };
    let mut types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty.clone()),
        _ => None,
    });
    (Kind::Answered, types.next().zip(types.next()))
}
