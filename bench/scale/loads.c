/* loads.c: the workloads, each a function and a row of the table at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "load.h"
#include "machine.h"
#include "sched.h"

enum { BOX_SIZE = 256, BATCH = 16 };

/* ---- Boxes: how blocks go from one worker to another -------------------------------------------- */

typedef struct box {
    void *blocks[BOX_SIZE];
    unsigned first, count;
} box_t;

static void box_put(box_t *box, void *block) {
    while (box->count == BOX_SIZE) sched_block(&box->count, 0, NULL);
    box->blocks[(box->first + box->count++) % BOX_SIZE] = block;
    sched_wake(&box->first, 1, false);
}

static void *box_try(box_t *box) {
    if (!box->count) return NULL;
    void *block = box->blocks[box->first];
    box->first = (box->first + 1) % BOX_SIZE;
    box->count--;
    sched_wake(&box->count, 1, false);
    return block;
}

static void *box_take(box_t *box) {
    void *block;
    while (!(block = box_try(box))) sched_block(&box->first, 0, NULL);
    return block;
}

static box_t *box_of(unsigned id) {
    static box_t *boxes;
    if (!boxes) boxes = load_table(sizeof *boxes * (CPUS_MOST + 1));
    return &boxes[id];
}

static void no_blocks(worker_t *worker) { (void)worker; }

/* ---- Blocks that stay with their thread ---------------------------------------------------------- */

static void mixed(worker_t *worker, unsigned ops) {
    while (ops--) {
        void **slot = &worker->slots[load_random(worker, load_options.load->slots)];
        if (*slot) {
            load_put(*slot);
            *slot = NULL;
        } else {
            *slot = load_get(worker);
        }
    }
}

/* Also larson, large, huge and churn: they differ in sizes and in the life of a thread. */
static void replace(worker_t *worker, unsigned ops) {
    while (ops--) {
        void **slot = &worker->slots[load_random(worker, load_options.load->slots)];
        load_put(*slot);
        *slot = load_get(worker);
    }
}

static void grow(worker_t *worker, unsigned ops) {
    enum { FIRST = 32, LAST = 64 * 1024 };
    while (ops--) {
        size_t size = (size_t)(uintptr_t)worker->slots[1];
        if (size == 0 || size > LAST) {
            free(worker->slots[0]);
            worker->slots[0] = NULL;
            size = FIRST + load_random(worker, FIRST);
        }
        worker->slots[0] = realloc(worker->slots[0], size);
        worker->slots[1] = (void *)(uintptr_t)(size + size / 2);
    }
}

/* ---- Blocks that go to other threads ------------------------------------------------------------- */

static void ring(worker_t *worker, unsigned ops) {
    box_t *next = box_of((worker->id + 1) % load_options.workers);
    for (unsigned done = 0; done < ops; done += BATCH) {
        unsigned count = ops - done < BATCH ? ops - done : BATCH;
        for (unsigned i = 0; i < count; i++) box_put(next, load_get(worker));
        for (unsigned i = 0; i < count; i++) load_put(box_take(box_of(worker->id)));
    }
}

/* Even workers produce for the odd one behind them; an odd worker only frees. */
static void producer_consumer(worker_t *worker, unsigned ops) {
    while (ops--) {
        if (worker->id % 2)
            load_put(box_take(box_of(worker->id)));
        else
            box_put(box_of(worker->id + 1), load_get(worker));
    }
}

/* A worker submits a task, takes the oldest one, which is another's, frees it and sends a result,
 * which the other one frees. All share one queue of tasks. */
typedef struct {
    unsigned owner;
    void *block;
} task_t;

static struct {
    task_t *tasks;
    size_t first, count, size;
} queue;

static void submit(worker_t *worker) {
    if (!queue.tasks) {
        queue.size = 8 * CPUS_MOST;
        queue.tasks = load_table(sizeof *queue.tasks * queue.size);
    }
    task_t task = {worker->id, load_get(worker)};
    queue.tasks[(queue.first + queue.count++) % queue.size] = task;
}

static void prepare_pool(worker_t *worker) {
    for (int i = 0; i < 4; i++) submit(worker);
}

static void pool(worker_t *worker, unsigned ops) {
    void *result;
    while (ops--) {
        while ((result = box_try(box_of(worker->id)))) load_put(result);
        submit(worker);
        task_t task = queue.tasks[queue.first];
        queue.first = (queue.first + 1) % queue.size;
        queue.count--;
        result = load_get_sized(32 + load_random(worker, 480));
        load_put(task.block);
        if (box_of(task.owner)->count < BOX_SIZE)
            box_put(box_of(task.owner), result);
        else
            load_put(result);
    }
}

/* ---- A server: many threads on each CPU, of which one runs --------------------------------------- */

enum { SEAT_SLOTS = 50, TURN_OPS = 10 };

typedef struct seat {
    worker_t *worker;
    unsigned index;
    void *slots[SEAT_SLOTS];
} seat_t;

/* A turn replaces blocks; one goes to the box of another CPU, one comes from the own box. */
static void serve_turn(seat_t *seat) {
    worker_t *worker = seat->worker;
    for (int i = 0; i < TURN_OPS; i++) {
        void **slot = &seat->slots[load_random(worker, SEAT_SLOTS)];
        load_put(*slot);
        *slot = load_get(worker);
    }
    box_t *other = box_of(load_random(worker, load_options.workers));
    void *come = box_try(box_of(worker->id));
    if (come) load_put(come);
    if (other->count < BOX_SIZE) {
        box_put(other, seat->slots[0]);
        seat->slots[0] = NULL;
    }
}

static void *serve(void *value) {
    seat_t *seat = value;
    worker_t *worker = seat->worker;
    for (int i = 0; i < SEAT_SLOTS; i++) seat->slots[i] = load_get(worker);
    for (;;) {
        while (worker->turn != seat->index) sched_block(seat, 0, NULL);
        while (!worker->left) load_next_phase(worker);
        serve_turn(seat);
        worker->left -= worker->left < TURN_OPS ? worker->left : TURN_OPS;
        worker->turn = (worker->turn + 1) % load_options.seats;
        sched_wake(&worker->seats[worker->turn], 1, true);
    }
    return NULL;
}

static void *open_server(void *value) {
    worker_t *worker = value;
    worker->seats = load_table(sizeof *worker->seats * load_options.seats);
    for (unsigned i = 0; i < load_options.seats; i++) {
        pthread_t thread;
        seat_t *seat = &worker->seats[i];
        seat->worker = worker;
        seat->index = i;
        scale_next_cpu = (int)worker->id;
        scale_pthread_create(&thread, NULL, serve, seat);
        scale_pthread_detach(thread);
    }
    return NULL;
}

/* ---- The table ----------------------------------------------------------------------------------- */

static const load_t loads[] = {
    {.name = "mixed",
     .operation = "one malloc or one free",
     .slots = 512,
     .min = 16,
     .max = 1024,
     .work = mixed,
     .about = "private blocks of 16 to 1024 B, 512 a thread"},
    {.name = "larson",
     .operation = "one free and one malloc",
     .slots = 256,
     .min = 8,
     .max = 1000,
     .round = 500,
     .work = replace,
     .about = "blocks of 8 to 1000 B, 256 a thread; after 500 operations a new thread takes over"},
    {.name = "ring",
     .operation = "one malloc, and one free by the next thread",
     .min = 64,
     .max = 64,
     .prepare = no_blocks,
     .work = ring,
     .about = "each thread frees the 64 B blocks of the one before it, 16 at a time"},
    {.name = "prodcons",
     .operation = "one malloc, or one free of another thread's block",
     .min = 16,
     .max = 512,
     .prepare = no_blocks,
     .work = producer_consumer,
     .about = "half the threads allocate 16 to 512 B, each for another that only frees"},
    {.name = "pool",
     .operation = "one task: two mallocs and two frees, one of each elsewhere",
     .min = 64,
     .max = 1024,
     .prepare = prepare_pool,
     .work = pool,
     .about = "tasks of 64 to 1024 B go to any thread, results of 32 to 512 B come back"},
    {.name = "churn",
     .operation = "one free and one malloc",
     .slots = 64,
     .min = 16,
     .max = 512,
     .round = 100,
     .work = replace,
     .about = "64 blocks of 16 to 512 B; a thread ends after 100 operations"},
    {.name = "realloc",
     .operation = "one realloc by half",
     .slots = 2,
     .min = 32,
     .max = 32,
     .prepare = no_blocks,
     .work = grow,
     .about = "a block grows from 32 B to 64 KiB, again and again"},
    {.name = "large",
     .operation = "one free and one malloc",
     .slots = 8,
     .min = 65 * 1024,
     .max = 1024 * 1024,
     .divisor = 4,
     .work = replace,
     .about = "private blocks of 65 KiB to 1 MiB, 8 a thread"},
    {.name = "huge",
     .operation = "one free and one malloc",
     .slots = 4,
     .min = 1025 * 1024,
     .max = 4096 * 1024,
     .divisor = 8,
     .work = replace,
     .about = "private blocks of 1 to 4 MiB, 4 a thread"},
    {.name = "server",
     .operation = "one free and one malloc",
     .min = 16,
     .max = 512,
     .life = open_server,
     .about =
         "many threads on each CPU run in turn for 10 operations; one block in 10 goes elsewhere"},
};

enum { LOADS = sizeof loads / sizeof *loads };

const load_t *load_find(const char *name) {
    for (size_t i = 0; i < LOADS; i++)
        if (strcmp(loads[i].name, name) == 0) return &loads[i];
    return NULL;
}

void load_list(void) {
    for (size_t i = 0; i < LOADS; i++)
        printf("%s\t%s\t%s\n", loads[i].name, loads[i].operation, loads[i].about);
}
