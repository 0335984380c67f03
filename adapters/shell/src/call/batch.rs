//! A batch that is being built, without its connection.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use antiphon::{Batch, CallId, Encoded, Handle as Entry, OwnedId, Payload, SendError};
use serde::Serialize;

use crate::call::call_request::{CallRequest, put_headers};
use crate::slot::NAMES;
use crate::text::Text;

/// The number of the next batch. It distinguishes the calls of one batch from those of others.
static BATCHES: AtomicU32 = AtomicU32::new(0);

/// Collects the entries of one batch. No connection is involved before it is sent.
pub struct BatchBuilder(RefCell<Entries>);

/// The entries of one batch.
pub(crate) struct Entries {
    /// Distinguishes the batch from others.
    number: u32,
    /// How many of the entries are calls.
    calls: u64,
    /// The params, one after another.
    text: Text,
    /// The methods, one after another.
    methods: String,
    entries: Vec<StoredEntry>,
    /// Headers for the batch's request, over HTTP.
    headers: Vec<(String, String)>,
}

/// An entry: where its method is in `methods`, and where its params are in `text`.
struct StoredEntry {
    method: Range<usize>,
    params: Range<usize>,
    /// `None` for a notification.
    name: Option<CallId>,
    /// The id, if the caller chose one.
    id: Option<OwnedId>,
}

/// One entry of a batch that is to be sent.
pub(crate) struct Item<'b> {
    pub(crate) method: &'b str,
    pub(crate) params: Encoded<'b>,
    pub(crate) name: Option<CallId>,
    pub(crate) id: Option<&'b OwnedId>,
}

impl Item<'_> {
    /// Adds the call to a batch that is being sent.
    pub(crate) fn add_to<T>(self, batch: &mut Batch<'_, T>, tag: T) -> Result<CallId, SendError> {
        let added = match self.id {
            None => batch.call::<()>(self.method, self.params, tag),
            Some(id) => batch.call_with_id(id.as_id(), self.method, self.params, tag),
        };
        added.map(|entry| entry.call()).map_err(SendError::from)
    }
}

impl BatchBuilder {
    /// Builds a batch.
    pub(crate) fn build<H>(
        build: impl FnOnce(&Self) -> Result<H, SendError>,
    ) -> Result<(H, Entries), SendError> {
        let number = BATCHES.fetch_add(1, Ordering::Relaxed);
        let batch = Self(RefCell::new(Entries::new(number)));
        let handles = build(&batch)?;
        Ok((handles, batch.0.into_inner()))
    }

    /// Adds a call whose result is to be decoded into `R`.
    ///
    /// # Errors
    /// The params have no JSON form. The entries before this one stay. Other reasons why the call
    /// cannot be sent are returned when the batch is sent.
    pub fn call<R>(&self, method: &str, params: impl Payload) -> Result<Entry<R>, SendError> {
        self.add_call(method, params, None)
    }

    /// Adds a call with an id that the caller chose: a string or a number. When the batch is sent, it
    /// is refused as [`SendError::IdInUse`] if two of its calls have the same id, or if another call
    /// with this id is open.
    ///
    /// # Errors
    /// See [`call`](Self::call).
    pub fn call_with_id<R>(
        &self,
        id: impl Into<OwnedId>,
        method: &str,
        params: impl Payload,
    ) -> Result<Entry<R>, SendError> {
        self.add_call(method, params, Some(id.into()))
    }

    /// Adds a list of calls, each with its method and params, whose results have one type. Returns
    /// their handles in the same order.
    ///
    /// ```no_run
    /// # async fn example(peer: antiphon_shell::Peer) -> Result<(), antiphon_shell::CallError> {
    /// let list = [("price", ["BTC"]), ("price", ["ETH"])];
    /// let (handles, mut outcomes) = peer.batch(|batch| batch.call_all::<f64, _>(&list)).await?;
    /// let prices: Vec<_> = handles.into_iter().map(|price| outcomes.fetch(price)).collect();
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Stops at the first call that is refused, as [`call`](Self::call) says. The entries before it stay.
    pub fn call_all<'m, R, P: Serialize + 'm>(
        &self,
        calls: impl IntoIterator<Item = &'m (&'m str, P)>,
    ) -> Result<Vec<Entry<R>>, SendError> {
        let calls = calls.into_iter();
        calls
            .map(|(method, params)| self.call(method, params))
            .collect()
    }

    fn add_call<R>(
        &self,
        method: &str,
        params: impl Payload,
        id: Option<OwnedId>,
    ) -> Result<Entry<R>, SendError> {
        let params = Text::of(params)?;
        let mut entries = self.0.borrow_mut();
        let name = CallId::new(entries.number, NAMES | entries.calls);
        entries.add(method, params.all(), Some(name), id)?;
        entries.calls += 1;
        Ok(Entry::new(name))
    }

    /// Adds a notification.
    ///
    /// # Errors
    /// See [`call`](Self::call).
    pub fn notify(&self, method: &str, params: impl Payload) -> Result<(), SendError> {
        let params = Text::of(params)?;
        self.0.borrow_mut().add(method, params.all(), None, None)
    }
}

impl Entries {
    fn new(number: u32) -> Self {
        Self {
            number,
            calls: 0,
            text: Text::default(),
            methods: String::new(),
            entries: Vec::new(),
            headers: Vec::new(),
        }
    }

    fn add(
        &mut self,
        method: &str,
        params: impl Payload,
        name: Option<CallId>,
        id: Option<OwnedId>,
    ) -> Result<(), SendError> {
        let params = self.text.add(params)?;
        let start = self.methods.len();
        self.methods.push_str(method);
        self.entries.push(StoredEntry {
            method: start..self.methods.len(),
            params,
            name,
            id,
        });
        Ok(())
    }

    /// Returns a copy of each entry as a single call, with its name in the batch; `None` is the name
    /// of a notification.
    pub(crate) fn calls_apart(&self) -> Vec<(Option<CallId>, CallRequest<'static>)> {
        let call = |item: Item<'_>| {
            let params = Text::of(item.params);
            let mut call = CallRequest::new(item.method.to_owned(), params, None);
            call.id = item.id.cloned();
            (item.name, call)
        };
        self.items().map(call).collect()
    }

    /// Replaces the entries by `calls`.
    pub(crate) fn replace<'c>(
        &mut self,
        calls: impl Iterator<Item = (Option<CallId>, CallRequest<'c>)>,
    ) {
        let mut kept = Self::new(self.number);
        for (name, call) in calls {
            put_headers(&mut kept.headers, &call.headers);
            if let Ok(params) = &call.params {
                // The params are JSON text already, so this cannot fail.
                let _ = kept.add(&call.method, params.all(), name, call.id.clone());
                kept.calls += u64::from(name.is_some());
            }
        }
        *self = kept;
    }

    /// Takes the headers for the batch's request, over HTTP. Of several entries with the same header
    /// the last counts.
    pub(crate) fn take_headers(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.headers)
    }

    /// Whether there are no entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many calls and notifications it has.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The number that distinguishes the batch from others.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The number of calls.
    pub(crate) fn calls(&self) -> usize {
        self.calls as usize
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = Item<'_>> {
        self.entries.iter().map(|entry| Item {
            method: &self.methods[entry.method.clone()],
            params: self.text.part(&entry.params),
            name: entry.name,
            id: entry.id.as_ref(),
        })
    }
}

impl fmt::Debug for BatchBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self
            .0
            .try_borrow()
            .map_or(0, |entries| entries.entries.len());
        f.debug_struct("BatchBuilder")
            .field("entries", &entries)
            .finish_non_exhaustive()
    }
}
