//! With the feature `override` malloc of the C library is the same heap.
#![cfg(feature = "override")]

#[test]
fn c_blocks_are_ours() {
    let before = hakmem::stats::get("total.live_bytes").unwrap();
    // SAFETY: a block that is freed once.
    unsafe {
        let block = libc::malloc(64 << 20);
        assert!(!block.is_null());
        // The test harness may free something of its own meanwhile.
        assert!(hakmem::stats::get("total.live_bytes").unwrap() >= before + (60 << 20));
        assert!(hakmem::usable_size(block.cast()) >= 64 << 20);
        libc::free(block);
        let line = libc::strdup(c"a block that the C library allocates itself".as_ptr());
        assert!(hakmem::usable_size(line.cast()) >= 44);
        libc::free(line.cast());
    }
}
