/*
 * vm - an interpreter of a dynamic language that collects by mark and sweep.
 *
 * Instructions are drawn at random. Boxed numbers (24 bytes) are most objects and die
 * young; closures own 1 to 6 captured values (24 to 64 bytes); dictionaries are a header
 * and an open table of 16 bytes per slot, which is zeroed and doubles at two thirds from 8
 * to 4,096 slots. Calls push frames of 4 to 60 locals (48 to 496 bytes), freed in reverse
 * order. When twice as many objects exist as survived the last collection, everything that
 * no frame reaches is freed in the order of allocation, so blocks are freed long after
 * their birth and in long runs. An operation is one instruction that allocates or frees.
 */
#include "scenario.h"

#define FIRST_COLLECTION 20000u
#define DEEPEST 64u
#define GLOBALS 256u
#define FIRST_SLOTS 8u
#define MOST_ENTRIES 2048u

enum kind { NUMBER, CLOSURE, DICTIONARY };

struct object {
    struct object *next; /* of all objects, youngest first */
    uint8_t kind, marked;
    uint16_t count;    /* CLOSURE: captured values */
    uint32_t capacity; /* DICTIONARY: slots, a power of two */
};

struct number {
    struct object head;
    uint64_t value;
};

struct closure {
    struct object head;
    struct object *captured[];
};

struct entry {
    uint64_t key; /* 0 = free */
    struct object *value;
};

struct dictionary {
    struct object head;
    struct entry *slots;
    uint32_t used, keys; /* keys = how many different ones it will get */
    struct object *gray; /* next to be scanned, while marking */
};

struct frame {
    struct frame *caller;
    uint32_t local_count, number;
    struct object *locals[];
};

static struct {
    struct object *objects;
    struct frame *top;
    struct object *globals[GLOBALS];
    uint64_t live, limit; /* objects; a collection is due at the limit */
    uint32_t depth;
} vm;

static void *new_object(size_t size, enum kind kind) {
    struct object *object = scenario_malloc(size);

    *object = (struct object){.next = vm.objects, .kind = (uint8_t)kind};
    vm.objects = object;
    vm.live++;
    return object;
}

/* A variable: mostly a local one, else a global. */
static struct object **variable(struct scenario_run *run) {
    if (scenario_draw(run, 8) == 0) return &vm.globals[scenario_draw(run, GLOBALS)];
    return &vm.top->locals[scenario_draw(run, vm.top->local_count)];
}

static struct object *new_number(uint64_t value) {
    struct number *number = new_object(sizeof *number, NUMBER);

    number->value = value;
    return &number->head;
}

static void add(struct scenario_run *run) {
    const struct object *left = *variable(run);
    uint64_t value = run->done;

    if (left != NULL && left->kind == NUMBER) value += ((const struct number *)left)->value;
    *variable(run) = new_number(value);
    scenario_note(run, value);
}

static void capture(struct scenario_run *run) {
    uint32_t count = 1 + scenario_draw(run, 6);
    struct closure *closure =
        new_object(sizeof *closure + count * sizeof closure->captured[0], CLOSURE);

    closure->head.count = (uint16_t)count;
    for (uint32_t i = 0; i < count; i++) {
        struct object *value = *variable(run);

        /* Values only, as most closures do: chains of closures would never die. */
        closure->captured[i] = value != NULL && value->kind == NUMBER ? value : NULL;
    }
    *variable(run) = &closure->head;
}

/* The slot of a key, or the free one where it belongs. */
static struct entry *slot_of(struct entry *slots, uint32_t capacity, uint64_t key) {
    uint32_t at = (uint32_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 40) & (capacity - 1);

    while (slots[at].key != 0 && slots[at].key != key) at = (at + 1) & (capacity - 1);
    return &slots[at];
}

static void resize(struct dictionary *dictionary) {
    uint32_t old = dictionary->head.capacity, capacity = old != 0 ? 2 * old : FIRST_SLOTS;
    struct entry *slots = scenario_calloc(capacity, sizeof *slots);

    for (uint32_t i = 0; i < old; i++) {
        const struct entry *entry = &dictionary->slots[i];

        if (entry->key != 0) *slot_of(slots, capacity, entry->key) = *entry;
    }
    free(dictionary->slots);
    dictionary->slots = slots;
    dictionary->head.capacity = capacity;
}

static void put(struct scenario_run *run) {
    struct object **place = variable(run);
    struct dictionary *dictionary;
    struct object *value;
    struct entry *entry;
    uint64_t key;

    if (*place == NULL || (*place)->kind != DICTIONARY) {
        dictionary = new_object(sizeof *dictionary, DICTIONARY);
        dictionary->slots = NULL;
        dictionary->used = 0;
        dictionary->keys = scenario_draw_log(run, 4, MOST_ENTRIES);
        *place = &dictionary->head;
    }
    dictionary = (struct dictionary *)*place;
    if (3 * (dictionary->used + 1) > 2 * dictionary->head.capacity) resize(dictionary);
    key = 1 + scenario_draw(run, dictionary->keys);
    value = new_number(key);
    entry = slot_of(dictionary->slots, dictionary->head.capacity, key);
    if (entry->key == 0) dictionary->used++;
    *entry = (struct entry){key, value};
}

static void call(struct scenario_run *run) {
    uint32_t count = 4 + scenario_draw(run, 57);
    struct frame *frame = scenario_malloc(sizeof *frame + count * sizeof frame->locals[0]);

    *frame = (struct frame){.caller = vm.top, .local_count = count, .number = vm.depth++};
    for (uint32_t i = 0; i < count; i++)
        frame->locals[i] = vm.top != NULL ? vm.top->locals[i % vm.top->local_count] : NULL;
    vm.top = frame;
}

static void leave(void) {
    struct frame *frame = vm.top;

    if (frame->number != --vm.depth) bench_fail(1, "frame %u has changed", vm.depth);
    vm.top = frame->caller;
    free(frame);
}

/* Marks without recursion: dictionaries wait on the `gray` list for their turn. */
static void mark(struct object *object, struct object **gray) {
    if (object == NULL || object->marked) return;
    object->marked = 1;
    if (object->kind == CLOSURE) {
        const struct closure *closure = (struct closure *)object;

        for (uint32_t i = 0; i < object->count; i++)
            if (closure->captured[i] != NULL) closure->captured[i]->marked = 1;
    } else if (object->kind == DICTIONARY) {
        ((struct dictionary *)object)->gray = *gray;
        *gray = object;
    }
}

static void mark_all(void) {
    struct object *gray = NULL;

    for (uint32_t i = 0; i < GLOBALS; i++) mark(vm.globals[i], &gray);
    for (const struct frame *frame = vm.top; frame != NULL; frame = frame->caller)
        for (uint32_t i = 0; i < frame->local_count; i++) mark(frame->locals[i], &gray);
    while (gray != NULL) {
        const struct dictionary *dictionary = (struct dictionary *)gray;

        gray = dictionary->gray;
        for (uint32_t i = 0; i < dictionary->head.capacity; i++) {
            const struct entry *entry = &dictionary->slots[i];

            if (entry->key == 0) continue;
            if (((struct number *)entry->value)->value != entry->key)
                bench_fail(1, "the value of key %llu has changed", (unsigned long long)entry->key);
            mark(entry->value, &gray);
        }
    }
}

static void sweep(struct scenario_run *run) {
    struct object **link = &vm.objects;

    while (*link != NULL) {
        struct object *object = *link;

        if (object->marked) {
            object->marked = 0;
            link = &object->next;
            continue;
        }
        *link = object->next;
        if (object->kind == DICTIONARY) free(((struct dictionary *)object)->slots);
        free(object);
        vm.live--;
    }
    vm.limit = 2 * vm.live > FIRST_COLLECTION ? 2 * vm.live : FIRST_COLLECTION;
    scenario_note(run, vm.live);
}

static void step(struct scenario_run *run) {
    uint32_t what = scenario_draw(run, 100);

    if (what < 60)
        add(run);
    else if (what < 72)
        put(run);
    else if (what < 80)
        capture(run);
    else if (vm.depth == 1 || (what < 90 && vm.depth < DEEPEST))
        call(run);
    else
        leave();
}

void scenario_vm(struct scenario_run *run) {
    vm.limit = FIRST_COLLECTION;
    call(run);
    for (; run->done < run->wanted; run->done++) {
        step(run);
        if (vm.live < vm.limit) continue;
        mark_all();
        sweep(run);
    }
    while (vm.top != NULL) leave();
    memset(vm.globals, 0, sizeof vm.globals);
    sweep(run);
}
