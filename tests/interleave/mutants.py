"""Breaks the checked sources on purpose, one way after the other: the checker must see each.

    mutants.py GROUP --root DIR --work DIR --objects FILE... --compile WORD...

A mutant is a row below: what is broken, and the text before and after. Each is compiled with the
words of --compile, linked with the objects of the checker, and run. The test fails when a mutant
survives, when the sources as they are do not hold, and when a row no longer fits the sources: then
the row has to follow them.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

RELAXED = r"memory_order_relaxed"

# The checked sources and headers, what else is compiled with them, and an edit that every
# compilation gets.
GROUPS = {
    "remote": ("src/shard/*.[ch]", [], []),
    "warm": ("src/shard/*.[ch]", [], []),
    # One turn of the spin shows all there is to see; a hundred turns make 10^8 states.
    "lock": (
        "src/os/lock.[ch]",
        ["tests/interleave/lock.c"],
        [(r"SPIN_COUNT = \d+", "SPIN_COUNT = 1")],
    ),
    "large": ("src/large/large.c", ["tests/interleave/large.c"], []),
    # Small tables and few places for what is kept, so that few blocks use them up.
    "huge": (
        "src/large/huge.[ch] src/large/mappings.[ch] src/large/reuse.[ch]",
        ["tests/interleave/huge.c"],
        [
            (r"LEAST_SLOTS = \d+", "LEAST_SLOTS = 2"),
            (r"HAK_REUSE_MAX = \d+", "HAK_REUSE_MAX = 2"),
            (r"BATCH_MAX = \d+", "BATCH_MAX = 2"),
            (r"CLOSE_SPINS = \d+", "CLOSE_SPINS = 0"),
        ],
    ),
    "purger": (
        "src/thread/purger.c",
        ["tests/interleave/purger.c"],
        [],
    ),
    "record": ("src/region/record.[ch]", ["tests/interleave/record.c"], []),
}

# (group, name, pattern, replacement); the pattern has one match in all files of the group.
MUTANTS = [
    ("remote", "F1 without an order",
     r"hak_or_acq_rel\(&remote\[word\], mask\)",
     rf"atomic_fetch_or_explicit(&remote[word], mask, {RELAXED})"),
    ("remote", "F1 is no single step",
     r"hak_or_acq_rel\(&remote\[word\], mask\)",
     r"hak_load_acquire(&remote[word]); hak_store_release(&remote[word], old | mask)"),
    ("remote", "every freer does F2",
     r"if \(old == 0 && (hak_or_acq_rel\(&slab->remote_words,)",
     r"if (\1"),
    ("remote", "no F2",
     r"if \(old == 0 && hak_or_acq_rel\(&slab->remote_words, .*?\) == 0\)",
     r"if (old == 0)"),
    ("remote", "F3 by everyone who does F2",
     r"if \(old == 0 && (hak_or_acq_rel\(&slab->remote_words, .*?\)) == 0\)",
     r"if (old == 0 && (\1, true))"),
    ("remote", "F3 without an order",
     r"hak_cas_weak_release\(&bin->pending, &old, slab\)",
     rf"atomic_compare_exchange_weak_explicit(&bin->pending, &old, slab, {RELAXED}, {RELAXED})"),
    ("remote", "F3 is no single step",
     r"while \(!hak_cas_weak_release\(&bin->pending, &old, slab\)\)",
     r"while (hak_store_release(&bin->pending, slab), false)"),
    ("remote", "D1 without an order",
     r"hak_exchange_acq_rel\(&bin->pending, NULL\)",
     rf"atomic_exchange_explicit(&bin->pending, NULL, {RELAXED})"),
    ("remote", "D1 is no single step",
     r"hak_exchange_acq_rel\(&bin->pending, NULL\)",
     r"hak_load_acquire(&bin->pending); hak_store_release(&bin->pending, NULL)"),
    ("remote", "the link is read after D2",
     r"slab = next;(\s*\}\s*if \(HAK_UNLIKELY\(slab != NULL\)\))",
     r"slab = slab->pending_next;\1"),
    ("remote", "D2 is no single step",
     r"hak_exchange_acq_rel\(&slab->remote_words, 0\)",
     r"hak_load_acquire(&slab->remote_words); hak_store_release(&slab->remote_words, 0)"),
    ("remote", "D3 before D2",
     r"hak_exchange_acq_rel\(&slab->remote_words, 0\);(.*?merge_remote\([^;]*\);)",
     r"hak_load_acquire(&slab->remote_words);\1 hak_exchange_acq_rel(&slab->remote_words, 0);"),
    ("remote", "D3 without an order",
     r"hak_exchange_acq_rel\(&remote\[w\], 0\)",
     rf"atomic_exchange_explicit(&remote[w], 0, {RELAXED})"),
    ("remote", "D3 is no single step",
     r"hak_exchange_acq_rel\(&remote\[w\], 0\)",
     r"hak_load_acquire(&remote[w]); hak_store_release(&remote[w], 0)"),
    ("remote", "D3 counts a block twice",
     r"mask &= ~twice;(\s*if \(!mask\) continue;)",
     r"\1"),
    ("remote", "a bounded drain drops the rest",
     r"if \(HAK_UNLIKELY\(slab != NULL\)\) push_back\(slab, bin\);",
     r""),
    ("remote", "the rest of a bounded drain replaces what was pushed meanwhile",
     r"while \(!hak_cas_release\(&bin->pending, &none, rest\)\)",
     r"while (hak_store_release(&bin->pending, rest), (void)none, false)"),
    ("remote", "the rest of a bounded drain is dropped for what was pushed meanwhile",
     r"last->pending_next = rest;",
     r""),
    ("remote", "D3 tells nobody of a double free",
     r"\*double_freed =[^;]*;",
     r"(void)double_freed;"),
    ("remote", "a drained slab is not listed",
     r"return slab->free_count > 0 && hak_bin_after_free\(bin, slab\);",
     r"return slab->free_count == hak_classes[hak_owner_class(slab->owner)].count && hak_bin_after_free(bin, slab);"),
    ("remote", "of several slabs taken at once one is entered",
     r"for \(unsigned i = 0; i < count; i\+\+\) (hak_bin_adopt)",
     r"for (unsigned i = 0; i < 1; i++) \1"),
    ("remote", "of several slabs released at once one goes back",
     r"hak_pool_give_list\(list\);",
     r"hak_pool_give(list, 1);"),
    ("remote", "a bin is drained without its lock",
     r"if \(!hak_lock_try\(&bin->lock\)\) return false;(\s*void \*twice)",
     r"bool held = hak_lock_try(&bin->lock); (void)held;\1"),
    ("remote", "a local give does not look at remote blocks",
     r" \| hak_load_relaxed\(&hak_slab_remote\(slab, words\)\[word\]\)",
     r""),
    ("warm", "a give of blocks that lie apart looks at no remote blocks",
     r"\(bits & bit\) \|\| hak_load_relaxed\(&slab->remote_words\)",
     r"bits & bit"),
    ("warm", "a give of blocks that lie apart looks at no free blocks",
     r"\(bits & bit\) \|\| hak_load_relaxed\(&slab->remote_words\)",
     r"hak_load_relaxed(&slab->remote_words)"),
    ("remote", "a slab that was all in use is not listed",
     r"before - 1 >= total - 2",
     r"before >= total - 1"),
    ("remote", "pages go back without the lock",
     r"hak_lock_acquire\(&bin->lock\);(\n *hak_slab_t \*slab = bin->head;\n *size_t some = slab \? purge_slab.*?\n *if \(slab\) hak_bin_move_last.*?\n) *hak_lock_release\(&bin->lock\);",
     r"\1"),
    ("remote", "an empty slab is adopted without the lock of its bin",
     r"\|\| !hak_lock_try\(&other->lock\)\)( continue;\n *slab = hak_bin_drop_empty\(other\);\n) *hak_lock_release\(&other->lock\);\n",
     r")\1"),
    ("remote", "an empty slab is adopted without the lock of its new bin",
     r"(HAK_TIME_MID\(pool_lock, class_index, hak_lock_acquire\(&bin->lock\)\);\n)( *for [^\n]*hak_bin_adopt\(bin, home, class_index, slabs\[i\]\);\n)( *return)",
     r"\2\1\3"),
    ("remote", "a page goes back below a block in use",
     r"if \(wanted & ~slab->bits\[w\]\) return false;",
     r"if (wanted & ~slab->bits[w]) continue;"),
    ("remote", "a counter's low half is read before its carries",
     r"uint64_t sum = hak_bin_carried\(class_index, counter\); /\* first \*/(.*?)return sum;",
     r"uint64_t sum = 0;\1return sum + hak_bin_carried(class_index, counter);"),
    ("remote", "a counter carries before it goes round",
     r"(hak_store_relaxed\(&counts->counts\[counter\], \(uint16_t\)sum\);)\s*(if \(HAK_UNLIKELY\(sum > UINT16_MAX\)\) hak_bin_carry\(class_index, counter\);)",
     r"\2 \1"),
    ("remote", "the child of a fork does not look for half-finished frees",
     r"hak_region_each_superslab\(repend_superslab, NULL\);",
     r"(void)repend_superslab;"),
    ("remote", "the child of a fork keeps the stacks",
     r"hak_store_relaxed\(&\(\(hak_shard_bin_t \*\)\(void \*\)bin\)->pending, NULL\);",
     r""),
    ("warm", "C1 without an order",
     r"hak_cas_acquire\(&binding->state, &state, state \| BUSY\)",
     rf"atomic_compare_exchange_strong_explicit(&binding->state, &state, state | BUSY, {RELAXED}, {RELAXED})"),
    ("warm", "C1 is no single step",
     r"hak_cas_acquire\(&binding->state, &state, state \| BUSY\)",
     r"hak_load_acquire(&binding->state) == state && (hak_store_relaxed(&binding->state, state | BUSY), true)"),
    ("warm", "C2 without an order",
     r"hak_store_release\(&binding->state, \(uintptr_t\)slab\)",
     r"hak_store_relaxed(&binding->state, (uintptr_t)slab)"),
    ("warm", "a carve does not look whether the slab is claimed",
     r"if \(!claim\(binding\)\) return end;",
     r"if (!slab_of(binding)) return end;"),
    ("warm", "a give does not claim",
     r"if \(!hak_warm_claim\(slab\)\) return false;",
     r""),
    ("warm", "a give drops what it finds no place for",
     r"give_remote\(batch, hak_owner_class\(mine\), slab\);",
     r"batch->next++;"),
    ("warm", "a give looks at no remote blocks",
     r" \| hak_load_relaxed\(&hak_slab_remote\(slab, words\)\[word\]\)",
     r""),
    ("warm", "a give enters what it lifted in a list",
     r"if \(slab->lifted\) return false;",
     r""),
    ("warm", "a give does not end its claim",
     r"if \(hak_warm_put_down\(bin, slab\)\) link_to\(&hold->released, slab\);",
     r";"),
    ("warm", "a give ends its claim after the lock",
     r"put_down\(bin, &hold\);(\s*hak_lock_release\(&bin->lock\);)",
     r"\1 put_down(bin, &hold);"),
    ("warm", "what was lifted gets no flag back",
     r"hak_store_relaxed\(&slab->owner, hak_load_relaxed\(&slab->owner\) \| HAK_OWNER_BOUND\);(\s*return)",
     r"\1"),
    ("warm", "a drain does not claim",
     r"if \(HAK_UNLIKELY\(is_bound\) && !hak_warm_claim\(slab\)\)",
     r"if (false)"),
    ("warm", "a drain drops a slab that is carved",
     r"pending_push\(slab, bin\);(\s*slab = next;\s*continue;)",
     r"\1"),
    ("warm", "a drain takes the words of a slab that is carved",
     r"pending_push\(slab, bin\);(\s*slab = next;\s*continue;)",
     r"hak_exchange_acq_rel(&slab->remote_words, 0); pending_push(slab, bin);\1"),
    ("warm", "a drain does not end its claim",
     r"is_bound \? hak_warm_after_free\(bin, slab\) : drained",
     r"is_bound ? false : drained"),
    ("warm", "a sweep takes back what is carved",
     r"if \(!is_idle \|\| !claim\(binding\)\) continue;",
     r"if (!is_idle) continue;"),
    ("warm", "a take takes back what is carved",
     r"\(\(!fresh && hak_load_relaxed\(&binding->ready\) == 0\) \|\| !claim\(binding\)\)",
     r"(!fresh && hak_load_relaxed(&binding->ready) == 0)"),
    ("warm", "slabs are bound without the lock",
     r"if \(HAK_UNLIKELY\(warm != NULL\)\) hak_warm_prefill\(warm, bin\);(.*?hak_lock_release\(&bin->lock\);)",
     r"\1 if (warm) hak_warm_prefill(warm, bin);"),
    ("warm", "slabs are given back without the lock",
     r"hak_lock_acquire\(&bin->lock\);(\s*for \(unsigned i = 0; i < warm->count; i\+\+\) \{.*?\n    \})\s*hak_lock_release\(&bin->lock\);",
     r"\1"),
    ("warm", "a slab that is bound stays in the list",
     r"hak_bin_leave\(bin, slab\);(\s*slab->binding)",
     r"\1"),
    ("warm", "an unbound slab keeps its state",
     r"hak_store_release\(&binding->state, 0\);",
     r"unclaim(binding, slab);"),
    ("warm", "an unbound slab keeps its flag",
     r"hak_load_relaxed\(&slab->owner\) & ~HAK_OWNER_BOUND(\);\s*hak_bin_return)",
     r"hak_load_relaxed(&slab->owner)\1"),
    ("warm", "an unbound slab is not listed",
     r"return hak_bin_after_free\(bin, slab\);(\s*hak_bin_list_last)",
     r"return false;\1"),
    ("warm", "a wholly free slab is released while it is bound",
     r"return put_back\(bin, revoke\(slab->binding, bin\)\);",
     r"hak_store_relaxed(&slab->owner, hak_load_relaxed(&slab->owner) & ~HAK_OWNER_BOUND); unclaim(slab->binding, slab); return put_back(bin, slab);"),
    ("warm", "who has all locks does not wait for a carve",
     r"while \(!claim\(binding\)\) hak_os_sleep_ms\(1\);",
     r"claim(binding);"),
    ("warm", "what is bound is not counted",
     r"ring->used \+= used_of\(slab, hak_bin_ready\(slab, class_of\(slab\)\)\);",
     r""),
    ("warm", "what is unbound stays counted",
     r"ring->used -= used_of\(slab, hak_bin_ready\(slab, class_of\(slab\)\)\);",
     r""),
    ("warm", "what is given to a bound slab is not counted",
     r"ring_of\(slab\)->used -= hak_bin_ready\(slab, class_of\(slab\)\) - before;",
     r"(void)before;"),
    ("warm", "the sums of a bin are read without its lock",
     r"hak_lock_acquire\(&bin->lock\);(\n *for \(unsigned i = 0; i < HAK_SHARD_COUNTERS; i\+\+\)\n *sum->counts.*?) *hak_lock_release\(&bin->lock\);\n",
     r"\1"),
    ("remote", "the sums are not read again after a carry",
     r"while \(--tries && has_carried\(class_index, carried\)\);",
     r"while ((void)tries, (void)has_carried, false);"),
    ("remote", "remote frees are not counted",
     r"if \(batch.remote\) hak_add_relaxed",
     r"if (batch.remote > 1) hak_add_relaxed"),
    ("remote", "a remote block that was free already stays counted",
     r"-\(uint64_t\)hak_bit_count\(twice\)\);",
     r"0);"),
    ("remote", "a slab that leaves its bin stays counted",
     r"HAK_COUNT\(&hak_bin_rare\(hak_owner_shard\(owner\), hak_owner_class\(owner\)\)->left, 1\);",
     r""),
    ("warm", "the child of a fork keeps the claims",
     r"void hak_warm_unbind_all\(void\) \{ each_bound\(unbind_listed, NULL\); \}",
     r"void hak_warm_unbind_all(void) { (void)unbind_listed; }"),
    ("lock", "a sleeper forgets the others",
     r"hak_os_futex_wait\(&lock->state, waited\);",
     r"{ hak_os_futex_wait(&lock->state, waited); if (hak_lock_try(lock)) return; }"),
    ("lock", "the wait has no order",
     r"!hak_cas_acquire\(&lock->state, &seen, waited\)",
     r"!atomic_compare_exchange_strong_explicit(&lock->state, &seen, waited,"
     rf" {RELAXED}, {RELAXED})"),
    ("lock", "the wait is no single step",
     r"!hak_cas_acquire\(&lock->state, &seen, waited\)",
     r"(atomic_store(&lock->state, waited), false)"),
    ("lock", "a waiter takes a kept lock for a held one",
     r"seen < KEPT \? WAITED : KEPT_WAITED",
     r"WAITED"),
    ("lock", "a waiter falls asleep whatever the state is",
     r"hak_os_futex_wait\(&lock->state, waited\)",
     r"hak_os_futex_wait(&lock->state, hak_load_relaxed(&lock->state))"),
    ("lock", "nobody is woken",
     r"hak_os_futex_wake\(&lock->state, false\);",
     r"(void)waited;"),
    ("lock", "the keeper lets others in",
     r"if \(hak_load_relaxed\(&lock->state\) < KEPT\) open_and_wake",
     r"open_and_wake"),
    ("lock", "everybody passes a kept lock",
     r"return thread != 0 && thread == hak_os_thread\(\);",
     r"return thread != 0;"),
    ("lock", "the keeper does not pass",
     r"if \(passes\(lock\)\) return;",
     r""),
    ("lock", "keeping forgets who sleeps",
     r"hak_add_relaxed\(&lock->state, KEEP\)",
     r"hak_store_relaxed(&lock->state, KEPT)"),
    ("lock", "unkeep wakes nobody",
     r"open_and_wake\(lock, KEPT_WAITED\)",
     r"open_and_wake(lock, WAITED)"),
    ("lock", "one that gives up takes the lock all the same",
     r"if \(\*tries == 0\) return false;",
     r"if (*tries == 0) return true;"),
    ("lock", "acquire has no order",
     r"!hak_cas_acquire\(&lock->state, &free_state, 1\)",
     r"!atomic_compare_exchange_strong_explicit(&lock->state, &free_state, 1,"
     rf" {RELAXED}, {RELAXED})"),
    ("lock", "release has no order",
     r"!hak_cas_release\(&lock->state, &held, 0\)",
     r"!atomic_compare_exchange_strong_explicit(&lock->state, &held, 0,"
     rf" {RELAXED}, {RELAXED})"),
    ("lock", "the release that wakes has no order",
     r"(atomic_exchange_explicit\(&lock->state, FREE,) memory_order_release\)",
     rf"\1 {RELAXED})"),
    ("lock", "release is no single step",
     r"!hak_cas_release\(&lock->state, &held, 0\)",
     r"hak_load_relaxed(&lock->state) != held || (hak_store_release(&lock->state, 0), false)"),
    ("lock", "a try that takes what is held",
     r"hak_load_relaxed\(&lock->state\) == 0 && hak_cas_acquire\(&lock->state, &free_state, 1\)",
     r"hak_load_acquire(&lock->state) == free_state && (hak_store_relaxed(&lock->state, 1), true)"),
    ("purger", "asleep only after the look",
     r"atomic_store\(&state, ASLEEP\);(.*?)while \(atomic_load\(&state\) == ASLEEP && (.*?)\)(\n *hak_os_futex_wait\(&state, ASLEEP\);)",
     r"\1while (\2) { atomic_store(&state, ASLEEP); \3 }"),
    ("purger", "the sleeper does not look at the note",
     r" && !atomic_load\(&noted\)",
     r""),
    ("purger", "the sleeper does not look at the threads",
     r" && hak_thread_count\(\) > 0\)(\s+hak_os_futex_wait)",
     r")\1"),
    ("purger", "the sleeper does not look at what is dirty",
     r" && !much_to_do\(delay_ms\)",
     r""),
    ("purger", "the sleeper does not look at its state",
     r"while \(atomic_load\(&state\) == ASLEEP && ",
     r"while ("),
    ("purger", "asleep in any state",
     r"hak_os_futex_wait\(&state, ASLEEP\)",
     r"hak_os_futex_wait(&state, atomic_load(&state))"),
    ("purger", "a wake-up that leaves the state",
     r"atomic_compare_exchange_strong\(&state, &asleep, AWAKE\)",
     r"asleep"),
    ("purger", "a wake-up that wakes nobody",
     r"if \(atomic_compare_exchange_strong\(&state, &asleep, AWAKE\)\) hak_os_futex_wake\(&state, true\);",
     r"atomic_compare_exchange_strong(&state, &asleep, AWAKE);"),
    ("purger", "a note that wakes nobody",
     r"hak_store_relaxed\(&noted, true\);(\s+atomic_thread_fence\([^;]*;)\s+wake\(\);",
     r"hak_store_relaxed(&noted, true);\1"),
    ("purger", "a note after the wake-up",
     r"hak_store_relaxed\(&noted, true\);(\s+atomic_thread_fence\([^;]*;)\s+wake\(\);",
     r"wake(); hak_store_relaxed(&noted, true);\1"),
    ("purger", "nobody wakes it for the last thread's end",
     r" \|\| hak_thread_count\(\) == 0\) wake\(\);",
     r") wake();"),
    ("purger", "nobody wakes it for what is dirty",
     r"worth_waking\(\) \|\| ",
     r""),
    ("purger", "what is kept of huge blocks does not count",
     r"of_pool \+ other_units\(\) \+",
     r"of_pool +"),
    ("purger", "the delay is read once",
     r"while \(hak_thread_count\(\) > 0\) \{(\s+int64_t delay_ms = [^;]*;)",
     r"\1 while (hak_thread_count() > 0) {"),
    ("purger", "it purges although there shall be none",
     r"if \(delay_ms >= 0\) hak_purge_round",
     r"hak_purge_round"),
    ("purger", "the sleeper does not look at what is urgent",
     r" &&\s+!atomic_load\(&urged\)",
     r""),
    ("purger", "what is urgent wakes nobody",
     r"(hak_store_relaxed\(&urged, 1\);\s+atomic_thread_fence\([^;]*;)\s+wake\(\);",
     r"\1"),
    ("purger", "an urgent note after the wake-up",
     r"hak_store_relaxed\(&urged, 1\);(\s+atomic_thread_fence\([^;]*;)\s+wake\(\);",
     r"wake(); hak_store_relaxed(&urged, 1);\1"),
    ("large", "freed is set in two steps",
     r"if \(!hak_cas_acquire\(&unit->run, &run, run \| HAK_RUN_FREED\)\) return 0;",
     r"hak_store_release(&unit->run, run | HAK_RUN_FREED);"),
    ("large", "a free does not look at freed",
     r" \|\| run & HAK_RUN_FREED \|\| run_start",
     r" || run_start"),
    ("large", "the transfer array without its lock",
     r"hak_lock_acquire\(&heap->transfer_lock\);(\s+bool room)",
     r"\1"),
    ("large", "the array is drained without its lock",
     r"hak_lock_acquire\(&heap->transfer_lock\);(\s+unsigned count)",
     r"\1"),
    ("large", "the array takes one too many",
     r"heap->transfer_count < most",
     r"heap->transfer_count <= most"),
    ("large", "a drained array is not empty",
     r"heap->transfer_count = 0;",
     r""),
    ("large", "drained blocks are dropped",
     r"for \(unsigned i = 0; i < count; i\+\+\) merge\(heap, units\[i\]\);",
     r""),
    ("large", "a block that was taken stays in the array",
     r"heap->transfer\[--heap->transfer_count\]",
     r"heap->transfer[heap->transfer_count - 1]"),
    ("large", "a block that finds the array full is dropped",
     r"merge\(heap, unit\);(\s+publish_idle)",
     r"\1"),
    ("large", "a block is put into the array and merged",
     r"(put_transferred\(heap, unit, hak_run_length\(run\)\))\) return size;",
     r"\1 && heap == NULL) return size;"),
    ("large", "a free merges without the heap's lock",
     r"HAK_TIME\(l25_lock, hak_lock_acquire\(&heap->lock\)\);(\s+if \(!remote)",
     r"\1"),
    ("large", "a purge drains without the heap's lock",
     r"hak_lock_acquire\(&heap->lock\);(\s+drain\(heap\);\s+)hak_lock_release\(&heap->lock\);",
     r"\1"),
    ("large", "a block that serves again stays freed",
     r"hak_store_release\(&unit->run, run_word\(request->block, request->grains\)\);",
     r"(void)unit;"),
    ("large", "a resize without the heap's lock",
     r"HAK_TIME\(l25_lock, hak_lock_acquire\(&heap->lock\)\);(\s+bool done)",
     r"\1"),
    ("large", "a resized block keeps its length",
     r"hak_store_release\(&unit->run, run_word\(block, want\)\);",
     r""),
    ("large", "what a block grows by is not counted",
     r"HAK_COUNT\(&heap->live, want - have\);",
     r""),
    ("huge", "the largest stretch is lengthened without a second look",
     r"char \*block = take_kept\(size, align\);(\s+if \(!block && align <= \S+ && "
     r"hak_reuse_take_shorter\(shorter, )size\)",
     r"char *block = NULL;\1SIZE_MAX)"),
    ("huge", "a request looks without the lock",
     r"hak_lock_acquire\(&hak_huge_lock\);"
     r"(\s+char \*block = take_kept\(size, align\);\s+hak_lock_release)",
     r"\1"),
    ("huge", "a freed block stays in the table",
     r"hak_mappings_remove\(mapping\);(\s+\}\s+static size_t free_and_unmap)",
     r"\1"),
    ("huge", "a block in hand stays in the table",
     r"if \(mapping && !stays\) hak_mappings_take_in_hand\(mapping\);",
     r""),
    ("huge", "a block that has moved goes back under its old address",
     r"\(uintptr_t\)\(moved \? moved : block\)",
     r"(uintptr_t)block"),
    ("huge", "a block that is not resized is lost",
     r"(hak_mappings_put_back\(\(uintptr_t\))",
     r"if (moved) \1"),
    ("huge", "a block in hand goes back without the lock",
     r"hak_lock_acquire\(&hak_huge_lock\);(\s+hak_mappings_put_back)",
     r"\1"),
    ("huge", "the charge of a refused resize stays",
     r"if \(!moved\) hak_commit_release\(size - old_size\);",
     r""),
    ("huge", "the charge of a refused lengthening stays",
     r"if \(!block\) hak_commit_release\(size - stretch->size\);",
     r""),
    ("huge", "a stretch that is not lengthened is lost",
     r"else\s+put_back\(stretch\);",
     r""),
    ("huge", "a lengthened block is not zeroed",
     r"\*dirty = block \? shorter\.size : 0;",
     r"*dirty = 0;"),
    ("huge", "the target of a refused move is unmapped",
     r"hak_os_unmap\(moved \+ old_size, size - old_size\);",
     r"hak_os_unmap(moved, size);"),
    ("huge", "a mapping that is not unmapped is lost",
     r"unmap_failed\(\*stretch\);",
     r""),
    ("huge", "a free that unmaps does not enter",
     r"enter\(\);(\s+hak_lock_acquire\(&hak_huge_lock\);\s+[^;]*;\s+size_t size = mapping)",
     r"false;\1"),
    ("huge", "a resize does not enter",
     r"enter\(\);(\s+hak_lock_acquire\(&hak_huge_lock\);\s+[^;]*;\s+size_t old_size = mapping)",
     r"false;\1"),
    ("huge", "a purge does not enter",
     r"enter\(\);(\s+for \(bool more)",
     r"false;\1"),
    ("huge", "a request does not enter",
     r"enter\(\);(\s+block = map_block)",
     r"false;\1"),
    ("huge", "enter does not look at the gate",
     r"return HAK_LIKELY\(!\(before & CLOSED\)\) \|\| enter_closed\(\);",
     r"(void)before; return true;"),
    ("huge", "a fork does not wait",
     r"hak_load_acquire\(&inside\) != CLOSED; i\+\+",
     r"false; i++"),
    ("huge", "nobody is woken after a fork",
     r"hak_os_futex_wake\(&inside, true\);",
     r""),
    ("huge", "a second table replaces a larger one",
     r"slots <= current\.size \|\| former\.used",
     r"false"),
    ("huge", "the former table is not searched",
     r"return found \? found : find_in\(&former, start\);",
     r"return found;"),
    ("huge", "what is behind a part that was taken is lost",
     r"if \(behind\) insert_at",
     r"if (!part) insert_at"),
    ("huge", "a stretch that is joined keeps its start",
     r"if \(!below\) grown->start = start;",
     r""),
    ("record", "closing is no single step",
     r"!hak_cas_acquire\(at, &word, closed\)",
     r"(hak_store_relaxed(at, closed), false)"),
    ("record", "who loses does not look again",
     r"(hak_cas_acquire\(at, &word, closed\)\)\s*)state = state_of\(word, block\);",
     r"\1(void)word;"),
    ("record", "a table replaces another",
     r"while \(!hak_cas_weak_release\(&super->records, &old, table\)\)",
     r"while (hak_store_release(&super->records, table), false)"),
    ("record", "who loses uses its own table",
     r"return hak_load_acquire\(&super->records\);",
     r"return table;"),
    ("record", "who loses keeps its table",
     r"hak_meta_free\(\(void \*\)table, size\);",
     r""),
]

RUN_SECONDS = 120


def edited(files, pattern, replacement):
    """The name and the new text of the one file that has the one match."""
    hits = []
    for name, text in files.items():
        new, count = re.subn(pattern, replacement, text, flags=re.DOTALL)
        hits += [(name, new)] * count
    if len(hits) != 1:
        raise LookupError(f"the row has {len(hits)} matches; it has to follow the source")
    return hits[0]


def build(args, name, edits):
    """Compiles and links one set of edits; returns the program."""
    patterns, others, _ = GROUPS[args.group]
    paths = [path for pattern in patterns.split() for path in args.root.glob(pattern)]
    files = {str(path.relative_to(args.root)): path.read_text() for path in paths}
    work = args.work / re.sub(r"\W+", "_", name)
    shutil.rmtree(work, ignore_errors=True)
    for row in edits:
        file, text = edited(files, *row)
        files[file] = text
    for file, text in files.items():
        (work / file).parent.mkdir(parents=True, exist_ok=True)
        (work / file).write_text(text)
    objects = []
    sources = [args.root / file for file in others]
    included = "".join(source.read_text() for source in sources)
    # The .c file that a test includes is a part of it.
    sources += [work / file for file in files
                if file.endswith(".c") and f'"{file.removeprefix("src/")}"' not in included]
    for source in sources:
        objects.append(work / f"{len(objects)}.o")
        # The copies of headers stand before the headers.
        words = [args.compile[0], "-I", work / "src", *args.compile[1:], "-w"]
        subprocess.run([*words, "-c", source, "-o", objects[-1]], check=True)
    program = work / "program"
    subprocess.run([args.compile[0], *objects, *args.objects, "-o", program], check=True)
    return program


def run(args, name, edits):
    """True and a line to print when the outcome is what it must be."""
    try:
        program = build(args, name or "unbroken", GROUPS[args.group][2] + edits)
        words = [program, "--broken"] if name else [program]
        done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_SECONDS)
    except (LookupError, subprocess.SubprocessError) as problem:
        return False, f"FAIL {name}: {problem}"
    if not name:
        return done.returncode == 0, done.stdout.rstrip()
    if done.returncode < 0:
        return True, f"{name}: crashes"
    return done.returncode == 0, f"{name}: {done.stdout.strip()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--objects", nargs="+", required=True)
    parser.add_argument("--compile", nargs=argparse.REMAINDER, required=True)
    args = parser.parse_args()
    rows = [(name, [row]) for group, name, *row in MUTANTS if group == args.group]
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for right, line in pool.map(lambda row: run(args, *row), [("", []), *rows]):
            print(line, flush=True)
            failures += not right
    print(f"interleave: {len(rows)} mutants, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
