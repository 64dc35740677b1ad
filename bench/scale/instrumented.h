/* instrumented.h: included before all else in instrumented code. */
#ifndef __ASSEMBLER__
#ifdef __cplusplus
extern "C"
#endif
    void
    scale_pause(void);
#define __builtin_ia32_pause scale_pause
#define HAKMEM_NO_ASM 1 /* assembly would not be seen */
#endif
