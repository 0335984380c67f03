//! Converts an enum to an error object and back.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, Ident, Path, Result, Type, Variant};

use crate::names::{Names, sentence};
use crate::options::{RpcOptions, Target};
use crate::types::check_owned;

/// Codes that are reserved for JSON-RPC and its libraries. JSON-RPC 2.0 §5.1.
const RESERVED: std::ops::RangeInclusive<i64> = -32768..=-32000;
/// The reserved codes that are left to servers. JSON-RPC 2.0 §5.1.
const OF_SERVERS: std::ops::RangeInclusive<i64> = -32099..=-32000;
/// The codes with which the library answers, and the message that it sends with each.
const OWN: [(i64, &str); 10] = [
    (-32700, "Parse error"),
    (-32600, "Invalid Request"),
    (-32601, "Method not found"),
    (-32602, "Invalid params"),
    (-32603, "Internal error"),
    (-32001, "Request cancelled"),
    (-32002, "Server busy"),
    (-32003, "Batch too large"),
    (-32004, "Request too large"),
    (-32005, "Request timeout"),
];
/// The most fields of a variant: tuples of at most ten implement `Values`.
const MAX_FIELDS: usize = 10;

/// Generates the implementations for an enum. If something is wrong, they do nothing, so that the compiler
/// reports only that.
pub(crate) fn expand(target: Target, tokens: TokenStream) -> Result<TokenStream> {
    let item: DeriveInput = syn::parse2(tokens)?;
    let said = RpcOptions::read(&item.attrs, &["crate", "display"]);
    let root = said.as_ref().ok().and_then(|said| said.root.clone());
    let root = root.unwrap_or_else(|| target.root());
    let shows = said.as_ref().map_or(Some(true), |said| said.shows) != Some(false);
    let made = said.and_then(|_| implementations(&item, &root, shows));
    Ok(made.unwrap_or_else(|error| {
        let (error, rest) = (error.to_compile_error(), stand_in(&item, &root, shows));
        quote!(#error #rest)
    }))
}

/// Generates implementations of the traits for an enum that is refused.
fn stand_in(item: &DeriveInput, root: &Path, shows: bool) -> TokenStream {
    let name = &item.ident;
    let (before, arguments, bounds) = item.generics.split_for_impl();
    let display = shows.then(|| {
        quote! {
            impl #before ::core::fmt::Display for #name #arguments #bounds {
                fn fmt(&self, _: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    ::core::result::Result::Ok(())
                }
            }
        }
    });
    quote! {
        const _: () = {
            impl #before ::core::convert::From<#name #arguments> for #root::OwnedError #bounds {
                fn from(_: #name #arguments) -> Self {
                    ::core::unreachable!()
                }
            }

            impl #before #root::RpcError for #name #arguments #bounds {
                fn from_error(error: #root::OwnedError) -> ::core::result::Result<Self, #root::OwnedError> {
                    ::core::result::Result::Err(error)
                }
            }

            #display
        };
    }
}

fn implementations(item: &DeriveInput, root: &Path, shows: bool) -> Result<TokenStream> {
    let Data::Enum(data) = &item.data else {
        return Err(Error::new(
            item.span(),
            "`RpcError` is derived for an enum, with a code for each variant",
        ));
    };
    if !item.generics.params.is_empty() {
        return Err(Error::new(
            item.generics.span(),
            "an error on the wire has no generic parameters",
        ));
    }
    if data.variants.is_empty() {
        let what = format!(
            "`{}` has no variants: write one for each code, or return `OwnedError`",
            item.ident
        );
        return Err(Error::new(item.ident.span(), what));
    }
    let (mut seen, mut parts, mut other) = (Vec::new(), Vec::new(), None);
    let mut errors: Option<Error> = None;
    for variant in &data.variants {
        let read = match Part::read(&item.ident, variant, root, &mut seen) {
            Ok(Read::Other(_)) if other.is_some() => Err(Error::new(
                variant.span(),
                "only one variant takes every other error",
            )),
            read => read,
        };
        match (read, &mut errors) {
            (Ok(Read::Part(part)), _) => parts.push(part),
            (Ok(Read::Other(ty)), _) => other = Some((&variant.ident, ty)),
            (Err(error), Some(errors)) => errors.combine(error),
            (Err(error), none) => *none = Some(error),
        }
    }
    if let Some(errors) = errors {
        return Err(errors);
    }
    // A variant that takes every message of its code comes after those that take one.
    parts.sort_by_key(|part| part.takes_all);
    let name = &item.ident;
    let (out, back, shown): (Vec<_>, Vec<_>, Vec<_>) =
        parts.into_iter().fold(Default::default(), |mut all, part| {
            all.0.push(part.out);
            all.1.push(part.back);
            all.2.push(part.shown);
            all
        });
    // Where the field is no `OwnedError`, the compiler reports that at its type.
    let held = |span: Span| quote_spanned!(Span::call_site().located_at(span)=> error);
    let other_out = other.as_ref().map(|(other, span)| {
        let error = held(*span);
        quote!(#name::#other(error) => #error,)
    });
    let other_shown = other
        .as_ref()
        .map(|(other, _)| quote!(#name::#other(error) => ::core::fmt::Display::fmt(error, f),));
    let rest = match &other {
        Some((other, span)) => {
            let error = held(*span);
            quote!(::core::result::Result::Ok(#name::#other(#error)))
        }
        None => quote!(::core::result::Result::Err(error)),
    };
    let display = shows.then(|| {
        quote! {
            impl ::core::fmt::Display for #name {
                fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    match self {
                        #(#shown)*
                        #other_shown
                    }
                }
            }

            impl ::core::error::Error for #name {}
        }
    });
    Ok(quote! {
        #[automatically_derived]
        #[allow(unreachable_patterns, unused_variables, clippy::all, clippy::pedantic)]
        const _: () = {
            impl ::core::convert::From<#name> for #root::OwnedError {
                fn from(error: #name) -> Self {
                    match error {
                        #(#out)*
                        #other_out
                    }
                }
            }

            impl #root::RpcError for #name {
                fn from_error(error: #root::OwnedError) -> ::core::result::Result<Self, #root::OwnedError> {
                    let read = || -> ::core::result::Result<Self, #root::DecodeError> {
                        let seen = error.as_error();
                        match seen.code() {
                            #(#back)*
                            _ => ::core::result::Result::Err(#root::service::not_this_error()),
                        }
                    };
                    match read() {
                        ::core::result::Result::Ok(read) => ::core::result::Result::Ok(read),
                        ::core::result::Result::Err(_) => #rest,
                    }
                }
            }

            #display
        };
    })
}

/// The generated code of a variant: conversion to an error object and back, and its text.
struct Part {
    out: TokenStream,
    back: TokenStream,
    shown: TokenStream,
    /// Whether the message of an error object does not matter.
    takes_all: bool,
}

/// What a variant was read as: one with a code, or the one with `#[rpc(other)]`, whose type is there.
enum Read {
    Part(Part),
    Other(Span),
}

/// A code, and the messages by which a variant is recognised.
struct Code {
    code: i64,
    message: String,
    accepts: Accepts,
}

#[derive(PartialEq)]
enum Accepts {
    /// Every message.
    All,
    /// Every message but the one that the library sends.
    AllBut(&'static str),
    /// Only that of the variant.
    Own,
}

impl Code {
    fn read(said: RpcOptions, ident: &Ident, span: Span) -> Result<(Self, Span)> {
        let Some((code, span)) = said.code else {
            let what = format!("`{ident}` needs a code: `#[rpc(code = 1001)]`");
            return Err(Error::new(span, what));
        };
        let is_meant = said.reserved.is_some();
        let is_reserved = RESERVED.contains(&code);
        if let (Some(reserved), false) = (said.reserved, is_reserved) {
            let what = format!("{code} is not reserved: leave `reserved` out");
            return Err(Error::new(reserved, what));
        }
        let own = OWN
            .iter()
            .find(|(own, _)| *own == code)
            .map(|(_, text)| *text);
        let is_of_servers = OF_SERVERS.contains(&code);
        if is_reserved && !is_of_servers && own.is_none() && !is_meant {
            let what = format!(
                "{code} is reserved for JSON-RPC; a code of yours lies outside -32768 to -32100, and to use one that another protocol defines, write `#[rpc(code = {code}, reserved)]`"
            );
            return Err(Error::new(span, what));
        }
        let is_named = said.message.is_some();
        let message = match said.message {
            Some(message) => message.value(),
            None => sentence(&ident.unraw().to_string()),
        };
        if let (Some(own), false) = (own, is_meant) {
            if message == own || !(is_named || is_of_servers) {
                let what = format!(
                    "{code} is what the library itself answers, as \"{own}\": write a `message` that tells yours apart, or `#[rpc(code = {code}, reserved)]` to take every error that has the code"
                );
                return Err(Error::new(span, what));
            }
        }
        let accepts = match own {
            Some(own) if !is_meant && is_of_servers => Accepts::AllBut(own),
            Some(_) if !is_meant => Accepts::Own,
            _ => Accepts::All,
        };
        Ok((
            Self {
                code,
                message,
                accepts,
            },
            span,
        ))
    }

    /// Whether an error object could be this and the other.
    fn is_taken_by(&self, other: &Self) -> bool {
        let is_one = |one: &Self| one.accepts == Accepts::Own;
        self.code == other.code
            && (self.message == other.message || !(is_one(self) || is_one(other)))
    }

    fn guard(&self) -> Option<TokenStream> {
        let message = &self.message;
        match self.accepts {
            Accepts::All => None,
            Accepts::AllBut(own) => Some(quote!(if seen.message() != #own)),
            Accepts::Own => Some(quote!(if seen.message() == #message)),
        }
    }
}

impl Part {
    fn read(item: &Ident, variant: &Variant, root: &Path, seen: &mut Vec<Code>) -> Result<Read> {
        let said = RpcOptions::read(&variant.attrs, &["code", "message", "reserved", "other"])?;
        let ident = &variant.ident;
        if said.is_other {
            if said.code.is_some() || said.message.is_some() || said.reserved.is_some() {
                let what = "the variant with `#[rpc(other)]` has the code and the message of the error that it holds: leave them out";
                return Err(Error::new(variant.span(), what));
            }
            return match one(&variant.fields) {
                Some(field) => {
                    no_options(field)?;
                    Ok(Read::Other(field.ty.span()))
                }
                _ => Err(Error::new(
                    variant.span(),
                    "the variant with `#[rpc(other)]` has one field, for the error: write `Other(OwnedError)`",
                )),
            };
        }
        let (code, span) = Code::read(said, ident, variant.span())?;
        if seen.iter().any(|other| other.is_taken_by(&code)) {
            let what = format!(
                "another variant has the code {}, so a client could not tell them apart",
                code.code
            );
            return Err(Error::new(span, what));
        }
        for field in &variant.fields {
            check_owned("a field", &field.ty, true)?;
        }
        let (guard, takes_all) = (code.guard(), code.accepts != Accepts::Own);
        let (message, number) = (code.message.clone(), code.code);
        seen.push(code);
        let part = match &variant.fields {
            Fields::Unit => Self {
                out: quote!(#item::#ident => #root::OwnedError::new(#number, #message),),
                back: quote!(#number #guard => ::core::result::Result::Ok(#item::#ident),),
                shown: quote!(#item::#ident => f.write_str(#message),),
                takes_all,
            },
            Fields::Unnamed(fields) => {
                let Some(field) = one(&variant.fields) else {
                    return Err(Error::new(
                        fields.span(),
                        "use named fields, or one field that is all of the data",
                    ));
                };
                no_options(field)?;
                let data = decoded(
                    &field.ty,
                    quote!(seen.data().unwrap_or(#root::Json::NULL).decode),
                );
                Self {
                    out: quote!(#item::#ident(data) => #root::service::error_with_data(#number, #message, &data),),
                    back: quote!(#number #guard => #data().map(#item::#ident),),
                    shown: quote!(#item::#ident(..) => f.write_str(#message),),
                    takes_all,
                }
            }
            Fields::Named(fields) => {
                let mut names = Names::of("field");
                let (mut wire, mut idents, mut values) = (Vec::new(), Vec::new(), Vec::new());
                for (place, field) in fields.named.iter().enumerate() {
                    let said = RpcOptions::read(&field.attrs, &["name"])?;
                    let Some(ident) = &field.ident else { continue };
                    let name = said
                        .name
                        .map_or(ident.unraw().to_string(), |name| name.value());
                    names.take(&name, field.span())?;
                    wire.push(name);
                    idents.push(ident);
                    let value = decoded(&field.ty, quote!(data.get));
                    values.push(quote!(#value(#place)));
                }
                if wire.len() > MAX_FIELDS {
                    let what = format!(
                        "`{ident}` has more than {MAX_FIELDS} fields: write one field that is a struct, `{ident}(Details)`"
                    );
                    return Err(Error::new(ident.span(), what));
                }
                let bound: Vec<_> = (0..idents.len())
                    .map(|place| format_ident!("field_{place}"))
                    .collect();
                Self {
                    out: quote! {
                        #item::#ident { #(#idents: #bound),* } => {
                            #root::service::error_with(#number, #message, &[#(#wire),*], &(#(&#bound,)*))
                        }
                    },
                    back: quote! {
                        #number #guard => {
                            let data = #root::service::error_members(seen.data(), &[#(#wire),*])?;
                            ::core::result::Result::Ok(#item::#ident { #(#idents: #values?),* })
                        }
                    },
                    shown: quote!(#item::#ident { .. } => f.write_str(#message),),
                    takes_all,
                }
            }
        };
        Ok(Read::Part(part))
    }
}

/// The field of a variant that has one, without a name.
fn one(fields: &Fields) -> Option<&Field> {
    match fields {
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => fields.unnamed.first(),
        _ => None,
    }
}

/// Refuses options on a field that has no name on the wire.
fn no_options(field: &Field) -> Result<()> {
    RpcOptions::read(&field.attrs, &[]).map(drop)
}

/// Calls a function that decodes a type; the compiler reports at the type if it cannot be decoded.
fn decoded(ty: &Type, how: TokenStream) -> TokenStream {
    let span = Span::call_site().located_at(ty.span());
    let ty = ty.to_token_stream();
    let turbofish = quote_spanned!(span=> ::<#ty>);
    quote!(#how #turbofish)
}

#[cfg(test)]
mod tests {
    use super::OWN;

    // USE-36
    #[test]
    fn the_librarys_own_codes_are_all_known() {
        for (code, text) in OWN {
            assert_eq!(antiphon::codes::message(code), Some(text));
        }
        let own = (-32768..=-32000).filter(|code| antiphon::codes::message(*code).is_some());
        assert_eq!(own.count(), OWN.len());
    }
}
