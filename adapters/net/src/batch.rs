//! A batch that is being built, without its connection.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use antiphon::{CallId, Encoded, Handle as Entry, Payload, SendError};

use crate::call_request::{CallRequest, put_headers};
use crate::text::Text;

/// The number of the next batch. It distinguishes the calls of one batch from those of others.
static BATCHES: AtomicU32 = AtomicU32::new(0);

/// If a [`CallId`] has this bit in its number, it is the name of a call in a batch, by which the outcome
/// is fetched. The id of a call that was sent never has it.
const NAMES: u64 = 1 << 63;

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
    entries: Vec<Made>,
    /// Whether a thread waits for the answers and does nothing else: then it may write the batch itself.
    pub(crate) is_waited: bool,
    /// Headers for the batch's request, over HTTP.
    headers: Vec<(String, String)>,
}

/// An entry: where its method is in `methods`, and where its params are in `text`.
struct Made {
    method: Range<usize>,
    params: Range<usize>,
    /// `None` for a notification.
    name: Option<CallId>,
}

/// One entry of a batch that is to be sent.
pub(crate) struct Item<'b> {
    pub(crate) method: &'b str,
    pub(crate) params: Encoded<'b>,
    pub(crate) name: Option<CallId>,
}

impl BatchBuilder {
    /// Builds a batch.
    pub(crate) fn build<H>(
        build: impl FnOnce(&Self) -> Result<H, SendError>,
    ) -> Result<(H, Entries), SendError> {
        let number = BATCHES.fetch_add(1, Ordering::Relaxed);
        let batch = Self(RefCell::new(Entries::new(number, false)));
        let handles = build(&batch)?;
        Ok((handles, batch.0.into_inner()))
    }

    /// Adds a call whose result is to be decoded into `R`.
    ///
    /// # Errors
    /// The params have no JSON form. The entries before this one stay. Other reasons why the call
    /// cannot be sent are returned when the batch is sent.
    pub fn call<R>(&self, method: &str, params: impl Payload) -> Result<Entry<R>, SendError> {
        let params = Text::of(params)?;
        let mut entries = self.0.borrow_mut();
        let name = CallId::new(entries.number, NAMES | entries.calls);
        entries.add(method, params.all(), Some(name))?;
        entries.calls += 1;
        Ok(Entry::new(name))
    }

    /// Adds a notification.
    ///
    /// # Errors
    /// See [`call`](Self::call).
    pub fn notify(&self, method: &str, params: impl Payload) -> Result<(), SendError> {
        let params = Text::of(params)?;
        self.0.borrow_mut().add(method, params.all(), None)
    }
}

impl Entries {
    fn new(number: u32, is_waited: bool) -> Self {
        Self {
            number,
            calls: 0,
            text: Text::new(),
            methods: String::new(),
            entries: Vec::new(),
            is_waited,
            headers: Vec::new(),
        }
    }

    fn add(
        &mut self,
        method: &str,
        params: impl Payload,
        name: Option<CallId>,
    ) -> Result<(), SendError> {
        let params = self.text.add(params)?;
        let start = self.methods.len();
        self.methods.push_str(method);
        self.entries.push(Made {
            method: start..self.methods.len(),
            params,
            name,
        });
        Ok(())
    }

    /// Returns a copy of each entry as a single call, with its name in the batch; `None` is the name
    /// of a notification.
    pub(crate) fn calls_apart(&self) -> Vec<(Option<CallId>, CallRequest<'static>)> {
        let call = |item: Item<'_>| {
            let params = Text::of(item.params);
            let call = CallRequest::new(item.method.to_owned(), params, None);
            (item.name, call)
        };
        self.items().map(call).collect()
    }

    /// Replaces the entries by `calls`.
    pub(crate) fn replace<'c>(
        &mut self,
        calls: impl Iterator<Item = (Option<CallId>, CallRequest<'c>)>,
    ) {
        let mut kept = Self::new(self.number, self.is_waited);
        for (name, call) in calls {
            put_headers(&mut kept.headers, &call.headers);
            if let Ok(params) = &call.params {
                // The params are JSON text already, so this cannot fail.
                let _ = kept.add(&call.method, params.all(), name);
                kept.calls += u64::from(name.is_some());
            }
        }
        *self = kept;
    }

    /// Takes the headers for the batch's request, over HTTP. Of several entries with the same header
    /// the last counts.
    #[cfg(feature = "http")]
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

/// Returns the number of the batch, and the index of the call among the calls of the batch, if `name`
/// identifies a call of a batch.
pub(crate) fn batch_name(name: CallId) -> Option<(u32, usize)> {
    let place = name.number() & !NAMES;
    let place = usize::try_from(place).ok()?;
    (name.number() & NAMES != 0).then_some((name.connection(), place))
}
