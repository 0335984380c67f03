//! The interface of typed clients to a peer, a client or a batch.

use alloc::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::errors::RpcError;
use super::prefix::Prefix;
use crate::encode::Payload;
use crate::json::is_none;
use crate::subscription::Style;

/// How a typed client sends params.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// As an object, by name.
    #[default]
    ByName,
    /// As an array, by position.
    ByPosition,
}

/// Sends the calls and notifications of typed clients. Adapters implement it for their peers,
/// clients and batches.
pub trait Caller {
    /// A call that has been made: a future, a handle, an entry of a batch.
    type Call<'c, R, E>
    where
        Self: 'c,
        R: DeserializeOwned + 'c,
        E: RpcError + 'c;
    /// The value that reports whether a notification was sent.
    type Notified<'c>
    where
        Self: 'c;

    /// The encoding that the protocol demands, if it does: JSON-RPC 1.0 has params by position only.
    fn encoding(&self) -> Option<Encoding> {
        None
    }

    /// Calls a method.
    fn start<'c, R, E>(
        &'c self,
        method: Cow<'c, str>,
        params: impl Payload,
    ) -> Self::Call<'c, R, E>
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c;

    /// Sends a notification.
    fn tell<'c>(&'c self, method: Cow<'c, str>, params: impl Payload) -> Self::Notified<'c>;
}

/// A caller that can subscribe to streams of events and read flows: a peer or a client, but no batch.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot subscribe",
    label = "a peer and a client can, an entry of a batch cannot"
)]
pub trait StreamCaller: Caller {
    /// A subscription that is not made yet: a future of a stream of `T`.
    type Subscribe<T: DeserializeOwned>;

    /// Subscribes to a stream, whose methods `style` names.
    fn subscribe<T: DeserializeOwned>(
        &self,
        style: Style,
        params: impl Payload,
    ) -> Self::Subscribe<T>;

    /// A [flow](crate::flow) that is not opened yet: a stream of `T`.
    type Flow<T: DeserializeOwned>;

    /// Returns the flow that a method opens.
    fn flow<T: DeserializeOwned>(
        &self,
        method: Cow<'_, str>,
        params: impl Payload,
    ) -> Self::Flow<T>;
}

impl<C: StreamCaller> StreamCaller for &C {
    type Subscribe<T: DeserializeOwned> = C::Subscribe<T>;

    fn subscribe<T: DeserializeOwned>(
        &self,
        style: Style,
        params: impl Payload,
    ) -> C::Subscribe<T> {
        (**self).subscribe(style, params)
    }

    type Flow<T: DeserializeOwned> = C::Flow<T>;

    fn flow<T: DeserializeOwned>(&self, method: Cow<'_, str>, params: impl Payload) -> C::Flow<T> {
        (**self).flow(method, params)
    }
}

/// A reference to a caller is a caller too.
impl<C: Caller> Caller for &C {
    type Call<'c, R, E>
        = C::Call<'c, R, E>
    where
        Self: 'c,
        R: DeserializeOwned + 'c,
        E: RpcError + 'c;
    type Notified<'c>
        = C::Notified<'c>
    where
        Self: 'c;

    fn encoding(&self) -> Option<Encoding> {
        (**self).encoding()
    }

    fn start<'c, R, E>(&'c self, method: Cow<'c, str>, params: impl Payload) -> C::Call<'c, R, E>
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c,
    {
        (**self).start(method, params)
    }

    fn tell<'c>(&'c self, method: Cow<'c, str>, params: impl Payload) -> C::Notified<'c> {
        (**self).tell(method, params)
    }
}

/// The shared part of all generated clients: the [`Caller`], the encoding of params, and the prefix
/// of method names.
#[derive(Clone, Debug)]
pub struct Stub<C> {
    caller: C,
    encoding: Encoding,
    prefix: Prefix,
    separator: &'static str,
}

impl<C: Caller> Stub<C> {
    /// Makes a stub that sends params by name through `caller`.
    pub fn new(caller: C, prefix: &'static str) -> Self {
        Self {
            caller,
            encoding: Encoding::ByName,
            prefix: Prefix::declared(prefix),
            separator: ".",
        }
    }

    /// Sets how params are sent, unless the caller demands an [encoding](Caller::encoding).
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// Sets the prefix of the methods' names; an empty one adds nothing.
    pub fn with_prefix(mut self, prefix: impl Into<Prefix>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets what stands between the prefix and the name of a method, instead of a dot.
    pub fn with_separator(mut self, separator: &'static str) -> Self {
        self.separator = separator;
        self
    }

    /// Calls a method with these arguments, whose names are `names`.
    pub fn call<'c, R, E>(
        &'c self,
        method: &'static str,
        names: &'static [&'static str],
        values: &impl Values,
    ) -> C::Call<'c, R, E>
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c,
    {
        let params = self.params(names, values);
        self.caller.start(self.name(method), params.as_ref())
    }

    /// Sends a notification.
    pub fn notify<'c>(
        &'c self,
        method: &'static str,
        names: &'static [&'static str],
        values: &impl Values,
    ) -> C::Notified<'c> {
        let params = self.params(names, values);
        self.caller.tell(self.name(method), params.as_ref())
    }

    /// Subscribes to a stream with these arguments, whose names are `names`. The methods of `style` get no prefix.
    pub fn subscribe<T: DeserializeOwned>(
        &self,
        style: Style,
        names: &'static [&'static str],
        values: &impl Values,
    ) -> C::Subscribe<T>
    where
        C: StreamCaller,
    {
        let params = self.params(names, values);
        self.caller.subscribe(style, params.as_ref())
    }

    /// Returns the flow that a method opens, with these arguments, whose names are `names`.
    pub fn flow<T: DeserializeOwned>(
        &self,
        method: &'static str,
        names: &'static [&'static str],
        values: &impl Values,
    ) -> C::Flow<T>
    where
        C: StreamCaller,
    {
        let params = self.params(names, values);
        self.caller.flow(self.name(method), params.as_ref())
    }

    fn name(&self, method: &'static str) -> Cow<'_, str> {
        match self.prefix.is_empty() {
            true => Cow::Borrowed(method),
            false => Cow::Owned(self.prefix.joined(self.separator, method)),
        }
    }

    fn params<'v, V: Values>(
        &self,
        names: &'static [&'static str],
        values: &'v V,
    ) -> Option<Named<'v, V>> {
        (!names.is_empty()).then(|| Named {
            names,
            values,
            encoding: self.caller.encoding().unwrap_or(self.encoding),
        })
    }
}

/// Arguments and their names, to be serialized in an encoding.
pub(super) struct Named<'v, V> {
    pub(super) names: &'static [&'static str],
    pub(super) values: &'v V,
    pub(super) encoding: Encoding,
}

impl<V: Values> Serialize for Named<'_, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.encoding {
            Encoding::ByName => {
                let mut map = serializer.serialize_map(None)?;
                self.values.write_named(self.names, &mut map)?;
                map.end()
            }
            Encoding::ByPosition => {
                let mut seq = serializer.serialize_seq(None)?;
                self.values.write_in_order(&mut seq)?;
                seq.end()
            }
        }
    }
}

/// The arguments of a call: a tuple of references to values.
///
/// An argument that is `None` is left out, because many servers accept no `null` for it. To send `null`,
/// give the parameter the type `Option<Option<T>>`: its `Some(None)` is `null`.
pub trait Values {
    /// Writes each value with its name, except those that are `None`.
    ///
    /// # Errors
    /// An error of `map`.
    fn write_named<M: SerializeMap>(
        &self,
        names: &[&'static str],
        map: &mut M,
    ) -> Result<(), M::Error>;

    /// Writes the values in their order, up to the last that is not `None`. One before it that is `None`
    /// is written as `null`, because it cannot be left out.
    ///
    /// # Errors
    /// An error of `seq`.
    fn write_in_order<Q: SerializeSeq>(&self, seq: &mut Q) -> Result<(), Q::Error>;
}

macro_rules! tuples {
    ($($value:ident $place:tt),*) => {
        impl<$($value: Serialize),*> Values for ($($value,)*) {
            #[allow(unused_variables)]
            fn write_named<M: SerializeMap>(
                &self,
                names: &[&'static str],
                map: &mut M,
            ) -> Result<(), M::Error> {
                $(if !is_none(&self.$place) {
                    map.serialize_entry(names.get($place).copied().unwrap_or_default(), &self.$place)?;
                })*
                Ok(())
            }

            #[allow(unused_variables)]
            fn write_in_order<Q: SerializeSeq>(&self, seq: &mut Q) -> Result<(), Q::Error> {
                let are_none: &[bool] = &[$(is_none(&self.$place)),*];
                let len = are_none.iter().rposition(|is_none| !is_none).map_or(0, |last| last + 1);
                $(if $place < len {
                    seq.serialize_element(&self.$place)?;
                })*
                Ok(())
            }
        }
    };
}

tuples!();
tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
