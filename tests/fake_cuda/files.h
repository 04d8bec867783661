// Files of a cache that several processes share, and commands that make them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace act::fake {

// Of all of the file; empty if there is none.
std::string Contents(const std::filesystem::path& path);
// Makes the folders on the way.
void Write(const std::filesystem::path& path, const std::string& text);

// Nobody sees a file, or a folder, that is half made, whoever makes it beside us.
void WriteAtOnce(const std::filesystem::path& path, const std::string& text);
// The same file under one more path.
void LinkAtOnce(const std::filesystem::path& from, const std::filesystem::path& to);
void MakeFolderAtOnce(const std::filesystem::path& path,
                      const std::function<void(const std::filesystem::path&)>& fill);

// A path beside this one that no other thread uses, of any process.
std::filesystem::path OwnPath(const std::filesystem::path& path);

// FNV-1a in 64 bits, of `text` after what has the hash `before`: names of files in a cache of tests.
inline constexpr uint64_t kHashOfNothing = 0xcbf29ce484222325u;
uint64_t HashOf(const std::string& text, uint64_t before = kHashOfNothing);
std::string HexOf(uint64_t hash);

// The exit status of the command; its output goes to `log`.
int RunCommand(const std::vector<std::string>& command, const std::filesystem::path& log);

}  // namespace act::fake
