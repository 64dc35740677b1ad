//! Heaps of the program's own, in a program whose other blocks are the system's.

use hakmem::Heap;
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicPtr, Ordering};

#[test]
fn every_size_and_alignment() {
    let heap = Heap::new(None).unwrap();
    for size in [1, 7, 8, 9, 16, 100, 1000, 3000, 65536, 70000, 2 << 20] {
        for shift in 0..14 {
            let layout = Layout::from_size_align(size, 1 << shift).unwrap();
            unsafe {
                let block = heap.alloc_zeroed(layout);
                assert_eq!(block as usize % layout.align(), 0, "{layout:?}");
                assert!(heap.has(block), "{layout:?}");
                let bytes = core::slice::from_raw_parts_mut(block, size);
                assert!(bytes.iter().all(|&byte| byte == 0), "{layout:?}");
                bytes.fill(0x77);
                for next in [size * 3, 1 + size / 2, 5] {
                    let other = heap.alloc(layout);
                    other.write_bytes(0x11, size);
                    let other = heap.realloc(other, layout, next);
                    assert!(heap.has(other) && other as usize % layout.align() == 0);
                    let kept = core::slice::from_raw_parts(other, size.min(next));
                    assert!(kept.iter().all(|&byte| byte == 0x11), "to {next}");
                    heap.dealloc(other, Layout::from_size_align(next, 1 << shift).unwrap());
                }
                assert!(bytes.iter().all(|&byte| byte == 0x77), "{layout:?}");
                heap.dealloc(block, layout);
            }
        }
    }
    assert_eq!(heap.stat().committed_bytes, 0);
}

#[test]
fn limit_and_free_all() {
    let mut heap = Heap::new(Some(1 << 20)).unwrap();
    let layout = Layout::new::<[u8; 1000]>();
    let mut blocks = 0;
    while unsafe { !heap.alloc(layout).is_null() } {
        blocks += 1;
    }
    assert!((900..1100).contains(&blocks), "{blocks} blocks");
    assert_eq!(heap.stat().blocks, blocks);
    assert_eq!(heap.stat().limit, Some(1 << 20));
    heap.free_all();
    assert_eq!((heap.stat().blocks, heap.stat().live_bytes), (0, 0));
    heap.set_limit(None);
    assert_eq!(heap.stat().limit, None);
    assert!(unsafe { !heap.alloc(Layout::new::<[u8; 4 << 20]>()).is_null() });
}

#[test]
fn threads_trade_blocks() {
    let heap = Heap::new(None).unwrap();
    let held: Vec<AtomicPtr<u8>> = (0..100).map(|_| AtomicPtr::default()).collect();
    let layout = Layout::new::<[u64; 20]>();
    std::thread::scope(|scope| {
        for seed in 0..4usize {
            let (heap, held) = (&heap, &held);
            scope.spawn(move || {
                for turn in 0..5000 {
                    let block = unsafe { heap.alloc(layout) };
                    assert!(!block.is_null());
                    let old = held[(turn * 7 + seed) % 100].swap(block, Ordering::AcqRel);
                    if !old.is_null() {
                        unsafe { heap.dealloc(old, layout) };
                    }
                }
            });
        }
    });
    assert_eq!(heap.stat().blocks, 100);
}

#[cfg(feature = "allocator-api2")]
#[test]
fn collections_live_in_a_heap() {
    let mut heap = Heap::new(None).unwrap();
    {
        let mut table = hashbrown::HashMap::new_in(&heap);
        for key in 0..10_000u32 {
            table.insert(key, key * 2);
        }
        assert_eq!(table[&4321], 8642);
        assert!(heap.stat().live_bytes > 80_000);
    }
    assert_eq!(heap.stat().blocks, 0);
    heap.free_all();
}
