//! Files that are refused, disks that fail, and what is counted.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use antiphon::durable::{Command, Completer, Completion, Cursor, Store, StoreError};
use redb::{Database, StorageBackend, TableDefinition};

use super::script::{append, ask, attach, read};
use crate::RedbStore;

fn sequence(result: Result<Completion, StoreError>) -> u64 {
    match result {
        Ok(Completion::Appended { sequence }) => sequence,
        other => panic!("{other:?}"),
    }
}

// PER-04 PER-05 PER-14
#[test]
fn what_was_stored_is_there_when_the_file_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.redb");
    let store = RedbStore::open(&path).unwrap();
    for i in 1..=3 {
        assert_eq!(sequence(ask(&store, append("t", "x", None))), i);
    }
    let attached = ask(&store, attach("s", "t")).unwrap();
    let Completion::Attached { fence, .. } = attached else {
        panic!("{attached:?}");
    };
    let cursor = Cursor {
        start: 0,
        floor: 1,
        above: vec![3],
    };
    let (subscription, saved) = ("s".into(), cursor.clone());
    ask(
        &store,
        Command::Save {
            subscription,
            fence,
            cursor: saved,
        },
    )
    .unwrap();
    assert_eq!(store.lags()[0].messages, 1);
    let trim = Command::Trim {
        topic: "t".into(),
        up_to: 3,
    };
    ask(&store, trim).unwrap();
    let stats = store.stats();
    assert_eq!((stats.commits, stats.syncs, stats.failures), (6, 6, 0));
    assert_eq!(stats.bytes, fs::metadata(&path).unwrap().len());
    drop(store);

    let store = RedbStore::open(&path).unwrap();
    assert_eq!(
        sequence(ask(&store, append("t", "x", None))),
        4,
        "no number is used again"
    );
    let Ok(Completion::Attached {
        fence: later,
        cursor: kept,
        log,
    }) = ask(&store, attach("s", "t"))
    else {
        panic!();
    };
    assert!(later > fence && kept == cursor && (log.first, log.last) == (4, 4));
}

// PER-04
#[test]
fn commands_that_wait_are_committed_together_with_one_sync() {
    let folder = tempfile::tempdir().unwrap();
    let store = RedbStore::open(folder.path().join("a.redb")).unwrap();
    let (sender, answers) = channel();
    for _ in 0..1000 {
        let sender = sender.clone();
        let done = Completer::new(move |result| sender.send(sequence(result)).unwrap());
        store.submit(append("t", "x", None), done);
    }
    drop(sender);
    assert!(answers.iter().eq(1..=1000), "in order");
    let stats = store.stats();
    // One more for each time that the file has grown.
    assert!((0..3).contains(&(stats.syncs - stats.commits)), "{stats:?}");
    assert!((4..500).contains(&stats.commits), "{stats:?}");
}

#[test]
fn a_file_that_is_damaged_or_not_ours_is_refused_with_its_path_and_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.redb");
    let refused = |reason: &str| {
        let error = RedbStore::open(&path).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with(path.to_str().unwrap()) && text.contains(reason),
            "{text}"
        );
    };
    let store = RedbStore::open(&path).unwrap();
    for i in 0..300 {
        ask(
            &store,
            append("t", &format!("{i} {}", "y".repeat(500)), None),
        )
        .unwrap();
    }
    refused("it is open in another process");
    drop(store);
    let good = fs::read(&path).unwrap();
    for part in [0, 100, 5000, good.len() / 2, good.len() - 4096] {
        fs::write(&path, &good[..part]).unwrap();
        let error = RedbStore::open(&path).unwrap_err();
        assert!(error.to_string().contains("a.redb"), "{error}");
    }
    let at = good
        .windows(200)
        .rposition(|part| part == [b'y'; 200])
        .unwrap();
    let mut altered = good.clone();
    altered[at] ^= 1;
    fs::write(&path, &altered).unwrap();
    refused("damaged");
    fs::write(&path, b"no database at all").unwrap();
    RedbStore::open(&path).unwrap_err();

    fs::remove_file(&path).unwrap();
    drop(Database::create(&path).unwrap());
    refused("no file of antiphon-redb");
    fs::write(&path, &good).unwrap();
    let database = Database::open(&path).unwrap();
    let write = database.begin_write().unwrap();
    let table: TableDefinition<'_, &str, u64> = TableDefinition::new("antiphon");
    write
        .open_table(table)
        .unwrap()
        .insert("format", 2)
        .unwrap();
    write.commit().unwrap();
    drop(database);
    refused("it has format 2, and this program reads format 1");
    fs::write(&path, &good).unwrap();
    RedbStore::open(&path).unwrap();
}

/// A disk that stays when its store is opened again, and fails when told so.
#[derive(Clone, Debug, Default)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    max_len: Arc<AtomicUsize>,
    syncs_fail: Arc<AtomicUsize>,
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (bytes, at) = (self.bytes.lock().unwrap(), offset as usize);
        out.copy_from_slice(&bytes[at..at + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len as usize > self.max_len.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.lock().unwrap().resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        match self.syncs_fail.load(Ordering::Relaxed) {
            0 => Ok(()),
            left => {
                self.syncs_fail.store(left - 1, Ordering::Relaxed);
                Err(io::Error::other("the disk is gone"))
            }
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (mut bytes, at) = (self.bytes.lock().unwrap(), offset as usize);
        bytes[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }
}

// PER-04
#[test]
fn a_full_disk_refuses_clearly_reading_goes_on_and_all_resumes() {
    let disk = Disk::default();
    disk.max_len.store(3 << 20, Ordering::Relaxed);
    let store = {
        let disk = disk.clone();
        RedbStore::with_backend(move || disk.clone()).unwrap()
    };
    let long = "z".repeat(100_000);
    let mut stored = 0;
    let error = loop {
        match ask(&store, append("t", &long, None)) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error, StoreError::Full, "after {stored}");
    assert!(stored > 3);
    let Ok(Completion::Records { records, .. }) = ask(&store, read("t", 0)) else {
        panic!();
    };
    assert_eq!(records.len(), stored);
    disk.max_len.store(64 << 20, Ordering::Relaxed);
    assert_eq!(
        sequence(ask(&store, append("t", &long, None))),
        stored as u64 + 1
    );
    assert!(store.stats().failures > 0);
}

// PER-04 PER-05
#[test]
fn of_a_group_in_whose_middle_the_disk_fills_all_is_stored_or_nothing() {
    let disk = Disk::default();
    disk.max_len.store(64 << 20, Ordering::Relaxed);
    let store = {
        let disk = disk.clone();
        RedbStore::with_backend(move || disk.clone()).unwrap()
    };
    let Ok(Completion::Attached { fence, .. }) = ask(&store, attach("s", "t")) else {
        panic!();
    };
    // There is less space than all the groups need.
    disk.max_len.store(3 << 20, Ordering::Relaxed);
    let (sender, answers) = channel();
    for i in 1..=1200 {
        let appended = append("t", &format!("{i} {}", "x".repeat(3000)), None);
        let floor = i - 1;
        let save = Command::Save {
            subscription: "s".into(),
            fence,
            cursor: Cursor {
                floor,
                ..Cursor::default()
            },
        };
        for command in [appended, save] {
            let sender = sender.clone();
            let done = Completer::new(move |answer| sender.send((floor, answer)).unwrap());
            store.submit(command, done);
        }
    }
    drop(sender);
    let (mut stored, mut floor, mut full, mut all) = (0, 0, 0, 0);
    for (asked, answer) in answers {
        match answer {
            Ok(Completion::Appended { sequence }) => {
                stored += 1;
                assert_eq!(sequence, stored, "no number is left out");
            }
            Ok(Completion::Saved) => floor = asked,
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert_eq!(error, StoreError::Full);
                full += 1;
            }
        }
        all += 1;
    }
    assert!(
        stored > 10 && full > 10 && all == 2400,
        "{stored} {full} {all}"
    );
    let is_as_told = |store: &RedbStore| {
        let Ok(Completion::Records { records, .. }) = ask(store, read("t", 0)) else {
            panic!();
        };
        assert_eq!(records.len() as u64, stored);
    };
    is_as_told(&store);
    disk.max_len.store(64 << 20, Ordering::Relaxed);
    let Ok(Completion::Attached { cursor, .. }) = ask(&store, attach("s", "t")) else {
        panic!();
    };
    assert_eq!(
        cursor.floor, floor,
        "a position that was refused is not stored"
    );
    is_as_told(&store);
    assert_eq!(sequence(ask(&store, append("t", "x", None))), stored + 1);
}

// PER-04 PER-05
#[test]
fn after_a_commit_that_failed_the_store_is_opened_again_and_its_last_sequence_counts() {
    let disk = Disk::default();
    disk.max_len.store(64 << 20, Ordering::Relaxed);
    let store = {
        let disk = disk.clone();
        RedbStore::with_backend(move || disk.clone()).unwrap()
    };
    assert_eq!(sequence(ask(&store, append("t", "1", None))), 1);
    disk.syncs_fail.store(1, Ordering::Relaxed);
    assert_eq!(ask(&store, append("t", "2", None)), Err(StoreError::Failed));
    let Ok(Completion::Records { log, .. }) = ask(&store, read("t", 0)) else {
        panic!();
    };
    assert_eq!(sequence(ask(&store, append("t", "3", None))), log.last + 1);
}
