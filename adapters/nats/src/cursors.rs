//! The positions of subscriptions: a key in the bucket for each, which is changed only if nobody has changed it since.
//!
//! A hub that attaches gets a fence higher than all before and writes it with its own name. From then on the hub before
//! cannot write.

use std::sync::Arc;

use antiphon::durable::{Completion, Cursor, Start, StoreError};
use tokio::time::{Instant, sleep};

use crate::hub::{Hub, lock};
use crate::link::{PAUSE, Trouble};
use crate::names::token;
use crate::position::Position;

type Done = Result<Completion, StoreError>;

impl Hub {
    /// The position of a subscription, and its revision.
    pub(crate) async fn position(
        &self,
        name: &str,
        deadline: Instant,
    ) -> Result<(u64, Option<Position>), Trouble> {
        let key = token(name);
        let known = lock(&self.owned)
            .get(name)
            .map_or(0, |(revision, _)| *revision);
        let is_new = |(revision, _): &(u64, _)| *revision >= known;
        let get = || self.link.get(&key);
        let (revision, text) = self.link.settle(deadline, get, is_new).await?;
        // One that this version has not written.
        let read = |text: String| Position::read(&text).ok_or(Trouble::Refused(StoreError::Failed));
        Ok((revision, text.map(read).transpose()?))
    }

    /// Writes a position over one of this revision. Returns false if it is to be read again.
    async fn write(
        &self,
        name: &Arc<str>,
        position: Position,
        revision: u64,
        deadline: Instant,
    ) -> Result<bool, Trouble> {
        let (key, text) = (token(name), position.write());
        let put = self.link.put(&key, text.into(), revision);
        let written = self.link.once(deadline, put).await;
        match written {
            Ok(revision) => {
                lock(&self.owned).insert(name.clone(), (revision, position));
                Ok(true)
            }
            Err(Trouble::Refused(error)) => Err(Trouble::Refused(error)),
            // It may have been written: then it is written again.
            Err(_) if Instant::now() + PAUSE < deadline => {
                sleep(PAUSE).await;
                Ok(false)
            }
            Err(trouble) => Err(trouble),
        }
    }

    pub(crate) async fn attach(
        self: &Arc<Self>,
        name: &Arc<str>,
        topic: &Arc<str>,
        start: Start,
        takes_over: bool,
        deadline: Instant,
    ) -> Done {
        self.watch(topic).await;
        // The owner before, also if an attempt has done more than it knows.
        let mut other: Option<String> = None;
        loop {
            let (revision, held) = self.position(name, deadline).await?;
            if held.as_ref().is_some_and(|held| held.topic != *topic) {
                return Err(StoreError::OtherTopic);
            }
            let hub = held.as_ref().map(|held| held.hub.clone());
            other = hub.filter(|hub| *hub != self.id).or(other);
            if let Some(other) = other.as_ref().filter(|_| !takes_over)
                && self.ask(other, 0, name, deadline).await
            {
                return Err(StoreError::Held);
            }
            // Later than the position, which is not ahead of it then.
            held.iter().for_each(|held| self.heard(topic, held.end()));
            let log = self.log(topic, deadline).await?;
            let fence = self.link.persist(deadline, || self.link.fence()).await?;
            let cursor = held.map(|held| held.cursor).unwrap_or_else(|| {
                Cursor::at(match start {
                    Start::EarliestRetained => log.first - 1,
                    _ => log.last,
                })
            });
            let position = Position {
                fence,
                hub: self.id.clone(),
                topic: topic.clone(),
                cursor: cursor.clone(),
            };
            if !self.write(name, position, revision, deadline).await? {
                continue;
            }
            if let Some(other) = other {
                // It delivers nothing more when it has answered, or is not there.
                self.ask(&other, fence, name, deadline).await;
            }
            return Ok(Completion::Attached { fence, cursor, log });
        }
    }

    pub(crate) async fn save(
        &self,
        name: &Arc<str>,
        fence: u64,
        cursor: &Cursor,
        deadline: Instant,
    ) -> Done {
        let known = lock(&self.owned).get(name).cloned();
        let mut known = known.filter(|(_, known)| known.fence == fence);
        loop {
            let (revision, mut position) = match known.take() {
                Some(known) => known,
                None => self.owned(name, fence, deadline).await?,
            };
            position.cursor = cursor.clone();
            if self.write(name, position, revision, deadline).await? {
                return Ok(Completion::Saved);
            }
        }
    }

    pub(crate) async fn delete(&self, name: &Arc<str>, fence: u64, deadline: Instant) -> Done {
        let key = token(name);
        loop {
            let (revision, held) = self.owned(name, fence, deadline).await?;
            if fence == 0 && held.hub != self.id && self.ask(&held.hub, 0, name, deadline).await {
                return Err(StoreError::Fenced);
            }
            let remove = || self.link.remove(&key, revision);
            if self.link.persist(deadline, remove).await? {
                lock(&self.owned).remove(name);
                return Ok(Completion::Deleted);
            }
        }
    }

    /// A subscription of the owner with this fence, or of any if it is 0.
    async fn owned(
        &self,
        name: &Arc<str>,
        fence: u64,
        deadline: Instant,
    ) -> Result<(u64, Position), StoreError> {
        match self.position(name, deadline).await? {
            (_, None) => Err(StoreError::Unknown),
            (_, Some(held)) if fence != 0 && fence != held.fence => {
                lock(&self.owned).remove(name);
                Err(StoreError::Fenced)
            }
            (revision, Some(held)) => Ok((revision, held)),
        }
    }
}
