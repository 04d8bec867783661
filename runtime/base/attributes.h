// A node's attributes: a small ordered map from name to a number, a string or a list of numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace act {

using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

class Attributes {
 public:
  void Set(const std::string& name, Attribute value) { map_[name] = std::move(value); }
  bool Has(const std::string& name) const { return map_.count(name) != 0; }

  // The attribute, or `fallback` if it is absent or of another type.
  int64_t Int(const std::string& name, int64_t fallback = 0) const { return Get<int64_t>(name, fallback); }
  double Float(const std::string& name, double fallback = 0) const { return Get<double>(name, fallback); }
  std::string String(const std::string& name, std::string fallback = "") const {
    return Get<std::string>(name, std::move(fallback));
  }
  std::vector<int64_t> Ints(const std::string& name, std::vector<int64_t> fallback = {}) const {
    return Get<std::vector<int64_t>>(name, std::move(fallback));
  }
  std::vector<double> Floats(const std::string& name, std::vector<double> fallback = {}) const {
    return Get<std::vector<double>>(name, std::move(fallback));
  }

  const std::map<std::string, Attribute>& map() const { return map_; }
  bool operator==(const Attributes&) const = default;

 private:
  template <class T>
  T Get(const std::string& name, T fallback) const {
    const auto it = map_.find(name);
    if (it == map_.end()) return fallback;
    const T* value = std::get_if<T>(&it->second);
    return value ? *value : fallback;
  }

  std::map<std::string, Attribute> map_;
};

}  // namespace act
