// The view of the data service, put together in turns and shared by all who ask meanwhile.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/dispatcher.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::server {

// Threads: loop-confined. Ownership: the loop, and what the callbacks use, must outlive it. Bounds:
// one view that is kept and one in the making; one entry for each asker that waits.
class DataViews {
 public:
  // A view is put together once in so long at most, and takes a tenth of the loop's time at most.
  static constexpr absl::Duration kViewEvery = absl::Milliseconds(100);
  static constexpr int kViewPart = 10;

  // Encoded.
  using SharedView = std::shared_ptr<const std::string>;
  using Viewed = absl::AnyInvocable<void(SharedView)>;
  // Reads the part at the cursor; false: that was the last.
  using ReadPart =
      std::function<bool(Time now, dispatch::ViewCursor& cursor, dispatch::View& part)>;

  // `resized` is called when `bytes` has changed.
  DataViews(runtime::Loop& loop, ReadPart read, std::function<void()> resized);

  // Of all that is when it is asked, or of later. Calls back at once or, when the last view is not
  // older than kViewEvery, once it is: everybody who asks meanwhile gets the same one.
  void Ask(Viewed viewed);
  // Something has happened that a view shows.
  void NoteChange() { is_current_ = false; }
  // Answers all who wait, without giving way to others on the loop.
  void AnswerAll();
  size_t bytes() const { return view_ ? view_->size() : 0; }  // of the view that is kept

 private:
  // A view that is put together, and who gets it. Who asks meanwhile gets the next.
  struct Making {
    std::vector<Viewed> viewers;
    dispatch::ViewCursor cursor;
    std::string bytes;
    absl::Duration spent;
  };
  // Answers who waits for a view, at once or in as many turns as the view takes.
  void Make();
  // The next step of the view that is in the making; false: it is done.
  bool Step();
  void Finish();
  bool HasCurrent() const { return is_current_ && view_ != nullptr; }

  runtime::Loop& loop_;
  const ReadPart read_;
  const std::function<void()> resized_;
  std::optional<Making> making_;
  SharedView view_;
  bool is_current_ = false;  // nothing has happened since it was begun
  Time next_view_;
  std::vector<Viewed> viewers_;
  runtime::Timer timer_;
  // Gone with this, for steps that are still on their way.
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace lockstep::server
