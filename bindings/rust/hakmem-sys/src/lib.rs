//! The functions of `hakmem.h`, which describes each of them.
//!
//! The crate `hakmem` has a global allocator, statistics and options on top of them.
#![no_std]
#![allow(non_camel_case_types)]

use core::ffi::{c_char, c_int, c_void};

/// The description of an option.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hakmem_option {
    pub name: *const c_char,
    pub type_: *const c_char,
    pub unit: *const c_char,
    pub accepted: *const c_char,
    pub help: *const c_char,
    pub tier: *const c_char,
    pub source: *const c_char,
    pub is_changeable: c_int,
    pub default_value: [c_char; 64],
}

/// The description of a figure of the statistics.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hakmem_stat {
    pub name: [c_char; 48],
    pub unit: *const c_char,
    pub help: *const c_char,
    pub is_counter: c_int,
}

/// A heap of the program's own; a handle, not an address.
#[repr(C)]
pub struct hakmem_heap_t {
    _opaque: [u8; 0],
}

/// The figures of a heap.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct hakmem_heap_stat {
    pub blocks: usize,
    pub live_bytes: usize,
    pub committed_bytes: usize,
    pub limit: usize,
}

extern "C" {
    pub fn hakmem_version() -> c_int;

    pub fn hakmem_malloc(size: usize) -> *mut c_void;
    pub fn hakmem_calloc(count: usize, size: usize) -> *mut c_void;
    pub fn hakmem_realloc(ptr: *mut c_void, size: usize) -> *mut c_void;
    pub fn hakmem_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    pub fn hakmem_free(ptr: *mut c_void);
    pub fn hakmem_free_sized(ptr: *mut c_void, size: usize);
    pub fn hakmem_free_aligned_sized(ptr: *mut c_void, alignment: usize, size: usize);

    pub fn hakmem_heap_new(limit: usize) -> *mut hakmem_heap_t;
    pub fn hakmem_heap_malloc(heap: *mut hakmem_heap_t, size: usize) -> *mut c_void;
    pub fn hakmem_heap_calloc(heap: *mut hakmem_heap_t, count: usize, size: usize) -> *mut c_void;
    pub fn hakmem_heap_aligned_alloc(
        heap: *mut hakmem_heap_t,
        alignment: usize,
        size: usize,
    ) -> *mut c_void;
    pub fn hakmem_heap_realloc(
        heap: *mut hakmem_heap_t,
        ptr: *mut c_void,
        size: usize,
    ) -> *mut c_void;
    pub fn hakmem_heap_free_all(heap: *mut hakmem_heap_t);
    pub fn hakmem_heap_destroy(heap: *mut hakmem_heap_t);
    pub fn hakmem_heap_set_limit(heap: *mut hakmem_heap_t, limit: usize);
    pub fn hakmem_heap_of(ptr: *const c_void) -> *mut hakmem_heap_t;
    pub fn hakmem_heap_next(heap: *const hakmem_heap_t) -> *mut hakmem_heap_t;
    pub fn hakmem_heap_stats(
        heap: *const hakmem_heap_t,
        stat: *mut hakmem_heap_stat,
        size: usize,
    ) -> c_int;

    pub fn hakmem_malloc_usable_size(ptr: *const c_void) -> usize;
    pub fn hakmem_malloc_trim(pad: usize) -> c_int;

    pub fn hakmem_option_get(name: *const c_char, value: *mut c_char, size: usize) -> c_int;
    pub fn hakmem_option_set(name: *const c_char, value: *const c_char) -> c_int;
    pub fn hakmem_option_info(index: usize, option: *mut hakmem_option, size: usize) -> c_int;

    pub fn hakmem_stats_get(name: *const c_char, value: *mut u64) -> c_int;
    pub fn hakmem_stats_info(index: usize, stat: *mut hakmem_stat, size: usize) -> c_int;
    pub fn hakmem_stats_json(buffer: *mut c_char, size: usize) -> usize;
    pub fn hakmem_verify() -> usize;
}
