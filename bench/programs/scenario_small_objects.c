/*
 * small-objects - a graph of counted objects that is changed all the time: documents of
 * browsers and editors, scenes of games, objects of languages with reference counts.
 *
 * Objects of 24 to 56 bytes refer to at most four others; one in three also owns a payload
 * of 8 to 256 bytes (as many per doubling). A step replaces one of 4,096 roots by a new
 * tree of 1 to 21 objects, and one leaf in four of that tree is shared with another root
 * instead of being new. What loses its last reference is freed at once, from the top down,
 * so trees die in another order than they were born in. About 25,000 objects are alive.
 * An operation is one object made (and freed, sooner or later).
 */
#include "scenario.h"

#define ROOTS 4096u
#define MOST_CHILDREN 4u
#define LEVELS 3u

struct object {
    uint32_t references;
    uint16_t child_count, payload_size;
    unsigned char *payload;
    uint64_t number;
    struct object *children[]; /* [child_count] */
};

static struct object *roots[ROOTS];

static struct object *keep(struct object *object) {
    object->references++;
    return object;
}

/* Only leaves are shared, so there are no cycles and the depth is that of one tree. */
static void release(struct scenario_run *run, struct object *object) {
    if (object == NULL || --object->references > 0) return;
    for (uint32_t i = 0; i < object->child_count; i++) release(run, object->children[i]);
    if (object->payload != NULL) {
        if (object->payload[0] != (unsigned char)object->number ||
            object->payload[object->payload_size - 1] != (unsigned char)object->number)
            bench_fail(1, "the payload of object %llu has changed",
                       (unsigned long long)object->number);
        free(object->payload);
    }
    scenario_note(run, object->number);
    free(object);
}

static void add_payload(struct scenario_run *run, struct object *object) {
    object->payload_size = (uint16_t)scenario_draw_log(run, 8, 256);
    object->payload = scenario_malloc(object->payload_size);
    object->payload[0] = (unsigned char)object->number;
    object->payload[object->payload_size - 1] = (unsigned char)object->number;
}

/* A leaf of another root's tree, which from now on has one more owner; NULL when there is none. */
static struct object *shared(struct scenario_run *run) {
    struct object *object = roots[scenario_draw(run, ROOTS)];

    if (object == NULL) return NULL;
    while (object->child_count > 0)
        object = object->children[scenario_draw(run, object->child_count)];
    return keep(object);
}

static struct object *grow_tree(struct scenario_run *run, uint32_t levels) {
    uint32_t child_count = levels > 1 ? scenario_draw(run, MOST_CHILDREN + 1) : 0;
    struct object *object;

    if (levels == 1 && scenario_draw(run, 4) == 0 && (object = shared(run)) != NULL) return object;
    object = scenario_malloc(sizeof *object + child_count * sizeof object->children[0]);
    *object = (struct object){
        .references = 1, .child_count = (uint16_t)child_count, .number = run->done++};
    if (scenario_draw(run, 3) == 0) add_payload(run, object);
    for (uint32_t i = 0; i < child_count; i++) object->children[i] = grow_tree(run, levels - 1);
    return object;
}

void scenario_small_objects(struct scenario_run *run) {
    while (run->done < run->wanted) {
        struct object **root = &roots[scenario_draw(run, ROOTS)];
        struct object *tree = grow_tree(run, LEVELS);

        release(run, *root);
        *root = tree;
    }
    for (uint32_t i = 0; i < ROOTS; i++) {
        release(run, roots[i]);
        roots[i] = NULL;
    }
}
