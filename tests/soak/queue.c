#include "queue.h"

#define BYTES_MOST ((size_t)8 << 20)

void queue_make(struct queue *queue) { pthread_mutex_init(&queue->lock, NULL); }

bool queue_put(struct queue *queue, const struct block *block) {
    pthread_mutex_lock(&queue->lock);
    bool has_bytes = queue->count == 0 || queue->bytes + block->size <= BYTES_MOST;
    bool has_room = queue->count < QUEUE_LENGTH && has_bytes;
    if (has_room) {
        queue->blocks[(queue->first + queue->count++) % QUEUE_LENGTH] = *block;
        queue->bytes += block->size;
    }
    pthread_mutex_unlock(&queue->lock);
    return has_room;
}

bool queue_take(struct queue *queue, struct block *block) {
    pthread_mutex_lock(&queue->lock);
    bool has_one = queue->count > 0;
    if (has_one) {
        *block = queue->blocks[queue->first];
        queue->first = (queue->first + 1) % QUEUE_LENGTH;
        queue->count--;
        queue->bytes -= block->size;
    }
    pthread_mutex_unlock(&queue->lock);
    return has_one;
}
