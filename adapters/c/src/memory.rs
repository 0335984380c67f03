//! Memory of the caller: pointers become references and texts, or a code.

use core::ffi::{CStr, c_char, c_void};
use core::slice;

use antiphon::Json;

use crate::code::antiphon_code as Code;

/// What a handle leads to.
///
/// # Safety
/// The pointer is NULL, or came from this library and was not freed, and nothing else uses it meanwhile.
pub(crate) unsafe fn handle<'a, T>(pointer: *mut T) -> Result<&'a mut T, Code> {
    // SAFETY: by this function's own rule.
    unsafe { pointer.as_mut() }.ok_or(Code::ANTIPHON_NULL)
}

/// Writes what is returned through a pointer.
///
/// # Safety
/// The pointer is NULL, or leads to a `T` that may be written.
pub(crate) unsafe fn give<T>(to: *mut T, value: T) -> Result<(), Code> {
    if to.is_null() {
        return Err(Code::ANTIPHON_NULL);
    }
    // SAFETY: by this function's own rule.
    unsafe { to.write(value) };
    Ok(())
}

/// Bytes of the caller; NULL stands for none if the length is zero.
///
/// # Safety
/// The pointer is NULL, or leads to `len` bytes that do not change meanwhile.
pub(crate) unsafe fn bytes<'a>(from: *const c_void, len: usize) -> Result<&'a [u8], Code> {
    if len == 0 {
        return Ok(&[]);
    }
    if from.is_null() {
        return Err(Code::ANTIPHON_NULL);
    }
    if isize::try_from(len).is_err() {
        return Err(Code::ANTIPHON_BAD_LENGTH);
    }
    // SAFETY: by this function's own rule; the length was checked.
    Ok(unsafe { slice::from_raw_parts(from.cast(), len) })
}

/// A text of the caller that ends in NUL.
///
/// # Safety
/// The pointer is NULL, or leads to bytes that end in NUL and do not change meanwhile.
pub(crate) unsafe fn name<'a>(from: *const c_char) -> Result<&'a str, Code> {
    if from.is_null() {
        return Err(Code::ANTIPHON_NULL);
    }
    // SAFETY: by this function's own rule.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_str().map_err(|_| Code::ANTIPHON_NOT_UTF8)
}

/// A JSON value of the caller; none if the pointer is NULL.
///
/// # Safety
/// As for [`bytes`].
pub(crate) unsafe fn json_of<'a>(
    from: *const c_char,
    len: usize,
) -> Result<Option<Json<'a>>, Code> {
    if from.is_null() && len == 0 {
        return Ok(None);
    }
    // SAFETY: by this function's own rule.
    let text = unsafe { bytes(from.cast(), len) }?;
    let parsed = Json::parse(text).map_err(|_| Code::ANTIPHON_NOT_JSON)?;
    Ok(Some(parsed))
}
