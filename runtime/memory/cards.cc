#include "runtime/memory/cards.h"

namespace act {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// h100 and a100: those of 80 GB.
constexpr Card kCards[] = {
    {"h200", 140 * kGiB}, {"h100", 79 * kGiB}, {"a100", 79 * kGiB}, {"b200", 178 * kGiB}, {"l4", 21 * kGiB},
};

}  // namespace

int64_t Card::ArenaBytes() const { return memory_bytes - kGiB; }

const Card* FindCard(std::string_view name) {
  for (const Card& card : kCards)
    if (card.name == name) return &card;
  return nullptr;
}

std::string CardNames() {
  std::string names;
  for (const Card& card : kCards) names += (names.empty() ? "" : ", ") + std::string(card.name);
  return names;
}

}  // namespace act
