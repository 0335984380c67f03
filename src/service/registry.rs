//! The methods of a server, by name.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::describe::{MethodInfo, ServiceInfo, StreamRole};
use super::prefix::Prefix;

/// How the names under which a service's methods are registered are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// The bare name: `add`.
    #[default]
    Simple,
    /// A prefix: `calc.add`.
    Prefixed(Prefix),
    /// The name of the service: `Calculator.add`.
    FullyQualified,
}

impl Naming {
    /// Returns the name under which a method of a service is registered.
    ///
    /// # Errors
    /// [`RegisterError::BlankPrefix`] for a prefix without text.
    pub fn name(&self, service: &str, method: &str) -> Result<String, RegisterError> {
        self.name_with(".", service, method)
    }

    /// Returns the name with this text after the prefix or the name of the service.
    fn name_with(
        &self,
        separator: &str,
        service: &str,
        method: &str,
    ) -> Result<String, RegisterError> {
        match self {
            Self::Simple => Ok(method.into()),
            Self::Prefixed(prefix) if prefix.is_blank() => Err(RegisterError::BlankPrefix),
            Self::Prefixed(prefix) => Ok(prefix.joined(separator, method)),
            Self::FullyQualified => Ok(Prefix::from(service).joined(separator, method)),
        }
    }
}

/// Whether methods of a program may have names that begin with `rpc.`, which JSON-RPC 2.0 §8 reserves
/// for extensions, while a router serves extensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReservedNames {
    /// They may not: registering one fails as [`RegisterError::Reserved`].
    #[default]
    Deny,
    /// They may. A method is called if no extension of its name answers.
    Allow,
}

impl ServiceInfo {
    /// Returns its methods with the names under which they are registered: with `prefix`, else with
    /// its declared prefix, else as `naming` says.
    ///
    /// # Errors
    /// The prefix is blank.
    pub fn named(
        &self,
        prefix: Option<Prefix>,
        naming: &Naming,
    ) -> Result<Vec<MethodInfo>, RegisterError> {
        let own;
        let naming = match (prefix, self.prefix) {
            (None, "") => naming,
            (prefix, declared) => {
                own = Naming::Prefixed(prefix.unwrap_or(Prefix::declared(declared)));
                &own
            }
        };
        let methods = self.methods.iter();
        let named = methods.map(|info| {
            if !matches!(info.stream(), None | Some(StreamRole::Flow)) {
                // Its style has the names.
                return Ok(info.clone());
            }
            let name = naming.name_with(info.separator(), self.name, info.name())?;
            Ok(info.clone().with_name(name))
        });
        named.collect()
    }
}

/// Methods by name, each with its handler.
///
/// ```
/// use antiphon::service::{MethodInfo, RegisterError, Registry};
/// let mut registry = Registry::new();
/// registry.insert(MethodInfo::request("add", &[]), 1)?;
/// assert!(matches!(registry.insert(MethodInfo::request("add", &[]), 2), Err(RegisterError::Taken(_))));
/// assert_eq!(registry.get("add"), Some(&1));
/// # Ok::<(), RegisterError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Registry<H> {
    methods: BTreeMap<String, (MethodInfo, H)>,
    /// Whether names that begin with `rpc.` may be registered.
    takes_reserved: bool,
}

impl<H> Default for Registry<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H> Registry<H> {
    /// Makes a registry without methods.
    pub const fn new() -> Self {
        Self {
            methods: BTreeMap::new(),
            takes_reserved: false,
        }
    }

    /// Makes a registry that also takes names that begin with `rpc.`.
    pub const fn reserved() -> Self {
        Self {
            methods: BTreeMap::new(),
            takes_reserved: true,
        }
    }

    /// Sets whether names that begin with `rpc.` may be registered: for a server without
    /// extensions.
    pub fn take_reserved(&mut self, takes_reserved: bool) {
        self.takes_reserved = takes_reserved;
    }

    /// Registers a method.
    ///
    /// # Errors
    /// The name or the names of the parameters are not valid, or the name is taken; then the
    /// registry is unchanged.
    pub fn insert(&mut self, info: MethodInfo, handler: H) -> Result<(), RegisterError> {
        self.check(&info)?;
        if self.methods.contains_key(info.name()) {
            return Err(RegisterError::Taken(info.name().into()));
        }
        self.methods.insert(info.name().into(), (info, handler));
        Ok(())
    }

    /// Registers several methods, all or none.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); nothing is registered then.
    pub fn insert_all(&mut self, methods: Vec<(MethodInfo, H)>) -> Result<(), RegisterError> {
        for (place, (info, _)) in methods.iter().enumerate() {
            self.check(info)?;
            let mut before = methods.iter().take(place).map(|(info, _)| info.name());
            if self.methods.contains_key(info.name()) || before.any(|name| name == info.name()) {
                return Err(RegisterError::Taken(info.name().into()));
            }
        }
        let methods = methods.into_iter();
        self.methods
            .extend(methods.map(|(info, handler)| (info.name().into(), (info, handler))));
        Ok(())
    }

    /// Registers a method, and replaces the one that has its name. Returns the handler of the
    /// replaced method.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), but the name may be taken.
    pub fn replace(&mut self, info: MethodInfo, handler: H) -> Result<Option<H>, RegisterError> {
        self.check(&info)?;
        let before = self.methods.insert(info.name().into(), (info, handler));
        Ok(before.map(|(_, handler)| handler))
    }

    /// Removes a method, and returns its handler.
    pub fn remove(&mut self, name: &str) -> Option<H> {
        self.methods.remove(name).map(|(_, handler)| handler)
    }

    /// Returns the handler of a method.
    pub fn get(&self, name: &str) -> Option<&H> {
        self.methods.get(name).map(|(_, handler)| handler)
    }

    /// Returns the descriptions of all methods, sorted by name.
    pub fn infos(&self) -> impl Iterator<Item = &MethodInfo> {
        self.entries().map(|(info, _)| info)
    }

    /// Returns all methods, sorted by name.
    pub fn entries(&self) -> impl Iterator<Item = (&MethodInfo, &H)> {
        self.methods.values().map(|(info, handler)| (info, handler))
    }

    fn check(&self, info: &MethodInfo) -> Result<(), RegisterError> {
        let name = info.name();
        if name.trim().is_empty() {
            return Err(RegisterError::BlankName);
        }
        if name.starts_with("rpc.") && !self.takes_reserved {
            return Err(RegisterError::Reserved(name.into()));
        }
        let params = info.params();
        for (place, param) in params.iter().enumerate() {
            if param.name().trim().is_empty() {
                return Err(RegisterError::BlankParam(name.into()));
            }
            let before = params.iter().take(place);
            if before
                .map(|other| other.name())
                .any(|other| other == param.name())
            {
                return Err(RegisterError::RepeatedParam(name.into(), param.name()));
            }
        }
        Ok(())
    }
}

/// Why a method was not registered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name is blank.
    BlankName,
    /// The prefix is blank.
    BlankPrefix,
    /// Another method has this name.
    Taken(String),
    /// Names that begin with `rpc.` are reserved for extensions. JSON-RPC 2.0 §8.
    Reserved(String),
    /// An extension's name does not begin with `rpc.`.
    NotReserved(String),
    /// A nested router has extensions, which only the outer router can have.
    NestedExtensions,
    /// The router has a hub of topics already. The second one would never be asked.
    SecondHub,
    /// A parameter of this method has a blank name.
    BlankParam(String),
    /// Two parameters of this method have the same name.
    RepeatedParam(String, &'static str),
    /// The handler of this method takes as many parameters as the first number, but the second is
    /// how many names were given.
    WrongNumberOfNames(String, usize, usize),
    /// The handler of this method takes all params as one argument, and single parameters too.
    WholeAndParts(String),
    /// This method is described with other parameters than its handler takes, or in another order.
    OtherParams(String),
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlankName => f.write_str("a method needs a name"),
            Self::BlankPrefix => f.write_str("a prefix needs text"),
            Self::Taken(name) => write!(
                f,
                "a method `{name}` is registered already: give its service a prefix, or use qualified names"
            ),
            Self::Reserved(name) => write!(
                f,
                "`{name}` begins with `rpc.`, which is reserved; allow reserved names or switch the extensions off to use it"
            ),
            Self::NotReserved(name) => write!(
                f,
                "`{name}` does not begin with `rpc.`, as the names of extensions do"
            ),
            Self::NestedExtensions => {
                f.write_str("a nested router has extensions: add them to the outer one")
            }
            Self::SecondHub => {
                f.write_str("the router has a hub already: it serves the topics of one")
            }
            Self::BlankParam(name) => write!(f, "a parameter of `{name}` needs a name"),
            Self::RepeatedParam(name, param) => {
                write!(f, "two parameters of `{name}` have the name `{param}`")
            }
            Self::WrongNumberOfNames(name, takes, named) => write!(
                f,
                "the handler of `{name}` takes {takes} parameters, and {named} are named"
            ),
            Self::WholeAndParts(name) => write!(
                f,
                "the handler of `{name}` takes all params as `Params`, and others beside them"
            ),
            Self::OtherParams(name) => write!(
                f,
                "`{name}` is described with other parameters than its handler takes"
            ),
        }
    }
}

impl core::error::Error for RegisterError {}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::{Naming, RegisterError, Registry};
    use crate::service::{MethodInfo, ParamInfo};

    const A: ParamInfo = ParamInfo::of::<u8>("a");
    const BLANK: ParamInfo = ParamInfo::of::<u8>(" ");

    // SRV-04 SRV-11 SRV-12 GEN-13
    #[test]
    fn names_that_cannot_be_used_are_refused() {
        let mut registry = Registry::new();
        let add = MethodInfo::request("add", &[A]);
        assert_eq!(registry.insert(add.clone(), 1), Ok(()));
        let taken = registry.insert(add.clone(), 2).unwrap_err();
        assert!(taken.to_string().contains("`add`") && taken.to_string().contains("prefix"));
        assert_eq!(registry.get("add"), Some(&1));
        assert_eq!(registry.replace(add, 3), Ok(Some(1)));
        let mut refused = |info: MethodInfo| registry.insert(info, 9).unwrap_err();
        assert_eq!(
            refused(MethodInfo::request(" ", &[])),
            RegisterError::BlankName
        );
        let blank = MethodInfo::request("m", &[A, BLANK]);
        assert_eq!(refused(blank), RegisterError::BlankParam("m".into()));
        let twice = MethodInfo::request("m", &[A, A]);
        assert_eq!(
            refused(twice),
            RegisterError::RepeatedParam("m".into(), "a")
        );
        let reserved = MethodInfo::request("rpc.x", &[]);
        assert_eq!(
            refused(reserved.clone()),
            RegisterError::Reserved("rpc.x".into())
        );
        registry.take_reserved(true);
        assert_eq!(registry.insert(reserved, 4), Ok(()));
        assert_eq!(registry.remove("rpc.x"), Some(4));
        assert_eq!(registry.get("rpc.x"), None);
    }

    // SRV-10
    #[test]
    fn a_name_is_bare_prefixed_or_qualified() {
        let prefixed = Naming::Prefixed("calc".into());
        assert_eq!(Naming::Simple.name("Calculator", "add").unwrap(), "add");
        assert_eq!(prefixed.name("Calculator", "add").unwrap(), "calc.add");
        assert_eq!(
            Naming::FullyQualified.name("Calculator", "add").unwrap(),
            "Calculator.add"
        );
        let blank = Naming::Prefixed(" ".into()).name("Calculator", "add");
        assert_eq!(blank, Err(RegisterError::BlankPrefix));
    }
}
