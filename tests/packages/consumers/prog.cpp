// prog.cpp - a consumer in C++: operator new, and a container by the header.
#include <hakmem.hpp>

#include <cstdio>
#include <string>
#include <vector>

static std::uint64_t live_bytes() {
    std::uint64_t value = 0;
    return hakmem_stats_get("total.live_bytes", &value) == 0 ? value : 0;
}

int main() {
    std::uint64_t before = live_bytes();
    std::string *volatile text = new std::string(100000, 'x');
    std::vector<char, hakmem::allocator<char>> bytes(100000);
    bool is_served = live_bytes() >= before + 2 * 100000;
    std::printf("%s %d\n", is_served ? "served by" : "not served by", hakmem_version());
    delete text;
    return live_bytes() < before + 2 * 100000 ? 0 : 2;
}
