// mpi_peer BYTES ROUNDS [AHEAD]: Open MPI in the shape of bench/rendezvous, received into place. To
// be started by mpirun with two ranks; what it goes over is chosen there. Prints one line of JSON.
#include <mpi.h>

#include <array>

#include "bench/limits/measure.h"

namespace lockstep::bench {
namespace {

constexpr int kProducer = 0;
constexpr int kConsumer = 1;
constexpr int kTag = 0;

struct Settings {
  size_t bytes;
  int rounds;
  int ahead;
};

using Ask = std::array<char, 16>;

void Produce(const Settings& settings) {
  SourcePool pool(settings.bytes, /*huge=*/false);
  double cpu = 0;
  Ask ask;
  for (int round = 0; round < settings.rounds; ++round) {
    MPI_Recv(ask.data(), ask.size(), MPI_BYTE, kConsumer, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (round == WarmRounds(settings.rounds)) cpu = CpuSeconds(::getpid());
    MPI_Send(pool.Next().data(), static_cast<int>(settings.bytes), MPI_BYTE, kConsumer, kTag,
             MPI_COMM_WORLD);
  }
  cpu = CpuSeconds(::getpid()) - cpu;
  MPI_Send(&cpu, 1, MPI_DOUBLE, kConsumer, kTag, MPI_COMM_WORLD);
}

void Consume(const Settings& settings) {
  const Pages into(settings.bytes, /*huge=*/false);
  const Ask ask = {};
  const auto send_ask = [&] {
    MPI_Send(ask.data(), ask.size(), MPI_BYTE, kProducer, kTag, MPI_COMM_WORLD);
  };
  Figures figures;
  Clock::time_point begin_all;
  const int warm = WarmRounds(settings.rounds);
  for (int i = 1; i < settings.ahead; ++i) send_ask();
  for (int round = 0; round < settings.rounds; ++round) {
    if (round == warm) {
      figures.cpu = -CpuSeconds(::getpid());
      begin_all = Clock::now();
    }
    const Clock::time_point begin = Clock::now();
    if (round + settings.ahead <= settings.rounds) send_ask();
    MPI_Recv(into.data(), static_cast<int>(settings.bytes), MPI_BYTE, kProducer, kTag,
             MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (round >= warm) figures.us.push_back(MicrosecondsSince(begin));
  }
  figures.seconds = MicrosecondsSince(begin_all) * 1e-6;
  figures.cpu += CpuSeconds(::getpid());
  double theirs = 0;
  MPI_Recv(&theirs, 1, MPI_DOUBLE, kProducer, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  figures.cpu += theirs;
  Print(settings.bytes, figures);
}

int Main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 3) {
    std::fprintf(stderr, "mpi_peer BYTES ROUNDS [AHEAD]\n");
    return 2;
  }
  const Settings settings = {.bytes = std::stoul(argv[1]),
                             .rounds = std::stoi(argv[2]),
                             .ahead = argc > 3 ? std::stoi(argv[3]) : 1};
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == kProducer) {
    Produce(settings);
  } else {
    Consume(settings);
  }
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::Main(argc, argv); }
