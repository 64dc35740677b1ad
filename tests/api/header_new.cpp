/* header_new.cpp - the program's own operators, which hakmem_new.hpp defines in one file. */
#include "hakmem_new.hpp"
