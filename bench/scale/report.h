/* report.h: what was counted, as JSON on stdout. */
#pragma once

void report_print(void);
