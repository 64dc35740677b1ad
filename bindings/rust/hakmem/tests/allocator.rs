//! A whole test program on HAKMEM: the allocator by its own calls, and crates that live on it.

use hakmem::Hakmem;
use std::alloc::{GlobalAlloc, Layout};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::thread;

#[global_allocator]
static GLOBAL: Hakmem = Hakmem;

/// Figures and options are of the process: tests that compare them take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn live_bytes() -> u64 {
    hakmem::stats::get("total.live_bytes").unwrap()
}

#[test]
fn every_size_and_alignment() {
    let _turn = alone();
    for size in [1, 7, 8, 9, 16, 100, 1000, 3000, 65536, 70000, 2 << 20] {
        for shift in 0..14 {
            let layout = Layout::from_size_align(size, 1 << shift).unwrap();
            unsafe {
                let dirty = GLOBAL.alloc(layout);
                dirty.write_bytes(0x5a, size);
                GLOBAL.dealloc(dirty, layout);

                let block = GLOBAL.alloc_zeroed(layout);
                assert_eq!(block as usize % layout.align(), 0, "{layout:?}");
                assert!(hakmem::usable_size(block) >= size, "{layout:?}");
                let bytes = core::slice::from_raw_parts_mut(block, size);
                assert!(
                    bytes.iter().all(|&byte| byte == 0),
                    "{layout:?} is not zero"
                );
                bytes.fill(0x77);

                for next in [size * 3, 1 + size / 2, 5] {
                    let old = Layout::from_size_align(size, 1 << shift).unwrap();
                    let other = GLOBAL.alloc(old);
                    other.write_bytes(0x11, size);
                    let other = GLOBAL.realloc(other, old, next);
                    assert_eq!(other as usize % old.align(), 0, "{old:?} to {next}");
                    let kept = core::slice::from_raw_parts(other, size.min(next));
                    assert!(kept.iter().all(|&byte| byte == 0x11), "{old:?} to {next}");
                    GLOBAL.dealloc(other, Layout::from_size_align(next, old.align()).unwrap());
                }
                assert!(
                    bytes.iter().all(|&byte| byte == 0x77),
                    "{layout:?} was overwritten"
                );
                GLOBAL.dealloc(block, layout);
            }
        }
    }
}

#[test]
fn statistics() {
    let _turn = alone();
    let before = live_bytes();
    let block = vec![1u8; 64 << 20];
    // The threads of rayon and of the test harness free something of their own meanwhile.
    assert!(live_bytes() >= before + (60 << 20));
    drop(block);
    assert!(live_bytes() < before + (32 << 20));
    assert_eq!(hakmem::stats::get("total.nothing"), None);

    let figures: Vec<_> = hakmem::stats::all().collect();
    assert!(figures.len() > 100);
    let live = figures
        .iter()
        .find(|figure| figure.name == "total.live_bytes")
        .unwrap();
    assert_eq!((live.unit, live.is_counter), ("bytes", false));

    let json: serde_json::Value = serde_json::from_str(&hakmem::stats::json()).unwrap();
    assert_eq!(json["schema"], "hakmem-stats/1");
    assert!(json["total"]["live_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn options() {
    use hakmem::options::{self, Error};
    let _turn = alone();
    options::set("PURGE_DELAY_MS", "1234").unwrap();
    assert_eq!(options::get("HAKMEM_PURGE_DELAY_MS").as_deref(), Ok("1234"));
    let info = options::all()
        .find(|info| info.name == "HAKMEM_PURGE_DELAY_MS")
        .unwrap();
    assert_eq!(
        (info.value.as_str(), info.source, info.default.as_str()),
        ("1234", "program", "500")
    );
    assert!(info.is_changeable && info.unit == "ms");
    options::set("PURGE_DELAY_MS", "500").unwrap();

    assert_eq!(options::get("NOTHING"), Err(Error::Unknown));
    assert_eq!(options::set("NOTHING", "1"), Err(Error::Unknown));
    assert_eq!(options::set("PURGE_DELAY_MS", "soon"), Err(Error::BadValue));
    assert_eq!(options::set("SS_SIZE", "2M"), Err(Error::Fixed));
    assert_eq!(options::set("TIMING", "1"), Err(Error::NeedsDebugBuild));
}

#[test]
fn limit() {
    let _turn = alone();
    assert_eq!(hakmem::options::limit(), None);
    hakmem::options::set_limit(Some(256 << 20)).unwrap();
    assert_eq!(hakmem::options::limit(), Some(256 << 20));
    let mut bytes: Vec<u8> = Vec::new();
    assert!(bytes.try_reserve_exact(512 << 20).is_err());
    hakmem::options::set_limit(None).unwrap();
    assert!(bytes.try_reserve_exact(512 << 20).is_ok());
    hakmem::options::set_soft_limit(Some(1 << 30)).unwrap();
    assert_eq!(hakmem::options::soft_limit(), Some(1 << 30));
    hakmem::options::set_soft_limit(None).unwrap();
}

#[test]
fn trim_and_version() {
    let _turn = alone();
    hakmem::options::set("PURGE_DELAY_MS", "-1").unwrap();
    drop((0..1000).map(|_| vec![1u8; 100_000]).collect::<Vec<_>>());
    assert!(hakmem::trim());
    hakmem::options::set("PURGE_DELAY_MS", "500").unwrap();
    let version = hakmem::version();
    let text = format!("{}.{}.{}", version.0, version.1, version.2);
    assert_eq!(text, env!("CARGO_PKG_VERSION"));
}

/// serde_json: a large document of small strings, there and back.
#[test]
fn documents() {
    let _turn = alone();
    let map: BTreeMap<String, Vec<String>> = (0..2000)
        .map(|key| {
            (
                format!("key {key}"),
                (0..20).map(|word| "x".repeat(word)).collect(),
            )
        })
        .collect();
    let text = serde_json::to_string_pretty(&map).unwrap();
    assert_eq!(
        serde_json::from_str::<BTreeMap<String, Vec<String>>>(&text).unwrap(),
        map
    );
}

/// hashbrown: a table that grows, with keys in blocks of their own.
#[test]
fn tables() {
    let _turn = alone();
    let mut table = hashbrown::HashMap::new();
    for key in 0..200_000u32 {
        table.insert(key.to_string(), key);
    }
    table.retain(|_, value| *value % 3 == 0);
    assert_eq!(table.len(), 66_667);
    assert_eq!(table["199998"], 199_998);
}

/// rayon: threads that steal each other's work, and free each other's blocks.
#[test]
fn parallel() {
    use rayon::prelude::*;
    let _turn = alone();
    let mut words: Vec<String> = (0..100_000u32)
        .into_par_iter()
        .map(|n| n.to_string())
        .collect();
    words.par_sort();
    assert_eq!((words[0].as_str(), words[99_999].as_str()), ("0", "99999"));
    let length: usize = words.into_par_iter().map(|word| word.repeat(3).len()).sum();
    assert_eq!(length, 3 * (10 + 90 * 2 + 900 * 3 + 9000 * 4 + 90_000 * 5));
}

/// crossbeam: one thread allocates, another frees.
#[test]
fn channels() {
    let _turn = alone();
    let before = live_bytes();
    let (send, receive) = crossbeam_channel::bounded::<Box<[u8; 200]>>(1000);
    let maker = thread::spawn(move || {
        for number in 0..300_000u32 {
            send.send(Box::new([number as u8; 200])).unwrap();
        }
    });
    let mut sum = 0u64;
    for block in receive {
        sum += u64::from(block[199]);
    }
    maker.join().unwrap();
    assert_eq!(
        sum,
        (0..300_000u32)
            .map(|number| u64::from(number as u8))
            .sum::<u64>()
    );
    assert!(
        live_bytes() < before + (8 << 20),
        "blocks of the channel stay alive"
    );
}

/// What the figures and the blocks of all the tests rest on.
#[test]
fn records_are_sound() {
    let _turn = alone();
    // SAFETY: any thread may call it at any time.
    assert_eq!(unsafe { hakmem_sys::hakmem_verify() }, 0);
}
