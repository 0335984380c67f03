//! Reads the trait, and finds its faults.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, GenericArgument, Ident, ItemTrait, LitStr, Pat, PathArguments,
    ReceiverKind, Result, ReturnType, Safety, Signature, TraitItem, TraitItemFn, Type,
    TypeParamBound,
};

use crate::docs::Doc;
use crate::names::{Names, Rename};
use crate::options::{RpcOptions, ServiceOptions};
use crate::types::{bare, check_owned, item_of_flow};

/// The most parameters of a method, without the arguments that are made from the request. A typed client
/// passes parameters as a tuple, and tuples of at most ten implement `Values`.
const MAX_PARAMS: usize = 10;

/// The names of functions that the macro generates; no method may have one.
const GENERATED: [&str; 4] = ["new", "by_position", "with_prefix", "into_service"];

/// A declared service.
pub(crate) struct Service {
    /// The trait without our attributes.
    pub(crate) item: ItemTrait,
    pub(crate) doc: Doc,
    pub(crate) methods: Vec<Method>,
}

pub(crate) struct Method {
    pub(crate) ident: Ident,
    /// All attributes except `#[rpc]`, such as documentation and lints. The client's method gets them too.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) name: String,
    pub(crate) doc: Doc,
    pub(crate) is_async: bool,
    pub(crate) is_notification: bool,
    /// Whether it runs to its end even if its request is cancelled or its connection ends.
    pub(crate) runs_to_end: bool,
    /// Whether params by unknown names are ignored, instead of refused; `None` if the router or the
    /// configuration decides.
    pub(crate) ignores_unknown: Option<bool>,
    pub(crate) arguments: Vec<Argument>,
    /// The return type; `()` if there is none.
    pub(crate) output: Type,
    /// The types of the result and of the error, if the return type is written as `Result<T, E>`.
    pub(crate) parts: Option<(Type, Type)>,
    pub(crate) subscription: Option<Subscription>,
    /// The type of the items, if the method returns a flow.
    pub(crate) flow: Option<Type>,
}

/// What makes a method a subscription.
pub(crate) struct Subscription {
    /// The type of the events.
    pub(crate) event: Type,
    /// The names on the wire of the method that subscribes, of the notification that carries an event, and of the
    /// method that unsubscribes.
    pub(crate) names: [String; 3],
}

pub(crate) struct Argument {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    /// The name in messages; `None` for an argument that is made from the request.
    pub(crate) name: Option<String>,
    /// The name in the description: that in messages, if the declaration has one.
    pub(crate) described: String,
}

impl Method {
    pub(crate) fn params(&self) -> impl Iterator<Item = &Argument> {
        self.arguments
            .iter()
            .filter(|argument| argument.name.is_some())
    }

    /// The parameters that are flows of the caller.
    pub(crate) fn flows(&self) -> impl Iterator<Item = &Argument> {
        self.params().filter(|argument| argument.item().is_some())
    }
}

impl Argument {
    /// The type of its items, if it is a flow of the caller.
    pub(crate) fn item(&self) -> Option<&Type> {
        item_of_flow(&self.ty)
    }
}

impl Service {
    /// Reads the trait. Where something is wrong, returns also why; what is made of the rest then keeps the
    /// compiler from reporting more than that.
    pub(crate) fn parse(
        options: &ServiceOptions,
        tokens: TokenStream,
    ) -> Result<(Self, Option<Error>)> {
        let wrong = "`#[service]` stands on a trait";
        let mut item: ItemTrait = syn::parse2(tokens).map_err(|error| {
            let mut error = error;
            error.combine(Error::new(proc_macro2::Span::call_site(), wrong));
            error
        })?;
        let mut errors = Errors(None);
        if let Some(said) = item
            .attrs
            .iter()
            .find(|attribute| attribute.path().is_ident("rpc"))
        {
            let what = "options of the whole trait stand in `#[service(…)]`";
            errors.add(Error::new(said.span(), what));
        }
        item.attrs
            .retain(|attribute| !attribute.path().is_ident("rpc"));
        if !item.generics.params.is_empty() {
            let wrong = "a service has no generic parameters; use concrete types";
            errors.add(Error::new(item.generics.span(), wrong));
        }
        let (mut methods, mut names) = (Vec::new(), Names::of("method"));
        for member in &mut item.items {
            let method = match member {
                TraitItem::Fn(member) => Method::parse(options, member),
                other => Err(Error::new(other.span(), "a service has methods only")),
            };
            let method = method.and_then(|method| {
                names.take(&method.name, method.ident.span())?;
                if let Some(Subscription { names: own, .. }) = &method.subscription {
                    names.take(&own[2], method.ident.span())?;
                }
                Ok(method)
            });
            match method {
                Ok(method) => methods.push(method),
                Err(error) => errors.add(error),
            }
        }
        let doc = Doc::of(&item.attrs);
        Ok((Self { item, doc, methods }, errors.0))
    }
}

/// All that is wrong, as one error.
struct Errors(Option<Error>);

impl Errors {
    fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }
}

impl Method {
    fn parse(options: &ServiceOptions, member: &mut TraitItemFn) -> Result<Self> {
        let said = RpcOptions::take(
            &mut member.attrs,
            &[
                "name",
                "run_to_end",
                "subscription",
                "flow",
                "unknown_params",
            ],
        );
        // They are removed also if the method is refused, because the compiler does not know them.
        let arguments: Vec<_> = member.sig.inputs.iter_mut().map(argument).collect();
        let said = said?;
        let signature = &member.sig;
        let ident = signature.ident.clone();
        let wrong = |span, what: &str| Err(Error::new(span, what));
        for attribute in &member.attrs {
            if attribute.path().is_ident("cfg") {
                let what = "`#[cfg]` cannot be on a method, because server and client have the same methods: put it on the trait";
                return wrong(attribute.span(), what);
            }
        }
        let bare_name = ident.unraw().to_string();
        if GENERATED.contains(&bare_name.as_str()) {
            let what = format!(
                "`{ident}` is a function of what is made of the trait: write another name here, and `#[rpc(name = \"{bare_name}\")]`"
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
        if !matches!(signature.safety, Safety::Default) {
            let what = "a method of a service is not `unsafe`, because peers call it";
            return wrong(signature.safety.span(), what);
        }
        if let (Some(set), None, true) = (said.runs_to_end, signature.asyncness, options.may_wait) {
            let what = format!(
                "`{ident}` answers at once, and always runs to its end: leave `run_to_end` out, or write `async fn {ident}`"
            );
            return wrong(set, &what);
        }
        let mut inputs = signature.inputs.iter().zip(arguments);
        match inputs.next() {
            Some((FnArg::Receiver(receiver), said))
                if matches!(receiver.kind, ReceiverKind::Reference(_, None, None)) =>
            {
                said?;
            }
            Some((other, _)) => {
                return wrong(
                    other.span(),
                    "a method of a service takes `&self`: calls run side by side, so state is behind a lock",
                );
            }
            None => return wrong(ident.span(), "a method of a service takes `&self`"),
        }
        let (mut arguments, mut names) = (Vec::new(), Names::of("parameter"));
        for (input, said) in inputs {
            let FnArg::Typed(input) = input else { continue };
            let argument = Argument::parse(options, arguments.len(), &input.pat, &input.ty, said?)?;
            if let Some(name) = &argument.name {
                names.take(name, input.pat.span())?;
                if *name != argument.described {
                    names.take(&argument.described, input.pat.span())?;
                }
            }
            arguments.push(argument);
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
        let subscription = match &said.subscription {
            Some(said) => Some(Subscription::parse(options, &bare_name, signature, said)?),
            None => None,
        };
        let flow = match said.flow {
            Some(span) if subscription.is_some() => {
                return wrong(span, "a method is a subscription or a flow: leave one out");
            }
            Some(span) => Some(flow_of(options, signature, span)?),
            None => None,
        };
        let is_stream = subscription.is_some() || flow.is_some();
        let (kind, parts) = match is_stream {
            true => (Kind::Answered, None),
            false => returned(&output)?,
        };
        if !is_stream {
            check_owned("a result", &output, options.has_client)?;
        }
        let method = Self {
            name: match (&said.name, &subscription) {
                (_, Some(subscription)) => subscription.names[0].clone(),
                (Some(name), _) => name.value(),
                (None, _) => options
                    .rename
                    .map_or(bare_name.clone(), |rename| rename.apply(&bare_name)),
            },
            doc: Doc::of(&member.attrs),
            attributes: member.attrs.clone(),
            // The server waits for the events of a stream.
            is_async: signature.asyncness.is_some() || is_stream,
            is_notification: kind == Kind::Notification,
            runs_to_end: options.runs_to_end || said.runs_to_end.is_some(),
            ignores_unknown: said.ignores_unknown,
            ident,
            arguments,
            output,
            parts,
            subscription,
            flow,
        };
        let ends_at_once = is_stream || method.is_notification;
        let flow = method.flows().next().map(|flow| flow.ty.span());
        match flow.filter(|_| ends_at_once) {
            Some(flow) => wrong(
                flow,
                "a flow that is an argument ends when its call is answered: take it in a method that returns a `Result`",
            ),
            None => Ok(method),
        }
    }
}

impl Subscription {
    fn parse(
        options: &ServiceOptions,
        bare_name: &str,
        signature: &Signature,
        (span, said): &(Span, Vec<LitStr>),
    ) -> Result<Self> {
        let wrong = |what: &str| Err(Error::new(*span, what));
        if !options.may_wait {
            return wrong("on threads a subscription is served by `Router::subscription`");
        }
        let event = match &signature.output {
            ReturnType::Type(_, output) => event_of(output),
            ReturnType::Default => None,
        };
        let Some(event) = event.filter(|_| signature.asyncness.is_none()) else {
            return wrong("a subscription is `fn ticks(&self) -> impl Stream<Item = T> + Send`");
        };
        let names = match said.as_slice() {
            [subscribe, notification, unsubscribe] => {
                [subscribe, notification, unsubscribe].map(LitStr::value)
            }
            _ => {
                let rename = options.rename.unwrap_or(Rename::Snake);
                let subscribe = format!("subscribe_{bare_name}");
                let unsubscribe = format!("unsubscribe_{bare_name}");
                [&subscribe, bare_name, &unsubscribe].map(|name| rename.apply(name))
            }
        };
        let prefix = match options.prefix.is_empty() || !said.is_empty() {
            true => String::new(),
            false => format!("{}{}", options.prefix, options.separator),
        };
        Ok(Self {
            event,
            names: names.map(|name| format!("{prefix}{name}")),
        })
    }
}

/// Returns the type of the items of a flow, `impl Stream<Item = Result<T, E>>`.
fn flow_of(options: &ServiceOptions, signature: &Signature, span: Span) -> Result<Type> {
    if !options.may_wait {
        let what = "on threads a flow is what a handler of `Router::method` returns: `Flow::of`";
        return Err(Error::new(span, what));
    }
    let item = match &signature.output {
        ReturnType::Type(_, output) if signature.asyncness.is_none() => event_of(output),
        _ => None,
    };
    let parts = item.map(|item| returned(&item)).transpose()?;
    let parts = parts.and_then(|(_, parts)| parts);
    let what = "a flow is `fn primes(&self) -> impl Stream<Item = Result<T, E>> + Send`";
    let value = parts.map(|(value, _)| value);
    value.ok_or_else(|| Error::new(span, what))
}

/// Returns the type of the items of `impl Stream<Item = T>`.
fn event_of(output: &Type) -> Option<Type> {
    let Type::ImplTrait(output) = bare(output) else {
        return None;
    };
    let streams = output.bounds.iter().filter_map(|bound| match bound {
        TypeParamBound::Trait(bound) => bound.path.segments.last(),
        _ => None,
    });
    let mut streams = streams.filter(|last| last.ident == "Stream");
    let PathArguments::AngleBracketed(arguments) = &streams.next()?.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::AssocType(item) if item.ident == "Item" => Some(item.ty.clone()),
        _ => None,
    })
}

/// Removes our attributes from an argument, and reads them.
fn argument(input: &mut FnArg) -> Result<RpcOptions> {
    let (attributes, known): (_, &[&str]) = match input {
        FnArg::Receiver(receiver) => (&mut receiver.attrs, &[]),
        FnArg::Typed(input) => (&mut input.attrs, &["name", "context"]),
    };
    let said = RpcOptions::take(attributes, known)?;
    match attributes
        .iter()
        .find(|other| other.path().is_ident("cfg") || other.path().is_ident("cfg_attr"))
    {
        Some(other) => Err(Error::new(
            other.span(),
            "`#[cfg]` cannot be on an argument, because server and client have the same parameters: put it on the trait",
        )),
        None => Ok(said),
    }
}

impl Argument {
    fn parse(
        options: &ServiceOptions,
        place: usize,
        pattern: &Pat,
        ty: &Type,
        said: RpcOptions,
    ) -> Result<Self> {
        check_owned("a parameter", ty, true)?;
        let (ident, written) = match pattern {
            Pat::Ident(pattern) => (
                pattern.ident.clone(),
                Some(pattern.ident.unraw().to_string()),
            ),
            other => (Ident::new(&format!("arg{place}"), other.span()), None),
        };
        let (name, described) = match (said.name, written) {
            (Some(name), _) => (name.value(), name.value()),
            (None, Some(written)) => {
                let name = options
                    .rename
                    .map_or(written.clone(), |rename| rename.apply(&written));
                (name.clone(), name)
            }
            // A pattern has no name. Our clients send the first, and the description has the second, which
            // is a name in other languages too; servers take both.
            (None, None) => (format!("<context{place}>"), format!("arg{place}")),
        };
        Ok(Self {
            ident,
            ty: bare(ty).clone(),
            name: said.context.is_none().then_some(name),
            described,
        })
    }
}

#[derive(PartialEq)]
enum Kind {
    Answered,
    Notification,
}

/// Returns whether a method with this return type is answered or is a notification. If the type is
/// a `Result<T, E>`, returns `T` and `E` too.
fn returned(output: &Type) -> Result<(Kind, Option<(Type, Type)>)> {
    let last = match bare(output) {
        Type::Tuple(tuple) if tuple.elems.is_empty() => return Ok((Kind::Answered, None)),
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    };
    let name = last.map(|last| last.ident.to_string()).unwrap_or_default();
    if name == "NotificationOk" {
        return Ok((Kind::Notification, None));
    }
    // An alias such as `io::Result<T>` or `MyResult<T>` counts as a `Result`; if it is an alias of
    // another type, the compiler reports that.
    if !name.ends_with("Result") {
        // What begins with a capital letter may be an alias.
        let hint = match name.starts_with(char::is_uppercase) {
            true => {
                "; the macro sees only the name of a type, so the name of an alias of `Result` must end in `Result`, and `NotificationOk` has none"
            }
            false => "",
        };
        let what = format!("a method returns `Result<T, E>`, `NotificationOk` or nothing{hint}");
        return Err(Error::new(output.to_token_stream().span(), what));
    }
    let arguments = match last.map(|last| &last.arguments) {
        Some(PathArguments::AngleBracketed(arguments)) if name == "Result" => arguments,
        _ => return Ok((Kind::Answered, None)),
    };
    let mut types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(bare(ty).clone()),
        _ => None,
    });
    Ok((Kind::Answered, types.next().zip(types.next())))
}
