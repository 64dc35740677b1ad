/* live_reader.h: the other process that reads the live page (src/live_stats/live_page.h) in a scenario. */
#pragma once

/* In prepare, when the page is made and nobody writes: what it says is noted. */
void live_reader_begin(void);

/* A thread that copies the page in pieces, as long as it takes until a copy is to be believed. */
void live_reader_read(void);

/* At the end: no copy that was believed differs from what the page was. */
void live_reader_check(void);

/* Steps of a scenario: a process with a live page, what its threads do, and all that must hold then. */
void watched(void);
void use_watched(void);
void use_watched_too(void);
void check_watched(void);
