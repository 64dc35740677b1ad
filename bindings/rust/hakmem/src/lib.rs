//! HAKMEM as the allocator of a Rust program, and a look at it from inside.
//!
//! ```
//! #[global_allocator]
//! static GLOBAL: hakmem::Hakmem = hakmem::Hakmem;
//!
//! let words = vec![0u8; 1 << 20];
//! assert!(hakmem::stats::get("total.live_bytes").unwrap() >= 1 << 20);
//! hakmem::options::set("PURGE_DELAY_MS", "100").unwrap();
//! # drop(words);
//! ```
//!
//! With the feature `override` the C libraries of the program allocate from it, too.

mod heap;
pub mod options;
pub mod stats;

pub use heap::{Heap, HeapStat};

use core::ffi::c_void;
use hakmem_sys as sys;
use std::alloc::{GlobalAlloc, Layout};

/// The allocator. It has no state of its own: all values of it use the one heap of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hakmem;

/// Whether the plain functions give that alignment: 8 up to 8 bytes, 16 above.
fn is_plain(size: usize, align: usize) -> bool {
    align <= 8 || (align <= 16 && size > 8)
}

// SAFETY: blocks are as large and as aligned as the layout says, and none of the calls unwinds.
unsafe impl GlobalAlloc for Hakmem {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_plain(layout.size(), layout.align()) {
            sys::hakmem_malloc(layout.size()).cast()
        } else {
            sys::hakmem_aligned_alloc(layout.align(), layout.size()).cast()
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_plain(layout.size(), layout.align()) {
            return sys::hakmem_calloc(1, layout.size()).cast();
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            block.write_bytes(0, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let block: *mut c_void = block.cast();
        if is_plain(layout.size(), layout.align()) {
            sys::hakmem_free_sized(block, layout.size());
        } else {
            sys::hakmem_free_aligned_sized(block, layout.align(), layout.size());
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_plain(layout.size(), layout.align()) && is_plain(size, layout.align()) {
            return sys::hakmem_realloc(block.cast(), size).cast();
        }
        let other = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !other.is_null() {
            block.copy_to_nonoverlapping(other, layout.size().min(size));
            self.dealloc(block, layout);
        }
        other
    }
}

/// The bytes that may be used at a block of this allocator, at least those of its layout.
///
/// # Safety
/// The block is alive.
pub unsafe fn usable_size(block: *const u8) -> usize {
    sys::hakmem_malloc_usable_size(block.cast())
}

/// Gives free memory back to the system; false: there was none.
pub fn trim() -> bool {
    // SAFETY: any thread may call it at any time.
    unsafe { sys::hakmem_malloc_trim(0) == 1 }
}

/// The version of the library: 1.2.3 is (1, 2, 3).
pub fn version() -> (u32, u32, u32) {
    // SAFETY: as above.
    let number = unsafe { sys::hakmem_version() } as u32;
    (number / 10000, number / 100 % 100, number % 100)
}
