//! What stands before the names of methods.

use alloc::borrow::Cow;
use alloc::string::String;

/// Text before the names of methods, and what separates it from them: `calc` makes `calc.add`, or `calc_add`
/// with another separator. An empty one adds nothing.
///
/// ```
/// use antiphon::service::Prefix;
/// assert_eq!(Prefix::from("calc").before("add"), "calc.add");
/// assert_eq!(Prefix::separated("calc", "/").before("add"), "calc/add");
/// assert_eq!(Prefix::from("").before("add"), "add");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefix {
    text: Cow<'static, str>,
    /// `None` for the separator that the service declares, or else a dot.
    separator: Option<Cow<'static, str>>,
}

impl Prefix {
    /// Makes a prefix with a separator of your choice.
    pub fn separated(
        text: impl Into<Cow<'static, str>>,
        separator: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            text: text.into(),
            separator: Some(separator.into()),
        }
    }

    /// Makes a prefix whose separator is the declared one.
    pub(super) const fn declared(text: &'static str) -> Self {
        Self {
            text: Cow::Borrowed(text),
            separator: None,
        }
    }

    /// Whether it adds nothing.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the name of a method with the prefix before it.
    pub fn before(&self, method: &str) -> String {
        self.joined(".", method)
    }

    /// Joins the prefix and the name of a method that declares this separator.
    pub(super) fn joined(&self, declared: &str, method: &str) -> String {
        match &*self.text {
            "" => method.into(),
            text => [text, self.separator.as_deref().unwrap_or(declared), method].concat(),
        }
    }

    /// Whether its text cannot be seen.
    pub(super) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }
}

impl From<&str> for Prefix {
    fn from(text: &str) -> Self {
        String::from(text).into()
    }
}

impl From<String> for Prefix {
    fn from(text: String) -> Self {
        Self {
            text: Cow::Owned(text),
            separator: None,
        }
    }
}
