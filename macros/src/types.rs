//! Types as they are written: the macros see their tokens, and nothing of what the names stand for.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Error, GenericArgument, PathArguments, Result, Type};

/// Returns the type without the invisible group that a parameter of `macro_rules!` puts around it, and
/// without parentheses.
pub(crate) fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(group) => bare(&group.elem),
        _ => ty,
    }
}

/// Returns the type of the items, if this is written as `Flow<T>`.
pub(crate) fn item_of_flow(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = bare(ty) else {
        return None;
    };
    let last = path.path.segments.last()?;
    match &last.arguments {
        PathArguments::AngleBracketed(items) if last.ident == "Flow" => match items.args.first()? {
            GenericArgument::Type(item) if items.args.len() == 1 => Some(item),
            _ => None,
        },
        _ => None,
    }
}

/// Refuses a type that cannot be named outside the method, and, if `is_decoded`, one that borrows.
pub(crate) fn check_owned(what: &str, ty: &Type, is_decoded: bool) -> Result<()> {
    match first_fault(ty.to_token_stream(), is_decoded) {
        None => Ok(()),
        Some((span, fault)) => Err(Error::new(span, format!("{what} {fault}"))),
    }
}

fn first_fault(tokens: TokenStream, is_decoded: bool) -> Option<(Span, &'static str)> {
    let mut tokens = tokens.into_iter().peekable();
    // `Cow<'_, str>` is decoded as an owned value.
    let mut is_cow = false;
    while let Some(token) = tokens.next() {
        if let TokenTree::Ident(word) = &token {
            is_cow = word == "Cow";
        }
        let fault = match &token {
            TokenTree::Group(group) => {
                if let Some(found) = first_fault(group.stream(), is_decoded) {
                    return Some(found);
                }
                continue;
            }
            TokenTree::Ident(word) if word == "impl" => "has a concrete type",
            TokenTree::Ident(word) if word == "Self" && is_decoded => {
                "has a type that the client knows too: write its name for `Self`"
            }
            TokenTree::Punct(sign) if sign.as_char() == '&' && is_decoded => {
                "is an owned value: write `String` for `&str`, `Vec<T>` for `&[T]`"
            }
            TokenTree::Punct(sign) if sign.as_char() == '\'' && is_decoded => match tokens.peek() {
                Some(TokenTree::Ident(name)) if is_cow || name == "static" => continue,
                _ => {
                    "is an owned value, and has no lifetime but `'static`: write `OwnedJson` for `Json<'_>`"
                }
            },
            _ => continue,
        };
        return Some((token.span(), fault));
    }
    None
}
