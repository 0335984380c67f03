//! The methods of a router, and all that is said of them: names and prefixes, descriptions, extensions, the
//! built-in methods, and the order of interceptors. Every router holds one table, whatever runs its handlers.
//!
//! `H` is what the router runs to serve a method, `R` the request that interceptors see. The table runs
//! nothing, waits for nothing and has no lock. The way of a call:
//!
//! ```text
//! interceptors of the router ─▶ find ─▶ interceptors of the group ─▶ extensions ─▶ built-in ─▶ method
//! ```
//!
//! A group is what was a router of its own, nested under a prefix with its interceptors. An interceptor can
//! replace the method, so the method is found after those of the router, and those of its group follow.

use alloc::vec::Vec;
use core::fmt;

use super::describe::{MethodInfo, ServiceInfo};
use super::extensions::Discovery;
use super::intercept::{Chain, Interceptor};
use super::methods::Implementation;
use super::prefix::Prefix;
use super::registry::{Naming, RegisterError, Registry, ReservedNames};
use crate::config::UnknownParams;

/// The methods of a router by name, each with its handler, and what is said of all of them.
pub(super) struct RoutingTable<H, R: ?Sized> {
    methods: Registry<Route<H, R>>,
    /// The extensions of each provider, by name.
    providers: Vec<Registry<Route<H, R>>>,
    /// How the names of services that are registered from now on are made.
    pub(super) naming: Naming,
    /// What happens to params by names that a method does not have.
    pub(super) unknown_params: Option<UnknownParams>,
    /// What answers the built-in methods; `None` if names that begin with `rpc.` are ordinary names.
    pub(super) discovery: Option<Discovery>,
    /// Whether the program has asked for the built-in methods, so that they are on in every dialect.
    is_asked: bool,
    chain: Chain<R>,
    /// The interceptors of all groups.
    groups: Chain<R>,
}

/// A method: its handler, and what is to be known before it runs.
pub(super) struct Route<H, R: ?Sized> {
    /// What the router runs.
    pub(super) handler: H,
    /// Whether its result is always `null`.
    pub(super) is_notification: bool,
    /// What happens to params by names that the method does not have, if it or its service says so.
    pub(super) unknown_params: Option<UnknownParams>,
    /// The interceptors of its group.
    group: Option<Chain<R>>,
}

type Described<H, R> = (MethodInfo, Route<H, R>);

/// The methods of a router under the names that another one gives them, and the interceptors of all of them.
type Nested<H, R> = (Vec<Described<H, R>>, Chain<R>);

/// What serves a method, in the order in which it is asked: extensions, the router itself, the program.
#[derive(Debug)]
pub(super) struct Found<T> {
    /// The extensions of its name. One that fails with *method not found* passes the call on.
    pub(super) extensions: Vec<T>,
    /// Whether the router answers it, with [`RoutingTable::discovery`], if no extension does.
    pub(super) is_built_in: bool,
    /// The method of the program.
    pub(super) method: Option<T>,
    /// What the router says about params by names that a method does not have.
    pub(super) unknown_params: Option<UnknownParams>,
}

impl<H, R: ?Sized + 'static> RoutingTable<H, R> {
    /// Makes a table without methods. The built-in methods are on, except in dialects that have no
    /// [`system_extensions`](crate::Dialect::system_extensions).
    pub(super) fn new() -> Self {
        Self {
            methods: Registry::new(),
            providers: Vec::new(),
            naming: Naming::Simple,
            unknown_params: None,
            discovery: Some(Discovery::default()),
            is_asked: false,
            chain: Chain::default(),
            groups: Chain::default(),
        }
    }

    /// Registers a method.
    ///
    /// # Errors
    /// The name or the names of its parameters cannot be used.
    pub(super) fn insert(&mut self, info: MethodInfo, handler: H) -> Result<(), RegisterError> {
        let route = Route::new(&info, handler);
        self.methods.insert(info, route)
    }

    /// Registers a method, and returns the one that it replaces.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), but the name may be taken.
    pub(super) fn replace(
        &mut self,
        info: MethodInfo,
        handler: H,
    ) -> Result<Option<Route<H, R>>, RegisterError> {
        let route = Route::new(&info, handler);
        self.methods.replace(info, route)
    }

    /// Removes a method, and returns it.
    pub(super) fn remove(&mut self, name: &str) -> Option<Route<H, R>> {
        self.methods.remove(name)
    }

    /// Whether a method is registered under a name.
    pub(super) fn serves(&self, name: &str) -> bool {
        self.methods.get(name).is_some()
    }

    /// Registers all methods of a service, or none. `handlers` makes of the service a function that returns
    /// the handler of the method at an index.
    ///
    /// # Errors
    /// A name is taken, blank or reserved.
    pub(super) fn insert_service<X, F: Fn(usize) -> H>(
        &mut self,
        service: Implementation<X>,
        info: &ServiceInfo,
        handlers: impl FnOnce(X) -> F,
    ) -> Result<(), RegisterError> {
        let routes = self.routes_of(service, info, handlers)?;
        self.methods.insert_all(routes)
    }

    /// Registers the methods of a service as extensions, as [`insert_extension`](Self::insert_extension) does.
    ///
    /// # Errors
    /// A name does not begin with `rpc.`.
    pub(super) fn insert_provider<X, F: Fn(usize) -> H>(
        &mut self,
        service: Implementation<X>,
        info: &ServiceInfo,
        handlers: impl FnOnce(X) -> F,
    ) -> Result<(), RegisterError> {
        let routes = self.routes_of(service, info, handlers)?;
        self.push_provider(routes)
    }

    /// Registers an extension. It is asked after those that were registered before.
    ///
    /// # Errors
    /// Its name does not begin with `rpc.`.
    pub(super) fn insert_extension(
        &mut self,
        info: MethodInfo,
        handler: H,
    ) -> Result<(), RegisterError> {
        let route = Route::new(&info, handler);
        self.push_provider(Vec::from([(info, route)]))
    }

    /// Returns the methods of this router as another one serves them under a prefix. `handler` makes the handlers of
    /// the other router.
    ///
    /// # Errors
    /// This router has extensions, or the prefix is blank.
    pub(super) fn nested<G>(
        &self,
        prefix: &Prefix,
        handler: impl Fn(&H) -> G,
    ) -> Result<Nested<G, R>, RegisterError> {
        if !self.providers.is_empty() {
            return Err(RegisterError::NestedExtensions);
        }
        if prefix.is_blank() && !prefix.is_empty() {
            return Err(RegisterError::BlankPrefix);
        }
        let nested = self.methods.entries().map(|(info, route)| {
            let mut group = self.chain.clone();
            if let Some(own) = &route.group {
                group.extend(own);
            }
            let route = Route {
                handler: handler(&route.handler),
                is_notification: route.is_notification,
                unknown_params: route.unknown_params.or(self.unknown_params),
                group: (!group.is_empty()).then_some(group),
            };
            (info.clone().with_name(prefix.before(info.name())), route)
        });
        let mut groups = self.chain.clone();
        groups.extend(&self.groups);
        Ok((nested.collect(), groups))
    }

    /// Adds the methods of another router, with its interceptors, which are called after those of this router and
    /// only for these methods.
    ///
    /// # Errors
    /// A name cannot be used. Nothing is added then.
    pub(super) fn insert_nested(
        &mut self,
        (routes, groups): Nested<H, R>,
    ) -> Result<(), RegisterError> {
        self.methods.insert_all(routes)?;
        self.groups.extend(&groups);
        Ok(())
    }

    /// Adds an interceptor after the others. It sees every call.
    pub(super) fn intercept(&mut self, interceptor: impl Interceptor<R>) {
        self.chain.push(interceptor);
    }

    /// Sets what answers the built-in methods, on in every dialect, and returns what did before. `None`
    /// switches all extensions off, and lets methods have names that begin with `rpc.`.
    pub(super) fn set_discovery(&mut self, discovery: Option<Discovery>) -> Option<Discovery> {
        self.is_asked = true;
        if discovery.is_none() != self.discovery.is_none() {
            self.methods.take_reserved(discovery.is_none());
        }
        core::mem::replace(&mut self.discovery, discovery)
    }

    /// Sets whether methods may have names that begin with `rpc.` while there are extensions.
    pub(super) fn set_reserved_names(&mut self, reserved: ReservedNames) {
        let takes = reserved == ReservedNames::Allow || self.discovery.is_none();
        self.methods.take_reserved(takes);
    }

    /// Finds what serves a method. `has_extensions` says whether the connection's dialect has extensions.
    pub(super) fn find(&self, method: &str, has_extensions: bool) -> Found<&Route<H, R>> {
        let mut found = Found {
            extensions: Vec::new(),
            is_built_in: false,
            method: self.methods.get(method),
            unknown_params: self.unknown_params,
        };
        if let (true, Some(discovery)) = (is_reserved(method), &self.discovery) {
            let providers = self.providers.iter();
            found.extensions = providers.filter_map(|all| all.get(method)).collect();
            found.is_built_in = (has_extensions || self.is_asked) && discovery.answers(method);
        }
        found
    }

    /// The interceptors that see a call first; `None` if no interceptor sees a call of what was found, or is
    /// asked which methods it shows.
    pub(super) fn chain(&self, found: &Found<&Route<H, R>>) -> Option<&Chain<R>> {
        let in_group = match found.is_built_in {
            true => !self.groups.is_empty(),
            false => found.method.is_some_and(|route| route.group.is_some()),
        };
        (in_group || !self.chain.is_empty()).then_some(&self.chain)
    }

    /// The interceptors that see connections begin and end: those of the router and of its groups. `None` if
    /// there are none.
    pub(super) fn everywhere(&self) -> Option<Chain<R>> {
        let mut all = self.chain.clone();
        all.enter(Some(&self.groups));
        (!self.chain.is_empty() || !self.groups.is_empty()).then_some(all)
    }

    /// The descriptions of all methods, sorted by name.
    pub(super) fn infos(&self) -> impl Iterator<Item = &MethodInfo> {
        self.methods.infos()
    }

    /// The descriptions of all methods, sorted by name, each with the interceptors of its group.
    pub(super) fn listed(&self) -> impl Iterator<Item = (&MethodInfo, Option<&Chain<R>>)> {
        let entries = self.methods.entries();
        entries.map(|(info, route)| (info, route.group.as_ref()))
    }

    fn routes_of<X, F: Fn(usize) -> H>(
        &self,
        service: Implementation<X>,
        info: &ServiceInfo,
        handlers: impl FnOnce(X) -> F,
    ) -> Result<Vec<Described<H, R>>, RegisterError> {
        let (methods, named) = service.named(info, &self.naming)?;
        let handlers = handlers(methods);
        let routes = named.into_iter().enumerate().map(|(place, info)| {
            let route = Route::new(&info, handlers(place));
            (info, route)
        });
        Ok(routes.collect())
    }

    fn push_provider(&mut self, routes: Vec<Described<H, R>>) -> Result<(), RegisterError> {
        let mut names = routes.iter().map(|(info, _)| info.name());
        if let Some(name) = names.find(|name| !is_reserved(name)) {
            return Err(RegisterError::NotReserved(name.into()));
        }
        let mut provider = Registry::reserved();
        provider.insert_all(routes)?;
        self.providers.push(provider);
        Ok(())
    }
}

impl<H, R: ?Sized> Route<H, R> {
    fn new(info: &MethodInfo, handler: H) -> Self {
        Self {
            handler,
            is_notification: info.is_notification(),
            unknown_params: info.unknown_params(),
            group: None,
        }
    }

    /// The interceptors of its group, for [`Chain::enter`].
    pub(super) fn group(&self) -> Option<&Chain<R>> {
        self.group.as_ref()
    }
}

impl<H: Clone, R: ?Sized> Clone for Route<H, R> {
    fn clone(&self) -> Self {
        Self {
            handler: self.handler.clone(),
            group: self.group.clone(),
            ..*self
        }
    }
}

impl<T> Found<T> {
    /// Whether anything serves the method.
    pub(super) fn is_some(&self) -> bool {
        self.method.is_some() || self.is_built_in || !self.extensions.is_empty()
    }
}

impl<T: Clone> Found<&T> {
    /// Copies what was found, for a router that has a lock on the table.
    pub(super) fn cloned(self) -> Found<T> {
        Found {
            extensions: self.extensions.into_iter().cloned().collect(),
            is_built_in: self.is_built_in,
            method: self.method.cloned(),
            unknown_params: self.unknown_params,
        }
    }
}

/// Whether a method has the name of an extension. JSON-RPC 2.0 §8.
fn is_reserved(method: &str) -> bool {
    method.starts_with("rpc.")
}

/// Writes the names of the methods.
impl<H, R: ?Sized + 'static> fmt::Debug for RoutingTable<H, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.infos().map(MethodInfo::name);
        f.debug_set().entries(names).finish()
    }
}
