//! Converts an enum to an error object and back.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Ident, Path, Result, Variant};

use crate::names::{Names, sentence};
use crate::options::RpcOptions;

/// Codes that are reserved for JSON-RPC and its libraries. JSON-RPC 2.0 §5.1.
const RESERVED: std::ops::RangeInclusive<i64> = -32768..=-32000;
/// The reserved codes that a program may use.
const STANDARD: [i64; 5] = [-32700, -32600, -32601, -32602, -32603];

/// Generates the implementations for an enum. `root` is the path of the crate whose types are used.
pub(crate) fn expand(root: &str, tokens: TokenStream) -> Result<TokenStream> {
    let item: DeriveInput = syn::parse2(tokens)?;
    let said = RpcOptions::read(&item.attrs, &["crate", "display"])?;
    let root = match said.root {
        Some(root) => root,
        None => syn::parse_str(root)?,
    };
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
    let (mut seen, mut parts, mut other) = (Vec::new(), Vec::new(), None);
    for variant in &data.variants {
        match Part::read(&item.ident, variant, &root, &mut seen)? {
            Read::Part(part) => parts.push(part),
            Read::Other if other.is_none() => other = Some(&variant.ident),
            Read::Other => {
                return Err(Error::new(
                    variant.span(),
                    "only one variant takes every other error",
                ));
            }
        }
    }
    let name = &item.ident;
    let (out, back, shown): (Vec<_>, Vec<_>, Vec<_>) =
        parts.into_iter().fold(Default::default(), |mut all, part| {
            all.0.push(part.out);
            all.1.push(part.back);
            all.2.push(part.shown);
            all
        });
    let other_out = other.map(|other| quote!(#name::#other(error) => error,));
    let other_shown =
        other.map(|other| quote!(#name::#other(error) => ::core::fmt::Display::fmt(error, f),));
    let rest = match other {
        Some(other) => quote!(::core::result::Result::Ok(#name::#other(error))),
        None => quote!(::core::result::Result::Err(error)),
    };
    let display = (said.shows != Some(false)).then(|| {
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
}

/// What a variant was read as: one with a code, or the one with `#[rpc(other)]`.
enum Read {
    Part(Part),
    Other,
}

impl Part {
    fn read(
        item: &Ident,
        variant: &Variant,
        root: &Path,
        seen: &mut Vec<(i64, String)>,
    ) -> Result<Read> {
        let said = RpcOptions::read(&variant.attrs, &["code", "message", "other"])?;
        let ident = &variant.ident;
        if said.is_other {
            return match &variant.fields {
                Fields::Unnamed(fields) if fields.unnamed.len() == 1 => Ok(Read::Other),
                _ => Err(Error::new(
                    variant.span(),
                    "the variant with `#[rpc(other)]` has one field, for the error: write `Other(OwnedError)`",
                )),
            };
        }
        let Some((code, span)) = said.code else {
            return Err(Error::new(
                variant.span(),
                format!("`{ident}` needs a code: `#[rpc(code = 1001)]`"),
            ));
        };
        let is_reserved = RESERVED.contains(&code);
        if is_reserved && !STANDARD.contains(&code) {
            let what = format!(
                "{code} is reserved for JSON-RPC and its libraries; codes of a program lie outside -32768 to -32000"
            );
            return Err(Error::new(span, what));
        }
        let message = said
            .message
            .map_or_else(|| sentence(&ident.to_string()), |message| message.value());
        let is_taken =
            |(other, text): &(i64, String)| *other == code && (!is_reserved || *text == message);
        if seen.iter().any(is_taken) {
            return Err(Error::new(
                span,
                format!(
                    "another variant has the code {code}, so a client could not tell them apart"
                ),
            ));
        }
        seen.push((code, message.clone()));
        // The library uses these codes too, so the message must match as well.
        let guard = is_reserved.then(|| quote!(if seen.message() == #message));
        let part = match &variant.fields {
            Fields::Unit => Self {
                out: quote!(#item::#ident => #root::OwnedError::new(#code, #message),),
                back: quote!(#code #guard => ::core::result::Result::Ok(#item::#ident),),
                shown: quote!(#item::#ident => f.write_str(#message),),
            },
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => Self {
                out: quote!(#item::#ident(data) => #root::service::error_with_data(#code, #message, &data),),
                back: quote! {
                    #code #guard => seen.data().unwrap_or(#root::Json::NULL).decode().map(#item::#ident),
                },
                shown: quote!(#item::#ident(..) => f.write_str(#message),),
            },
            Fields::Unnamed(fields) => {
                return Err(Error::new(
                    fields.span(),
                    "use named fields, or one field that is all of the data",
                ));
            }
            Fields::Named(fields) => {
                let mut names = Names::of("field");
                let mut wire = Vec::new();
                for field in &fields.named {
                    let said = RpcOptions::read(&field.attrs, &["name"])?;
                    let written = field
                        .ident
                        .as_ref()
                        .map(ToString::to_string)
                        .unwrap_or_default();
                    let bare = written.trim_start_matches("r#").to_owned();
                    let name = said.name.map_or(bare, |name| name.value());
                    names.take(&name, field.span())?;
                    wire.push(name);
                }
                let idents: Vec<_> = fields
                    .named
                    .iter()
                    .filter_map(|field| field.ident.as_ref())
                    .collect();
                let bound: Vec<_> = (0..idents.len())
                    .map(|place| format_ident!("field_{place}"))
                    .collect();
                let places = 0..idents.len();
                Self {
                    out: quote! {
                        #item::#ident { #(#idents: #bound),* } => {
                            #root::service::error_with(#code, #message, &[#(#wire),*], &(#(&#bound,)*))
                        }
                    },
                    back: quote! {
                        #code #guard => {
                            let data = #root::service::error_members(seen.data(), &[#(#wire),*])?;
                            ::core::result::Result::Ok(#item::#ident { #(#idents: data.get(#places)?),* })
                        }
                    },
                    shown: quote!(#item::#ident { .. } => f.write_str(#message),),
                }
            }
        };
        Ok(Read::Part(part))
    }
}
