//! What a function could return instead of what it does: plain values of its type, as text.
//!
//! The choice is that of cargo-mutants. A type that is not known here is tried with its default; where
//! it has none the mutant does not compile and is dropped.

use syn::{GenericArgument, PathArguments, ReturnType, Type, TypeParamBound};

const DEFAULT: &str = "::core::default::Default::default()";
/// No more values of one type, for tuples of tuples.
const MAX_VALUES: usize = 9;

pub(crate) fn of_return(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec!["()".to_string()],
        ReturnType::Type(_, of) => of_type(of),
    }
}

/// What an iterator gives, where the function says no more of its type.
pub(crate) fn item_of_iterator(output: &ReturnType) -> Option<&Type> {
    let ReturnType::Type(_, of) = output else {
        return None;
    };
    let Type::ImplTrait(of) = &**of else {
        return None;
    };
    of.bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else {
            return None;
        };
        let last = bound.path.segments.last()?;
        let PathArguments::AngleBracketed(arguments) = &last.arguments else {
            return None;
        };
        let items = arguments.args.iter();
        let item = items.filter_map(|argument| match argument {
            GenericArgument::AssocType(item) if item.ident == "Item" => Some(&item.ty),
            _ => None,
        });
        item.last().filter(|_| last.ident == "Iterator")
    })
}

pub(crate) fn of_type(of: &Type) -> Vec<String> {
    let mut values = match of {
        Type::Never(_) | Type::ImplTrait(_) => Vec::new(),
        Type::Paren(of) => of_type(&of.elem),
        Type::Group(of) => of_type(&of.elem),
        Type::Tuple(of) => of_tuple(of.elems.iter()),
        Type::Array(of) => of_type(&of.elem)
            .iter()
            .map(|value| format!("[{value}; _]"))
            .collect(),
        // Where the kind of reference is inferred, as of an iterator's items, it is this one.
        Type::Reference(of) if of.mutability.is_none() => {
            let leaked = of_reference(&of.elem);
            leaked.iter().map(|value| format!("&*{value}")).collect()
        }
        Type::Reference(of) => of_reference(&of.elem),
        Type::Path(of) => match of.path.segments.last() {
            Some(last) => of_name(&last.ident.to_string(), &types(&last.arguments)),
            None => Vec::new(),
        },
        _ => vec![DEFAULT.to_string()],
    };
    values.truncate(MAX_VALUES);
    values
}

fn of_name(name: &str, arguments: &[&Type]) -> Vec<String> {
    let wrapped = |before: &str| -> Vec<String> {
        let values = arguments
            .first()
            .map_or_else(|| vec![DEFAULT.to_string()], |of| of_type(of));
        values
            .iter()
            .map(|value| format!("{before}({value})"))
            .collect()
    };
    let plain = |values: &[&str]| values.iter().map(ToString::to_string).collect();
    match name {
        "bool" => plain(&["true", "false"]),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => plain(&["0", "1"]),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => plain(&["0", "1", "-1"]),
        "f32" | "f64" => plain(&["0.0", "1.0", "-1.0"]),
        "String" => plain(&["::alloc::string::String::new()", "\"xyzzy\".into()"]),
        "Option" => [plain(&["None"]), wrapped("Some")].concat(),
        "Result" => wrapped("Ok"),
        "Box" => wrapped("::alloc::boxed::Box::new"),
        "Rc" => wrapped("::alloc::rc::Rc::new"),
        "Arc" => wrapped("::alloc::sync::Arc::new"),
        "Cow" => wrapped("::alloc::borrow::Cow::Owned"),
        "Vec" => {
            let one = arguments.first().map(|of| of_type(of)).unwrap_or_default();
            let one = one.iter().map(|value| format!("::alloc::vec![{value}]"));
            [plain(&["::alloc::vec::Vec::new()"]), one.collect()].concat()
        }
        _ if name.starts_with("NonZero") => plain(&["1.try_into().unwrap()"]),
        _ => plain(&[DEFAULT]),
    }
}

fn of_reference(of: &Type) -> Vec<String> {
    match of {
        Type::Path(of) if of.path.is_ident("str") => {
            vec!["\"\"".to_string(), "\"xyzzy\"".to_string()]
        }
        Type::Slice(of) => {
            let one = of_type(&of.elem);
            let one = one
                .iter()
                .map(|value| format!("::alloc::vec::Vec::leak(::alloc::vec![{value}])"));
            let none = "::alloc::vec::Vec::leak(::alloc::vec::Vec::new())".to_string();
            std::iter::once(none).chain(one).collect()
        }
        of => {
            let boxed = |value: &String| {
                format!("::alloc::boxed::Box::leak(::alloc::boxed::Box::new({value}))")
            };
            of_type(of).iter().map(boxed).collect()
        }
    }
}

/// Every combination of the parts' values.
fn of_tuple<'a>(parts: impl Iterator<Item = &'a Type>) -> Vec<String> {
    let mut rows = vec![String::new()];
    for part in parts {
        let values = of_type(part);
        rows = rows
            .iter()
            .flat_map(|row| values.iter().map(move |value| format!("{row}{value}, ")))
            .collect();
    }
    rows.iter().map(|row| format!("({row})")).collect()
}

fn types(arguments: &PathArguments) -> Vec<&Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else {
        return Vec::new();
    };
    let types = arguments.args.iter();
    let types = types.filter_map(|argument| match argument {
        GenericArgument::Type(of) => Some(of),
        _ => None,
    });
    types.collect()
}
