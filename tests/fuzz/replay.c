/* replay.c - runs a target without libFuzzer: each file of its corpus, and mutations of each.
 *
 *     fuzz_TARGET_replay FOLDER|FILE [MUTATIONS [SEED]]
 *
 * An input that fails stays in the file fuzz.last.PID of the folder TMPDIR, or /tmp. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "fuzz.h"
#include "rng.h"

enum { INPUT_MOST = 1 << 16 };

static unsigned char input[INPUT_MOST];
static unsigned long runs;
static int last_file = -1;

static size_t read_input(const char *path) {
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL, "%s cannot be read", path);
    size_t size = fread(input, 1, INPUT_MOST / 2, file);
    fclose(file);
    return size;
}

static void run(const unsigned char *data, size_t size) {
    /* libFuzzer, too, gives an input that ends where its block ends: the sanitizers see a byte too much. */
    unsigned char *exact = malloc(size ? size : 1);
    CHECK(exact != NULL, "no memory");
    memcpy(exact, data, size);
    CHECK(ftruncate(last_file, 0) == 0 && pwrite(last_file, data, size, 0) == (ssize_t)size,
          "the input cannot be kept");
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    runs++;
}

/* Changes, cuts out or repeats some bytes. */
static size_t mutate(struct rng *rng, size_t size) {
    for (unsigned left = 1 + (unsigned)rng_below(rng, 6); left; left--) {
        size_t at = rng_below(rng, size + 1), count = 1 + rng_below(rng, 12);
        if (count > size - at) count = size - at;
        switch (rng_below(rng, 5)) {
        case 0:
            memmove(input + at, input + at + count, size - at - count);
            size -= count;
            break;
        case 1:
            if (size + count > INPUT_MOST) break;
            memmove(input + at + count, input + at, size - at);
            size += count;
            break;
        case 2:
            if (at < size) input[at] ^= (unsigned char)(1u << rng_below(rng, 8));
            break;
        default:
            if (at < size) input[at] = (unsigned char)rng_next(rng);
        }
    }
    return size;
}

static void run_file(const char *path, unsigned long mutations, struct rng *rng) {
    size_t size = read_input(path);
    run(input, size);
    while (mutations-- > 0) {
        size = read_input(path);
        size = mutate(rng, size);
        run(input, size);
    }
}

int main(int argc, char **argv) {
    char path[4096], last[4096];
    unsigned long files = 0, mutations = argument(argc, argv, 2, 0);
    struct rng rng = rng_make(argument(argc, argv, 3, 1));
    CHECK(argc > 1, "usage: fuzz_TARGET_replay FOLDER|FILE [MUTATIONS [SEED]]");
    const char *folder = getenv("TMPDIR");
    snprintf(last, sizeof last, "%s/fuzz.last.%d", folder ? folder : "/tmp", (int)getpid());
    last_file = open(last, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(last_file >= 0, "%s cannot be written", last);
    watchdog(1200, "replay of a corpus");
    DIR *list = opendir(argv[1]);
    if (!list) run_file(argv[1], mutations, &rng), files++;
    for (struct dirent *entry; list && (entry = readdir(list)) != NULL;) {
        if (*entry->d_name == '.') continue;
        snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        run_file(path, mutations, &rng);
        files++;
    }
    if (list) closedir(list);
    CHECK(files > 0, "%s has no input", argv[1]);
    unlink(last);
    printf("%lu inputs of %lu files\n", runs, files);
    return 0;
}
