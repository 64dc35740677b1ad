//! Builds the library from its C sources, as `cmake/HakmemFlags.cmake` does for the archive.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The library defines these, so the compiler must not reason from what it knows of the usual ones.
const OWN_NAMES: [&str; 13] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
    "free_sized",
    "free_aligned_sized",
    "malloc_usable_size",
];

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    println!("cargo:rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder).expect("the sources of HAKMEM") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            println!("cargo:rerun-if-changed={}", path.display());
            if path.extension().is_some_and(|extension| extension == "c") {
                files.push(path);
            }
        }
    }
}

fn main() {
    let system = env::var("CARGO_CFG_TARGET_OS").expect("set by cargo");
    let width = env::var("CARGO_CFG_TARGET_POINTER_WIDTH").expect("set by cargo");
    assert!(
        system == "linux" && width == "64",
        "HAKMEM runs on 64-bit Linux only, not on {system}"
    );

    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("native");
    let is_override = env::var_os("CARGO_FEATURE_OVERRIDE").is_some();
    let mut files = Vec::new();
    collect(&root.join("src"), &mut files);
    files.sort();

    let mut build = cc::Build::new();
    build
        .files(files)
        .include(root.join("src"))
        .include(root.join("include"))
        .std("gnu11")
        .define("_GNU_SOURCE", None)
        .define("HAKMEM_DEBUG", "0")
        .define("HAKMEM_CHECKS", "1")
        .define("HAKMEM_PREFIXED_ONLY", if is_override { "0" } else { "1" })
        // A debug build of the program is no reason for a slow allocator.
        .opt_level(2)
        .define("NDEBUG", None)
        .pic(true)
        .warnings(false)
        .flag("-fvisibility=hidden")
        .flag("-ftls-model=initial-exec")
        .flag("-pthread")
        // operator new throws through the library.
        .flag("-fexceptions");
    for flag in [
        "-fcf-protection=return",
        "-mbranch-protection=standard",
        "-fno-plt",
        "-fno-semantic-interposition",
        "-fno-stack-protector",
        "-fno-math-errno",
        "-ffunction-sections",
        "-fdata-sections",
    ] {
        build.flag_if_supported(flag);
    }
    for name in OWN_NAMES {
        build.flag(format!("-fno-builtin-{name}"));
    }
    build.cargo_metadata(false).compile("hakmem");

    let out = env::var("OUT_DIR").expect("set by cargo");
    println!("cargo:rustc-link-search=native={out}");
    // All of it or nothing: no program may end up with malloc from here and a rarer name from libc.
    let whole = if is_override { ":+whole-archive" } else { "" };
    println!("cargo:rustc-link-lib=static{whole}=hakmem");
    println!("cargo:rustc-link-lib=pthread");
    println!("cargo:include={}", root.join("include").display());
}
