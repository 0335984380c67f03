//! Finds the places of a file where something can be changed, and writes the changes beside what is
//! there.
//!
//! The text is edited, not printed anew, and no line break is added: a message of the compiler and a
//! failing assertion name the line of the source. What stands beside the original is the source's own
//! text, without changes in it, for only one mutant is ever awake. Every change carries its number in
//! a comment, so that what does not compile can be told from the compiler's messages:
//! `/*<17*/ … /*>*/` around a change, `/*<17,18*/ … /*>*/` around the place of several.

use std::collections::BTreeSet;
use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, Signature, UnOp};

use crate::values;

pub(crate) struct Mutant {
    pub(crate) number: u32,
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) function: String,
    pub(crate) what: String,
}

pub(crate) struct Mutated {
    pub(crate) text: String,
    pub(crate) mutants: Vec<Mutant>,
}

/// The text with all its mutants, numbered from `first` on; without those that are dropped, which
/// keep their numbers. `has_rows` says that calls are left out and rows of a `match` confused, too.
pub(crate) fn mutate(
    text: &str,
    first: u32,
    dropped: &BTreeSet<u32>,
    has_rows: bool,
) -> Result<Mutated, String> {
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    let mut visitor = Visitor {
        text,
        first,
        dropped,
        has_rows,
        names: Vec::new(),
        in_function: false,
        mutants: Vec::new(),
        edits: Vec::new(),
    };
    visitor.visit_file(&file);
    let Visitor {
        mutants, mut edits, ..
    } = visitor;
    // What is inserted at one place stays in the order in which it was found.
    edits.sort_by_key(|edit| edit.at.start);
    let mut written = String::new();
    let mut end = 0;
    for edit in edits {
        let kept = text.get(end..edit.at.start).ok_or("two changes overlap")?;
        written += kept;
        written += &edit.new;
        end = edit.at.end;
    }
    written += &text[end..];
    Ok(Mutated {
        text: written,
        mutants,
    })
}

struct Edit {
    at: Range<usize>,
    new: String,
}

struct Visitor<'t> {
    text: &'t str,
    first: u32,
    dropped: &'t BTreeSet<u32>,
    has_rows: bool,
    /// The modules, types and functions that we are in.
    names: Vec<String>,
    in_function: bool,
    mutants: Vec<Mutant>,
    edits: Vec<Edit>,
}

impl<'t> Visitor<'t> {
    fn source(&self, of: &impl Spanned) -> &'t str {
        &self.text[of.span().byte_range()]
    }

    fn insert(&mut self, at: usize, new: String) {
        self.edits.push(Edit { at: at..at, new });
    }

    /// Notes a mutant and gives its number, unless it is dropped.
    fn note(&mut self, at: Span, what: String) -> Option<u32> {
        let number = self.first + self.mutants.len() as u32;
        let (line, column) = (at.start().line, at.start().column + 1);
        let words: Vec<&str> = what.split_whitespace().collect();
        let (what, function) = (words.join(" "), self.names.join("::"));
        self.mutants.push(Mutant {
            number,
            line,
            column,
            function,
            what,
        });
        (!self.dropped.contains(&number)).then_some(number)
    }

    /// Puts other expressions beside one: `at` is where a reader would look.
    fn expression(
        &mut self,
        of: &Expr,
        at: Span,
        others: Vec<(String, String)>,
        visit: impl FnOnce(&mut Self),
    ) {
        let mut before = String::new();
        let mut numbers = Vec::new();
        for (what, other) in others {
            if let Some(number) = self.note(at, what) {
                before += &format!(
                    "if {} {{/*<{number}*/ {} /*>*/}} else ",
                    on(number),
                    one_line(&other)
                );
                numbers.push(number.to_string());
            }
        }
        if numbers.is_empty() {
            return visit(self);
        }
        let range = of.span().byte_range();
        self.insert(
            range.start,
            format!("(/*<{}*/ {before}{{", numbers.join(",")),
        );
        visit(self);
        self.insert(range.end, "} /*>*/)".to_string());
    }

    /// A function's body, which could also do nothing.
    fn function(
        &mut self,
        name: String,
        signature: &Signature,
        body: &Block,
        visit: impl FnOnce(&mut Self),
    ) {
        self.names.push(name);
        let was_in_function = std::mem::replace(&mut self.in_function, true);
        let start = body.brace_token.span.open().byte_range().end;
        let end = body.brace_token.span.close().byte_range().start;
        let at = signature.ident.span();
        let mut closing = String::new();
        if let Some(item) = values::item_of_iterator(&signature.output) {
            // All ways out give the same type: the other items, of which none or one are taken, and ours.
            let empty = self.note(at, "the body by an empty iterator".to_string());
            if let Some(empty) = empty {
                let empty = on(empty);
                self.insert(start, " let __all = (move || {".to_string());
                closing = format!("}})(); __all.take(if {empty} {{0}} else {{usize::MAX}})");
            }
            // One value only: numbers must not depend on what is dropped.
            if let Some(other) = values::of_type(item).into_iter().next() {
                let once = self.note(at, format!("the body by an iterator over {other}"));
                if let (Some(empty), Some(number)) = (empty, once) {
                    let (empty, once) = (on(empty), on(number));
                    closing = format!(
                        "}})(); ::core::iter::once(/*<{number}*/ {other} /*>*/).take(if {once} {{1}} else {{0}})\
                         .chain(__all.take(if {once} || {empty} {{0}} else {{usize::MAX}}))"
                    );
                }
            }
        } else {
            let first = body.stmts.iter().find(|of| !is_unused(of));
            let does = first.map_or("", |first| &self.text[first.span().byte_range().start..end]);
            for other in values::of_return(&signature.output) {
                let is_same = one_line(does) == other;
                let is_empty = first.is_none() && other == "()";
                if is_same || is_empty {
                    continue;
                }
                if let Some(number) = self.note(at, format!("the body by {}", short(&other))) {
                    self.insert(
                        start,
                        format!(
                            " if {} {{ return /*<{number}*/ {other} /*>*/; }}",
                            on(number)
                        ),
                    );
                }
            }
        }
        visit(self);
        self.insert(end, closing);
        self.in_function = was_in_function;
        self.names.pop();
    }

    /// An arm of a `match`; `other` is the value of the one beside it, which it could give instead.
    fn arm(&mut self, arm: &syn::Arm, has_other: bool, other: Option<&Expr>) {
        if is_test(&arm.attrs) {
            return;
        }
        match &arm.pat {
            syn::Pat::Guard(syn::PatGuard { guard, .. }) => {
                let range = guard.span().byte_range();
                let text = short(self.source(guard));
                let always = self.note(guard.span(), format!("the guard {text} by true"));
                let never = self.note(guard.span(), format!("the guard {text} by false"));
                let always = always
                    .map(|number| format!("{} || ", on(number)))
                    .unwrap_or_default();
                let never = never
                    .map(|number| format!("!{} && ", on(number)))
                    .unwrap_or_default();
                self.insert(range.start, format!("({always}({never}("));
                self.visit_expr(guard);
                self.insert(range.end, ")))".to_string());
            }
            pattern if has_other && !is_wild(arm) => {
                let what = format!("the arm {} left out", short(self.source(pattern)));
                if let Some(number) = self.note(pattern.span(), what) {
                    let at = arm.fat_arrow_token.span().byte_range().start;
                    self.insert(at, format!(" if !{} ", on(number)));
                }
            }
            _ => {}
        }
        let own = one_line(self.source(&*arm.body));
        let other = other.map(|other| one_line(self.source(other)));
        let other = other.filter(|other| self.has_rows && *other != own);
        let other = other.map(|other| {
            let pattern = short(self.source(&arm.pat));
            (format!("the arm {pattern} by {}", short(&other)), other)
        });
        let at = arm.pat.span();
        let is_alone = other.is_none();
        self.expression(&arm.body, at, Vec::from_iter(other), |this| {
            this.visit_expr(&arm.body);
        });
        if arm.comma.is_none() && !is_alone {
            // A block needs none, what stands around it does.
            let end = arm.body.span().byte_range().end;
            self.insert(end, ",".to_string());
        }
    }

    /// A call for what it does alone, which could be left out.
    fn call(&mut self, of: &syn::Stmt) {
        let syn::Stmt::Expr(call, Some(_)) = of else {
            return visit::visit_stmt(self, of);
        };
        let what = format!("{} left out", short(self.source(call)));
        let Some(number) = self.note(call.span(), what) else {
            return visit::visit_stmt(self, of);
        };
        let range = of.span().byte_range();
        self.insert(range.start, format!("if !{} {{/*<{number}*/ ", on(number)));
        visit::visit_stmt(self, of);
        self.insert(range.end, " /*>*/}".to_string());
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            self.names.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.names.pop();
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) && !matches!(item.sig.safety, syn::Safety::Unsafe(_)) {
            let name = item.sig.ident.to_string();
            self.function(name, &item.sig, &item.block, |this| {
                this.visit_block(&item.block)
            });
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_test(&item.attrs) {
            return;
        }
        let of = self
            .source(&item.self_ty)
            .split('<')
            .next()
            .unwrap_or_default();
        self.names
            .push(of.rsplit(['&', ' ']).next().unwrap_or_default().to_string());
        visit::visit_item_impl(self, item);
        self.names.pop();
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        // A default that is replaced by the default would not end.
        if !is_test(&item.attrs)
            && !matches!(item.sig.safety, syn::Safety::Unsafe(_))
            && item.sig.ident != "default"
        {
            let name = item.sig.ident.to_string();
            self.function(name, &item.sig, &item.block, |this| {
                this.visit_block(&item.block)
            });
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.names.push(item.ident.to_string());
        visit::visit_item_trait(self, item);
        self.names.pop();
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            let name = item.sig.ident.to_string();
            self.function(name, &item.sig, body, |this| this.visit_block(body));
        }
    }

    // What is calculated while compiling has no run time at which a mutant could wake.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_expr_repeat(&mut self, of: &'ast syn::ExprRepeat) {
        self.visit_expr(&of.expr);
    }

    fn visit_stmt(&mut self, of: &'ast syn::Stmt) {
        let is_left_out = match of {
            syn::Stmt::Local(local) => is_test(&local.attrs),
            syn::Stmt::Expr(expr, _) => is_test(attributes(expr)),
            _ => false,
        };
        match is_left_out {
            true => {}
            false if self.has_rows && self.in_function && is_call(of) => self.call(of),
            false => visit::visit_stmt(self, of),
        }
    }

    fn visit_expr(&mut self, of: &'ast Expr) {
        if !self.in_function {
            return visit::visit_expr(self, of);
        }
        match of {
            Expr::Binary(binary) => {
                let (left, right) = (self.source(&*binary.left), self.source(&*binary.right));
                let operator = self.source(&binary.op);
                let others = operators(&binary.op).iter().map(|other| {
                    (
                        format!("`{operator}` by `{other}` in {}", short(self.source(of))),
                        format!("({left}) {other} ({right})"),
                    )
                });
                let others = others.collect();
                self.expression(of, binary.op.span(), others, |this| {
                    visit::visit_expr(this, of)
                });
            }
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_) | UnOp::Neg(_)) => {
                let operand = self.source(&*unary.expr).to_string();
                let what = format!(
                    "`{}` left out in {}",
                    self.source(&unary.op),
                    short(self.source(of))
                );
                self.expression(of, unary.op.span(), vec![(what, operand)], |this| {
                    visit::visit_expr(this, of)
                });
            }
            Expr::Struct(made) if made.rest.is_some() => {
                let whole = of.span().byte_range();
                let others = made.fields.pairs().map(|pair| {
                    let field = pair.value().span().byte_range();
                    let end = pair
                        .punct()
                        .map_or(field.end, |comma| comma.span().byte_range().end);
                    let other = format!(
                        "{}{}",
                        &self.text[whole.start..field.start],
                        &self.text[end..whole.end]
                    );
                    (
                        format!("the field {} left out", self.source(&pair.value().member)),
                        other,
                    )
                });
                let others = others.collect();
                self.expression(of, of.span(), others, |this| visit::visit_expr(this, of));
            }
            Expr::Match(chosen) => {
                self.visit_expr(&chosen.expr);
                let has_other = chosen.arms.iter().any(is_wild);
                for (place, arm) in chosen.arms.iter().enumerate() {
                    let next = chosen.arms.get(place + 1);
                    let other = next.or_else(|| chosen.arms.get(place.checked_sub(1)?));
                    self.arm(arm, has_other, other.map(|other| &*other.body));
                }
            }
            _ => visit::visit_expr(self, of),
        }
    }
}

/// What an operator could be taken for.
fn operators(of: &BinOp) -> &'static [&'static str] {
    match of {
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Lt(_) => &["==", ">", "<="],
        BinOp::Gt(_) => &["==", "<", ">="],
        BinOp::Le(_) => &[">", "<"],
        BinOp::Ge(_) => &["<", ">"],
        BinOp::Add(_) => &["-", "*"],
        BinOp::Sub(_) => &["+", "/"],
        BinOp::Mul(_) => &["+", "/"],
        BinOp::Div(_) => &["%", "*"],
        BinOp::Rem(_) => &["/", "+"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::BitAnd(_) => &["|", "^"],
        BinOp::BitOr(_) => &["&", "^"],
        BinOp::BitXor(_) => &["|", "&"],
        BinOp::AddAssign(_) => &["-=", "*="],
        BinOp::SubAssign(_) => &["+=", "/="],
        BinOp::MulAssign(_) => &["+=", "/="],
        BinOp::DivAssign(_) => &["%=", "*="],
        BinOp::RemAssign(_) => &["/=", "+="],
        BinOp::ShlAssign(_) => &[">>="],
        BinOp::ShrAssign(_) => &["<<="],
        BinOp::BitAndAssign(_) => &["|=", "^="],
        BinOp::BitOrAssign(_) => &["&=", "^="],
        BinOp::BitXorAssign(_) => &["|=", "&="],
        _ => &[],
    }
}

fn on(number: u32) -> String {
    format!("crate::mutants::on({number})")
}

/// Without line breaks, so that the lines of the copy are those of the source.
fn one_line(text: &str) -> String {
    let code = |line: &str| {
        if line.starts_with("//") {
            String::new()
        } else {
            line.split(" // ").next().unwrap_or_default().to_string()
        }
    };
    let lines = text.lines().map(|line| code(line.trim()));
    lines.collect::<Vec<_>>().join(" ").trim().to_string()
}

/// As a reader would name it.
fn short(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words
        .join(" ")
        .replace("::core::default::", "")
        .replace("::alloc::", "");
    let mut text: String = text.to_string();
    if text.chars().count() > 90 {
        text = text.chars().take(87).chain("...".chars()).collect();
    }
    format!("`{text}`")
}

fn is_wild(arm: &syn::Arm) -> bool {
    matches!(arm.pat, syn::Pat::Wild(_))
}

/// Whether a statement only says that names are not used: `let _ = (a, b);`.
fn is_unused(of: &syn::Stmt) -> bool {
    let syn::Stmt::Local(local) = of else {
        return false;
    };
    let is_name = |of: &Expr| matches!(of, Expr::Path(_));
    let is_dropped = local.init.as_ref().is_some_and(|init| match &*init.expr {
        Expr::Tuple(of) => of.elems.iter().all(is_name),
        of => is_name(of),
    });
    is_dropped && matches!(local.pat, syn::Pat::Wild(_))
}

/// Whether a statement calls something or sets it, and no more.
fn is_call(of: &syn::Stmt) -> bool {
    let syn::Stmt::Expr(of, Some(_)) = of else {
        return false;
    };
    let of = match of {
        Expr::Try(of) => &*of.expr,
        of => of,
    };
    matches!(of, Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_))
}

/// Whether something is there for tests alone, or where a feature is off: the copy has them all.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg = attribute.path().is_ident("cfg");
        let is_without = || {
            let list = attribute.parse_args::<syn::MetaList>();
            list.is_ok_and(|list| {
                let of = list.tokens.to_string();
                list.path.is_ident("not") && of.starts_with("feature")
            })
        };
        let is_test = || {
            let path = attribute.parse_args::<syn::Path>();
            path.is_ok_and(|path| path.is_ident("test"))
        };
        attribute.path().is_ident("test") || is_cfg && (is_test() || is_without())
    })
}

fn attributes(of: &Expr) -> &[Attribute] {
    match of {
        Expr::Block(of) => &of.attrs,
        Expr::Call(of) => &of.attrs,
        Expr::MethodCall(of) => &of.attrs,
        Expr::Macro(of) => &of.attrs,
        Expr::Assign(of) => &of.attrs,
        Expr::Binary(of) => &of.attrs,
        Expr::If(of) => &of.attrs,
        Expr::Match(of) => &of.attrs,
        _ => &[],
    }
}
