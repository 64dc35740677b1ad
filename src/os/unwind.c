/* unwind.c: walks a stack by the tables of .eh_frame, and by frame pointers where there are none.
 *
 * HOW. Compilers describe for each instruction of a file where the caller's frame begins (the CFA)
 * and where the return address and the frame pointer of the caller lie. Distributions build without
 * frame pointers, so the tables come first. Code without tables, such as what a just-in-time compiler
 * makes, usually has frame pointers; one counts if it points up the stack and a return address
 * follows it. The trampolines that Python makes for profilers have neither; after their call they only return, so the
 * code behind the call tells the frame (step_by_code).
 *
 * WHERE THE TABLES ARE. _dl_find_object of glibc 2.35 tells without a lock. Elsewhere the file's
 * headers tell, found by /proc/self/maps: dl_iterate_phdr takes a lock that a thread in dlopen may
 * hold while it allocates.
 *
 * RULES. A program has few return addresses, so the rule that the tables give for each is kept, packed into
 * one atomic word with 24 bits of the address's hash. Threads overwrite each other's words freely. A word that
 * is stale, or belongs to another address (once in 2^24), makes a wrong frame and nothing worse: each word of
 * the stack is read only on a page that is known to be readable.
 *
 * WALKS. A program allocates in few places, and reaches each by few paths. So walks are kept, too: where a walk
 * began, and the words of the stack that it used, which are the return addresses and those frame pointers that
 * a rule asked for. If all of these words are the same again, so are the frames. One thread at a time has a
 * kept walk. Other threads, a signal handler that interrupts the thread, and the child of a fork without that
 * thread walk without it. */
#include "os/unwind.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/module.h"
#include "os/os.h"
#include "os/unwind_table.h"

enum {
    RULES_SHIFT = 12, /* log2 of the number of kept rules */
    DEPTH_MOST = 512, /* frames of one walk, HAKMEM's own included */
    WALKS = 64,       /* kept walks, a power of two */
    WORDS_MOST = 91,  /* words of a kept walk, which is then 1.5 KiB long */
    WORD = sizeof(uintptr_t),
    CMP_REQUEUE_PRIVATE = 132, /* of futex(2) */
};

#if defined(__x86_64__)
#define STRIPPED(pc) (pc)
#define IS_X86_64 1
#else
#define IS_X86_64 0
#define STRIPPED(pc) ((pc) & (((uintptr_t)1 << 48) - 1)) /* a signature lies above the address */
#endif

/* ---- memory that may not be there ---- */

/* The pages from the caller's own frame upwards are its stack, which no thread unmaps, and are read directly. All other
 * words are copied by the kernel, since another thread may unmap them at any time: code without tables may use the
 * frame pointer for something else. */
typedef struct {
    uintptr_t stack, known; /* so many bytes of the stack are known to be readable */
    uintptr_t page_size;
    uintptr_t
        code; /* the last page with code that is known to be readable; its call is under way */
    struct walk *kept; /* where the words of this walk are kept; NULL: they are not */
} reader_t;

enum { NEAR = 64 * 1024 }; /* the longest frame whose pages are tested one by one */

/* Asks the kernel by a futex call that compares the word with 0 and wakes and moves no thread, so it changes
 * nothing. */
static HAK_OUT_OF_LINE bool is_readable(uintptr_t at) {
    HAK_KEEP_ERRNO();
    return syscall(SYS_futex, at, CMP_REQUEUE_PRIVATE, 0, 0, at, 0) == 0 || errno == EAGAIN;
}

/* The kernel copies the word. If a filter of system calls refuses that, the page is tested and then read directly. */
static bool copy_word(uintptr_t at, uintptr_t *word) {
    HAK_KEEP_ERRNO();
    const struct iovec to = {word, WORD}, from = {(void *)at, WORD};
    if (syscall(SYS_process_vm_readv, hak_os_process_id(), &to, 1, &from, 1, 0) == WORD)
        return true;
    if (errno == EFAULT || !is_readable(at)) return false;
    *word = *(const uintptr_t *)at;
    return true;
}

static HAK_OUT_OF_LINE bool read_beyond(reader_t *reader, uintptr_t at, uintptr_t *word) {
    while (at - reader->stack - reader->known < NEAR && is_readable(reader->stack + reader->known))
        reader->known += reader->page_size;
    if (at - reader->stack >= reader->known) return copy_word(at, word);
    *word = *(const uintptr_t *)at;
    return true;
}

HAK_FAST_PATH bool read_word(reader_t *reader, uintptr_t at, uintptr_t *word) {
    if (at % WORD != 0) return false;
    if (HAK_UNLIKELY(at - reader->stack >= reader->known)) return read_beyond(reader, at, word);
    *word = *(const uintptr_t *)at;
    return true;
}

/* ---- rules ---- */

static const hak_unwind_rule_t no_rule = {.base = HAK_UNWIND_NONE};

static _Atomic uint64_t rules[1 << RULES_SHIFT] HAK_APART;

/* A kept rule, from the lowest bit: valid, base (2), deref, CFA offset (16), fp is saved, its offset
 * (10), that of the return address (9), tag (24). Offsets are in words, the last two from the CFA
 * down. Base CFA: no return address is saved, as in the first function of a thread, where each walk
 * ends. 0 for what does not fit. */
enum {
    BASE_SHIFT = 1,
    DEREF_SHIFT = 3,
    CFA_SHIFT = 4,
    CFA_BITS = 16,
    FP_SAVED_SHIFT = 20,
    FP_SHIFT = 21,
    FP_BITS = 10,
    RA_SHIFT = 31,
    RA_BITS = 9,
    TAG_SHIFT = 40
};

static bool is_below_cfa(const hak_unwind_place_t *place, unsigned bits) {
    return place->base == HAK_UNWIND_CFA && place->offset <= 0 && place->offset % WORD == 0 &&
           (uint64_t)-place->offset / WORD >> bits == 0;
}

static uint64_t pack(const hak_unwind_rule_t *rule) {
    uint64_t fp = 0, word = 1 | (uint64_t)rule->base << BASE_SHIFT;
    if (rule->base == HAK_UNWIND_NONE) return word;
    if (rule->ra.kind != HAK_UNWIND_SAVED) return 1 | (uint64_t)HAK_UNWIND_CFA << BASE_SHIFT;
    if (rule->offset < 0 || rule->offset % WORD || (uint64_t)rule->offset / WORD >> CFA_BITS)
        return 0;
    if (!is_below_cfa(&rule->ra, RA_BITS)) return 0;
    if (rule->fp.kind == HAK_UNWIND_UNKNOWN) return 0;
    if (rule->fp.kind == HAK_UNWIND_SAVED) {
        if (!is_below_cfa(&rule->fp, FP_BITS)) return 0;
        fp = 1 | (uint64_t)-rule->fp.offset / WORD << 1;
    }
    return word | (uint64_t)rule->deref << DEREF_SHIFT |
           (uint64_t)rule->offset / WORD << CFA_SHIFT | fp << FP_SAVED_SHIFT |
           (uint64_t)-rule->ra.offset / WORD << RA_SHIFT;
}

static uintptr_t field(uint64_t word, unsigned shift, unsigned bits) {
    return (word >> shift & ((1u << bits) - 1)) * WORD;
}

/* ---- files ---- */

/* As glibc documents it; older headers do not declare it. */
typedef struct {
    unsigned long long flags;
    void *start, *end;
    void *link_map, *tables;
    unsigned long long reserved[7];
} object_t;

extern int _dl_find_object(void *, object_t *) __attribute__((weak));

/* The tables of a file that is mapped from `base` on. */
static const uint8_t *tables_of(const uint8_t *base) {
    const Elf64_Ehdr *file = (const void *)base;
    const Elf64_Phdr *part = (const void *)(base + file->e_phoff), *tables = NULL;
    uintptr_t bias = 0;
    for (unsigned i = 0; i < file->e_phnum; i++) {
        if (part[i].p_type == PT_LOAD && part[i].p_offset == 0)
            bias = (uintptr_t)base - part[i].p_vaddr;
        if (part[i].p_type == PT_GNU_EH_FRAME) tables = &part[i];
    }
    return tables ? (const uint8_t *)(bias + tables->p_vaddr) : NULL;
}

static void look_up(uintptr_t pc, object_t *object) {
    if (pc - (uintptr_t)object->start < (uintptr_t)object->end - (uintptr_t)object->start) return;
    if (_dl_find_object((void *)pc, object) == 0) return;
    object->end = object->start;
    object->tables = NULL;
}

static HAK_OUT_OF_LINE void find_rule(uintptr_t pc, const uint8_t *tables,
                                      hak_unwind_common_t *common, hak_unwind_rule_t *rule) {
    if (!_dl_find_object) {
        const void *base = hak_os_module_base((const void *)pc);
        tables = base ? tables_of(base) : NULL;
    }
    /* The call may be the last instruction of its function. */
    if (!tables || !hak_unwind_table_read(tables, pc - 1, common, rule)) *rule = no_rule;
}

/* The packed rule of a return address; 0 if it cannot be packed, then it is in *rule. */
HAK_FAST_PATH uint64_t rule_of(uintptr_t pc, object_t *object, hak_unwind_common_t *common,
                               hak_unwind_rule_t *rule) {
    if (_dl_find_object) look_up(pc, object);
    uint64_t hash = (pc ^ (uintptr_t)object->tables << 20) * 0x9E3779B97F4A7C15u;
    _Atomic uint64_t *kept = &rules[hash >> (64 - RULES_SHIFT)];
    uint64_t tag = hash << RULES_SHIFT >> TAG_SHIFT << TAG_SHIFT, word = hak_load_relaxed(kept);
    if (HAK_LIKELY(word & 1 && word >> TAG_SHIFT == tag >> TAG_SHIFT)) return word;
    find_rule(pc, object->tables, common, rule);
    if ((word = pack(rule)) != 0) hak_store_relaxed(kept, word | tag);
    return word;
}

/* ---- kept walks ---- */

typedef struct {
    uintptr_t at, value;
} word_t;

typedef struct walk {
    _Atomic uint32_t busy; /* a thread has it; the other fields are that thread's */
    uint16_t returns;      /* words from the first on: return addresses, and... */
    uint16_t others;       /* ...from the last on: words by which frames were found */
    uint16_t inner, count; /* return addresses inside of the site; frames of the result */
    uint16_t most;         /* the most frames that the caller wanted; 0: nothing is kept */
    bool has_fp;           /* a rule asked for the frame pointer with which the walk began */
    const void *site;
    uintptr_t sp, fp; /* where it began */
    word_t words[WORDS_MOST];
} walk_t;

static walk_t walks[WALKS] HAK_APART;

/* Claims the kept walk of a site and a stack pointer; NULL if another thread has it. */
HAK_FAST_PATH walk_t *claim(const void *site, uintptr_t sp) {
    uint64_t hash = ((uintptr_t)site ^ sp << 20) * 0x9E3779B97F4A7C15u;
    walk_t *walk = &walks[hash >> 32 & (WALKS - 1)];
    return hak_exchange_acq_rel(&walk->busy, 1) ? NULL : walk;
}

HAK_FAST_PATH bool are_same(const word_t *words, unsigned count, reader_t *reader) {
    uintptr_t value;
    for (unsigned i = 0; i < count; i++)
        if (!read_word(reader, words[i].at, &value) || value != words[i].value) return false;
    return true;
}

/* Stores the frames of a kept walk, if its words are the same again. Returns their number, otherwise 0. */
HAK_FAST_PATH unsigned repeat(const walk_t *walk, reader_t *reader, uintptr_t *frames) {
    if (!are_same(walk->words, walk->returns, reader)) return 0;
    if (!are_same(walk->words + WORDS_MOST - walk->others, walk->others, reader)) return 0;
    for (unsigned i = 0; i < walk->count; i++)
        frames[i] = STRIPPED(walk->words[walk->inner + i].value);
    return walk->count;
}

/* True when the walk can keep another word. If it has no room it keeps nothing from then on. */
static bool has_room(walk_t *walk) {
    if (!walk || walk->returns + walk->others < WORDS_MOST) return walk != NULL;
    walk->most = 0;
    return false;
}

HAK_FAST_PATH void note_return(walk_t *walk, uintptr_t at, uintptr_t value) {
    if (has_room(walk)) walk->words[walk->returns++] = (word_t){at, value};
}

static void note_other(walk_t *walk, uintptr_t at, uintptr_t value) {
    if (has_room(walk)) walk->words[WORDS_MOST - ++walk->others] = (word_t){at, value};
}

/* ---- the walk ---- */

typedef struct {
    uintptr_t pc, sp, fp;
    uintptr_t fp_at; /* where the frame pointer was saved; 0: the walk began with it */
    bool guessed;    /* pc was found by a frame pointer */
} frame_t;

/* Notes that the next frame is found by the frame pointer. */
static void note_fp(walk_t *walk, const frame_t *frame) {
    if (frame->fp_at)
        note_other(walk, frame->fp_at, frame->fp);
    else if (walk)
        walk->has_fp = true;
}

static bool find(reader_t *reader, const hak_unwind_place_t *place, const frame_t *frame,
                 uintptr_t cfa, uintptr_t *value) {
    uintptr_t base = place->base == HAK_UNWIND_CFA  ? cfa
                     : place->base == HAK_UNWIND_SP ? frame->sp
                                                    : frame->fp;
    return place->kind == HAK_UNWIND_SAVED &&
           read_word(reader, base + (uintptr_t)place->offset, value);
}

static void begin_kept(walk_t *walk, const void *site, const frame_t *frame, unsigned most) {
    walk->returns = walk->others = 0;
    walk->most = (uint16_t)most;
    walk->has_fp = false;
    walk->site = site;
    walk->sp = frame->sp;
    walk->fp = frame->fp;
}

static void end_kept(walk_t *walk, unsigned inner, unsigned count) {
    walk->inner = (uint16_t)inner;
    walk->count = (uint16_t)count;
    if (count == 0) walk->most = 0;
}

/* A step by the frame pointer, which points to the caller's one and, above it, the return address. */
static bool step_by_pointer(reader_t *reader, frame_t *frame) {
    uintptr_t fp, pc, at = frame->fp;
    note_fp(reader->kept, frame);
    if (at < frame->sp || !read_word(reader, at, &fp)) return false;
    if (!read_word(reader, at + WORD, &pc)) return false;
    note_return(reader->kept, at + WORD, pc);
    *frame = (frame_t){pc, at + 2 * (uintptr_t)WORD, fp, at, true};
    return true;
}

/* A step by the code behind the call, if that returns at once: `add $n, %rsp; ret`, or `ret` alone. Not if the return
 * address was found by a frame pointer: if that was none, the address may be any number. */
static bool step_by_code(reader_t *reader, frame_t *frame) {
    enum { ADD_TO_SP = 0xc48348, RET = 0xc3 };
    uintptr_t pc = frame->pc, at = frame->sp;
    uint64_t code;
    const uintptr_t size = reader->page_size;
    if (!IS_X86_64 || frame->guessed || pc % size > size - sizeof code) return false;
    if (pc - reader->code >= size) {
        if (!is_readable(pc & ~(uintptr_t)(WORD - 1))) return false;
        reader->code = pc & ~(size - 1);
    }
    memcpy(&code, (const void *)pc, sizeof code);
    if ((code & 0x80ffffff) == ADD_TO_SP) {
        at += code >> 24 & 0x7f;
        code >>= 32;
    }
    if ((code & 0xff) != RET || !read_word(reader, at, &frame->pc)) return false;
    note_return(reader->kept, at, frame->pc);
    frame->sp = at + WORD;
    return true;
}

/* A step by a rule that cannot be packed. Such a walk is not kept. */
static bool step_by_rule(reader_t *reader, const hak_unwind_rule_t *rule, frame_t *frame) {
    frame_t caller = *frame;
    if (reader->kept) reader->kept->most = 0;
    uintptr_t cfa = (rule->base == HAK_UNWIND_SP ? frame->sp : frame->fp) + (uintptr_t)rule->offset;
    if (rule->deref && !read_word(reader, cfa, &cfa)) return false;
    if (cfa <= frame->sp || !find(reader, &rule->ra, frame, cfa, &caller.pc)) return false;
    if (rule->fp.kind == HAK_UNWIND_UNKNOWN) caller.fp = 0;
    if (rule->fp.kind == HAK_UNWIND_SAVED && !find(reader, &rule->fp, frame, cfa, &caller.fp))
        return false;
    caller.sp = cfa;
    caller.guessed = false;
    *frame = caller;
    return true;
}

HAK_FAST_PATH bool step(reader_t *reader, object_t *object, hak_unwind_common_t *common,
                        frame_t *frame) {
    hak_unwind_rule_t rule;
    uint64_t word = rule_of(frame->pc, object, common, &rule);
    if (HAK_UNLIKELY(!word)) return step_by_rule(reader, &rule, frame);
    hak_unwind_base_t base = (hak_unwind_base_t)(word >> BASE_SHIFT & 3);
    if (HAK_UNLIKELY(base >= HAK_UNWIND_CFA))
        return base == HAK_UNWIND_NONE &&
               (step_by_code(reader, frame) || step_by_pointer(reader, frame));
    if (base == HAK_UNWIND_FP) note_fp(reader->kept, frame);
    uintptr_t cfa =
        (base == HAK_UNWIND_SP ? frame->sp : frame->fp) + field(word, CFA_SHIFT, CFA_BITS);
    if (word >> DEREF_SHIFT & 1) {
        uintptr_t at = cfa;
        if (!read_word(reader, at, &cfa)) return false;
        note_other(reader->kept, at, cfa);
    }
    uintptr_t at = cfa - field(word, RA_SHIFT, RA_BITS);
    if (cfa <= frame->sp || !read_word(reader, at, &frame->pc)) return false;
    frame->guessed = false;
    note_return(reader->kept, at, frame->pc);
    frame->sp = cfa;
    if (!(word >> FP_SAVED_SHIFT & 1)) return true;
    frame->fp_at = cfa - field(word, FP_SHIFT, FP_BITS);
    return read_word(reader, frame->fp_at, &frame->fp);
}

/* Where the caller is; a macro, since the tables must describe the very instruction. */
#if defined(__x86_64__)
#define HERE(frame)                                                             \
    __asm__ volatile("leaq 1f(%%rip), %0\n1:\tmovq %%rsp, %1\n\tmovq %%rbp, %2" \
                     : "=&r"((frame).pc), "=&r"((frame).sp), "=&r"((frame).fp))
#else
#define HERE(frame)                                              \
    __asm__ volatile("adr %0, 1f\n1:\tmov %1, sp\n\tmov %2, x29" \
                     : "=&r"((frame).pc), "=&r"((frame).sp), "=&r"((frame).fp))
#endif

/* The frames from `site` outward; *inner is the number of those inside of it. */
static unsigned walk_from(frame_t frame, reader_t *reader, const void *site, uintptr_t *frames,
                          unsigned most, unsigned *inner) {
    object_t object;
    hak_unwind_common_t common;
    unsigned count = 0;
    object.start = object.end = object.tables = NULL;
    common.at = NULL;
    for (unsigned depth = 0; depth < DEPTH_MOST && count < most; depth++) {
        if (!step(reader, &object, &common, &frame)) break;
        frame.pc = STRIPPED(frame.pc);
        if (frame.pc == 0) break;
        if (count > 0 || frame.pc == (uintptr_t)site) frames[count++] = frame.pc;
        *inner += count == 0;
    }
    return count;
}

HAK_OUT_OF_LINE unsigned hak_os_unwind(const void *site, uintptr_t *frames, unsigned most) {
    frame_t frame = {.fp_at = 0};
    HERE(frame);
    walk_t *walk = claim(site, frame.sp);
    const uintptr_t size = hak_os_page_size(), page = frame.sp & ~(size - 1);
    reader_t reader = {.stack = page, .known = size, .page_size = size, .code = page, .kept = walk};
    unsigned inner = 0, count = 0;
    if (walk && walk->site == site && walk->sp == frame.sp && walk->most == most &&
        (!walk->has_fp || walk->fp == frame.fp))
        count = repeat(walk, &reader, frames);
    if (!count) {
        if (walk) begin_kept(walk, site, &frame, most);
        count = walk_from(frame, &reader, site, frames, most, &inner);
        if (walk) end_kept(walk, inner, count);
    }
    if (walk) hak_store_release(&walk->busy, 0); /* partner: claim */
    if (count) return count;
    frames[0] = (uintptr_t)site;
    return 1;
}
