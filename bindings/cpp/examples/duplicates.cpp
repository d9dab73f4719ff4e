// Finds files with the same content below a folder.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include <coreshard.hpp>

namespace fs = std::filesystem;

struct file {
  fs::path path;
  std::uintmax_t size;
  std::uint64_t hash = 0;
};

// FNV-1a, over eight bytes at a time.
static std::uint64_t hash_of(const fs::path& path) {
  std::ifstream content(path, std::ios::binary);
  std::uint64_t hash = 0xcbf29ce484222325, word;
  std::vector<char> block(1 << 18);
  while (content.read(block.data(), static_cast<std::streamsize>(block.size())) || content.gcount() > 0) {
    auto left = static_cast<std::size_t>(content.gcount());
    std::fill(block.begin() + static_cast<std::ptrdiff_t>(left), block.end(), '\0');
    for (std::size_t at = 0; at < left; at += 8) {
      std::copy_n(&block[at], 8, reinterpret_cast<char*>(&word));
      hash = (hash ^ word) * 0x100000001b3;
    }
  }
  return hash;
}

static bool is_same(const fs::path& one, const fs::path& other) {
  std::ifstream first(one, std::ios::binary), second(other, std::ios::binary);
  using bytes = std::istreambuf_iterator<char>;
  return std::equal(bytes(first), bytes(), bytes(second), bytes());
}

int main(int argc, char** argv) try {
  coreshard::workqueue queue("duplicates");
  std::vector<file> files;
  const auto skip = fs::directory_options::skip_permission_denied;
  for (const auto& entry : fs::recursive_directory_iterator(argc > 1 ? argv[1] : ".", skip))
    if (entry.is_regular_file() && !entry.is_symlink() && entry.file_size() > 0)
      files.push_back({entry.path(), entry.file_size()});

  // On all CPUs. A slow file does not keep other workers from fast ones.
  queue.for_each(0, files.size(), [&files](std::size_t at) {
    files[at].hash = coreshard::blocking([&] { return hash_of(files[at].path); });
  });

  auto key = [](const file& one) { return std::tie(one.size, one.hash, one.path); };
  std::sort(files.begin(), files.end(), [&](const file& one, const file& other) { return key(one) < key(other); });
  std::uintmax_t wasted = 0;
  for (std::size_t at = 1; at < files.size(); ++at) {
    const file &before = files[at - 1], &here = files[at];
    if (before.size != here.size || before.hash != here.hash || !is_same(before.path, here.path)) continue;
    std::printf("%s is %s\n", here.path.c_str(), before.path.c_str());
    wasted += here.size;
  }
  std::printf("%zu files; %ju bytes are there more than once\n", files.size(), wasted);
} catch (const std::exception& error) {  // also exceptions on a worker, which are rethrown to the waiting caller
  std::fprintf(stderr, "duplicates: %s\n", error.what());
  return 1;
}
