// A C++ file that makes a compiler work: many templates of the standard library.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

namespace {

template <int Depth> struct tree {
    std::map<std::string, tree<Depth - 1>> children;
    std::vector<std::tuple<int, std::string, std::shared_ptr<tree<Depth - 1>>>> list;

    std::size_t count() const {
        return std::accumulate(
            children.begin(), children.end(), list.size(),
            [](std::size_t sum, const auto &entry) { return sum + entry.second.count(); });
    }
};

template <> struct tree<0> {
    std::size_t count() const { return 1; }
};

using value = std::variant<int, double, std::string, std::vector<int>>;

struct printer {
    std::ostream &out;
    void operator()(const std::vector<int> &list) const {
        for (int number : list) out << number << ' ';
    }
    template <typename Other> void operator()(const Other &other) const { out << other; }
};

} // namespace

int main() {
    tree<6> root;
    root.children["a"].children["b"];
    std::unordered_map<std::string, std::set<int, std::greater<>>> index;
    std::mt19937 random(1);
    for (int i = 0; i < 1000; i++) index[std::to_string(random() % 100)].insert(i);
    std::vector<value> values{1, 2.5, std::string("three"), std::vector<int>{4, 5}};
    for (const value &one : values) std::visit(printer{std::cout}, one);
    std::thread([&] { std::sort(values.begin(), values.end()); }).join();
    return root.count() + index.size() > 0 ? 0 : 1;
}
