//! The machine stops between any two writes of a run, and what was not synced is lost, torn, or written in another order.
//! Then the store is opened again, and compared with what it had said before.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use antiphon::durable::{Command, Completer, Completion, Cursor, Store};
use redb::StorageBackend;

use super::plant::{Plant, plant};
use super::script::{Random, append, ask, attach, read};
use crate::RedbStore;

#[derive(Clone, Debug)]
enum Operation {
    Write(u64, Vec<u8>),
    Length(u64),
    Sync,
}

/// A disk in memory that notes what is done to it.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<(Vec<u8>, Vec<Operation>)>>);

impl Disk {
    fn of(image: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new((image, Vec::new()))))
    }

    fn operations(&self) -> usize {
        self.0.lock().unwrap().1.len()
    }

    fn note(&self, operation: Operation) {
        let (image, noted) = &mut *self.0.lock().unwrap();
        apply(image, &operation, &mut |_| true);
        noted.push(operation);
    }
}

/// Does an operation, of a write only those sectors for which `has` returns true.
fn apply(image: &mut Vec<u8>, operation: &Operation, has: &mut impl FnMut(usize) -> bool) {
    match operation {
        Operation::Length(length) => image.resize(*length as usize, 0),
        Operation::Sync => {}
        Operation::Write(offset, data) => {
            for (sector, part) in data
                .chunks(512)
                .enumerate()
                .filter(|(sector, _)| has(*sector))
            {
                let at = *offset as usize + sector * 512;
                if image.len() < at + part.len() {
                    image.resize(at + part.len(), 0);
                }
                image[at..at + part.len()].copy_from_slice(part);
            }
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().0.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (image, at) = (&self.0.lock().unwrap().0, offset as usize);
        let part = image.get(at..at + out.len());
        out.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.note(Operation::Length(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.note(Operation::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.note(Operation::Write(offset, data.to_vec()));
        Ok(())
    }
}

/// A command, and how many operations the disk had done when it was submitted, and when it was answered.
struct Asked {
    command: Command,
    submitted: usize,
    answered: usize,
    answer: Completion,
}

struct Run {
    operations: Vec<Operation>,
    /// How many of them made the empty store.
    made: usize,
    asked: Vec<Asked>,
}

const COMMANDS: usize = 1000;

/// Runs commands in groups on a store with this fault.
fn run(fault: Plant, seed: u64) -> Run {
    let disk = Disk::default();
    plant(fault);
    let own = disk.clone();
    let store = RedbStore::with_backend(move || own.clone()).unwrap();
    let made = disk.operations();
    let (mut random, mut asked, mut sent) =
        (Random(seed), Vec::new(), BTreeMap::<&str, u64>::new());
    let mut fences = BTreeMap::<&str, u64>::new();
    let topics: &[&str] = match fault {
        Plant::AcknowledgeBeforeCommit => &["orders"],
        _ => &["orders", "shipments"],
    };
    while asked.len() < COMMANDS {
        let mut group = Vec::new();
        for _ in 0..=random.below(7) {
            let topic = topics[random.below(topics.len() as u64) as usize];
            let last = sent.get(topic).copied().unwrap_or_default();
            let consumer = ["one", "two"][usize::from(topic != "orders")];
            group.push(match (random.below(20), fences.get(consumer)) {
                (0 | 1, _) | (_, None) => attach(consumer, topic),
                (2..=4, Some(&fence)) => Command::Save {
                    subscription: consumer.into(),
                    fence,
                    cursor: Cursor {
                        start: 0,
                        floor: random.below(last + 1),
                        above: Vec::new(),
                    },
                },
                (5, _) => Command::Trim {
                    topic: topic.into(),
                    up_to: random.below(last + 5) + last * random.below(2),
                },
                _ => {
                    *sent.entry(topic).or_default() += 1;
                    let length = random.below(900) as usize;
                    append(topic, &format!("{} {}", last + 1, "x".repeat(length)), None)
                }
            });
        }
        let (sender, answers) = channel();
        let count = group.len();
        for (index, command) in group.iter().enumerate() {
            let (sender, disk, submitted) = (sender.clone(), disk.clone(), disk.operations());
            store.submit(
                command.clone(),
                Completer::new(move |answer| {
                    sender
                        .send((index, submitted, disk.operations(), answer))
                        .unwrap();
                }),
            );
        }
        for _ in 0..count {
            let (index, submitted, answered, answer) = answers.recv().unwrap();
            let command = group[index].clone();
            match (&command, answer) {
                // The consumer was attached again in this group.
                (Command::Save { .. }, Err(_)) => {}
                (
                    Command::Attach { subscription, .. },
                    Ok(answer @ Completion::Attached { .. }),
                ) => {
                    let Completion::Attached { fence, .. } = answer else {
                        unreachable!()
                    };
                    let name = ["one", "two"][usize::from(&**subscription != "one")];
                    fences.insert(name, fence);
                    asked.push(Asked {
                        command,
                        submitted,
                        answered,
                        answer,
                    });
                }
                (_, answer) => {
                    let answer = answer.unwrap();
                    asked.push(Asked {
                        command,
                        submitted,
                        answered,
                        answer,
                    });
                }
            }
        }
    }
    asked.sort_by_key(|asked| asked.submitted);
    drop(store);
    let operations = disk.0.lock().unwrap().1.clone();
    Run {
        operations,
        made,
        asked,
    }
}

/// The disk after a crash: all that was synced, and some of the rest.
fn crashed(synced: &[u8], pending: &[Operation], random: &mut Random) -> Vec<u8> {
    let mut image = synced.to_vec();
    let mut order: Vec<&Operation> = pending.iter().collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    // All, none, or some; whole or torn.
    let (all, some) = (random.below(6), random.below(3));
    for operation in order {
        let is_lost = match all {
            0 => true,
            1 => false,
            _ => random.below(3) == 0,
        };
        if !is_lost {
            let is_torn = all > 1 && some > 0 && random.below(2) == 0;
            apply(&mut image, operation, &mut |_| {
                !is_torn || random.below(2) == 0
            });
        }
    }
    image
}

/// Opens what is left, and compares. The name of what is wrong, if anything is.
fn check(run: &Run, cut: usize, image: Vec<u8>) -> Result<(), &'static str> {
    let disk = Disk::of(image);
    let store =
        RedbStore::with_backend(move || disk.clone()).map_err(|_| "the store does not open")?;
    let submitted = || run.asked.iter().filter(|asked| asked.submitted < cut);
    let is_answered = |asked: &&Asked| asked.answered <= cut;
    for (topic, consumer) in [("orders", "one"), ("shipments", "two")] {
        let appends = || {
            submitted().filter(|asked| {
            matches!(&asked.command, Command::Append { topic: own, .. } if **own == *topic)
        })
        };
        let sequence = |asked: &Asked| match asked.answer {
            Completion::Appended { sequence } => sequence,
            _ => 0,
        };
        let told = appends()
            .filter(is_answered)
            .map(sequence)
            .max()
            .unwrap_or(0);
        let trims = || {
            submitted().filter_map(|asked| match &asked.command {
                Command::Trim { topic: own, up_to } if **own == *topic => Some((asked, *up_to)),
                _ => None,
            })
        };
        let most_trimmed = trims().map(|(_, up_to)| up_to).max().unwrap_or(0);
        let Ok(Completion::Records { log, records }) = ask(&store, read(topic, 0)) else {
            return Err("the topic cannot be read");
        };
        let Ok(Completion::Appended { sequence: next }) = ask(&store, append(topic, "next", None))
        else {
            return Err("nothing can be published");
        };
        if next <= told && most_trimmed >= told {
            return Err("a sequence is used twice");
        }
        if log.last < told || log.first > most_trimmed + 1 {
            return Err("an acknowledged message is lost");
        }
        let in_order = records
            .iter()
            .map(|record| record.sequence)
            .eq(log.first..=log.last);
        if !in_order || next != log.last + 1 {
            return Err("messages are out of order");
        }
        for record in &records {
            let is_own = record
                .data
                .as_json()
                .as_str()
                .starts_with(&format!("\"{} ", record.sequence));
            let is_whole = appends().any(|asked| {
                matches!(&asked.command, Command::Append { data, .. } if *data == record.data)
            });
            if !is_own || !is_whole {
                return Err("a message was altered");
            }
        }
        let floors = submitted().filter_map(|asked| match &asked.command {
            Command::Save {
                subscription,
                cursor,
                ..
            } if **subscription == *consumer => Some((asked, cursor.floor)),
            _ => None,
        });
        let floors: Vec<(&Asked, u64)> = floors.collect();
        let last = floors.iter().rposition(|(asked, _)| is_answered(asked));
        let possible: Vec<u64> = match last {
            // A group is answered as a whole, so of those answered the last submitted counts.
            Some(last) => floors[last..].iter().map(|(_, floor)| *floor).collect(),
            None => floors.iter().map(|(_, floor)| *floor).collect(),
        };
        let fence = submitted()
            .filter(is_answered)
            .filter_map(|asked| match asked.answer {
                Completion::Attached { fence, .. } => Some(fence),
                _ => None,
            });
        let fence = fence.max().unwrap_or(0);
        let Ok(Completion::Attached {
            fence: later,
            cursor,
            ..
        }) = ask(&store, attach(consumer, topic))
        else {
            return Err("nobody can attach");
        };
        if later <= fence {
            return Err("a fence is used twice");
        }
        let is_new = last.is_none() && cursor.floor == cursor.start;
        if !possible.contains(&cursor.floor) && !is_new {
            return Err("a cursor is not what was acknowledged");
        }
    }
    Ok(())
}

/// Cuts a run at each of its operations, or at every `step`th. Returns how many cuts there were, and what was found.
fn cut_everywhere(fault: Plant, seed: u64, step: usize) -> (usize, BTreeMap<&'static str, usize>) {
    let run = run(fault, seed);
    let (mut image, mut pending) = (Vec::new(), Vec::new());
    let (mut cuts, mut found) = (0, BTreeMap::new());
    for (index, operation) in run.operations.iter().enumerate() {
        pending.push(operation.clone());
        if matches!(operation, Operation::Sync) {
            for operation in pending.drain(..) {
                apply(&mut image, &operation, &mut |_| true);
            }
        }
        let cut = index + 1;
        if cut >= run.made && cut % step == 0 {
            cuts += 1;
            let left = crashed(&image, &pending, &mut Random(seed ^ cut as u64));
            if let Err(wrong) = check(&run, cut, left) {
                *found.entry(wrong).or_default() += 1;
            }
        }
    }
    (cuts, found)
}

// PER-04 PER-05 TST-18
#[test]
fn nothing_that_was_acknowledged_is_lost_wherever_the_power_fails() {
    let (cuts, found) = cut_everywhere(Plant::Nothing, 1, 1);
    println!("{COMMANDS} commands, {cuts} cuts");
    assert!(cuts >= 1000, "{cuts}");
    assert!(found.is_empty(), "{found:?}");
}

// PER-04 PER-05 TST-18
#[test]
fn the_checker_catches_each_planted_fault() {
    for (fault, name) in [
        (
            Plant::AcknowledgeBeforeCommit,
            "an acknowledged message is lost",
        ),
        (Plant::CommitWithoutSync, "an acknowledged message is lost"),
        (
            Plant::CursorBeforeMessage,
            "a cursor is not what was acknowledged",
        ),
        (
            Plant::SequenceRestartedAfterTrim,
            "a sequence is used twice",
        ),
    ] {
        let (cuts, found) = cut_everywhere(fault, 2, 7);
        println!("{fault:?}: {cuts} cuts, {found:?}");
        assert!(found.contains_key(name), "{fault:?}: {found:?}");
    }
}
