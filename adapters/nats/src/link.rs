//! The connection: what a request becomes while the server is away.
//!
//! ```text
//!   a request ── not connected: waits ──▶ sent ── an answer ─────────────▶ done
//!                     └ its time is over        ├ the connection is lost ▶ sent again if that does no harm
//!                       ▶ failed, not sent      └ its time is over ──────▶ failed, may have been done
//! ```

use std::error::Error;
use std::time::Duration;

use antiphon::durable::{Log, StoreError};
use async_nats::jetstream::context::{ContextBuilder, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{self, RawMessageErrorKind, Republish, Stream};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use crate::names::Names;
use crate::options::{ConnectError, NatsOptions};

/// How long a request may take that can be sent again: while a cluster elects a leader, nobody answers.
const ATTEMPT: Duration = Duration::from_secs(1);
/// How long after a failure a request is sent again.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Link {
    pub(crate) jetstream: Context,
    pub(crate) client: Client,
    pub(crate) names: Names,
    pub(crate) timeout: Duration,
    /// Odd while there is a connection, and higher for each.
    connection: watch::Receiver<u64>,
    replicas: usize,
    /// The stream of the bucket.
    bucket: Stream<()>,
}

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Certainly not done: nobody was there to do it.
    NotDone,
    /// Not done, because the last message of the subject is another.
    Conflict,
    /// Not done, for this reason.
    Refused(StoreError),
    /// It may have been done.
    Unknown,
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Refused(error) => error,
            _ => Self::Failed,
        }
    }
}

/// Connects to one of the servers.
pub(crate) async fn connect(
    options: &NatsOptions,
    own: ConnectOptions,
) -> Result<(Client, watch::Receiver<u64>), ConnectError> {
    let (count, counted) = watch::channel(0_u64);
    let addresses: Result<Vec<ServerAddr>, _> = options
        .servers
        .split(',')
        .map(|one| one.trim().parse())
        .collect();
    let addresses = addresses.map_err(|error| options.error(error))?;
    let own = own
        .name("antiphon")
        .connection_timeout(options.timeout)
        .request_timeout(Some(options.timeout))
        .reconnect_delay_callback(|attempts| {
            PAUSE.saturating_mul(u32::try_from(attempts).unwrap_or(10).min(10))
        })
        .event_callback(move |event| {
            let is_odd = match event {
                Event::Connected => Some(1),
                Event::Disconnected | Event::Closed => Some(0),
                _ => None,
            };
            if let Some(odd) = is_odd {
                count.send_modify(|count| *count += 1 + u64::from(*count % 2 == odd));
            }
            std::future::ready(())
        });
    let client = own.connect(addresses).await;
    let client = client.map_err(|error| options.error(error))?;
    Ok((client, counted))
}

impl Link {
    /// Connects, and makes what all hubs share, if it is not there.
    pub(crate) async fn open(options: &NatsOptions) -> Result<Self, ConnectError> {
        let (client, connection) = connect(options, ConnectOptions::new()).await?;
        let mut jetstream = ContextBuilder::new()
            .timeout(options.timeout)
            .ack_timeout(options.timeout)
            .build(client.clone());
        let names = Names(options.prefix.clone());
        let mut fence = config(names.of("-fence"), names.of(".fence"), options.replicas);
        fence.max_messages = 1;
        // A bucket, as other clients know it.
        let mut bucket = config(names.bucket_stream(), names.key(">"), options.replicas);
        bucket.max_messages_per_subject = 1;
        for wanted in [fence, bucket] {
            let made = jetstream.get_or_create_stream(wanted).await;
            let made = made.map_err(|error| options.error(error))?;
            let config = &made.cached_info().config;
            if config.num_replicas != options.replicas {
                return Err(options.error(format!(
                    "`{}` has {} replicas, and {} are wanted",
                    config.name, config.num_replicas, options.replicas
                )));
            }
        }
        jetstream.set_timeout(ATTEMPT.min(options.timeout));
        let bucket = jetstream.get_stream_no_info(names.bucket_stream()).await;
        let bucket = bucket.map_err(|error| options.error(error))?;
        Ok(Self {
            jetstream,
            client,
            names,
            timeout: options.timeout,
            connection,
            replicas: options.replicas,
            bucket,
        })
    }

    /// Waits for a connection.
    pub(crate) async fn up(&self, deadline: Instant) -> Result<u64, Trouble> {
        let mut connection = self.connection.clone();
        let up = timeout_at(deadline, connection.wait_for(|count| count % 2 == 1)).await;
        // An error: there will be none any more.
        up.ok()
            .and_then(Result::ok)
            .map(|count| *count)
            .ok_or(Trouble::NotDone)
    }

    /// Does one thing until that connection is lost, or `deadline` is over.
    pub(crate) async fn over<T>(
        &self,
        up: u64,
        deadline: Instant,
        act: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        let mut connection = self.connection.clone();
        let done = timeout_at(deadline, async {
            tokio::select! {
                biased;
                done = act => done,
                _ = connection.wait_for(|count| *count != up) => Err(Trouble::Unknown),
            }
        });
        done.await.unwrap_or(Err(Trouble::Unknown))
    }

    /// Does one thing while there is a connection, until `deadline`.
    pub(crate) async fn once<T>(
        &self,
        deadline: Instant,
        act: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        self.over(self.up(deadline).await?, deadline, act).await
    }

    /// Does something that may be done twice, until it is done or `deadline` is over.
    pub(crate) async fn persist<T, F: Future<Output = Result<T, Trouble>>>(
        &self,
        deadline: Instant,
        mut act: impl FnMut() -> F,
    ) -> Result<T, Trouble> {
        loop {
            match self.once(deadline, act()).await {
                Err(Trouble::NotDone | Trouble::Unknown) if Instant::now() + PAUSE < deadline => {
                    sleep(PAUSE).await;
                }
                done => return done,
            }
        }
    }

    /// Asks until the answer is as new as what is known. A server that has just begun to lead may not know at once what was
    /// stored before; what it does not know for long is lost.
    pub(crate) async fn settle<T, F: Future<Output = Result<T, Trouble>>>(
        &self,
        deadline: Instant,
        mut ask: impl FnMut() -> F,
        is_new: impl Fn(&T) -> bool,
    ) -> Result<T, Trouble> {
        let believed = Instant::now() + self.timeout / 2;
        loop {
            let answer = self.persist(deadline, &mut ask).await?;
            if is_new(&answer) || Instant::now() >= believed {
                return Ok(answer);
            }
            sleep(PAUSE).await;
        }
    }

    /// Sends a message that is stored if the last of its subject has this sequence. Returns the answer.
    pub(crate) async fn publish(
        &self,
        subject: String,
        data: Vec<u8>,
        expected: Option<u64>,
    ) -> Result<impl Future<Output = Result<u64, Trouble>> + use<>, Trouble> {
        let mut message = PublishMessage::build().payload(data.into());
        if let Some(sequence) = expected {
            message = message.expected_last_subject_sequence(sequence);
        }
        let sent = self.jetstream.send_publish(subject, message).await;
        let answer = sent.map_err(trouble)?;
        Ok(async move { Ok(answer.await.map_err(trouble)?.sequence) })
    }

    /// Makes the stream of a topic, if it is not there.
    pub(crate) async fn make_log(&self, topic: &str) -> Result<(), Trouble> {
        let (name, subjects) = (self.names.log_stream(topic), self.names.log(topic) + "*");
        let mut config = config(name, subjects, self.replicas);
        config.republish = Some(Republish {
            source: ">".into(),
            destination: self.names.of(".grown.>"),
            headers_only: true,
        });
        let made = self.jetstream.get_or_create_stream(config).await;
        made.map(drop).map_err(unknown)
    }

    /// What a topic has: nothing, if there is no stream.
    pub(crate) async fn log(&self, topic: &str) -> Result<Log, Trouble> {
        let stream = self.stream(topic).await?;
        let unnamed = self.names.message(topic, None);
        let mut info = match stream.info_builder().subjects(&unnamed).fetch().await {
            Ok(info) => info,
            Err(error) if code(&error) == Some(10059) => return Ok(Log::EMPTY),
            Err(_) => return Err(Trouble::Unknown),
        };
        let unnamed_count = match info.next().await {
            Some(count) => count.map_err(unknown)?.1 as u64,
            None => 0,
        };
        let state = &info.info.state;
        let named = state.messages.saturating_sub(unnamed_count);
        // Without messages a stream that is new says 0.
        let first = state.first_sequence.max(1);
        Ok(Log {
            first,
            last: state.last_sequence.max(first - 1),
            bytes: state
                .bytes
                .saturating_sub(state.messages * overhead(&unnamed) + named * NAMED),
        })
    }

    /// The stream of a topic, which need not be there.
    pub(crate) async fn stream(&self, topic: &str) -> Result<Stream<()>, Trouble> {
        let name = self.names.log_stream(topic);
        let stream = self.jetstream.get_stream_no_info(name).await;
        stream.map_err(unknown)
    }

    /// The value of a key, and its revision: 0 if it has never had one.
    pub(crate) async fn get(&self, key: &str) -> Result<(u64, Option<String>), Trouble> {
        let subject = self.names.key(key);
        match self.bucket.get_last_raw_message_by_subject(&subject).await {
            Ok(message) => {
                let value = String::from_utf8_lossy(&message.payload).into_owned();
                Ok((message.sequence, Some(value)))
            }
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok((0, None)),
            Err(_) => Err(Trouble::Unknown),
        }
    }

    /// Changes the value of a key, if this is its revision still. Returns the new one.
    pub(crate) async fn put(&self, key: &str, value: Vec<u8>, old: u64) -> Result<u64, Trouble> {
        let sent = self.publish(self.names.key(key), value, Some(old)).await;
        sent?.await
    }

    /// Removes a key, if this is its revision still. Returns whether it was.
    pub(crate) async fn remove(&self, key: &str, revision: u64) -> Result<bool, Trouble> {
        let purge = self.bucket.purge().filter(self.names.key(key));
        let purged = purge.sequence(revision + 1).await;
        purged.map(|purged| purged.purged > 0).map_err(unknown)
    }

    /// A number that is higher than all that were given before.
    pub(crate) async fn fence(&self) -> Result<u64, Trouble> {
        let sent = self
            .publish(self.names.of(".fence"), Vec::new(), None)
            .await;
        sent?.await
    }
}

fn config(name: String, subjects: String, num_replicas: usize) -> stream::Config {
    stream::Config {
        name,
        subjects: vec![subjects],
        num_replicas,
        ..stream::Config::default()
    }
}

/// What the server counts for a message beside its data: its own 30 bytes, the subject, and our time.
fn overhead(subject: &str) -> u64 {
    30 + subject.len() as u64 + TIME_BYTES as u64
}

/// The letters of the time that stand before the data.
pub(crate) const TIME_BYTES: usize = 16;
/// What the server counts beside that for a message with a name: the header that lets it be stored only once.
const NAMED: u64 = 4 + b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 0\r\n\r\n".len() as u64;

fn trouble(error: PublishError) -> Trouble {
    match (error.kind(), code(&error)) {
        (PublishErrorKind::StreamNotFound, _) => Trouble::NotDone,
        // Wrong last sequence.
        (_, Some(10071 | 10164)) => Trouble::Conflict,
        // Resources of the account, of the server, of its storage; the message could not be stored.
        (PublishErrorKind::MaxPayloadExceeded, _) | (_, Some(10002 | 10023 | 10047 | 10077)) => {
            Trouble::Refused(StoreError::Full)
        }
        _ => Trouble::Unknown,
    }
}

/// Of a request that may be sent again.
pub(crate) fn unknown<E>(_: E) -> Trouble {
    Trouble::Unknown
}

/// What the server says is wrong.
fn code(error: &impl Error) -> Option<u64> {
    let error = error.source()?.downcast_ref::<jetstream::Error>();
    error.map(|error| error.error_code().0)
}
