//! The ids of our own calls: the next one, and the call to which an id belongs.

use super::Connection;
use super::commands::SendError;
use crate::calls::Calls;
use crate::config::Settings;
use crate::id::{Id, IdScheme, OwnedId};
use crate::json::{Json, JsonKind, TextFlags};
use crate::target::rare;

impl<T, S: Settings> Connection<T, S> {
    /// Returns the number of the next call, whose id is `id` if the caller chose one.
    #[inline]
    pub(super) fn next_call(&mut self, id: Option<Id<'_>>) -> Result<u64, SendError> {
        // Nearly always there is a free slot close by.
        match self.calls.reserve_next(self.config.limits.max_open_calls) {
            Some(number) if id.is_none() => Ok(number),
            _ => {
                rare();
                self.search_call(id)
            }
        }
    }

    /// Does what `next_call` does, also if the caller chose an id or the next free slot is far.
    #[inline(never)]
    fn search_call(&mut self, id: Option<Id<'_>>) -> Result<u64, SendError> {
        if self.calls.open() >= self.config.limits.max_open_calls {
            return Err(SendError::TooManyCalls);
        }
        if let Some(id) = id {
            match id.kind() {
                JsonKind::String | JsonKind::Number => {}
                JsonKind::Null if self.config.dialect.allow_null_id => {}
                _ => return Err(SendError::IdNotAllowed),
            }
            if self.find_call(id).is_some() {
                return Err(SendError::IdInUse);
            }
        }
        let max_number = self.config.dialect.id_scheme.max_number();
        let mut number = self
            .calls
            .reserve(self.config.limits.max_open_calls, max_number)
            .ok_or(SendError::IdsUsedUp)?;
        // A generated id must differ from the ids that callers chose for calls that are still open.
        while id.is_none() && self.calls.has_names() && self.is_named(number) {
            self.calls.skip(number);
            number = self
                .calls
                .reserve(self.config.limits.max_open_calls, max_number)
                .ok_or(SendError::IdsUsedUp)?;
        }
        Ok(number)
    }

    /// Whether the id generated for call `number` is one that a caller chose for an open call.
    fn is_named(&self, number: u64) -> bool {
        let mut text = alloc::vec::Vec::new();
        self.config.dialect.id_scheme.write(number, &mut text);
        let text = core::str::from_utf8(&text).unwrap_or_default();
        Id::new(Json::from_scanned(text, TextFlags::NONE))
            .is_some_and(|id| self.calls.named(id).is_some())
    }

    /// Returns the open call to which an id in a message belongs.
    pub(super) fn find_call(&self, id: Id<'_>) -> Option<u64> {
        if !Calls::<T>::POSSIBLE {
            return None;
        }
        let has_names = self.calls.has_names();
        if has_names {
            if let Some(number) = self.calls.named(id) {
                return Some(number);
            }
        }
        let number = self.config.dialect.id_scheme.read(id.json())?;
        let is_named = has_names && self.calls.name_of(number).is_some();
        (self.calls.is_open(number) && !is_named).then_some(number)
    }

    /// The id of the next call, if the configuration has a generator of its own.
    pub(super) fn generated_id(&mut self) -> Option<OwnedId> {
        let IdScheme::Custom(make) = self.config.dialect.id_scheme else {
            return None;
        };
        let mut id = make(self.calls.next());
        for _ in 0..self.calls.open() {
            if self.find_call(id.as_id()).is_none() {
                break;
            }
            self.calls.skip(self.calls.next());
            id = make(self.calls.next());
        }
        Some(id)
    }
}
