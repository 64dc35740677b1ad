/* unwind.c: walks a stack by the tables of .eh_frame, and by frame pointers where there are none.
 *
 * HOW. Compilers describe for each instruction of a file where the caller's frame begins (the CFA)
 * and where the return address and the frame pointer of the caller lie. Distributions build without
 * frame pointers, so the tables come first. Code without tables, such as what a just-in-time compiler
 * makes, usually has frame pointers; one counts if it points up the stack and a return address
 * follows it.
 *
 * WHERE THE TABLES ARE. _dl_find_object of glibc 2.35 tells without a lock. Elsewhere the file's
 * headers tell, found by /proc/self/maps: dl_iterate_phdr takes a lock that a thread in dlopen may
 * hold while it allocates.
 *
 * RULES. A program has few places from which it calls, so what the tables say about a return address
 * is kept, packed into one atomic word with 24 bits of the address's hash. Threads overwrite each
 * other's words freely. A word that is stale or wrong, once in 2^24, makes a wrong frame and nothing
 * worse: each word of the stack is read only on a page that is known to be readable. */
#include "os/unwind.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/module.h"
#include "os/os.h"

enum {
    RULES_SHIFT = 12, /* log2 of the rules that are kept */
    DEPTH_MOST = 512, /* frames of one walk, those of our own included */
    REMEMBERED = 4,   /* states that the program of a table may remember */
    WORD = sizeof(uintptr_t),
    CMP_REQUEUE_PRIVATE = 132, /* of futex(2) */
#if defined(__x86_64__)
    REGISTER_FP = 6,
    REGISTER_SP = 7,
    REGISTER_RA = 16,
#else
    REGISTER_FP = 29,
    REGISTER_SP = 31,
    REGISTER_RA = 30,
#endif
};

/* ---- memory that may not be there ---- */

typedef struct {
    uintptr_t page, size; /* the last page that is known to be readable */
} reader_t;

/* The call compares the word with 0, and then wakes no thread and moves none: it changes nothing. */
static HAK_OUT_OF_LINE bool is_readable(uintptr_t at) {
    HAK_KEEP_ERRNO();
    return syscall(SYS_futex, at, CMP_REQUEUE_PRIVATE, 0, 0, at, 0) == 0 || errno == EAGAIN;
}

HAK_FAST_PATH bool read_word(reader_t *reader, uintptr_t at, uintptr_t *word) {
    if (at % WORD != 0) return false;
    if (HAK_UNLIKELY(at - reader->page >= reader->size)) {
        if (!is_readable(at)) return false;
        reader->page = at & ~(reader->size - 1);
    }
    *word = *(const uintptr_t *)at;
    return true;
}

/* ---- rules ---- */

typedef enum { BASE_SP, BASE_FP, BASE_CFA, BASE_NONE } base_t;
typedef enum { KIND_SAME, KIND_SAVED, KIND_UNKNOWN } kind_t;

typedef struct {
    kind_t kind;
    base_t base; /* SAVED: the register lies at base + offset */
    int64_t offset;
} place_t;

typedef struct {
    base_t base; /* the CFA is base + offset, or the word there; NONE: nothing is known */
    bool deref;
    int64_t offset;
    place_t fp, ra;
} rule_t;

static const rule_t no_rule = {.base = BASE_NONE};

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

static bool is_below_cfa(const place_t *place, unsigned bits) {
    return place->base == BASE_CFA && place->offset <= 0 && place->offset % WORD == 0 &&
           (uint64_t)-place->offset / WORD >> bits == 0;
}

static uint64_t pack(const rule_t *rule) {
    uint64_t fp = 0, word = 1 | (uint64_t)rule->base << BASE_SHIFT;
    if (rule->base == BASE_NONE) return word;
    if (rule->ra.kind != KIND_SAVED) return 1 | (uint64_t)BASE_CFA << BASE_SHIFT;
    if (rule->offset < 0 || rule->offset % WORD || (uint64_t)rule->offset / WORD >> CFA_BITS)
        return 0;
    if (!is_below_cfa(&rule->ra, RA_BITS)) return 0;
    if (rule->fp.kind == KIND_UNKNOWN) return 0;
    if (rule->fp.kind == KIND_SAVED) {
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

/* ---- numbers of the tables ---- */

typedef struct {
    const uint8_t *at, *end;
} bytes_t;

/* A number of up to 8 bytes, the lowest first. Inline, since most sizes are constants. */
HAK_FAST_PATH uint64_t take(bytes_t *bytes, unsigned size) {
    uint64_t number = 0;
    if (HAK_UNLIKELY((size_t)(bytes->end - bytes->at) < size)) {
        bytes->at = bytes->end;
        return 0;
    }
    memcpy(&number, bytes->at, size);
    bytes->at += size;
    return number;
}

static uint64_t take_leb(bytes_t *bytes, bool is_signed) {
    uint64_t number = 0;
    for (unsigned shift = 0; bytes->at < bytes->end; shift += 7) {
        uint8_t byte = *bytes->at++;
        if (shift < 64) number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte & 0x80) continue;
        if (is_signed && byte & 0x40 && shift < 57) number |= ~(uint64_t)0 << (shift + 7);
        break;
    }
    return number;
}

static uint64_t take_unsigned(bytes_t *bytes) { return take_leb(bytes, false); }
static int64_t take_signed(bytes_t *bytes) { return (int64_t)take_leb(bytes, true); }

static bytes_t take_block(bytes_t *bytes) {
    size_t size = take_unsigned(bytes);
    size = hak_min(size, (size_t)(bytes->end - bytes->at));
    bytes_t block = {bytes->at, bytes->at + size};
    bytes->at += size;
    return block;
}

/* A pointer as DW_EH_PE_* describes it, relative to its own place or to nothing. */
static uintptr_t take_pointer(bytes_t *bytes, uint8_t encoding) {
    enum { FORMAT = 0x0f, RELATION = 0x70, TO_ITSELF = 0x10 };
    uintptr_t place = (uintptr_t)bytes->at, value;
    switch (encoding & FORMAT) {
    case 0x01:
        value = take_unsigned(bytes);
        break;
    case 0x09:
        value = (uintptr_t)take_signed(bytes);
        break;
    case 0x03:
        value = take(bytes, 4);
        break;
    case 0x0b:
        value = (uintptr_t)(int32_t)take(bytes, 4);
        break;
    default:
        value = take(bytes, 8);
    }
    return (encoding & RELATION) == TO_ITSELF ? value + place : value;
}

/* ---- the program of a table ---- */

typedef struct {
    const uint8_t *at; /* where it was read; NULL: not yet */
    uint64_t code_step;
    int64_t data_step;
    uint8_t encoding;
    bool augmented;
    rule_t initial;
} common_t; /* what the functions of an entry have in common (CIE) */

static base_t base_of(uint64_t number) {
    return number == REGISTER_SP ? BASE_SP : number == REGISTER_FP ? BASE_FP : BASE_NONE;
}

/* A register and an offset, perhaps the word there: what stacks that are aligned at run time and
 * frames of signals have. Other expressions are not understood. */
static bool read_expression(bytes_t block, base_t *base, int64_t *offset, bool *deref) {
    enum { DEREF = 0x06, REGISTER_0 = 0x70, REGISTER_31 = 0x8f };
    uint64_t op = take(&block, 1);
    if (op < REGISTER_0 || op > REGISTER_31) return false;
    *base = base_of(op - REGISTER_0);
    *offset = take_signed(&block);
    *deref = block.at < block.end && *block.at == DEREF;
    block.at += *deref;
    return *base != BASE_NONE && block.at == block.end;
}

static void set_place(rule_t *rule, uint64_t number, place_t place) {
    if (number == REGISTER_FP) rule->fp = place;
    if (number == REGISTER_RA) rule->ra = place;
}

static void restore(rule_t *rule, const rule_t *initial, uint64_t number) {
    set_place(rule, number, number == REGISTER_FP ? initial->fp : initial->ra);
}

static void set_offset(rule_t *rule, uint64_t number, int64_t offset) {
    set_place(rule, number, (place_t){KIND_SAVED, BASE_CFA, offset});
}

static void set_by_expression(rule_t *rule, uint64_t number, bytes_t block) {
    place_t place = {KIND_SAVED, BASE_NONE, 0};
    bool deref;
    if (!read_expression(block, &place.base, &place.offset, &deref) || deref)
        place.kind = KIND_UNKNOWN;
    set_place(rule, number, place);
}

/* An instruction (DW_CFA_*) that says where something lies; false for one that is not understood. */
static bool run_rule(unsigned op, bytes_t *in, const common_t *common, rule_t *rule) {
    uint64_t number;
    switch (op) {
    case 0x00: /* nop */
    case 0x2d: /* negate_ra_state: a signed return address is stripped in any case */
        return true;
    case 0x05: /* offset_extended */
    case 0x11: /* offset_extended_sf */
        number = take_unsigned(in);
        set_offset(rule, number,
                   (op == 0x05 ? (int64_t)take_unsigned(in) : take_signed(in)) * common->data_step);
        return true;
    case 0x06: /* restore_extended */
        restore(rule, &common->initial, take_unsigned(in));
        return true;
    case 0x07: /* undefined */
        set_place(rule, take_unsigned(in), (place_t){KIND_UNKNOWN, BASE_NONE, 0});
        return true;
    case 0x08: /* same_value */
        set_place(rule, take_unsigned(in), (place_t){KIND_SAME, BASE_NONE, 0});
        return true;
    case 0x09: /* register */
    case 0x14: /* val_offset */
    case 0x15: /* val_offset_sf */
        set_place(rule, take_unsigned(in), (place_t){KIND_UNKNOWN, BASE_NONE, 0});
        take_unsigned(in);
        return true;
    case 0x0c: /* def_cfa */
    case 0x12: /* def_cfa_sf */
        rule->base = base_of(take_unsigned(in));
        rule->deref = false;
        rule->offset =
            op == 0x0c ? (int64_t)take_unsigned(in) : take_signed(in) * common->data_step;
        return true;
    case 0x0d: /* def_cfa_register */
        rule->base = base_of(take_unsigned(in));
        return true;
    case 0x0e: /* def_cfa_offset */
    case 0x13: /* def_cfa_offset_sf */
        rule->offset =
            op == 0x0e ? (int64_t)take_unsigned(in) : take_signed(in) * common->data_step;
        return true;
    case 0x0f: /* def_cfa_expression */
        if (!read_expression(take_block(in), &rule->base, &rule->offset, &rule->deref))
            rule->base = BASE_NONE;
        return true;
    case 0x10: /* expression */
        number = take_unsigned(in);
        set_by_expression(rule, number, take_block(in));
        return true;
    case 0x16: /* val_expression */
        set_place(rule, take_unsigned(in), (place_t){KIND_UNKNOWN, BASE_NONE, 0});
        take_block(in);
        return true;
    case 0x2e: /* GNU_args_size */
        take_unsigned(in);
        return true;
    default:
        return false;
    }
}

/* Runs instructions until they are about code more than `distance` bytes behind the function's
 * first. */
static bool run(bytes_t in, const common_t *common, uint64_t distance, rule_t *rule) {
    enum { ADVANCE = 1, OFFSET = 2, RESTORE = 3 };
    rule_t remembered[REMEMBERED];
    unsigned count = 0;
    for (uint64_t at = 0; in.at < in.end;) {
        unsigned op = (unsigned)take(&in, 1), low = op & 0x3f;
        if (op >> 6 == ADVANCE || (op >= 2 && op <= 4)) { /* advance_loc, and with 1, 2, 4 bytes */
            at += (op >> 6 ? low : take(&in, 1u << (op - 2))) * common->code_step;
            if (at > distance) return true;
        } else if (op >> 6 == OFFSET) {
            set_offset(rule, low, (int64_t)take_unsigned(&in) * common->data_step);
        } else if (op >> 6 == RESTORE) {
            restore(rule, &common->initial, low);
        } else if (op == 0x0a) { /* remember_state */
            if (count == REMEMBERED) return false;
            remembered[count++] = *rule;
        } else if (op == 0x0b) { /* restore_state */
            if (count == 0) return false;
            *rule = remembered[--count];
        } else if (!run_rule(op, &in, common, rule)) {
            return false;
        }
    }
    return true;
}

/* ---- tables ---- */

static bytes_t entry_at(const uint8_t *at) {
    bytes_t head = {at, at + 4};
    size_t size = take(&head, 4);
    return (bytes_t){at + 4, at + 4 + (size < 0xfffffff0u ? size : 0)};
}

/* What the letters of an augmentation stand for. */
static void read_augmentation(bytes_t *in, const char *letters, common_t *common) {
    if (*letters != 'z') return;
    common->augmented = true;
    bytes_t data = take_block(in);
    for (letters++; *letters; letters++) {
        if (*letters == 'R') common->encoding = (uint8_t)take(&data, 1);
        if (*letters == 'L') take(&data, 1);
        if (*letters == 'P') {
            uint8_t encoding = (uint8_t)take(&data, 1);
            take_pointer(&data, encoding);
        }
    }
}

/* Most functions of a file have the same, so the last one is kept. */
static bool read_common(const uint8_t *at, common_t *common) {
    if (common->at == at) return true;
    bytes_t in = entry_at(at);
    *common = (common_t){.initial = {.base = BASE_NONE, .ra = {KIND_SAME, BASE_NONE, 0}}};
    if (take(&in, 4) != 0) return false; /* no CIE */
    uint64_t version = take(&in, 1);
    const char *letters = (const char *)in.at;
    while (take(&in, 1) != 0) {
    }
    common->code_step = take_unsigned(&in);
    common->data_step = take_signed(&in);
    uint64_t ra = version == 1 ? take(&in, 1) : take_unsigned(&in);
    if (ra != REGISTER_RA) return false;
    read_augmentation(&in, letters, common);
    if (!run(in, common, UINT64_MAX, &common->initial)) return false;
    common->at = at;
    return true;
}

/* What the entry of a function says about `pc`. */
static bool read_function(const uint8_t *at, uintptr_t pc, common_t *common, rule_t *rule) {
    bytes_t in = entry_at(at);
    if (in.at >= in.end) return false;
    const uint8_t *id = in.at;
    uint64_t back = take(&in, 4);
    if (back == 0 || !read_common(id - back, common)) return false;
    uintptr_t first = take_pointer(&in, common->encoding);
    uintptr_t size = take_pointer(&in, common->encoding & 0x0f);
    if (pc - first >= size) return false;
    if (common->augmented) take_block(&in);
    *rule = common->initial;
    return run(in, common, pc - first, rule);
}

/* Searches the sorted table of .eh_frame_hdr: pairs of a function's first address and its entry, both
 * relative to the header. */
static bool read_tables(const uint8_t *header, uintptr_t pc, common_t *common, rule_t *rule) {
    enum { VERSION = 1, COUNT_4_BYTES = 0x03, SORTED_4_BYTES = 0x3b, HEAD = 4, PAIR = 8 };
    bytes_t in = {header + HEAD, header + 64};
    if (header[0] != VERSION || header[2] != COUNT_4_BYTES || header[3] != SORTED_4_BYTES)
        return false;
    take_pointer(&in, header[1]);
    size_t low = 0, high = take(&in, 4);
    const int32_t *pairs = (const int32_t *)(const void *)in.at;
    int64_t offset = (int64_t)(pc - (uintptr_t)header);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pairs[2 * middle] <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && read_function(header + pairs[2 * low - 1], pc, common, rule);
}

/* ---- files ---- */

/* As glibc documents it, of which older headers know nothing. */
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

static HAK_OUT_OF_LINE void find_rule(uintptr_t pc, const uint8_t *tables, common_t *common,
                                      rule_t *rule) {
    if (!_dl_find_object) {
        const void *base = hak_os_module_base((const void *)pc);
        tables = base ? tables_of(base) : NULL;
    }
    /* The call may be the last instruction of its function. */
    if (!tables || !read_tables(tables, pc - 1, common, rule)) *rule = no_rule;
}

/* The packed rule of a return address; 0 when it does not fit, then it is in *rule. */
HAK_FAST_PATH uint64_t rule_of(uintptr_t pc, object_t *object, common_t *common, rule_t *rule) {
    if (_dl_find_object) look_up(pc, object);
    uint64_t hash = (pc ^ (uintptr_t)object->tables << 20) * 0x9E3779B97F4A7C15u;
    _Atomic uint64_t *kept = &rules[hash >> (64 - RULES_SHIFT)];
    uint64_t tag = hash << RULES_SHIFT >> TAG_SHIFT << TAG_SHIFT, word = hak_load_relaxed(kept);
    if (HAK_LIKELY(word & 1 && word >> TAG_SHIFT == tag >> TAG_SHIFT)) return word;
    find_rule(pc, object->tables, common, rule);
    if ((word = pack(rule)) != 0) hak_store_relaxed(kept, word | tag);
    return word;
}

/* ---- the walk ---- */

typedef struct {
    uintptr_t pc, sp, fp;
} frame_t;

static bool find(reader_t *reader, const place_t *place, const frame_t *frame, uintptr_t cfa,
                 uintptr_t *value) {
    uintptr_t base = place->base == BASE_CFA ? cfa : place->base == BASE_SP ? frame->sp : frame->fp;
    return place->kind == KIND_SAVED && read_word(reader, base + (uintptr_t)place->offset, value);
}

/* By a frame pointer: the caller's, and above it the return address. */
static bool step_by_pointer(reader_t *reader, frame_t *frame) {
    uintptr_t fp, pc;
    if (frame->fp < frame->sp || !read_word(reader, frame->fp, &fp)) return false;
    if (!read_word(reader, frame->fp + WORD, &pc)) return false;
    *frame = (frame_t){pc, frame->fp + 2 * (uintptr_t)WORD, fp};
    return true;
}

/* By a rule that cannot be packed. */
static bool step_by_rule(reader_t *reader, const rule_t *rule, frame_t *frame) {
    frame_t caller = *frame;
    uintptr_t cfa = (rule->base == BASE_SP ? frame->sp : frame->fp) + (uintptr_t)rule->offset;
    if (rule->deref && !read_word(reader, cfa, &cfa)) return false;
    if (cfa <= frame->sp || !find(reader, &rule->ra, frame, cfa, &caller.pc)) return false;
    if (rule->fp.kind == KIND_UNKNOWN) caller.fp = 0;
    if (rule->fp.kind == KIND_SAVED && !find(reader, &rule->fp, frame, cfa, &caller.fp))
        return false;
    caller.sp = cfa;
    *frame = caller;
    return true;
}

HAK_FAST_PATH bool step(reader_t *reader, object_t *object, common_t *common, frame_t *frame) {
    rule_t rule;
    uint64_t word = rule_of(frame->pc, object, common, &rule);
    if (HAK_UNLIKELY(!word)) return step_by_rule(reader, &rule, frame);
    base_t base = (base_t)(word >> BASE_SHIFT & 3);
    if (HAK_UNLIKELY(base >= BASE_CFA)) return base == BASE_NONE && step_by_pointer(reader, frame);
    uintptr_t cfa = (base == BASE_SP ? frame->sp : frame->fp) + field(word, CFA_SHIFT, CFA_BITS);
    if (word >> DEREF_SHIFT & 1 && !read_word(reader, cfa, &cfa)) return false;
    if (cfa <= frame->sp || !read_word(reader, cfa - field(word, RA_SHIFT, RA_BITS), &frame->pc))
        return false;
    frame->sp = cfa;
    return !(word >> FP_SAVED_SHIFT & 1) ||
           read_word(reader, cfa - field(word, FP_SHIFT, FP_BITS), &frame->fp);
}

/* Where the caller is; a macro, since the tables must describe the very instruction. */
#if defined(__x86_64__)
#define HERE(frame)                                                             \
    __asm__ volatile("leaq 1f(%%rip), %0\n1:\tmovq %%rsp, %1\n\tmovq %%rbp, %2" \
                     : "=&r"((frame).pc), "=&r"((frame).sp), "=&r"((frame).fp))
#define STRIPPED(pc) (pc)
#else
#define HERE(frame)                                              \
    __asm__ volatile("adr %0, 1f\n1:\tmov %1, sp\n\tmov %2, x29" \
                     : "=&r"((frame).pc), "=&r"((frame).sp), "=&r"((frame).fp))
#define STRIPPED(pc) ((pc) & (((uintptr_t)1 << 48) - 1)) /* a signature lies above the address */
#endif

HAK_OUT_OF_LINE unsigned hak_os_unwind(const void *site, uintptr_t *frames, unsigned most) {
    frame_t frame;
    object_t object;
    common_t common;
    reader_t reader = {0, hak_os_page_size()};
    unsigned count = 0;
    object.start = object.end = object.tables = NULL;
    common.at = NULL;
    HERE(frame);
    reader.page = frame.sp & ~(reader.size - 1);
    frames[0] = (uintptr_t)site;
    for (unsigned depth = 0; depth < DEPTH_MOST && count < most; depth++) {
        if (!step(&reader, &object, &common, &frame)) break;
        frame.pc = STRIPPED(frame.pc);
        if (frame.pc == 0) break;
        if (count > 0 || frame.pc == (uintptr_t)site) frames[count++] = frame.pc;
    }
    return count ? count : 1;
}
