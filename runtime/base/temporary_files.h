// Files that must not outlast the process: RemoveTemporaryFiles() of file.h removes those that are listed.
#pragma once

namespace act {

// `path` lives, at the same place, until it is taken off the list.
void ListTemporaryFile(const char* path);
void UnlistTemporaryFile(const char* path);

}  // namespace act
