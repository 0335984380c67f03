//! The positions of subscriptions: a key in the bucket for each, which is changed only if nobody has changed it since.
//!
//! A hub that attaches gets a fence higher than all before and writes it with its own name. From then on the hub before
//! cannot write.

use std::sync::Arc;

use antiphon::durable::{Completion, Cursor, Log, Start, StoreError};
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
        let (revision, text) = self.link.persist(deadline, || self.link.get(&key)).await?;
        let position = text.map(|text| Position::read(&text));
        match position {
            // Not written by this version.
            Some(None) => Err(Trouble::Refused(StoreError::Failed)),
            position => Ok((revision, position.flatten())),
        }
    }

    /// Writes a position over one of this revision. Returns false if somebody else has changed it.
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
        let revision = match written {
            Ok(revision) => revision,
            Err(Trouble::Refused(error)) => return Err(Trouble::Refused(error)),
            Err(trouble) => {
                if trouble != Trouble::Conflict {
                    sleep(PAUSE).await;
                }
                match self.position(name, deadline).await? {
                    // An earlier attempt has done it.
                    (revision, Some(now)) if now == position => revision,
                    _ if Instant::now() < deadline => return Ok(false),
                    _ => return Err(Trouble::Unknown),
                }
            }
        };
        lock(&self.owned).insert(name.clone(), (revision, position));
        Ok(true)
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
        loop {
            let (revision, held) = self.position(name, deadline).await?;
            if held.as_ref().is_some_and(|held| held.topic != *topic) {
                return Err(StoreError::OtherTopic);
            }
            let other = held.as_ref().map(|held| held.hub.clone());
            let other = other.filter(|hub| *hub != self.id);
            if let Some(other) = other.as_ref().filter(|_| !takes_over)
                && self.ask(other, 0, name, deadline).await
            {
                return Err(StoreError::Held);
            }
            // Later than the position, which is not ahead of it then.
            let log = self.link.persist(deadline, || self.link.log(topic)).await?;
            let log = log.unwrap_or(Log::EMPTY);
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
