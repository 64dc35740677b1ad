/* guard_sample.h: steps of scenarios for calls that leave the usual path: HARDENED, GUARD_SAMPLE, PROF. */
#pragma once

void hardened(void);
void hardened_on_an_old_kernel(void);
void before_the_hardened_path(void);
void use_both_paths(void);
void delete_malloced(void);
void delete_malloced_too(void);
void use_nothing(void);
void use_nothing_too(void);
void make_small_and_post(void);
void await_and_resize(void);
void sampled(void);
void sampled_on_an_old_kernel(void);
void before_sampling(void);
void make_sampled_and_post(void);
void await_and_free_sampled(void);
void profiled(void);
void hardened_and_profiled(void);
void before_the_profile(void);
void make_samples(void);
void sample_at_one_site(void);
void check_peaks(void);
void rest_at_a_peak(void);
void make_peaks(void);
void check_all_at_peak(void);
void free_samples(void);
