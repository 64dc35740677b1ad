//! Figures on what the allocator holds and has done; `docs/STATISTICS.md` describes each.

use crate::options::text;
use hakmem_sys as sys;
use std::ffi::CString;

/// One figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    pub name: String,
    pub value: u64,
    pub unit: &'static str,
    pub help: &'static str,
    /// It only grows; otherwise it is the present value.
    pub is_counter: bool,
}

/// The value of one figure, `get("total.live_bytes")`; `None`: there is no such figure.
pub fn get(name: &str) -> Option<u64> {
    let name = CString::new(name).ok()?;
    let mut value = 0;
    // SAFETY: a string that ends with a 0, and a place for the value.
    (unsafe { sys::hakmem_stats_get(name.as_ptr(), &mut value) } == 0).then_some(value)
}

/// All figures.
pub fn all() -> impl Iterator<Item = Figure> {
    (0..).map_while(describe)
}

fn describe(index: usize) -> Option<Figure> {
    let mut found = core::mem::MaybeUninit::<sys::hakmem_stat>::zeroed();
    let size = core::mem::size_of::<sys::hakmem_stat>();
    // SAFETY: the call fills in a struct of that size; all zeroes are a value of it. The strings live
    // as long as the process, and the array ends with a 0.
    unsafe {
        if sys::hakmem_stats_info(index, found.as_mut_ptr(), size) != 0 {
            return None;
        }
        let found = found.assume_init();
        let name = text(found.name.as_ptr()).to_owned();
        Some(Figure {
            value: get(&name)?,
            name,
            unit: text(found.unit),
            help: text(found.help),
            is_counter: found.is_counter != 0,
        })
    }
}

/// All figures and options of one moment, as JSON of the schema "hakmem-stats/1".
pub fn json() -> String {
    let mut buffer = vec![0u8; 1 << 16];
    loop {
        // SAFETY: the call writes at most as many bytes as there are.
        let length = unsafe { sys::hakmem_stats_json(buffer.as_mut_ptr().cast(), buffer.len()) };
        if length < buffer.len() {
            buffer.truncate(length);
            return String::from_utf8_lossy(&buffer).into_owned();
        }
        buffer.resize(2 * length, 0);
    }
}
