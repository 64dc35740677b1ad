/* queue.h - queues that pass blocks between threads. Each place has one queue, which outlives the
 * threads that work there. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "block.h"

enum { QUEUE_LENGTH = 128 };

struct queue {
    pthread_mutex_t lock; /* protects all that follows */
    unsigned first, count;
    size_t bytes;
    struct block blocks[QUEUE_LENGTH];
};

void queue_make(struct queue *queue);

/* False when the queue is full, or would hold too many bytes: then the caller keeps the block. */
bool queue_put(struct queue *queue, const struct block *block);

/* False when there is none. */
bool queue_take(struct queue *queue, struct block *block);
