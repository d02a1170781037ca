#include "lockstep/server/option_declarations.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lockstep/base/limits.h"

namespace lockstep::server {
namespace {

// A client that is answered later than this is no faster for it.
constexpr absl::Duration kBusyPollMax = absl::Milliseconds(10);
// Below this there is no room for one large message and its copies.
constexpr size_t kMemoryMaxMin = size_t{64} << 20;
static_assert(kMessageBytesMax <= kMemoryMaxMin);

void DeclareAddresses(DeclaredOptions& declared) {
  config::OptionTable& table = declared.table;
  ServerOptions& options = declared.options;
  table.Group("Access and log");
  table
      .Text("listen", &declared.listen, "HOST:PORT",
            "Address for `lockstep` commands and native clients. Port 0 picks a free port.")
      .Common();
  table
      .List("job", &declared.jobs, "NAME=SHAPE[@HOST:PORT]",
            "Create a job with this many members (digits=4), or with this many in each role "
            "(digits=worker:4,ps:1). Stock clients connect to the job's own address; by default, "
            "a free port from 20000 to 31999 on the host of --listen.")
      .Common();
  table
      .List("recoverable", &declared.recoverable, "NAME",
            "Let members of this job die and rejoin without failing the job.")
      .Common();
  table
      .Text("http", &declared.http, "HOST:PORT",
            "Address for /healthz, /readyz, /metrics and /v1/*.json. Empty: no HTTP. Where other "
            "hosts "
            "can reach it, it needs --auth, speaks TLS only, and requires a token "
            "(docs/security.md).")
      .Common();
  table.List("http-host", &options.http_names, "NAME",
             "Accept HTTP requests without TLS that call this host NAME, besides IP addresses, "
             "localhost and the name in --http. All other names are refused, so that a web page "
             "cannot reach the server through a DNS name of its own.");
}

// Of tokens that Kubernetes verifies: docs/security.md.
void DeclareKubernetes(DeclaredOptions& declared) {
  config::OptionTable& table = declared.table;
  KubernetesOptions& options = declared.options.kubernetes;
  table.List("kubernetes-account", &declared.kubernetes_accounts, "NAMESPACE/NAME=ROLE[:JOB]",
             "Accept tokens of this Kubernetes ServiceAccount and give them ROLE, for JOB or, "
             "without it, for all jobs. The roles task and launch require a JOB. The server checks "
             "each token with the Kubernetes API server (docs/security.md). Example: "
             "ml/train=launch:digits.");
  table.Text("kubernetes-api", &options.api, "URL",
             "URL of the Kubernetes API server, https://HOST[:PORT]. Default: from the variables "
             "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, which Kubernetes sets in pods.");
  table.Text("kubernetes-ca", &options.ca_file, "FILE",
             "PEM file with the certificate authority (CA) of the Kubernetes API server. Default: "
             "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt, which pods have.");
  table.Text("kubernetes-token", &options.token_file, "FILE",
             "File with the server's own token for the Kubernetes API server. The server reads it "
             "for each request. The token's account needs the ClusterRole system:auth-delegator. "
             "Default: /var/run/secrets/kubernetes.io/serviceaccount/token, which pods have.");
  table.Text("kubernetes-audience", &options.audience, "NAME",
             "Accept only ServiceAccount tokens for this audience. Set the same `audience` in the "
             "pod's serviceAccountToken volume.");
}

void DeclareAccess(DeclaredOptions& declared) {
  config::OptionTable& table = declared.table;
  ServerOptions& options = declared.options;
  table
      .List("allow-uid", &declared.allow_uids, "USER",
            "Let this user of this host (name or number) connect to loopback addresses. Root and "
            "the user who runs the server always can. any: everybody who reaches them, also "
            "through forwarded ports, such as into a container.")
      .Common();
  table
      .Text("auth", &declared.auth, "DIR",
            "Authenticate clients from other hosts by token, and prove this server's identity to "
            "them, with the keys and certificates that `lockstep auth init DIR` made.")
      .Common();
  table.Text("token-keys", &options.token_keys, "FILE",
             "Accept tokens that were signed with a key in this file, which only its owner can "
             "read. Default: token.key in the --auth directory.");
  table.Text("tls-cert", &options.certificate.certificates, "FILE",
             "Certificate that identifies this server to TLS clients: a PEM file with the server's "
             "certificate, then those of its certificate authorities (CAs). Reloaded when it "
             "changes. Default: server.pem in the --auth directory, or a certificate that the "
             "server makes and keeps in its state directory.");
  table.Text("tls-key", &options.certificate.key, "FILE",
             "Private key of --tls-cert, in a PEM file that only its owner can read. Empty: the "
             "key is in the --tls-cert file.");
  table.Text("client-ca", &options.certificate.client_authorities, "FILE",
             "Require TLS clients to present a certificate signed by a certificate authority (CA) "
             "in this PEM file. Over HTTP such a certificate is not required; it stands for a "
             "token of the role observe.");
  DeclareKubernetes(declared);
  table.Text("member-uri", &declared.member_uri, "PATTERN",
             "With --client-ca: a client certificate with exactly one URI, of this form, names a "
             "member of a job, and stands for a token of the role task as that member. With "
             "--stock-tls, stock gRPC clients need such a certificate. Example: "
             "spiffe://example.org/job/{job}/member/{member}. Empty: certificates name no "
             "members.");
  table
      .Switch("insecure-network", &options.insecure_network,
              "Allow addresses that other hosts can reach, and require neither TLS nor tokens: "
              "anyone who reaches such a port can read and change the job.")
      .Common();
  table.Switch(
      "stock-tls", &declared.stock_tls,
      "Serve stock gRPC clients over TLS, with the certificate of --tls-cert or --auth. With "
      "--client-ca they need a certificate, as JAX 0.11 has (JAX_MTLS_*); then, and with "
      "--no-torch-store, their addresses need no --insecure-stock-network.");
  table.Switch("insecure-stock-network", &options.insecure_stock_network,
               "For stock clients only, allow addresses that other hosts can reach. Stock clients "
               "can neither authenticate nor encrypt: anyone who reaches such a port can read and "
               "change the job.");
  table.Switch("insecure-http-network", &options.insecure_http_network,
               "Allow an --http address that other hosts can reach, and require neither TLS nor "
               "tokens there: anyone who reaches it can read status, events and metrics of all "
               "jobs.");
}

void DeclareFilesAndLog(DeclaredOptions& declared) {
  config::OptionTable& table = declared.table;
  ServerOptions& options = declared.options;
  table
      .Text("state", &options.state_directory, "DIR|etcd://...",
            "Keep the state in this directory. A server restarted on it continues with everything "
            "it has acknowledged. One server owns a directory. Empty: lockstep in "
            "$XDG_STATE_HOME, or in ~/.local/state. With etcd://HOST:PORT,HOST:PORT,.../PREFIX "
            "several servers share a state in etcd: one leads, and the others stand by.")
      .Common();
  table
      .Switch("ephemeral", &declared.ephemeral,
              "Keep all state in memory only. It is lost when the server exits.")
      .Common();
  table
      .Text(
          "ready-file", &options.ready_file, "PATH",
          "Write this JSON file, atomically, once the server accepts connections, and remove it "
          "on exit: {\"listen\": ADDRESS, \"join\": JOIN-STRING, \"pid\": PID, \"http\": ADDRESS, "
          "\"jobs\": {NAME: {\"grpc\": ADDRESS, \"store\": ADDRESS}}}")
      .Common();
  table.Count("parent", &options.parent, "Exit when the process with this PID exits (0: never).",
              /*least=*/0);
  table
      .Choice("log-format", &declared.log_format, {"text", "json"},
              "Write the log as text, or as one JSON object per line.")
      .Common();
  table.Switch("verbose", &options.verbose, "Log more.").Common().flags = "-v,--verbose";
}

void DeclareEtcd(DeclaredOptions& declared) {
  config::OptionTable& table = declared.table;
  EtcdSettings& etcd = declared.etcd;
  table.Group("State in etcd");
  table.Switch("new-state", &etcd.new_state,
               "Begin with an empty state if etcd has none at this prefix. Without this option the "
               "server refuses to start there, since etcd may have lost the state.");
  table.Text("advertise", &etcd.advertise, "HOST:PORT",
             "The address of this server as clients and the other servers call it. Empty: the "
             "address of --listen, with this host's name if that is 0.0.0.0.");
  table.Duration("leader-timeout", &etcd.leader_timeout,
                 "Let another server lead after the leader has not been heard for this long: whole "
                 "seconds, at least 2.");
  table.Text("etcd-ca", &etcd.authority_file, "FILE",
             "Call etcd by TLS; its certificates are signed by this authority.");
  table.Text("etcd-cert", &etcd.certificate_file, "FILE", "Certificate to show to etcd.");
  table.Text("etcd-key", &etcd.key_file, "FILE", "Key of --etcd-cert.");
  table.Text("etcd-password-file", &etcd.password_file, "FILE",
             "Password of the user named in --state.");
  table.Switch("etcd-any-version", &etcd.any_version,
               "Use versions of etcd, too, that are known to lose data.");
  table.Switch("etcd-no-compaction", &etcd.no_compaction,
               "Do not compact etcd's history after a snapshot. Another program has to, or etcd's "
               "database fills up.");
}

void DeclareTimes(DeclaredOptions& declared) {
  config::OptionTable& table = declared.table;
  coord::CoordinatorOptions& options = declared.options.coordinator;
  table.Group("Time-outs");
  table
      .Duration("register-timeout", &options.register_timeout,
                "Fail the attempt if not all members have registered this long after the first.")
      .Common();
  table
      .Duration("heartbeat-timeout", &options.heartbeat_timeout,
                "Declare a silent member lost after this time. A stock client that polls for "
                "errors gets at least 2.5 times the observed period of its own heartbeats. (The "
                "death of a process is detected at once, by its broken connection.)")
      .Common();
  table
      .Duration("shutdown-timeout", &options.shutdown_timeout,
                "Wait this long, from the first member that shuts down, for all others to shut "
                "down too. 0: each member leaves on its own.",
                /*may_be_zero=*/true)
      .Common();
  table.Duration("connection-grace", &options.connection_grace,
                 "Declare a stock member lost this long after its connection breaks.",
                 /*may_be_zero=*/true);
  table.Duration("session-grace", &options.session_grace,
                 "Declare a native member, or the members of an agent, lost this long after the "
                 "connection breaks. Clients and agents reconnect by themselves within this time.",
                 /*may_be_zero=*/true);
  table.Duration("restart-grace", &options.restart_grace,
                 "After a restart of the server, wait this long for members to reconnect before "
                 "declaring them lost.",
                 /*may_be_zero=*/true);
  table
      .Duration("host-timeout", &declared.options.hosts.timeout,
                "Give up a host whose agent has not been heard for this long, if most "
                "other hosts hear the server (docs/agents.md). An agent pings the server six times "
                "in this period.")
      .Common();
  table.Duration("session-timeout", &options.session_timeout,
                 "Forget a session that belongs to no member this long after its connection "
                 "breaks.");
  table.Duration("idle-job-timeout", &declared.options.idle_job_timeout,
                 "Delete a job that was created at run time after nobody has used it for this "
                 "long.");
  table
      .Duration("worker-timeout", &declared.options.data.worker_timeout,
                "Give the work of a silent data worker to others after this time.")
      .Common();
  table
      .Duration("consumer-timeout", &declared.options.data.consumer_timeout,
                "Give the unacknowledged segments of a silent dataset consumer to others after "
                "this time.")
      .Common();
  table.Duration("iteration-timeout", &declared.options.data.iteration_timeout,
                 "Delete an iteration of a dataset after nobody has read it for this long.");
  table.Duration("resolve-timeout", &declared.options.data.resolve_timeout,
                 "Ask a second data worker to list and count a dataset's files when the first has "
                 "not answered for this long.");
  table.Duration("watch-interval", &options.watch_interval,
                 "Minimum time between two answers to a watch of all members' states.",
                 /*may_be_zero=*/true);
}

// Of preemptions: docs/preemption.md.
void DeclarePreemption(DeclaredOptions& declared) {
  config::OptionTable& table = declared.table;
  coord::CoordinatorOptions& options = declared.options.coordinator;
  table.Group("Preemption (docs/preemption.md)");
  table.Duration("preempt-window", &options.preempt_window,
                 "Start agreeing on a step to save at when the first member will die within this "
                 "time. Until then the preemption is pending.");
  table.Duration("preempt-sync-timeout", &options.preempt_sync_timeout,
                 "Maximum time that members pause while each reports its step. A member that does "
                 "not report is left out of the sync step.");
  table.Switch("preempt-awaits-all", &options.preempt_awaits_all,
               "Within --preempt-sync-timeout, also wait for members that have not begun their "
               "first step.");
  table.Duration("preempt-save-estimate", &options.preempt_save_estimate,
                 "Minimum time that a save takes. A sync step that leaves less time than this "
                 "before a death is too late. Members may report their own estimate.",
                 /*may_be_zero=*/true);
  table.Duration("preempt-save-timeout", &options.preempt_save_timeout,
                 "Time allowed for saving after the agreement on a sync step, or after the death "
                 "if that is later. Then the preemption ends without members that have not saved.");
  table.Duration("preempt-answer-timeout", &options.preempt_answer_timeout,
                 "End a preemption that has no sync step after this time, when no notice gives "
                 "the time of the death.");
  table.Count("preempt-notices-max", &options.preempt_notices_max,
              "Maximum number of notices in one preemption.");
}

// Each is answered by RESOURCE_EXHAUSTED with its name.
void DeclareLimits(DeclaredOptions& declared) {
  config::OptionTable& table = declared.table;
  coord::CoordinatorOptions& options = declared.options.coordinator;
  table.Group("Limits");
  table.Count("jobs-max", &declared.options.jobs_max,
              "Maximum number of jobs, including those that clients create.");
  table.Count("members-total-max", &declared.options.members_total_max,
              "Maximum number of members of all jobs together, registered or not.");
  table
      .Switch("no-client-jobs", &declared.options.no_client_jobs,
              "Do not let clients create jobs. Only the jobs of --job exist.")
      .Common();
  config::Option& memory =
      table.Bytes("memory-max", &declared.options.memory_max,
                  "Maximum memory for everything the server holds. Above 90% of it, the server "
                  "refuses new work but still serves reads, deletions, heartbeats and status. 0: "
                  "half of the memory available (to the machine, the control group, or the "
                  "address space).");
  memory.Common();
  memory.set = [value = &declared.options.memory_max,
                set = memory.set](const std::vector<std::string>& texts) {
    if (texts.size() == 1 && texts.front() == "0") {
      *value = 0;
      return absl::OkStatus();
    }
    absl::Status status = set(texts);
    if (!status.ok() || *value >= kMemoryMaxMin) return status;
    return absl::InvalidArgumentError(
        absl::StrCat("'", texts.front(), "': must be at least 64MiB, or 0"));
  };
  table.Bytes("journal-queue-bytes-max", &declared.options.journal_queue_bytes_max,
              "Delay writes of keys, barrier values and large data service requests when this "
              "much waits to be written to disk. Refuse them at twice as much.");
  table.Count("keys-max", &options.keys_max, "Maximum number of keys in a job.");
  table.Bytes("key-bytes-max", &options.key_bytes_max, "Maximum size of a key's name.");
  table.Bytes("value-bytes-max", &options.value_bytes_max,
              "Maximum size of a value. Values over 63MiB cannot be sent: a message holds at most "
              "64MiB, of which 1MiB is reserved for the rest of the message.");
  table.Bytes("store-bytes-max", &options.store_bytes_max,
              "Maximum size of all keys and values of a job together.");
  table.Bytes("list-bytes-max", &options.list_bytes_max,
              "Maximum size of one answer that lists keys.");
  table.Bytes("page-bytes-max", &options.page_bytes_max,
              "Maximum size of one page of a native key listing, and of one update to a watch. A "
              "larger key is sent alone.");
  table.Count("keys-per-wait-max", &options.keys_per_wait_max,
              "Maximum number of keys that one request waits for.");
}

void DeclareLimitsOfAttempts(DeclaredOptions& declared) {
  config::OptionTable& table = declared.table;
  coord::CoordinatorOptions& options = declared.options.coordinator;
  table.Count("open-barriers-max", &options.open_barriers_max,
              "Maximum number of open barriers in a job.");
  table.Bytes("barrier-id-bytes-max", &options.barrier_id_bytes_max,
              "Maximum size of a barrier's name. Stock clients accept errors with up to 8KiB of "
              "metadata.");
  table.Bytes("barrier-value-bytes-max", &options.barrier_value_bytes_max,
              "Maximum size of the value that one member brings to a barrier.");
  table.Bytes("barrier-values-bytes-max", &options.barrier_values_bytes_max,
              "Maximum size of the values that all members bring to a barrier.");
  table.Count("waits-max", &options.waits_max, "Maximum number of waiting calls in a job.");
  table.Bytes("wait-bytes-max", &options.wait_bytes_max,
              "Maximum memory for calls that wait for keys of a job, mostly the keys' names.");
  table.Bytes("session-wait-bytes-max", &options.session_wait_bytes_max,
              "Maximum memory for calls of one session that wait for keys.");
  table.Count("sessions-max", &options.sessions_max, "Maximum number of native sessions in a job.");
  table.Count("kept-answers-max", &options.kept_answers_max,
              "Maximum number of answers of a session that its client has not confirmed.");
  table.Count("labels-max", &options.labels_max, "Maximum number of labels of a member.");
  table.Bytes("label-bytes-max", &options.label_bytes_max,
              "Maximum size of a label or phase name.");
  table.Count("kept-key-changes-max", &options.kept_key_changes_max,
              "Number of key changes to remember for watchers. A watcher that is further behind "
              "reads all keys again.");
  table.Bytes("kept-barrier-values-bytes-max", &options.kept_barrier_values_bytes_max,
              "Maximum memory for values of passed barriers, remembered for retries.");
  table.Count("kept-barriers-max", &options.kept_barriers_max,
              "Number of ended barriers to remember.");
  table.Count("kept-errors-max", &options.kept_errors_max,
              "Number of errors of a job to remember.");
  table.Count("view-rows-max", &options.view_rows_max,
              "Maximum number of open barriers, and of awaited keys, in a status.");
  table.Count("events-max", &declared.options.events_max, "Number of events of a job to remember.");
}

// A client that exceeds one loses its connection.
void DeclareTorch(DeclaredOptions& declared) {
  config::OptionTable& table = declared.table;
  StoreHostOptions& stores = declared.options.stores;
  tcpstore::StoreOptions& options = stores.store;
  table.Group("Torch store (docs/protocols/tcpstore.md)");
  table.Switch("no-torch-store", &stores.none, "Do not provide torch stores.");
  table.Switch("torch-store-durable", &options.keeps,
               "Keep torch stores in the state directory too, so that they survive the server. "
               "Each change is synced to disk before it is acknowledged.");
  table.Bytes("torch-key-bytes-max", &options.key_bytes_max,
              "Maximum size of a key in a torch store.");
  table.Bytes("torch-value-bytes-max", &options.value_bytes_max,
              "Maximum size of a value in a torch store.");
  table.Count("torch-keys-per-request-max", &options.keys_per_request_max,
              "Maximum number of keys in one request to a torch store.");
  table.Bytes("torch-request-bytes-max", &options.request_bytes_max,
              "Maximum size of one request to a torch store.");
  table.Bytes("torch-answer-bytes-max", &options.answer_bytes_max,
              "Maximum size of one answer of a torch store.");
  table.Count("torch-keys-max", &options.keys_max,
              "Maximum number of keys and queued values in a torch store.");
  table.Bytes("torch-store-bytes-max", &options.store_bytes_max,
              "Maximum memory for a torch store: keys, values, waits, and data in transit to and "
              "from its clients.");
  table.Duration("torch-progress-timeout", &stores.listener.progress_timeout,
                 "Close the connection of a torch store client that has neither continued a "
                 "request it began nor read its answers for this long.");
  table.Count("torch-waits-per-connection-max", &options.waits_per_connection_max,
              "Maximum number of concurrent waits on one connection to a torch store.");
  config::Option& idle = table.Duration(
      "torch-store-idle-timeout", &stores.rest,
      "Time without any connection after which a new run that no launcher started may begin with "
      "an empty torch store. At most 24h.",
      /*may_be_zero=*/true);
  idle.set = [&stores, set = idle.set](const std::vector<std::string>& texts) {
    absl::Status status = set(texts);
    if (!status.ok() || stores.rest <= kTorchStoreRestMax) return status;
    return absl::InvalidArgumentError(absl::StrCat("'", texts.front(), "': must be at most ",
                                                   absl::FormatDuration(kTorchStoreRestMax)));
  };
  config::Option& busy_poll = table.Duration(
      "torch-busy-poll", &stores.listener.busy_poll,
      "Poll instead of sleeping for this long after each torch store command, while commands "
      "come at shorter intervals than this. 0: never; at most 10ms.",
      /*may_be_zero=*/true);
  busy_poll.set = [&stores, set = busy_poll.set](const std::vector<std::string>& texts) {
    absl::Status status = set(texts);
    if (!status.ok() || stores.listener.busy_poll <= kBusyPollMax) return status;
    return absl::InvalidArgumentError(absl::StrCat("'", texts.front(), "': must be at most ",
                                                   absl::FormatDuration(kBusyPollMax)));
  };
}

void DeclareConnections(DeclaredOptions& declared) {
  config::OptionTable& table = declared.table;
  link::LinkOptions& link = declared.options.link;
  net::StockListenerOptions& listener = declared.options.listener;
  table.Group("Connections");
  table.Count("links-max", &declared.options.links_max,
              "Maximum number of connections (links) of native clients and commands.");
  table.Count("links-per-host-max", &declared.options.links_per_host_max,
              "Maximum number of links from one address.");
  table.Duration("hello-timeout", &link.hello_timeout,
                 "Time allowed for the handshake after a native client connects.");
  table.Count("requests-in-flight-max", &link.requests_in_flight_max,
              "Maximum number of unanswered requests on one link.");
  table.Count("partial-messages-max", &link.partial_messages_max,
              "Maximum number of incompletely received messages on one link.");
  table.Bytes("write-queue-bytes-max", &link.write_queue_bytes_max,
              "Maximum data waiting to be sent over one link. Answers that do not fit are refused; "
              "a client that reads too slowly even for short ones is disconnected.");
  table.Duration("write-timeout", &link.write_timeout,
                 "Disconnect a native client that has read nothing of what was sent to it for "
                 "this long.");
  table.Duration("message-timeout", &link.message_timeout,
                 "Disconnect a native client that has not continued a message it began for this "
                 "long.");
  table.Count("connections-max", &listener.connections.connections_max,
              "Maximum number of connections of stock clients to one job.");
  table.Count("connections-per-host-max", &listener.connections.connections_per_host_max,
              "Maximum number of connections of stock clients to one job from one address.");
  table.Bytes("grpc-memory-max", &listener.grpc_memory_max,
              "Maximum memory of gRPC for connections and messages of stock clients of one job. "
              "All jobs together get a quarter of --memory-max.");
  table.Count("calls-max", &listener.calls_max,
              "Maximum number of open calls of stock clients to one job.");
  table.Duration("handshake-timeout", &listener.handshake_timeout,
                 "Time allowed for the HTTP/2 settings after a stock client connects.");
  table.Duration("drain-time", &listener.drain_time,
                 "Time to deliver the last answers when the server exits.");
  table.Duration("end-timeout", &declared.options.end_timeout,
                 "Exit at the latest this long after SIGTERM or SIGINT, whatever clients or the "
                 "disk do.");
}

}  // namespace

DeclaredOptions::DeclaredOptions()
    : listen(runtime::ToString(options.listen)), table("server", "LOCKSTEP_SERVER_") {
  DeclareAddresses(*this);
  DeclareAccess(*this);
  DeclareFilesAndLog(*this);
  DeclareEtcd(*this);
  DeclareTimes(*this);
  DeclarePreemption(*this);
  DeclareLimits(*this);
  DeclareLimitsOfAttempts(*this);
  DeclareTorch(*this);
  DeclareConnections(*this);
}

}  // namespace lockstep::server
