#include "lockstep/data/engine/file_roots.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lockstep/data/engine/file_error.h"
#include "lockstep/data/plan/error.h"

namespace lockstep::engine {
namespace {

using runtime::UniqueFd;

// The same words whatever is there: they must not tell.
absl::Status Refused(const std::string& path) {
  return plan::Error(absl::StatusCode::kPermissionDenied, plan::kPathRefused,
                     absl::StrCat(path,
                                  " is outside of what this worker may read; its operator "
                                  "sets that with --allow-path"));
}

std::string Absolute(const std::string& path) {
  return absl::StartsWith(path, "/")
             ? path
             : absl::StrCat(std::filesystem::current_path().string(), "/", path);
}

// Without "." and "..", by the text alone, and without a slash at the end.
std::string Normal(const std::string& path) {
  std::string text = std::filesystem::path(path).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

// What follows `directory` in `path`; absent when it does not lie there.
bool Below(const std::string& directory, const std::string& path, std::string& rest) {
  if (directory.empty() || !absl::StartsWith(path, directory)) return false;
  if (directory != "/" && path.size() > directory.size() && path[directory.size()] != '/') {
    return false;
  }
  rest = path.substr(directory.size());
  return true;
}

std::string Unescaped(std::string_view component) {
  std::string text;
  for (size_t i = 0; i < component.size(); ++i) {
    if (component[i] == '\\' && i + 1 < component.size()) ++i;
    text.push_back(component[i]);
  }
  return text;
}

bool IsPattern(std::string_view component) {
  for (size_t i = 0; i < component.size(); ++i) {
    if (component[i] == '\\') {
      ++i;
    } else if (component[i] == '*' || component[i] == '?' || component[i] == '[') {
      return true;
    }
  }
  return false;
}

}  // namespace

// --- One way to one place -----------------------------------------------------------------------

class FileRoots::Walk {
 public:
  explicit Walk(const FileRoots& roots) : roots_(roots) {}

  // To what the path leads to: a directory, then it is `top()`, or something else in `top()`, whose
  // name is `name()`.
  absl::Status To(const std::string& path) {
    path_ = path;
    if (absl::Status status = Begin(Absolute(path)); !status.ok()) return status;
    while (!rest_.empty()) {
      const std::string component = std::move(rest_.back());
      rest_.pop_back();
      if (component.empty() || component == ".") continue;
      absl::Status status = component == ".." ? Up() : Into(component);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Whether the way led out of the roots, which is why it ended.
  bool outside() const { return outside_; }
  bool is_directory() const { return name_.empty(); }
  mode_t mode() const { return mode_; }
  int top() const { return steps_.back().fd.get(); }
  const std::string& name() const { return name_; }
  std::string real() const { return name_.empty() ? Here() : absl::StrCat(HereSlash(), name_); }

 private:
  struct Step {
    UniqueFd fd;
    std::string name;
  };

  // From the root above the path on.
  absl::Status Begin(const std::string& absolute) {
    const auto located = roots_.Locate(absolute);
    outside_ = !located.ok();
    if (outside_) return Refused(path_);
    root_ = located->root;
    const std::vector<std::string> components = absl::StrSplit(located->rest, '/');
    rest_.assign(components.rbegin(), components.rend());
    steps_.clear();
    UniqueFd fd(::open(root_->real.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) return FileError(path_, errno);
    steps_.push_back({std::move(fd), ""});
    return absl::OkStatus();
  }

  absl::Status Up() {
    if (steps_.size() > 1) {
      steps_.pop_back();
      return absl::OkStatus();
    }
    if (root_->real == "/") return absl::OkStatus();
    return Elsewhere(absl::StrCat(root_->real, "/.."));
  }

  // The rest of the way begins at another absolute path.
  absl::Status Elsewhere(std::string absolute) {
    for (auto part = rest_.rbegin(); part != rest_.rend(); ++part) {
      absl::StrAppend(&absolute, "/", *part);
    }
    if (++links_ > kLinksFollowedMax) return FileError(path_, ELOOP);
    return Begin(Normal(absolute));
  }

  absl::Status Into(const std::string& component) {
    UniqueFd fd(::openat(top(), component.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info;
    if (!fd.valid() || ::fstat(fd.get(), &info) != 0) return FileError(path_, errno);
    if (S_ISLNK(info.st_mode)) return Follow(fd.get());
    if (S_ISDIR(info.st_mode)) {
      steps_.push_back({std::move(fd), component});
      return absl::OkStatus();
    }
    if (!rest_.empty()) return FileError(path_, ENOTDIR);
    name_ = component;
    mode_ = info.st_mode;
    return absl::OkStatus();
  }

  absl::Status Follow(int link) {
    if (++links_ > kLinksFollowedMax) return FileError(path_, ELOOP);
    char target[PATH_MAX];
    const ssize_t length = ::readlinkat(link, "", target, sizeof(target));
    if (length < 0) return FileError(path_, errno);
    const std::string text(target, static_cast<size_t>(length));
    if (absl::StartsWith(text, "/")) return Elsewhere(text);
    const std::vector<std::string> components = absl::StrSplit(text, '/');
    rest_.insert(rest_.end(), components.rbegin(), components.rend());
    return absl::OkStatus();
  }

  std::string HereSlash() const {
    std::string text = root_->real == "/" ? "/" : absl::StrCat(root_->real, "/");
    for (size_t i = 1; i < steps_.size(); ++i) absl::StrAppend(&text, steps_[i].name, "/");
    return text;
  }
  std::string Here() const { return Normal(HereSlash()); }

  const FileRoots& roots_;
  std::string path_;  // as it was asked for
  const Root* root_ = nullptr;
  std::vector<Step> steps_;        // the directories from the root on
  std::vector<std::string> rest_;  // components to go, the next one last
  std::string name_;               // what is no directory, at the end
  mode_t mode_ = S_IFDIR;
  int links_ = 0;
  bool outside_ = false;
};

// --- What a pattern matches ---------------------------------------------------------------------

class FileRoots::Listing {
 public:
  Listing(const FileRoots& roots, size_t most) : roots_(roots), most_(most) {}

  // One without braces.
  absl::Status Add(const std::string& pattern) {
    const std::string absolute = Absolute(pattern);
    const auto located = roots_.Locate(absolute);
    if (!located.ok()) return Refused(pattern);
    pattern_ = pattern;
    components_ = absl::StrSplit(located->rest, '/', absl::SkipEmpty());
    if (components_.empty() || absl::EndsWith(pattern, "/")) return absl::OkStatus();
    const auto first = static_cast<std::ptrdiff_t>(found_.size());
    const std::string& top = located->root->real;
    absl::Status status = Expand(top == "/" ? "" : top, 0, /*chosen=*/false);
    std::sort(found_.begin() + first, found_.end());
    return status;
  }

  std::vector<std::string> found() && { return std::move(found_); }

 private:
  struct Entry {
    std::string name;
    unsigned char type;
  };

  // All below `path` that the components from `at` on match. `chosen`: a pattern found the path, so
  // a directory that may not be read is passed over, as a shell does.
  absl::Status Expand(std::string path, size_t at, bool chosen) {
    while (at < components_.size() && !IsPattern(components_[at])) {
      absl::StrAppend(&path, "/", Unescaped(components_[at++]));
    }
    if (at == components_.size()) return Take(std::move(path));
    Walk walk(roots_);
    absl::Status status = walk.To(path.empty() ? "/" : path);
    std::vector<Entry> entries;
    if (status.ok() && walk.is_directory()) status = Read(walk.top(), components_[at], entries);
    if (!status.ok()) {
      const bool unreadable = absl::IsPermissionDenied(status) && !walk.outside();
      return absl::IsNotFound(status) || (chosen && unreadable) ? absl::OkStatus() : status;
    }
    for (const Entry& entry : entries) {
      std::string next = absl::StrCat(path, "/", entry.name);
      if (at + 1 < components_.size()) {
        if (entry.type != DT_DIR && entry.type != DT_LNK && entry.type != DT_UNKNOWN) continue;
        status = Expand(std::move(next), at + 1, /*chosen=*/true);
      } else if (entry.type == DT_LNK || entry.type == DT_UNKNOWN) {
        status = Take(std::move(next));
      } else if (entry.type != DT_DIR) {
        status = Keep(std::move(next));
      }
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Read(int directory, const std::string& pattern, std::vector<Entry>& entries) {
    UniqueFd fd(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) return FileError(pattern_, errno);
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::fdopendir(fd.get()), ::closedir);
    if (open == nullptr) return FileError(pattern_, errno);
    fd.release();
    while (const dirent* entry = ::readdir(open.get())) {
      if (++looked_at_ > kListingEntriesMax) {
        return absl::ResourceExhaustedError(
            absl::StrCat(pattern_, " makes a worker look at more than ", kListingEntriesMax,
                         " directory entries (listing_entries_max); name the files more closely"));
      }
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (::fnmatch(pattern.c_str(), entry->d_name, FNM_PERIOD) != 0) continue;
      entries.push_back({entry->d_name, entry->d_type});
    }
    return absl::OkStatus();
  }

  // A name that may not exist, may be a directory, and may lead outside: the last is for `Open` to
  // refuse.
  absl::Status Take(std::string path) {
    Walk walk(roots_);
    const absl::Status status = walk.To(path);
    if (absl::IsNotFound(status) || (status.ok() && walk.is_directory())) return absl::OkStatus();
    return Keep(std::move(path));
  }

  absl::Status Keep(std::string path) {
    if (found_.size() == most_) {
      return absl::ResourceExhaustedError(
          absl::StrCat(pattern_, ": the dataset has more than ", most_,
                       " files (source_files_max); use fewer, larger files"));
    }
    found_.push_back(std::move(path));
    return absl::OkStatus();
  }

  const FileRoots& roots_;
  const size_t most_;
  std::string pattern_;
  std::vector<std::string> components_;
  std::vector<std::string> found_;
  size_t looked_at_ = 0;
};

// --- The roots ----------------------------------------------------------------------------------

FileRoots::FileRoots(const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    Root root = {.given = Normal(Absolute(directory)), .real = ""};
    const std::unique_ptr<char, void (*)(void*)> real(::realpath(directory.c_str(), nullptr),
                                                      std::free);
    if (real != nullptr) root.real = real.get();
    roots_.push_back(std::move(root));
  }
  if (directories.empty()) roots_.push_back({.given = "/", .real = "/"});
}

absl::StatusOr<FileRoots::Located> FileRoots::Locate(const std::string& path) const {
  // As it stands first, so that what ".." means behind a link is left to the walk.
  for (const std::string& text : {path, Normal(path)}) {
    for (const Root& root : roots_) {
      std::string rest;
      if (root.real.empty()) continue;  // the operator's directory is not there
      if (Below(root.given, text, rest) || Below(root.real, text, rest)) {
        return Located{&root, std::move(rest)};
      }
    }
  }
  return Refused(path);
}

absl::StatusOr<FileRoots::File> FileRoots::Open(const std::string& path) const {
  Walk walk(*this);
  if (absl::Status status = walk.To(path); !status.ok()) return status;
  if (!S_ISREG(walk.mode()) || walk.is_directory()) {
    return plan::Error(absl::StatusCode::kInvalidArgument, plan::kSourceMissing,
                       absl::StrCat(path, " is not a regular file"));
  }
  // NOFOLLOW and NONBLOCK: it may have been replaced since.
  UniqueFd fd(::openat(walk.top(), walk.name().c_str(),
                       O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd.valid()) return errno == ELOOP ? Refused(path) : FileError(path, errno);
  return File{std::move(fd), walk.real()};
}

absl::StatusOr<std::vector<std::string>> FileRoots::List(const std::string& pattern,
                                                         size_t most) const {
  const auto forms = ExpandBraces(pattern);
  if (!forms.ok()) return forms.status();
  Listing listing(*this, most);
  for (const std::string& form : *forms) {
    if (absl::Status status = listing.Add(form); !status.ok()) return status;
  }
  std::vector<std::string> found = std::move(listing).found();
  if (!found.empty()) return found;
  return plan::Error(absl::StatusCode::kNotFound, plan::kSourceMissing,
                     absl::StrCat("no file matches ", pattern));
}

// --- Braces -------------------------------------------------------------------------------------

namespace {

// The end of the brace that opens at `at`, and the commas in it; npos: none closes it.
size_t ClosingBrace(std::string_view text, size_t at, std::vector<size_t>& commas) {
  int depth = 0;
  for (size_t i = at; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '{') {
      ++depth;
    } else if (text[i] == '}' && --depth == 0) {
      return i;
    } else if (text[i] == ',' && depth == 1) {
      commas.push_back(i);
    }
  }
  return std::string_view::npos;
}

// Where the next brace with something in it opens; npos: there is none.
size_t NextBrace(std::string_view text, size_t from) {
  for (size_t i = from; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '{' && text.substr(i, 2) != "{}") {
      return i;
    }
  }
  return std::string_view::npos;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandBraces(std::string_view pattern) {
  if (pattern.size() > kPatternBytesMax) {
    return plan::Invalid(absl::StrCat("a path has ", pattern.size(), " bytes, ", kPatternBytesMax,
                                      " are allowed (pattern_bytes_max)"));
  }
  struct Form {
    std::string text;
    size_t done;  // so much of it has no braces to expand
  };
  std::vector<std::string> forms;
  std::vector<Form> open;  // the next one last
  open.push_back({std::string(pattern), 0});
  while (!open.empty()) {
    const Form form = std::move(open.back());
    open.pop_back();
    std::vector<size_t> ends;
    const size_t begin = NextBrace(form.text, form.done);
    const size_t end = begin == std::string::npos ? begin : ClosingBrace(form.text, begin, ends);
    if (end == std::string::npos) {
      forms.push_back(form.text);
    } else {
      ends.push_back(end);
      const absl::string_view text = form.text;
      // Backwards, so that the first one is the next.
      for (size_t i = ends.size(); i-- > 0;) {
        const size_t from = (i == 0 ? begin : ends[i - 1]) + 1;
        open.push_back({absl::StrCat(text.substr(0, begin), text.substr(from, ends[i] - from),
                                     text.substr(end + 1)),
                        begin});
      }
    }
    if (forms.size() + open.size() > kBraceExpansionsMax) {
      return plan::Invalid(absl::StrCat("the braces of a path stand for more than ",
                                        kBraceExpansionsMax, " paths (brace_expansions_max)"));
    }
  }
  return forms;
}

}  // namespace lockstep::engine
