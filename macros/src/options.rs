//! The options of the attributes.

use proc_macro2::{Span, TokenStream};
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::token::Paren;
use syn::{Attribute, Error, Expr, Lit, LitBool, LitStr, Path, Result, Token, UnOp};

use crate::names::Rename;

/// The crate for which a macro generates code.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    /// The path of the crate whose types the generated code uses.
    pub(crate) root: &'static str,
    /// Whether methods may be `async`: not on threads.
    pub(crate) may_wait: bool,
}

impl Target {
    pub(crate) fn root(self) -> Path {
        // The path is one of those in `lib.rs`.
        syn::parse_str(self.root).unwrap_or_else(|_| syn::parse_quote!(::antiphon))
    }
}

/// The options of `#[service(…)]`.
pub(crate) struct ServiceOptions {
    pub(crate) root: Path,
    pub(crate) may_wait: bool,
    pub(crate) rename: Option<Rename>,
    pub(crate) prefix: String,
    /// The text between the prefix and the name of a method.
    pub(crate) separator: String,
    pub(crate) has_client: bool,
    pub(crate) has_server: bool,
    pub(crate) runs_to_end: bool,
}

impl ServiceOptions {
    /// Reads the options. Where one is wrong, returns also why.
    pub(crate) fn parse(target: Target, tokens: TokenStream) -> (Self, Option<Error>) {
        let mut options = Self {
            root: target.root(),
            may_wait: target.may_wait,
            rename: None,
            prefix: String::new(),
            separator: ".".into(),
            has_client: true,
            has_server: true,
            runs_to_end: false,
        };
        let (mut seen, mut prefix_span) = (Vec::new(), Span::call_site());
        let parser = syn::meta::parser(|meta| {
            once(&mut seen, &meta.path)?;
            if meta.path.is_ident("rename_all") {
                options.rename = Some(Rename::parse(&meta.value()?.parse()?)?);
            } else if meta.path.is_ident("prefix") {
                let prefix: LitStr = meta.value()?.parse()?;
                if prefix.value().trim().is_empty() {
                    return Err(Error::new(
                        prefix.span(),
                        "a prefix needs text; leave it out for none",
                    ));
                }
                options.prefix = prefix.value();
                prefix_span = prefix.span();
            } else if meta.path.is_ident("separator") {
                options.separator = meta.value()?.parse::<LitStr>()?.value();
            } else if meta.path.is_ident("client") {
                options.has_client = meta.value()?.parse::<LitBool>()?.value;
            } else if meta.path.is_ident("server") {
                options.has_server = meta.value()?.parse::<LitBool>()?.value;
            } else if meta.path.is_ident("run_to_end") {
                options.runs_to_end = true;
            } else if meta.path.is_ident("crate") {
                options.root = meta.value()?.parse::<LitStr>()?.parse()?;
            } else {
                let known =
                    "use rename_all, prefix, separator, client, server, run_to_end or crate";
                return Err(meta.error(known));
            }
            if !options.has_client && !options.has_server {
                let what =
                    "without client and server nothing is made of the trait: leave one of them out";
                return Err(Error::new(meta.path.span(), what));
            }
            Ok(())
        });
        let parsed = parser.parse2(tokens);
        let begin = format!("{}{}", options.prefix, options.separator);
        let reserved = (!options.prefix.is_empty() && begin.starts_with("rpc."))
            .then(|| Error::new(prefix_span, "names that begin with `rpc.` are reserved"));
        (options, parsed.err().or(reserved))
    }
}

/// Refuses an option that stands twice.
fn once(seen: &mut Vec<String>, path: &Path) -> Result<()> {
    let name = path
        .get_ident()
        .map(ToString::to_string)
        .unwrap_or_default();
    if seen.contains(&name) {
        return Err(Error::new(
            path.span(),
            format!("`{name}` is said twice: leave one out"),
        ));
    }
    seen.push(name);
    Ok(())
}

/// The options of `#[rpc(…)]`, on any item.
#[derive(Default)]
pub(crate) struct RpcOptions {
    pub(crate) name: Option<LitStr>,
    /// The position of `context` in the source, for error messages; `None` if it is not set.
    pub(crate) context: Option<Span>,
    /// The position of `run_to_end` in the source, for error messages; `None` if it is not set.
    pub(crate) runs_to_end: Option<Span>,
    /// Whether params by unknown names are ignored, instead of refused; `None` if it is not set.
    pub(crate) ignores_unknown: Option<bool>,
    /// The position of `subscription` in the source, and the names of its methods, if they are said.
    pub(crate) subscription: Option<(Span, Vec<LitStr>)>,
    /// The position of `flow` in the source; `None` if it is not set.
    pub(crate) flow: Option<Span>,
    pub(crate) code: Option<(i64, Span)>,
    pub(crate) message: Option<LitStr>,
    /// Whether the code is meant, although it is reserved or the library's own.
    pub(crate) reserved: Option<Span>,
    pub(crate) is_other: bool,
    pub(crate) root: Option<Path>,
    /// The value of `display`: whether `Display` is generated. `None` if it is not set.
    pub(crate) shows: Option<bool>,
}

impl RpcOptions {
    /// Reads and removes the `#[rpc(…)]` attributes. `known` are the options that are allowed on
    /// this item.
    pub(crate) fn take(attributes: &mut Vec<Attribute>, known: &[&str]) -> Result<Self> {
        let (ours, others) = attributes
            .drain(..)
            .partition(|attribute| attribute.path().is_ident("rpc"));
        *attributes = others;
        Self::read(&ours, known)
    }

    pub(crate) fn read(attributes: &[Attribute], known: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut seen = Vec::new();
        for attribute in attributes {
            if !attribute.path().is_ident("rpc") {
                continue;
            }
            attribute.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(ToString::to_string);
                match name.as_deref() {
                    Some(name) if known.contains(&name) => once(&mut seen, &meta.path)?,
                    _ if known.is_empty() => return Err(meta.error("no options can be said here")),
                    _ => {
                        return Err(
                            meta.error(format!("here only {} can be said", known.join(", ")))
                        );
                    }
                }
                match name.as_deref() {
                    Some("name") => options.name = Some(meta.value()?.parse()?),
                    Some("context") => options.context = Some(meta.path.span()),
                    Some("run_to_end") => options.runs_to_end = Some(meta.path.span()),
                    Some("unknown_params") => {
                        options.ignores_unknown = Some(ignores(&meta.value()?.parse()?)?);
                    }
                    Some("subscription") => {
                        options.subscription = Some((meta.path.span(), names(&meta)?));
                    }
                    Some("flow") => options.flow = Some(meta.path.span()),
                    Some("code") => options.code = Some(integer(&meta.value()?.parse()?)?),
                    Some("message") => options.message = Some(meta.value()?.parse()?),
                    Some("reserved") => options.reserved = Some(meta.path.span()),
                    Some("other") => options.is_other = true,
                    Some("crate") => options.root = Some(meta.value()?.parse::<LitStr>()?.parse()?),
                    _ => options.shows = Some(meta.value()?.parse::<LitBool>()?.value),
                }
                Ok(())
            })?;
        }
        match (options.context, &options.name) {
            (Some(_), Some(name)) => Err(Error::new(
                name.span(),
                "an argument that is made from the request has no name on the wire: leave out `name` or `context`",
            )),
            _ => Ok(options),
        }
    }
}

/// Reads the names of a subscription's methods, in parentheses; none if there are no parentheses.
fn names(meta: &ParseNestedMeta<'_>) -> Result<Vec<LitStr>> {
    if !meta.input.peek(Paren) {
        return Ok(Vec::new());
    }
    let content;
    syn::parenthesized!(content in meta.input);
    let names = Punctuated::<LitStr, Token![,]>::parse_terminated(&content)?;
    match names.len() {
        3 => Ok(names.into_iter().collect()),
        _ => Err(meta.error(
            "write three names: `subscription(\"subscribeTicks\", \"ticks\", \"unsubscribeTicks\")`",
        )),
    }
}

/// Reads the value of `unknown_params`: whether they are ignored.
fn ignores(said: &LitStr) -> Result<bool> {
    match said.value().as_str() {
        "ignore" => Ok(true),
        "reject" => Ok(false),
        _ => {
            let known = "write `unknown_params = \"ignore\"` or `\"reject\"`";
            Err(Error::new(said.span(), known))
        }
    }
}

/// Reads the number of an error's code.
fn integer(code: &Expr) -> Result<(i64, Span)> {
    match code {
        Expr::Group(group) => integer(&group.expr),
        Expr::Paren(group) => integer(&group.expr),
        Expr::Unary(minus) if matches!(minus.op, UnOp::Neg(_)) => {
            let (code, span) = integer(&minus.expr)?;
            Ok((-code, span))
        }
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(digits) => Ok((digits.base10_parse()?, digits.span())),
            other => Err(Error::new(
                other.span(),
                "a code is an integer: `code = 1001`",
            )),
        },
        other => Err(Error::new(
            other.span(),
            "a code is an integer as digits, because the macro cannot look up a constant: `code = 1001`",
        )),
    }
}
