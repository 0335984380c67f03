//! Documentation comments, read as rustdoc reads them.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Expr, Lit, LitStr, Meta};

/// The documentation of an item.
pub(crate) struct Doc(Vec<Fragment>);

/// One comment, or one `#[doc = …]`.
enum Fragment {
    Text {
        lines: Vec<String>,
        is_comment: bool,
    },
    /// A macro such as `include_str!`, whose text is not known yet.
    Macro(TokenStream),
}

impl Doc {
    pub(crate) fn of(attributes: &[Attribute]) -> Self {
        let mut fragments: Vec<Fragment> = attributes.iter().filter_map(Fragment::of).collect();
        unindent(&mut fragments);
        Self(fragments)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes an expression for the text.
impl ToTokens for Doc {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let mut text = Vec::new();
        let mut parts: Vec<TokenStream> = Vec::new();
        for fragment in &self.0 {
            match fragment {
                Fragment::Text { lines, .. } => text.extend(lines.iter().map(String::as_str)),
                Fragment::Macro(inner) => {
                    let before = text.drain(..).map(|line| format!("{line}\n"));
                    let before: String = before.collect();
                    parts.push(quote!(#before, #inner, "\n",));
                }
            }
        }
        let rest = text.join("\n");
        tokens.extend(match parts.is_empty() {
            true => {
                let rest = rest.trim_end().trim_start_matches('\n');
                quote!(#rest)
            }
            false => quote!(::core::concat!(#(#parts)* #rest)),
        });
    }
}

impl Fragment {
    fn of(attribute: &Attribute) -> Option<Self> {
        let Meta::NameValue(meta) = &attribute.meta else {
            return None;
        };
        if !meta.path.is_ident("doc") {
            return None;
        }
        let mut value = &meta.value;
        while let Expr::Group(group) = value {
            value = &group.expr;
        }
        match value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(Self::text(text)),
                _ => None,
            },
            Expr::Macro(text) => Some(Self::Macro(text.to_token_stream())),
            _ => None,
        }
    }

    fn text(text: &LitStr) -> Self {
        let source = text.span().source_text().unwrap_or_default();
        let value = text.value();
        let mut lines: Vec<&str> = value
            .split('\n')
            .map(|line| line.trim_end_matches('\r'))
            .collect();
        if source.starts_with("/*") {
            trim_stars(&mut lines);
        }
        let lines = lines.into_iter().map(|line| match line.trim().is_empty() {
            true => String::new(),
            false => line.to_owned(),
        });
        Self::Text {
            lines: lines.collect(),
            is_comment: !source.starts_with('"') && !source.starts_with('r'),
        }
    }
}

/// Removes the column of stars of a block comment, and a first or last line of stars, as rustdoc does.
fn trim_stars(lines: &mut Vec<&str>) {
    let is_stars = |line: &str| line.chars().all(|letter| letter == '*');
    if lines.len() < 2 {
        return;
    }
    if lines.first().is_some_and(|line| is_stars(line)) {
        lines.remove(0);
    }
    if lines
        .last()
        .is_some_and(|line| !line.is_empty() && is_stars(line))
    {
        lines.pop();
    }
    // A text that begins behind the comment's own stars is in no column.
    let starred = |line: &&str| line.trim_start().starts_with('*');
    let first = usize::from(!lines.first().is_some_and(starred));
    let column = |line: &&str| starred(line).then(|| line.len() - line.trim_start().len());
    let filled = |line: &&str| !line.trim().is_empty();
    let body = lines.get(first..).unwrap_or_default();
    let begin = body.iter().position(&filled);
    let end = body.iter().rposition(filled);
    let (Some(begin), Some(end)) = (begin, end) else {
        return;
    };
    let mut columns = body.iter().take(end + 1).skip(begin).map(column);
    let Some(Some(column)) = columns.next() else {
        return;
    };
    if !columns.all(|other| other == Some(column)) {
        return;
    }
    let before = body
        .get(begin)
        .and_then(|line| line.get(..column))
        .unwrap_or_default();
    for line in lines {
        if let Some(rest) = line.strip_prefix(before) {
            let has_star = rest == "*" || rest.starts_with("* ") || rest.starts_with("**");
            *line = rest.get(usize::from(has_star)..).unwrap_or_default();
        }
    }
}

/// Removes the indentation that all lines have. A comment has a space more than the text of `#[doc]`, where
/// both stand together.
fn unindent(fragments: &mut [Fragment]) {
    let is_comment =
        |fragment: &Fragment| matches!(fragment, Fragment::Text { is_comment, .. } if *is_comment);
    let comments = fragments
        .iter()
        .filter(|fragment| is_comment(fragment))
        .count();
    let more = usize::from(comments > 0 && comments < fragments.len());
    let indent = |line: &String| line.len() - line.trim_start_matches([' ', '\t']).len();
    let mut least = usize::MAX;
    for fragment in fragments.iter() {
        let Fragment::Text { lines, is_comment } = fragment else {
            continue;
        };
        let full = lines.iter().filter(|line| !line.is_empty());
        let own = full.map(indent).min().unwrap_or(usize::MAX);
        least = least.min(own.saturating_add(if *is_comment { 0 } else { more }));
    }
    for fragment in fragments {
        let Fragment::Text { lines, is_comment } = fragment else {
            continue;
        };
        let removed = least.saturating_sub(if *is_comment { 0 } else { more });
        for line in lines {
            *line = line.get(removed..).unwrap_or_default().to_owned();
        }
    }
}
