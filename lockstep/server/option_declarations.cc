#include "lockstep/server/option_declarations.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace lockstep::server {
namespace {

// A client that is answered later than this is no faster for it.
constexpr absl::Duration kBusyPollMax = absl::Milliseconds(10);
// Below this there is no room for one large message and its copies.
constexpr size_t kMemoryMaxMin = size_t{64} << 20;

void DeclareAddresses(DeclaredOptions& declared) {
  config::OptionTable& table = declared.table;
  ServerOptions& options = declared.options;
  table.Text("listen", &declared.listen, "HOST:PORT",
             "Where `lockstep status`, `lockstep run` and native clients call. Port 0: any.");
  table.List("job", &declared.jobs, "NAME=SHAPE[@HOST:PORT]",
             "A job and how many members it has: digits=4, or by role digits=worker:4,ps:1. Stock\n"
             "clients call the job at its own address; without one, the server takes a free port\n"
             "from 20000 to 31999 on the host of --listen.");
  table.List("recoverable", &declared.recoverable, "NAME",
             "Members of this job may die and come back without failing it.");
  table.Text("http", &declared.http, "HOST:PORT",
             "Where /healthz, /readyz, /metrics and /v1/*.json are answered. Empty: nowhere.");
  table.List("http-host", &options.http_names, "NAME",
             "What browsers and scrapers may call this host at --http, besides numbers, localhost\n"
             "and the name in --http. Others are refused, so that no web page can point a name of\n"
             "its own here and read what it should not.");
  table.List(
      "allow-uid", &declared.allow_uids, "USER",
      "A user of this host, by name or number, who may call at addresses of the loopback\n"
      "interface, beside root and the user who runs the server. any: everybody who can reach\n"
      "them, also through what forwards from elsewhere, as into a container.");
  table.Switch("insecure-network", &options.insecure_network,
               "Allow addresses that other hosts can reach, although nothing is encrypted or\n"
               "authenticated: whoever reaches such a port can read and change the job.");
  table.Text("state", &options.state_directory, "DIR",
             "Where the state is kept on disk: all that was answered survives the server's death,\n"
             "and a server that is started on the same directory goes on. Empty: lockstep in\n"
             "$XDG_STATE_HOME, or in ~/.local/state. One server owns a directory.");
  table.Switch("ephemeral", &declared.ephemeral,
               "Keep all state in memory only: it is lost with the process.");
  table.Text("ready-file", &options.ready_file, "PATH",
             "Written (whole, by rename) once the server answers; removed when it ends:\n"
             "{\"listen\": ADDRESS, \"pid\": PID, \"http\": ADDRESS, \"jobs\": {NAME: {\"grpc\": "
             "ADDRESS, \"store\": ADDRESS}}}");
  table.Count("parent", &options.parent,
              "The process, by its number, with which this server ends; 0: with none.",
              /*least=*/0);
  table.Choice("log-format", &declared.log_format, {"text", "json"},
               "Lines of the log: for people, or one JSON object each.");
  table.Switch("verbose", &options.verbose, "Log more.").flags = "-v,--verbose";
}

void DeclareTimes(DeclaredOptions& declared) {
  config::OptionTable& table = declared.table;
  coord::CoordinatorOptions& options = declared.options.coordinator;
  table.Duration("register-timeout", &options.register_timeout,
                 "From the first member that registers until the last; then the attempt fails.");
  table.Duration(
      "heartbeat-timeout", &options.heartbeat_timeout,
      "From the last sign of life until a silent member is lost. A stock client whose poll\n"
      "for errors stands has longer when its own heartbeats are rare: 2.5 times the period\n"
      "that was seen of them. (A member that dies is seen by its connection, at once.)");
  table.Duration("shutdown-timeout", &options.shutdown_timeout,
                 "From the first member that shuts down until the last; 0: each leaves alone.",
                 /*may_be_zero=*/true);
  table.Duration("connection-grace", &options.connection_grace,
                 "From a stock member's broken connection until it is lost.",
                 /*may_be_zero=*/true);
  table.Duration("session-grace", &options.session_grace,
                 "The same for a native member, whose client comes back by itself.",
                 /*may_be_zero=*/true);
  table.Duration("restart-grace", &options.restart_grace,
                 "From a restart of the server until members that were connected are lost.",
                 /*may_be_zero=*/true);
  table.Duration("session-timeout", &options.session_timeout,
                 "From the end of a session's connection until it is forgotten, when it is no "
                 "member's.");
  table.Duration("job-rest", &declared.options.job_rest,
                 "How long a job that was made while the server runs stays when nobody uses it.");
  table.Duration("worker-timeout", &declared.options.data.worker_timeout,
                 "From the last sign of life of a data worker until its work goes to others.");
  table.Duration("consumer-timeout", &declared.options.data.consumer_timeout,
                 "From the last sign of life of a consumer of a dataset until what it has not\n"
                 "acknowledged goes to others.");
  table.Duration("iteration-timeout", &declared.options.data.iteration_timeout,
                 "How long an iteration of a dataset stays that nobody reads.");
  table.Duration("resolve-timeout", &declared.options.data.resolve_timeout,
                 "How long one data worker may list and count a dataset's files until another one\n"
                 "is asked too.");
  table.Duration("watch-interval", &options.watch_interval,
                 "Watches of all members' states are answered at most this often.",
                 /*may_be_zero=*/true);
}

// Of preemptions: docs/preemption.md.
void DeclarePreemption(DeclaredOptions& declared) {
  config::OptionTable& table = declared.table;
  coord::CoordinatorOptions& options = declared.options.coordinator;
  table.Duration("preempt-window", &options.preempt_window,
                 "Members are asked for a step when the first of them dies within this; until then "
                 "a preemption is pending.");
  table.Duration("preempt-fence-timeout", &options.preempt_fence_timeout,
                 "How long members stand still at most while each says where it is; who does not "
                 "is left out of the sync step.");
  table.Switch("preempt-awaits-all", &options.preempt_awaits_all,
               "Wait as long as that for members that have not begun their first step, too.");
  table.Duration("preempt-save-estimate", &options.preempt_save_estimate,
                 "What a save takes at least: a sync step that leaves less until somebody dies is "
                 "too late. Members that know better say so themselves.",
                 /*may_be_zero=*/true);
  table.Duration("preempt-save-timeout", &options.preempt_save_timeout,
                 "From the agreement on a sync step, or from the death when that is later, until a "
                 "preemption ends without those who have not saved.");
  table.Duration("preempt-answer-timeout", &options.preempt_answer_timeout,
                 "The same before there is a sync step, when no notice says when somebody dies.");
  table.Count("preempt-notices-max", &options.preempt_notices_max, "Notices of one preemption.");
}

// Each is answered by RESOURCE_EXHAUSTED with its name.
void DeclareLimits(DeclaredOptions& declared) {
  config::OptionTable& table = declared.table;
  coord::CoordinatorOptions& options = declared.options.coordinator;
  table.Count("jobs-max", &declared.options.jobs_max,
              "Jobs of the server, those that clients make included.");
  table.Count("members-total-max", &declared.options.members_total_max,
              "Members of all jobs together, whether or not they have come.");
  table.Switch("no-client-jobs", &declared.options.no_client_jobs,
               "Refuse to make jobs that clients ask for: there are those of --job only.");
  config::Option& memory =
      table.Bytes("memory-max", &declared.options.memory_max,
                  "What the server holds in all. Above 90% of it new work is refused; reads,\n"
                  "deletions, heartbeats and status go on. 0: half of the memory that there is\n"
                  "for it (of the machine, its control group, or its address space).");
  memory.set = [value = &declared.options.memory_max,
                set = memory.set](const std::vector<std::string>& texts) {
    if (texts.size() == 1 && texts.front() == "0") {
      *value = 0;
      return absl::OkStatus();
    }
    absl::Status status = set(texts);
    if (!status.ok() || *value >= kMemoryMaxMin) return status;
    return absl::InvalidArgumentError(absl::StrCat("'", texts.front(), "': at least 64MiB, or 0"));
  };
  table.Bytes("journal-queue-bytes-max", &declared.options.journal_queue_bytes_max,
              "With so much waiting for the disk, writes of keys, values of barriers and large\n"
              "requests of the data service wait; with twice as much, they are refused.");
  table.Count("keys-max", &options.keys_max, "Keys of a job.");
  table.Bytes("key-bytes-max", &options.key_bytes_max, "Of a key's name.");
  table.Bytes("value-bytes-max", &options.value_bytes_max,
              "Of a value. A message takes 64MiB, of which 1MiB is for what is beside the value: "
              "more than 63MiB cannot be sent.");
  table.Bytes("store-bytes-max", &options.store_bytes_max, "Keys and values of a job together.");
  table.Bytes("list-bytes-max", &options.list_bytes_max, "Of one answer that lists keys.");
  table.Bytes("page-bytes-max", &options.page_bytes_max,
              "Of one page of a native listing of keys, and of what a watch is told at once; one "
              "key that is larger goes alone.");
  table.Count("keys-per-wait-max", &options.keys_per_wait_max, "Keys that one request waits for.");
  table.Count("open-barriers-max", &options.open_barriers_max, "Open barriers of a job.");
  table.Bytes("barrier-id-bytes-max", &options.barrier_id_bytes_max,
              "Of a barrier's name. Stock clients take errors with up to 8KiB of metadata.");
  table.Bytes("barrier-value-bytes-max", &options.barrier_value_bytes_max,
              "What one member brings to a barrier.");
  table.Bytes("barrier-values-bytes-max", &options.barrier_values_bytes_max,
              "What all members bring to a barrier.");
  table.Count("waits-max", &options.waits_max, "Parked calls of a job.");
  table.Bytes("wait-bytes-max", &options.wait_bytes_max,
              "What those who wait for keys of a job cost: above all the names.");
  table.Bytes("session-wait-bytes-max", &options.session_wait_bytes_max,
              "The same, of one session.");
  table.Count("sessions-max", &options.sessions_max, "Native sessions of a job.");
  table.Count("kept-answers-max", &options.kept_answers_max,
              "Answers of a session that its client has not confirmed.");
  table.Count("labels-max", &options.labels_max, "Labels of a member.");
  table.Bytes("label-bytes-max", &options.label_bytes_max, "Of a label, and of a phase.");
  table.Count("kept-key-changes-max", &options.kept_key_changes_max,
              "Changes of keys that are remembered for watchers; who is behind reads all.");
  table.Bytes("kept-barrier-values-bytes-max", &options.kept_barrier_values_bytes_max,
              "What was brought to barriers that have passed, remembered for retries.");
  table.Count("kept-barriers-max", &options.kept_barriers_max,
              "Barriers that are remembered after their end.");
  table.Count("kept-errors-max", &options.kept_errors_max, "Errors of a job that are remembered.");
  table.Count("view-rows-max", &options.view_rows_max,
              "Open barriers, and awaited keys, that a status shows.");
  table.Count("events-max", &declared.options.events_max, "Events of a job that are remembered.");
}

// Who goes over one loses its connection.
void DeclareTorch(DeclaredOptions& declared) {
  config::OptionTable& table = declared.table;
  StoreHostOptions& stores = declared.options.stores;
  tcpstore::StoreOptions& options = stores.store;
  table.Switch("no-torch-store", &stores.none, "No job has a store for torch's clients.");
  table.Switch(
      "torch-store-durable", &options.keeps,
      "What is in torch's stores is in the state directory, too, and survives the server's\n"
      "death: each change is synced before its answer.");
  table.Bytes("torch-key-bytes-max", &options.key_bytes_max, "Of a key in torch's store.");
  table.Bytes("torch-value-bytes-max", &options.value_bytes_max, "Of a value in torch's store.");
  table.Count("torch-keys-per-request-max", &options.keys_per_request_max,
              "Keys of one request to torch's store.");
  table.Bytes("torch-request-bytes-max", &options.request_bytes_max,
              "Of one request to torch's store.");
  table.Bytes("torch-answer-bytes-max", &options.answer_bytes_max,
              "Of one answer of torch's store.");
  table.Count("torch-keys-max", &options.keys_max, "Keys and queued values of torch's store.");
  table.Bytes("torch-store-bytes-max", &options.store_bytes_max,
              "All that torch's store holds: keys, values, waits, and what is on its way to and "
              "from its clients.");
  table.Duration("torch-progress-timeout", &stores.door.progress_timeout,
                 "After this a client of torch's store loses its connection that neither goes on\n"
                 "with a request it has begun nor reads its answers.");
  table.Count("torch-waits-per-connection-max", &options.waits_per_connection_max,
              "What one connection to torch's store waits for at a time.");
  config::Option& rest = table.Duration(
      "torch-store-rest", &stores.rest,
      "With nobody connected, before a new run that no launcher started may begin with an empty\n"
      "torch store; see docs/protocols/tcpstore.md. At most 24h.",
      /*may_be_zero=*/true);
  rest.set = [&stores, set = rest.set](const std::vector<std::string>& texts) {
    absl::Status status = set(texts);
    if (!status.ok() || stores.rest <= kTorchStoreRestMax) return status;
    return absl::InvalidArgumentError(
        absl::StrCat("'", texts.front(), "': at most ", absl::FormatDuration(kTorchStoreRestMax)));
  };
  config::Option& busy_poll = table.Duration(
      "torch-busy-poll", &stores.door.busy_poll,
      "While commands to torch's stores come closer together than this, the server stays\n"
      "awake for so long behind each instead of sleeping. 0: never; at most 10ms.",
      /*may_be_zero=*/true);
  busy_poll.set = [&stores, set = busy_poll.set](const std::vector<std::string>& texts) {
    absl::Status status = set(texts);
    if (!status.ok() || stores.door.busy_poll <= kBusyPollMax) return status;
    return absl::InvalidArgumentError(
        absl::StrCat("'", texts.front(), "': at most ", absl::FormatDuration(kBusyPollMax)));
  };
}

void DeclareConnections(DeclaredOptions& declared) {
  config::OptionTable& table = declared.table;
  link::LinkOptions& link = declared.options.link;
  net::StockDoorOptions& door = declared.options.door;
  table.Count("links-max", &declared.options.links_max, "Links of native clients and tools.");
  table.Count("links-per-host-max", &declared.options.links_per_host_max,
              "Of those, from one address.");
  table.Duration("hello-timeout", &link.hello_timeout, "From a link's connection to its welcome.");
  table.Count("requests-in-flight-max", &link.requests_in_flight_max,
              "Requests of one link that wait for their answers.");
  table.Count("partial-messages-max", &link.partial_messages_max,
              "Messages of one link of which only a part has come.");
  table.Bytes("write-queue-bytes-max", &link.write_queue_bytes_max,
              "What waits to be sent over a link; a client that reads too slowly loses it.");
  table.Duration("write-timeout", &link.write_timeout,
                 "After this a client that takes nothing of what is sent to it loses its link.");
  table.Duration("message-timeout", &link.message_timeout,
                 "The same for a client that does not go on with a message that it has begun.");
  table.Count("connections-max", &door.connections.connections_max,
              "Connections of stock clients, per job.");
  table.Count("connections-per-host-max", &door.connections.connections_per_host_max,
              "Of those, from one address.");
  table.Bytes("grpc-memory-max", &door.grpc_memory_max,
              "What gRPC may hold for stock clients' connections and messages, per job; all jobs "
              "together, a quarter of --memory-max.");
  table.Count("calls-max", &door.calls_max, "Open calls of stock clients, per job.");
  table.Duration("handshake-timeout", &door.handshake_timeout,
                 "From a stock client's connection to its first HTTP/2 settings.");
  table.Duration("drain-time", &door.drain_time,
                 "How long a server that ends lets its last answers go out.");
  table.Duration(
      "end-timeout", &declared.options.end_timeout,
      "From SIGTERM or SIGINT until the server has ended, whatever clients or the disk do.");
}

}  // namespace

DeclaredOptions::DeclaredOptions()
    : listen(runtime::ToString(options.listen)), table("server", "LOCKSTEP_SERVER_") {
  DeclareAddresses(*this);
  DeclareTimes(*this);
  DeclarePreemption(*this);
  DeclareLimits(*this);
  DeclareTorch(*this);
  DeclareConnections(*this);
}

}  // namespace lockstep::server
