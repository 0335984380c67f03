//! The options of the attributes.

use proc_macro2::TokenStream;
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::{Attribute, Error, LitBool, LitInt, LitStr, Path, Result};

use crate::names::Rename;

/// The crate for which a macro generates code.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    /// The path of the crate whose types the generated code uses.
    pub(crate) root: &'static str,
    /// Whether methods may be `async`: not on threads.
    pub(crate) may_wait: bool,
}

/// The options of `#[service(…)]`.
pub(crate) struct ServiceOptions {
    pub(crate) root: Path,
    pub(crate) may_wait: bool,
    pub(crate) rename: Option<Rename>,
    pub(crate) prefix: String,
    pub(crate) has_client: bool,
    pub(crate) has_server: bool,
    pub(crate) finishes: bool,
}

impl ServiceOptions {
    pub(crate) fn parse(target: Target, tokens: TokenStream) -> Result<Self> {
        let mut options = Self {
            root: syn::parse_str(target.root)?,
            may_wait: target.may_wait,
            rename: None,
            prefix: String::new(),
            has_client: true,
            has_server: true,
            finishes: false,
        };
        let parser = syn::meta::parser(|meta| {
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
                if prefix.value() == "rpc" || prefix.value().starts_with("rpc.") {
                    return Err(Error::new(
                        prefix.span(),
                        "names that begin with `rpc.` are reserved",
                    ));
                }
                options.prefix = prefix.value();
            } else if meta.path.is_ident("client") {
                options.has_client = meta.value()?.parse::<LitBool>()?.value;
            } else if meta.path.is_ident("server") {
                options.has_server = meta.value()?.parse::<LitBool>()?.value;
            } else if meta.path.is_ident("finish") {
                options.finishes = true;
            } else if meta.path.is_ident("crate") {
                options.root = meta.value()?.parse::<LitStr>()?.parse()?;
            } else {
                return Err(meta.error("use rename_all, prefix, client, server, finish or crate"));
            }
            Ok(())
        });
        parser.parse2(tokens)?;
        Ok(options)
    }
}

/// The options of `#[rpc(…)]`, on any item.
#[derive(Default)]
pub(crate) struct RpcOptions {
    pub(crate) name: Option<LitStr>,
    pub(crate) is_context: bool,
    /// The position of `finish` in the source, for error messages; `None` if it is not set.
    pub(crate) finishes: Option<proc_macro2::Span>,
    pub(crate) code: Option<(i64, proc_macro2::Span)>,
    pub(crate) message: Option<LitStr>,
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
        for attribute in attributes {
            if !attribute.path().is_ident("rpc") {
                continue;
            }
            attribute.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(ToString::to_string);
                match name.as_deref() {
                    Some(name) if known.contains(&name) => {}
                    _ => {
                        return Err(
                            meta.error(format!("here only {} can be said", known.join(", ")))
                        );
                    }
                }
                match name.as_deref() {
                    Some("name") => options.name = Some(meta.value()?.parse()?),
                    Some("context") => options.is_context = true,
                    Some("finish") => options.finishes = Some(meta.path.span()),
                    Some("code") => {
                        let value = meta.value()?;
                        let minus: Option<syn::Token![-]> = value.parse()?;
                        let digits: LitInt = value.parse()?;
                        let code = digits.base10_parse::<i64>()?;
                        options.code =
                            Some((if minus.is_some() { -code } else { code }, digits.span()));
                    }
                    Some("message") => options.message = Some(meta.value()?.parse()?),
                    Some("other") => options.is_other = true,
                    Some("crate") => options.root = Some(meta.value()?.parse::<LitStr>()?.parse()?),
                    _ => options.shows = Some(meta.value()?.parse::<LitBool>()?.value),
                }
                Ok(())
            })?;
        }
        Ok(options)
    }
}

/// Returns the text of the documentation comments.
pub(crate) fn doc(attributes: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attribute in attributes {
        if let syn::Meta::NameValue(value) = &attribute.meta {
            if let (true, syn::Expr::Lit(line)) = (value.path.is_ident("doc"), &value.value) {
                if let syn::Lit::Str(line) = &line.lit {
                    lines.push(line.value().trim().to_owned());
                }
            }
        }
    }
    lines.join("\n").trim().to_owned()
}
