#include "lockstep/server/counters.h"

namespace lockstep::server {
namespace {

// The place of an alternative in a variant.
template <class T, class... Before, class... Others>
constexpr size_t PlaceOf(const std::variant<Others...>*) {
  size_t place = 0;
  bool found = false;
  ((found = found || std::is_same_v<T, Others>, place += found ? 0 : 1), ...);
  return place;
}

// Of the alternatives of a variant.
template <class Variant>
struct Names {
  std::array<std::string_view, std::variant_size_v<Variant>> names = {};

  template <class T>
  constexpr void NameOf(std::string_view name) {
    names[PlaceOf<T>(static_cast<const Variant*>(nullptr))] = name;
  }

  constexpr bool Complete() const {
    for (const std::string_view name : names) {
      if (name.empty()) return false;
    }
    return true;
  }
};

struct EventNames : Names<coord::Event> {
  constexpr EventNames() {
    NameOf<coord::RegisterMember>("register_member");
    NameOf<coord::Heartbeat>("heartbeat");
    NameOf<coord::PollForError>("poll_for_error");
    NameOf<coord::ReportError>("report_error");
    NameOf<coord::LeaveJob>("leave_job");
    NameOf<coord::ResetMember>("reset_member");
    NameOf<coord::WatchMembers>("watch_members");
    NameOf<coord::GetMemberStates>("get_member_states");
    NameOf<coord::SetKey>("set_key");
    NameOf<coord::GetKey>("get_key");
    NameOf<coord::TryGetKey>("try_get_key");
    NameOf<coord::IncrementKey>("increment_key");
    NameOf<coord::ListKeys>("list_keys");
    NameOf<coord::DeleteKey>("delete_key");
    NameOf<coord::ArriveAtBarrier>("arrive_at_barrier");
    NameOf<coord::CancelBarrier>("cancel_barrier");
    NameOf<coord::GetAliveMembers>("get_alive_members");
    NameOf<coord::CallLeft>("call_left");
    NameOf<coord::OpenSession>("open_session");
    NameOf<coord::SessionBroke>("session_broke");
    NameOf<coord::AnsweredThrough>("answered_through");
    NameOf<coord::CloseSession>("close_session");
    NameOf<coord::JoinJob>("join_job");
    NameOf<coord::ReportProgress>("report_progress");
    NameOf<coord::WatchJob>("watch_job");
    NameOf<coord::AgreeOnIndex>("agree_on_index");
    NameOf<coord::CompareAndSetKey>("compare_and_set_key");
    NameOf<coord::MaxKey>("max_key");
    NameOf<coord::GetKeys>("get_keys");
    NameOf<coord::WatchKeys>("watch_keys");
    NameOf<coord::NotifyPreemption>("notify_preemption");
    NameOf<coord::WatchPreemption>("watch_preemption");
    NameOf<coord::AnswerFence>("answer_fence");
    NameOf<coord::ReportSave>("report_save");
    NameOf<coord::ProcessStarted>("process_started");
    NameOf<coord::ProcessEnded>("process_ended");
    NameOf<coord::ProcessEnding>("process_ending");
    NameOf<coord::ProcessStopped>("process_stopped");
    NameOf<coord::ProcessContinued>("process_continued");
    NameOf<coord::RunBegan>("run_began");
    NameOf<coord::DeadlineReached>("deadline_reached");
    NameOf<coord::Restored>("restored");
    NameOf<coord::Stop>("stop");
  }
};

struct TorchCommandNames : Names<tcpstore::Command> {
  constexpr TorchCommandNames() {
    NameOf<tcpstore::Set>("set");
    NameOf<tcpstore::CompareSet>("compare_set");
    NameOf<tcpstore::Get>("get");
    NameOf<tcpstore::Add>("add");
    NameOf<tcpstore::Check>("check");
    NameOf<tcpstore::Wait>("wait");
    NameOf<tcpstore::CountKeys>("count_keys");
    NameOf<tcpstore::DeleteKey>("delete_key");
    NameOf<tcpstore::Append>("append");
    NameOf<tcpstore::MultiGet>("multi_get");
    NameOf<tcpstore::MultiSet>("multi_set");
    NameOf<tcpstore::CancelWait>("cancel_wait");
    NameOf<tcpstore::Ping>("ping");
    NameOf<tcpstore::QueuePush>("queue_push");
    NameOf<tcpstore::QueuePop>("queue_pop");
    NameOf<tcpstore::QueueLength>("queue_length");
    NameOf<tcpstore::ListKeys>("list_keys");
    NameOf<tcpstore::Barrier>("barrier");
  }
};

constexpr EventNames kEventNames;
static_assert(kEventNames.Complete(), "name the new event above: metrics are labelled by it");
constexpr TorchCommandNames kTorchCommandNames;
static_assert(kTorchCommandNames.Complete(), "name the new command above, likewise");

}  // namespace

std::string_view EventName(size_t index) { return kEventNames.names.at(index); }
std::string_view TorchCommandName(size_t index) { return kTorchCommandNames.names.at(index); }

}  // namespace lockstep::server
