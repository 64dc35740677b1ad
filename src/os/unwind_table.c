/* unwind_table.c: reads the entries of .eh_frame, and runs their programs. */
#include "os/unwind_table.h"

#include <string.h>

enum {
    REMEMBERED = 4, /* states that an entry's program may remember */
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

/* ---- numbers ---- */

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

/* ---- the program of an entry ---- */

static hak_unwind_base_t base_of(uint64_t number) {
    return number == REGISTER_SP   ? HAK_UNWIND_SP
           : number == REGISTER_FP ? HAK_UNWIND_FP
                                   : HAK_UNWIND_NONE;
}

/* Reads an expression that is a register and an offset, perhaps the word there, as for stacks that are
 * aligned at run time and for frames of signals. Other expressions are not understood. */
static bool read_expression(bytes_t block, hak_unwind_base_t *base, int64_t *offset, bool *deref) {
    enum { DEREF = 0x06, REGISTER_0 = 0x70, REGISTER_31 = 0x8f };
    uint64_t op = take(&block, 1);
    if (op < REGISTER_0 || op > REGISTER_31) return false;
    *base = base_of(op - REGISTER_0);
    *offset = take_signed(&block);
    *deref = block.at < block.end && *block.at == DEREF;
    block.at += *deref;
    return *base != HAK_UNWIND_NONE && block.at == block.end;
}

static void set_place(hak_unwind_rule_t *rule, uint64_t number, hak_unwind_place_t place) {
    if (number == REGISTER_FP) rule->fp = place;
    if (number == REGISTER_RA) rule->ra = place;
}

static void restore(hak_unwind_rule_t *rule, const hak_unwind_rule_t *initial, uint64_t number) {
    set_place(rule, number, number == REGISTER_FP ? initial->fp : initial->ra);
}

static void set_offset(hak_unwind_rule_t *rule, uint64_t number, int64_t offset) {
    set_place(rule, number, (hak_unwind_place_t){HAK_UNWIND_SAVED, HAK_UNWIND_CFA, offset});
}

static void set_by_expression(hak_unwind_rule_t *rule, uint64_t number, bytes_t block) {
    hak_unwind_place_t place = {HAK_UNWIND_SAVED, HAK_UNWIND_NONE, 0};
    bool deref;
    if (!read_expression(block, &place.base, &place.offset, &deref) || deref)
        place.kind = HAK_UNWIND_UNKNOWN;
    set_place(rule, number, place);
}

/* An instruction (DW_CFA_*) that says where something lies; false for one that is not understood. */
static bool run_rule(unsigned op, bytes_t *in, const hak_unwind_common_t *common,
                     hak_unwind_rule_t *rule) {
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
    case 0x08: /* same_value */
        set_place(rule, take_unsigned(in),
                  (hak_unwind_place_t){HAK_UNWIND_SAME, HAK_UNWIND_NONE, 0});
        return true;
    case 0x07: /* undefined */
    case 0x09: /* register */
    case 0x14: /* val_offset */
    case 0x15: /* val_offset_sf */
    case 0x16: /* val_expression */
        set_place(rule, take_unsigned(in),
                  (hak_unwind_place_t){HAK_UNWIND_UNKNOWN, HAK_UNWIND_NONE, 0});
        if (op == 0x16) take_block(in);
        if (op != 0x16 && op != 0x07) take_unsigned(in);
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
            rule->base = HAK_UNWIND_NONE;
        return true;
    case 0x10: /* expression */
        number = take_unsigned(in);
        set_by_expression(rule, number, take_block(in));
        return true;
    case 0x2e: /* GNU_args_size */
        take_unsigned(in);
        return true;
    default:
        return false;
    }
}

/* Runs instructions up to those about code more than `distance` bytes behind the function's first
 * byte. */
static bool run(bytes_t in, const hak_unwind_common_t *common, uint64_t distance,
                hak_unwind_rule_t *rule) {
    enum { ADVANCE = 1, OFFSET = 2, RESTORE = 3 };
    hak_unwind_rule_t remembered[REMEMBERED];
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

/* ---- entries ---- */

static bytes_t entry_at(const uint8_t *at) {
    bytes_t head = {at, at + 4};
    size_t size = take(&head, 4);
    return (bytes_t){at + 4, at + 4 + (size < 0xfffffff0u ? size : 0)};
}

/* What the letters of an augmentation stand for. */
static void read_augmentation(bytes_t *in, const char *letters, hak_unwind_common_t *common) {
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

static bool read_common(const uint8_t *at, hak_unwind_common_t *common) {
    if (common->at == at) return true;
    bytes_t in = entry_at(at);
    *common = (hak_unwind_common_t){
        .initial = {.base = HAK_UNWIND_NONE, .ra = {HAK_UNWIND_SAME, HAK_UNWIND_NONE, 0}}};
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
static bool read_function(const uint8_t *at, uintptr_t pc, hak_unwind_common_t *common,
                          hak_unwind_rule_t *rule) {
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
bool hak_unwind_table_read(const uint8_t *header, uintptr_t pc, hak_unwind_common_t *common,
                           hak_unwind_rule_t *rule) {
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
