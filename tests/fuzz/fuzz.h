/* fuzz.h - what the targets share.
 *
 * A target is one file with LLVMFuzzerTestOneInput. It is built twice: by clang with libFuzzer (preset
 * "fuzz", `make fuzz`), and in the sanitizer builds with replay.c, which runs the corpus and mutations of it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The name is libFuzzer's. An input that shows an error ends the process. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes of an input, taken from its beginning; 0 when there are no more. */
struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

static inline unsigned fuzz_byte(struct fuzz_input *input) {
    if (input->left == 0) return 0;
    input->left--;
    return *input->at++;
}

static inline unsigned fuzz_word(struct fuzz_input *input) {
    unsigned low = fuzz_byte(input);
    return low | fuzz_byte(input) << 8;
}
