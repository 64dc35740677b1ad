//! Heaps of the program's own: counted, limited and freed apart.

use crate::is_plain;
use core::ptr::NonNull;
use hakmem_sys as sys;
use std::alloc::{GlobalAlloc, Layout};

/// A heap. Its blocks may be allocated and freed by any thread, and are gone when it is dropped.
///
/// ```
/// use hakmem::Heap;
/// use std::alloc::{GlobalAlloc, Layout};
///
/// let heap = Heap::new(Some(1 << 20)).unwrap();
/// let layout = Layout::new::<[u64; 100]>();
/// let block = unsafe { heap.alloc(layout) };
/// assert_eq!(heap.stat().blocks, 1);
/// unsafe { heap.dealloc(block, layout) };
/// ```
///
/// With the feature `allocator-api2`, `&Heap` is an allocator of collections: the borrow checker sees
/// that none of them outlives the heap.
#[derive(Debug)]
pub struct Heap(NonNull<sys::hakmem_heap_t>);

/// What a heap has at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapStat {
    /// In use.
    pub blocks: usize,
    /// The sum of their usable sizes.
    pub live_bytes: usize,
    /// Memory of the heap: units of 64 KiB, and huge blocks.
    pub committed_bytes: usize,
    /// The most of it that the heap may have.
    pub limit: Option<usize>,
}

// SAFETY: the handle is a number, and any thread may pass it to any function.
unsafe impl Send for Heap {}
unsafe impl Sync for Heap {}

impl Heap {
    /// A heap that may have `limit` bytes of memory; `None`: there is no memory for it.
    pub fn new(limit: Option<usize>) -> Option<Heap> {
        // SAFETY: any thread may call it at any time.
        NonNull::new(unsafe { sys::hakmem_heap_new(limit.unwrap_or(0)) }).map(Heap)
    }

    /// Frees all blocks at once. Nothing borrows the heap, so no collection has one of them; blocks from
    /// `alloc` must not be used any more.
    pub fn free_all(&mut self) {
        // SAFETY: the heap lives as long as self.
        unsafe { sys::hakmem_heap_free_all(self.0.as_ptr()) }
    }

    /// Changes the limit for all requests from now on.
    pub fn set_limit(&self, limit: Option<usize>) {
        // SAFETY: as above.
        unsafe { sys::hakmem_heap_set_limit(self.0.as_ptr(), limit.unwrap_or(0)) }
    }

    pub fn stat(&self) -> HeapStat {
        let mut found = sys::hakmem_heap_stat::default();
        // SAFETY: as above; the call fills in a struct of that size.
        unsafe {
            sys::hakmem_heap_stats(self.0.as_ptr(), &mut found, core::mem::size_of_val(&found));
        }
        HeapStat {
            blocks: found.blocks,
            live_bytes: found.live_bytes,
            committed_bytes: found.committed_bytes,
            limit: (found.limit != 0).then_some(found.limit),
        }
    }

    /// Whether a block in use is one of this heap.
    pub fn has(&self, block: *const u8) -> bool {
        // SAFETY: the call looks at records only, whatever the address.
        unsafe { sys::hakmem_heap_of(block.cast()) == self.0.as_ptr() }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: nobody has the handle any more.
        unsafe { sys::hakmem_heap_destroy(self.0.as_ptr()) }
    }
}

// SAFETY: blocks are as large and as aligned as the layout says, and none of the calls unwinds.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_plain(layout.size(), layout.align()) {
            sys::hakmem_heap_malloc(self.0.as_ptr(), layout.size()).cast()
        } else {
            sys::hakmem_heap_aligned_alloc(self.0.as_ptr(), layout.align(), layout.size()).cast()
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_plain(layout.size(), layout.align()) {
            return sys::hakmem_heap_calloc(self.0.as_ptr(), 1, layout.size()).cast();
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            block.write_bytes(0, layout.size());
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        crate::Hakmem.dealloc(block, layout)
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_plain(layout.size(), layout.align()) && is_plain(size, layout.align()) {
            return sys::hakmem_heap_realloc(self.0.as_ptr(), block.cast(), size).cast();
        }
        let other = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !other.is_null() {
            block.copy_to_nonoverlapping(other, layout.size().min(size));
            self.dealloc(block, layout);
        }
        other
    }
}

#[cfg(feature = "allocator-api2")]
mod collections {
    use super::{GlobalAlloc, Heap, Layout, NonNull};
    use allocator_api2::alloc::{AllocError, Allocator};

    // SAFETY: blocks live until they are freed, or the heap ends, which the borrow rules out. All copies of
    // the reference are the same allocator.
    unsafe impl Allocator for &Heap {
        fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            let block = if layout.size() == 0 {
                NonNull::new(layout.align() as *mut u8)
            } else {
                // SAFETY: the size is not 0.
                NonNull::new(unsafe { self.alloc(layout) })
            };
            let block = block.ok_or(AllocError)?;
            Ok(NonNull::slice_from_raw_parts(block, layout.size()))
        }

        unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
            if layout.size() != 0 {
                self.dealloc(block.as_ptr(), layout)
            }
        }
    }
}
