//! Values that interceptors and handlers pass to each other.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::{Any, TypeId};
use core::fmt;

/// A map from types to values, by which interceptors pass values to each other and to handlers.
#[derive(Default)]
pub struct Attributes {
    values: Vec<(TypeId, Box<dyn Any + Send + Sync>)>,
}

impl Attributes {
    /// Makes an empty map.
    pub const fn new() -> Self {
        Self { values: Vec::new() }
    }

    /// Whether there is no value.
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Stores a value, and replaces an earlier one of its type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.remove::<T>();
        self.values.push((TypeId::of::<T>(), Box::new(value)));
    }

    /// Removes the value of a type, and returns it.
    pub fn remove<T: 'static>(&mut self) -> Option<T> {
        let mut ids = self.values.iter().map(|(id, _)| *id);
        let place = ids.position(|id| id == TypeId::of::<T>())?;
        let (_, value) = self.values.swap_remove(place);
        value.downcast().ok().map(|value| *value)
    }

    /// The value of a type, if there is one.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        let found = self.values.iter().find(|(id, _)| *id == TypeId::of::<T>());
        found.and_then(|(_, value)| value.downcast_ref())
    }

    /// The value of a type, to change it.
    pub fn get_mut<T: 'static>(&mut self) -> Option<&mut T> {
        let mut values = self.values.iter_mut();
        let found = values.find(|(id, _)| *id == TypeId::of::<T>());
        found.and_then(|(_, value)| value.downcast_mut())
    }
}

/// Prints only how many values there are, because they may be secrets.
impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attributes")
            .field("len", &self.values.len())
            .finish_non_exhaustive()
    }
}
