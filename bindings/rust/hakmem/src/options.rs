//! The options of this process, by name, with or without the `HAKMEM_` in front.

use core::ffi::{c_char, CStr};
use hakmem_sys as sys;
use std::ffi::CString;
use std::fmt;

/// Why an option was not read or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no such option.
    Unknown,
    /// The option does not accept the value.
    BadValue,
    /// The option cannot change while the process runs.
    Fixed,
    /// The value needs the debug build of the library.
    NeedsDebugBuild,
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Error::Unknown => "there is no such option",
            Error::BadValue => "the option does not accept the value",
            Error::Fixed => "the option cannot change while the process runs",
            Error::NeedsDebugBuild => "the value needs the debug build of the library",
        })
    }
}

impl std::error::Error for Error {}

/// What is known of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    pub name: &'static str,
    pub value: String,
    /// "default", "profile", "conf", "environment" or "program".
    pub source: &'static str,
    /// "0..16", "abort|report", ...
    pub accepted: &'static str,
    pub default: String,
    pub unit: &'static str,
    pub help: &'static str,
    pub is_changeable: bool,
}

/// The value of an option as text. `get("PROFILE")` is the profile that the process started with.
pub fn get(name: &str) -> Result<String, Error> {
    let name = CString::new(name).map_err(|_| Error::Unknown)?;
    let mut value = vec![0u8; 256];
    loop {
        // SAFETY: the call writes at most as many bytes as there are.
        match unsafe {
            sys::hakmem_option_get(name.as_ptr(), value.as_mut_ptr().cast(), value.len())
        } {
            0 => break,
            libc::ERANGE => value.resize(value.len() * 2, 0),
            _ => return Err(Error::Unknown),
        }
    }
    let text = CStr::from_bytes_until_nul(&value).unwrap_or_default();
    Ok(text.to_string_lossy().into_owned())
}

/// Sets an option for all threads from now on, to a value as in the environment.
pub fn set(name: &str, value: &str) -> Result<(), Error> {
    let name = CString::new(name).map_err(|_| Error::Unknown)?;
    let value = CString::new(value).map_err(|_| Error::BadValue)?;
    // SAFETY: both are strings that end with a 0.
    match unsafe { sys::hakmem_option_set(name.as_ptr(), value.as_ptr()) } {
        0 => Ok(()),
        libc::ENOENT => Err(Error::Unknown),
        libc::EPERM => Err(Error::Fixed),
        libc::ENOTSUP => Err(Error::NeedsDebugBuild),
        _ => Err(Error::BadValue),
    }
}

/// All options.
pub fn all() -> impl Iterator<Item = Info> {
    (0..).map_while(describe)
}

fn describe(index: usize) -> Option<Info> {
    let mut found = core::mem::MaybeUninit::<sys::hakmem_option>::zeroed();
    let size = core::mem::size_of::<sys::hakmem_option>();
    // SAFETY: the call fills in a struct of that size; all zeroes are a value of it.
    let found = unsafe {
        if sys::hakmem_option_info(index, found.as_mut_ptr(), size) != 0 {
            return None;
        }
        found.assume_init()
    };
    // SAFETY: the strings live as long as the process, and the array ends with a 0.
    unsafe {
        Some(Info {
            name: text(found.name),
            value: get(text(found.name)).ok()?,
            source: text(found.source),
            accepted: text(found.accepted),
            default: text(found.default_value.as_ptr()).to_owned(),
            unit: text(found.unit),
            help: text(found.help),
            is_changeable: found.is_changeable != 0,
        })
    }
}

/// A string of the library, all of which are ASCII.
///
/// # Safety
/// It ends with a 0 and lives for `'a`.
pub(crate) unsafe fn text<'a>(start: *const c_char) -> &'a str {
    CStr::from_ptr(start).to_str().unwrap_or_default()
}

fn limit_of(name: &str) -> Option<u64> {
    get(name).ok()?.parse().ok().filter(|&size| size != 0)
}

fn set_limit_of(name: &str, size: Option<u64>) -> Result<(), Error> {
    set(name, &size.unwrap_or(0).to_string())
}

/// The most bytes that the heap may have committed.
pub fn limit() -> Option<u64> {
    limit_of("LIMIT")
}

/// Sets that limit. Beyond it allocations fail: `try_reserve` says so, most others end the program.
pub fn set_limit(size: Option<u64>) -> Result<(), Error> {
    set_limit_of("LIMIT", size)
}

/// The committed bytes above which free memory goes back before more is taken; `None`: no such limit, or one
/// that follows the control group (`auto`).
pub fn soft_limit() -> Option<u64> {
    limit_of("LIMIT_SOFT")
}

/// Sets that limit.
pub fn set_soft_limit(size: Option<u64>) -> Result<(), Error> {
    set_limit_of("LIMIT_SOFT", size)
}
