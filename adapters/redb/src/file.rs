//! Opening a file, and what is refused.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, Error, StorageBackend};

use crate::counted::{Counted, Counts};
use crate::tables;

/// Why a file was not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenError {
    /// The file; `None` for another storage.
    pub path: Option<PathBuf>,
    /// The reason.
    pub reason: String,
}

impl OpenError {
    fn of(reason: impl fmt::Display) -> Self {
        let reason = reason.to_string();
        Self { path: None, reason }
    }

    fn at(self, path: &Path) -> Self {
        let path = Some(path.to_path_buf());
        Self { path, ..self }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}: {}", path.display(), self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

impl std::error::Error for OpenError {}

/// Makes a file, if there is none. It gets its name when it is complete, so a file that is empty was damaged.
pub(crate) fn create(path: &Path) -> Result<(), OpenError> {
    let make = || -> Result<(), Error> {
        if path.try_exists()? {
            return Ok(());
        }
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&new)?;
        let backend = FileBackend::new(file)?;
        tables::initialize(&Builder::new().create_with_backend(backend)?)?;
        fs::rename(&new, path)?;
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        // Not every system syncs folders.
        let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        Ok(())
    };
    make().map_err(|error| OpenError::of(error).at(path))
}

/// Opens a file that must be complete.
pub(crate) fn open(path: &Path, counts: &Arc<Counts>) -> Result<Database, OpenError> {
    let opened = || {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(OpenError::of)?;
        if file.metadata().map_err(OpenError::of)?.len() == 0 {
            return Err(OpenError::of("it is empty, so it was damaged"));
        }
        let backend = FileBackend::new(file).map_err(OpenError::of)?;
        checked(backend, counts)
    };
    opened().map_err(|error| error.at(path))
}

/// Opens another storage, which may be empty.
pub(crate) fn open_backend(
    backend: impl StorageBackend,
    counts: &Arc<Counts>,
) -> Result<Database, OpenError> {
    if backend.len().map_err(OpenError::of)? > 0 {
        return checked(backend, counts);
    }
    let database = build(backend, counts).map_err(OpenError::of)?;
    tables::initialize(&database).map_err(OpenError::of)?;
    Ok(database)
}

fn checked(backend: impl StorageBackend, counts: &Arc<Counts>) -> Result<Database, OpenError> {
    // redb may panic over a file that was altered.
    let built = catch_unwind(AssertUnwindSafe(|| {
        let database = build(backend, counts)?;
        let format = tables::format(&database)?;
        Ok::<_, Error>((database, format))
    }));
    let built = built.map_err(|_| OpenError::of("it is damaged"))?;
    let (database, format) = built.map_err(|error| match error {
        Error::DatabaseAlreadyOpen => OpenError::of("it is open in another process"),
        Error::TableDoesNotExist(_) => OpenError::of("it is no file of antiphon-redb"),
        Error::Corrupted(what) => OpenError::of(format!("it is damaged: {what}")),
        other => OpenError::of(other),
    })?;
    match format {
        tables::FORMAT => Ok(database),
        other => Err(OpenError::of(format!(
            "it has format {other}, and this program reads format {}",
            tables::FORMAT
        ))),
    }
}

fn build(backend: impl StorageBackend, counts: &Arc<Counts>) -> Result<Database, DatabaseError> {
    let counts = Arc::clone(counts);
    let mut builder = Builder::new();
    builder.set_check_integrity_on_open(true);
    builder.create_with_backend(Counted { backend, counts })
}
