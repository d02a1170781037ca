#!/usr/bin/python3
"""The lints find what they are for: each is shown a breach."""

import pathlib
import shutil
import tempfile
import unittest

import check_classes
import check_contract
import check_docs
import check_layers
import check_rows
import check_sizes
import check_threads
import check_tidy
import check_wheel
import run_tests
import unity_groups


class CheckClasses(unittest.TestCase):
    SOURCE = """
        // class Comment { int a_; };
        template <typename T>
        class ABSL_SCOPED Table final : public Base<T, 3> {
         public:
          explicit Table(int size) : size_(size), names_{} {}
          ~Table();
          bool operator==(const Table& other) const = default;
          void Add(std::pair<int, std::function<void(int)>> entry);
          void Add(int a, int b = Default(3));
          std::optional<int> Find(int key) const { return map_.at(key); }
          friend void swap(Table& a, Table& b);
          static int Count();
          void FindAsync(int key, std::function<void(int)> done);
         private:
          struct Entry {
            int first = 0;
            std::string second{"a"};
          };
          static constexpr int kMax = 4;
          const int size_, other_ = 3;
          std::map<int, std::function<void(int)>> map_ ABSL_GUARDED_BY(mutex_);
          std::vector<int> names_{1, 2};
          std::function<void(int)> done_;
        };
        enum class Colour { kRed };
    """

    def test_counts_names_of_methods_and_data_members(self):
        table, entry = check_classes.classes(self.SOURCE, "table.h")
        self.assertEqual((table.name, table.methods), ("Table", {"Add", "Find", "Count"}))
        self.assertEqual(table.members, ["size_", "other_", "map_", "names_", "done_"])
        self.assertEqual((entry.name, entry.members), ("Table::Entry", ["first", "second"]))
        self.assertTrue(entry.is_record)
        self.assertFalse(table.is_record)

    def test_a_large_class_needs_an_entry_that_only_shrinks(self):
        large = check_classes.Class("Large", "a.h", 3, False, True,
                                    {f"f{i}" for i in range(26)}, ["a_"])
        def problems(exceptions):
            return [p.split("; ")[-1] for p in check_classes.check([large], exceptions)]
        self.assertEqual(problems({}), ["at most 25 and 12: split it by what it is for"])
        self.assertEqual(problems({"Large": (26, 1)}), [])
        self.assertEqual(problems({"Large": (25, 1)}),
                         ["scripts/large_classes.txt allows 25 and 1, no more"])
        self.assertIn("lower its figures", problems({"Large": (27, 1)})[0])
        self.assertIn("delete its line", problems({"Large": (26, 1), "Gone": (30, 1)})[0])
        self.assertEqual(check_classes.shrink([large], "# why\nLarge 30 1 reason\nGone 30 1\n"),
                         "# why\nLarge 26 1 reason\n")

    def test_the_list_of_large_classes_is_short_and_gives_reasons(self):
        self.assertEqual(list(check_classes.check_list("# why\nLarge 26 1 a reason\n")), [])
        self.assertEqual(list(check_classes.check_list("Large 26 1\n")),
                         ["scripts/large_classes.txt: Large has no reason"])
        six = "".join(f"Large{i} 26 1 a reason\n" for i in range(6))
        self.assertEqual(list(check_classes.check_list(six)),
                         ["scripts/large_classes.txt has 6 classes; at most 5"])


class CheckContract(unittest.TestCase):
    def test_a_number_keeps_its_meaning(self):
        kept = {"v1.Label 1": "name string", "v1.Label 2": "value string", "kind 1": "Status"}
        self.assertEqual(list(check_contract.compare(kept, kept)), [])
        now = {"v1.Label 1": "name bytes", "v1.Label 3": "value string", "kind 1": "Status"}
        self.assertEqual(list(check_contract.compare(kept, now)), [
            "v1.Label 1 was 'name string' and is 'name bytes'",
            "v1.Label 2 was 'value string' and is gone",
            "v1.Label 3 is new: scripts/check_contract.py --write"])

    def test_the_page_of_the_link_lists_the_kinds(self):
        page = "| 1 | `Status` | `StatusReply` |\n| 2 | `Old`, to a worker | raw |\n"
        self.assertEqual(list(check_contract.compare_with_page({1: "Status", 2: "New"}, page)), [
            "docs/formats/link.md: kind 2 is Old, in the contract New"])

    def test_what_the_bytes_depend_on_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            proto = pathlib.Path(folder)
            (proto / "lockstep").mkdir()
            options = check_contract.ROOT / "proto" / "lockstep" / "options.proto"
            (proto / "lockstep" / "options.proto").write_text(options.read_text())
            (proto / "lockstep" / "trial.proto").write_text("""
                syntax = "proto3";
                package lockstep.v1;
                import "lockstep/options.proto";
                enum Colour { COLOUR_UNSPECIFIED = 0; }
                message Ask {
                  option (request) = {kind: 7, route: SERVER};
                  repeated int32 members = 2;
                  optional Colour colour = 3;
                }""")
            self.assertEqual(dict(check_contract.promises(check_contract.describe(proto))), {
                "lockstep.v1.Ask 2": "members repeated int32",
                "lockstep.v1.Ask 3": "colour optional .lockstep.v1.Colour",
                "lockstep.v1.Colour 0": "COLOUR_UNSPECIFIED",
                "kind 7": "Ask"})


class CheckLayers(unittest.TestCase):
    def problems(self, name, line):
        return list(check_layers.check_line(name, check_layers.strip_comment(line)))

    def test_a_lower_folder_may_not_include_a_higher_one(self):
        self.assertEqual(
            self.problems("lockstep/coord/a.cc", '#include "lockstep/platform/runtime/loop.h"'),
            ["lockstep/coord may not include lockstep/platform/runtime"])
        self.assertEqual(
            self.problems("lockstep/server/a.cc", '#include "lockstep/platform/runtime/loop.h"'), [])

    def test_a_pure_folder_has_no_clock_thread_file_or_wire(self):
        for line in ("#include <mutex>", "auto t = absl::Now();", "getenv(\"HOME\")",
                     "std::chrono::steady_clock::now()", "#include <fstream>", "#include <random>",
                     '#include "google/protobuf/message.h"', '#include "asio/io_context.hpp"'):
            self.assertTrue(self.problems("lockstep/coord/a.h", line), line)

    def test_what_says_that_it_is_pure_is_held_to_it(self):
        line = "std::random_device random;"
        self.assertEqual(self.problems("lockstep/launch/a.cc", line), [])
        self.assertTrue(list(check_layers.check_line("lockstep/launch/a.cc", line, True)))

    def test_nobody_waits_by_the_wall_clock(self):
        for line in ("absl::Now() + delay", "std::chrono::system_clock::now()", "time(nullptr)"):
            self.assertTrue(self.problems("lockstep/platform/link/a.cc", line), line)
            self.assertEqual(self.problems("lockstep/server/job_host.cc", line), [])

    def test_openssl_stays_in_one_file(self):
        line = "#include <openssl/ssl.h>"
        self.assertTrue(self.problems("lockstep/preempt/http_exchange.cc", line))
        self.assertEqual(self.problems("lockstep/preempt/tls_exchange.cc", line), [])
        self.assertTrue(self.problems("lockstep/preempt/connection.h", '#include "asio/ssl.hpp"'))

    def test_boost_stays_in_one_file(self):
        line = '#include "boost/beast/http/parser.hpp"'
        self.assertTrue(self.problems("lockstep/preempt/http_exchange.cc", line))
        self.assertEqual(self.problems("lockstep/preempt/http_wire.cc", line), [])

    def test_comments_are_not_code(self):
        self.assertEqual(self.problems("lockstep/coord/a.h", "// never absl::Now()"), [])

    def test_the_client_side_has_no_grpc(self):
        self.assertTrue(self.problems("lockstep/cli/a.cc", "#include <grpcpp/grpcpp.h>"))
        self.assertEqual(self.problems("lockstep/stock/grpc/a.cc", "#include <grpcpp/grpcpp.h>"), [])

    def test_a_folder_within_a_folder_is_one_of_its_own_where_the_table_names_it(self):
        self.assertEqual(check_layers.folder_of("lockstep/rendezvous/value_store.h"),
                         "lockstep/rendezvous")
        self.assertEqual(check_layers.folder_of("lockstep/rendezvous/transport/arena.h"),
                         "lockstep/rendezvous/transport")
        self.assertEqual(check_layers.folder_of("lockstep/observe/golden/x.h"), "lockstep/observe")
        self.assertEqual(check_layers.folder_of("include/lockstep/client/member.h"),
                         "lockstep/client")
        self.assertEqual(check_layers.folder_of("lockstep/unknown/x.h"), "lockstep/unknown")

    def test_the_table_has_no_circle(self):
        self.assertEqual(list(check_layers.check_table()), [])

    def test_the_table_of_the_document_is_made_of_the_checked_one(self):
        self.assertEqual(list(check_layers.check_architecture()), [])
        old = f"before\n{check_layers.TABLE_BEGINS}\n| old |\n{check_layers.TABLE_ENDS}\nafter\n"
        made = check_layers.with_layers(old)
        self.assertNotIn("| old |", made)
        self.assertIn("| `lockstep/platform/link` | one framed connection between two programs of "
                      "ours | platform/runtime, wire/native |", made)
        self.assertIn("| `lockstep/data/consumer` | ", made)
        self.assertEqual(check_layers.with_layers(made), made)
        self.assertIsNone(check_layers.with_layers("no table"))


class CheckSizes(unittest.TestCase):
    def test_measures_functions_not_classes(self):
        body = "  Do();\n" * 80
        text = ("namespace a {\nclass B {\n public:\n" + "  int x = 1;\n" * 90 + "};\n"
                "void B::Long(int a) const {\n  if (a) {\n" + body + "  }\n}\n"
                "int Short() { return '{'; }  // }\n}\n")
        found = {name: lines for name, _, lines in check_sizes.cpp_functions(text)}
        self.assertEqual(found, {"B::Long": 84, "Short": 1})

    def test_a_constructor_with_initialisers_is_one_function(self):
        text = "A::A(int x)\n    : a_(x),\n      b_{x} {\n  Go();\n}\nvoid F() {\n}\n"
        self.assertEqual(list(check_sizes.cpp_functions(text)), [("A::A", 1, 5), ("F", 6, 2)])


class CheckDocs(unittest.TestCase):
    def test_braces_stand_for_several_files(self):
        self.assertEqual(check_docs.expand("a/{b,c}.{h,cc}"), ["a/b.h", "a/b.cc", "a/c.h", "a/c.cc"])

    def test_names_are_found_in_running_text(self):
        self.assertEqual(check_docs.NAMED.findall("see `lockstep/base/ids.h`, build/bin/lockstep"),
                         ["lockstep/base/ids.h"])

    def test_a_link_into_a_document_leads_to_a_heading(self):
        text = ("# A\n## Known gaps\n```sh\n# no heading\n```\n"
                "## What `x()` [says](y.md), twice\n## A\n")
        self.assertEqual(check_docs.anchors(text), {"a", "known-gaps", "what-x-says-twice", "a-1"})
        readme = check_docs.ROOT / "README.md"
        for target, anchor in (("docs/data.md", "functions"), ("docs/data.md", ""), ("", "use-it")):
            self.assertIsNone(check_docs.check_link(readme, target, anchor))
        for target, anchor in (("docs/data-service.md", "known-gaps"), ("", "no-such"),
                               ("docs/none.md", "")):
            self.assertIn("leads nowhere", check_docs.check_link(readme, target, anchor))

    def test_prose_is_wrapped_and_what_programs_read_or_write_is_not(self):
        wide, mark = "word " * 21, "<!-- bench: {} -->"
        text = "\n".join([wide, f"| {wide} |", "```", wide, "```", mark.format("begin"), wide,
                          mark.format("end"), f"`{wide}`", f"- see `{wide}`", f"  [{wide}](a.md)"])
        self.assertEqual(list(check_docs.wide_lines(text)), [1, 10])

    def test_reasons_are_found_where_they_are_given(self):
        text = '''return WithReason(absl::NotFoundError(absl::StrCat("no (", x)), "unknown_job");
                  link.Close(absl::OkStatus(), "protocol"); return {Refused{.reason = "version"}};
                  WithReason(status, reason);'''
        self.assertEqual(list(check_docs.reasons_given(text)),
                         ["unknown_job", "protocol", "version"])

    def test_reasons_are_read_table_by_table(self):
        text = "| reason | code |\n|---|---|\n| `a_b` | X | y |\n\ntext\n| `a_b` | Z |\n"
        self.assertEqual([[name for name, _ in table] for table in check_docs.reasons_told(text)],
                         [["a_b"], ["a_b"]])


class CheckRows(unittest.TestCase):
    def problems(self, left_out):
        rows = [(row, "b", "none: a reason") for row in check_rows.ROWS if row not in left_out]
        return list(check_rows.check(rows, set(), {}))

    def test_no_finding_of_a_review_is_left_out(self):
        self.assertEqual(self.problems([]), [])
        for row in ("F1", "F13", "F20", "A1", "A5", "A14"):
            self.assertEqual(self.problems([row]),
                             [f"row {row}: stands 0 times in the documents"])

    def test_a_test_belongs_to_the_finding_in_its_name(self):
        for name, row in (("Finding13_AStranger", "F13"), ("test_finding_04_a_signal", "F4"),
                          ("UseA05_AServer", "A5"), ("test_use_a05_a_server", "A5"),
                          ("FindsNothing", None)):
            self.assertEqual(check_rows.row_of(name), row)


class CheckWheel(unittest.TestCase):
    def breaches(self, program, library):
        return list(check_wheel.breaches({(program, library)}, "/venv"))

    def test_nothing_comes_from_debian_but_the_runtime(self):
        for library in ("/usr/lib/libgrpc++.so.1.51", "/usr/lib/libspdlog.so.1.10"):
            for program in ("/venv/bin/lockstep-server", "python3"):
                self.assertTrue(self.breaches(program, library), library)
        for library in ("/lib/libstdc++.so.6", "/venv/lib/libgrpc++-1.so", "/lib/ld-linux-x86-64.so.2"):
            self.assertEqual(self.breaches("lockstep", library), [])

    def test_what_python_loads_for_itself_is_for_python_alone(self):
        self.assertEqual(self.breaches("/venv/bin/python", "/usr/lib/libssl.so.3"), [])
        self.assertTrue(self.breaches("lockstep-server", "/usr/lib/libssl.so.3"))
        self.assertTrue(self.breaches("/venv/bin/python", "/usr/lib/libprotobuf.so.32"))


class RunTests(unittest.TestCase):
    def test_the_last_line_has_the_agreed_form(self):
        tally = run_tests.Tally(passed=3)
        self.assertEqual(str(tally), "3 passed, 0 failed")
        tally.fail("x")
        tally.skipped = 2
        self.assertEqual(str(tally), "3 passed, 1 failed, 2 skipped")

    def test_a_program_that_crashes_is_a_failure(self):
        run_tests.LOGS.mkdir(parents=True, exist_ok=True)
        test = run_tests.CTest("crash", ["/bin/false", "--gtest_brief=1"], [], 10, {}, "/")
        tally = run_tests.run_googletest(test, "self", [], "", {})
        self.assertEqual((tally.passed, len(tally.failures)), (0, 1))

    def test_a_program_that_hangs_is_ended_and_is_a_failure(self):
        run_tests.LOGS.mkdir(parents=True, exist_ok=True)
        test = run_tests.CTest("hang", ["/bin/sleep", "60"], [], 0.2, {}, "/")
        tally = run_tests.run_command_test(test, "self", [], {})
        self.assertEqual(len(tally.failures), 1)
        self.assertIn("did not end within", tally.failures[0][0])


class CheckThreads(unittest.TestCase):
    SOURCE = """
        #include <mutex>
        struct __attribute__((capability("mutex"))) Mutex {
          void lock() __attribute__((acquire_capability()));
          void unlock() __attribute__((release_capability()));
        };
        struct Table {
          Mutex mutex;
          int rows __attribute__((guarded_by(mutex)));
          int Guarded() { mutex.lock(); const int n = rows; mutex.unlock(); return n; }
          int Bare() { return %s; }
        };
    """

    def analyse(self, bare):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "table.cc"
            file.write_text(self.SOURCE % bare)
            return check_threads.analyse({"directory": folder, "file": str(file), "command":
                f"/usr/bin/c++ -Wno-maybe-uninitialized -std=c++20 -o table.o -c {file}"})

    @unittest.skipUnless(shutil.which(check_threads.CLANG), "needs clang")
    def test_what_is_touched_without_its_mutex_is_a_breach(self):
        self.assertEqual(self.analyse("0"), "")
        self.assertIn("requires holding mutex 'mutex'", self.analyse("rows"))

    @unittest.skipUnless(shutil.which(check_threads.CLANG), "needs clang")
    def test_what_does_not_compile_is_a_breach(self):
        self.assertIn("undeclared", self.analyse("nothing"))

    def test_a_standard_mutex_needs_an_entry_that_only_shrinks(self):
        sources = {"lockstep/a/a.h": "int a;  // no std::mutex\nstd::mutex mutex_;\n",
                   "lockstep/b/b.cc": "Mutex mutex;", check_threads.WRAPPER: "std::mutex mutex_;"}
        self.assertEqual(check_threads.check_conversion(sources, {"lockstep/a"}), [])
        problems = check_threads.check_conversion(sources, {"lockstep/b"})
        self.assertEqual([p.partition(": ")[0] for p in problems], ["lockstep/a/a.h:2", "lockstep/b"])

    def test_only_what_sees_a_mutex_can_guard_something(self):
        texts = {"include/lockstep/a.h": '#include "lockstep/base/mutex.h"\n',
                 "lockstep/a.cc": '#include "lockstep/a.h"\n',
                 "python/bindings/b.h": '#include "lockstep/a.h"\n',
                 "python/bindings/b.cc": '#include "b.h"\n',
                 "lockstep/c.cc": '#include <mutex>\n// #include "lockstep/a.h"\n'}
        self.assertEqual(check_threads.see_a_mutex(texts), texts.keys() - {"lockstep/c.cc"})

    def test_a_unity_source_stands_for_what_it_includes(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "Unity").mkdir()
            unity = root / "Unity" / "unity_0.cxx"
            unity.write_text(f'/* made */\n#include "{root}/a/a.cc"\n#include "{root}/b/b.cc"\n'
                             f'#include "{root}/b/b_test.cc"\n')
            self.assertEqual(check_threads.sources_of(str(unity), root), ["a/a.cc", "b/b.cc"])
            self.assertEqual(check_threads.sources_of(f"{root}/a/a.cc", root), ["a/a.cc"])


class CheckTidy(unittest.TestCase):
    SOURCE = """
        #include "b/b.h"
        struct Table {
          %s Table(int rows);
        };
    """

    def read(self, root, word):
        """Of a source, compiled as by a build with precompiled headers of gcc's."""
        for name, text in {"a/a.cc": self.SOURCE % word, "b/b.h": self.SOURCE.split("b.h\"")[1] % "",
                           "cmake_pch.hxx": "", "cmake_pch.hxx.gch": "gpch.013",
                           ".clang-tidy": (check_tidy.ROOT / ".clang-tidy").read_text()}.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text.replace("Table", "Above") if name == "b/b.h" else text)
        return check_tidy.read({"directory": str(root), "file": f"{root}/a/a.cc", "command":
            f"/usr/bin/c++ -I{root} -std=c++20 -Winvalid-pch -include {root}/cmake_pch.hxx "
            f"-o a.o -c {root}/a/a.cc"}, ["a"], root)

    @unittest.skipUnless(shutil.which(check_tidy.TIDY), "needs clang-tidy")
    def test_finds_in_the_folder_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            self.assertEqual(self.read(root, "explicit"), [])
            found = self.read(root, "")
            self.assertEqual(len(found), 1, found)
            self.assertIn("google-explicit-constructor", found[0])
            self.assertIn("clang-diagnostic-error", self.read(root, "nothing")[0])

    def test_a_source_is_read_once_and_a_folder_without_those_below(self):
        entries = [{"file": f"/r/{name}"} for name in ("a/a.cc", "a/a.cc", "a/b/b.cc", "c/c.cc")]
        units, seen = check_tidy.units_of(entries, ["a", "c"], "/r")
        self.assertEqual(units, [entries[0], entries[3]])
        self.assertEqual(seen, {"a/a.cc", "c/c.cc"})

    def test_no_precompiled_header_is_left(self):
        words = check_threads.without_precompiled(
            "c++ -Winvalid-pch -include /b/pic.dir/cmake_pch.hxx -include own.h a.cc".split())
        self.assertEqual(words, ["c++", "-include", "own.h", "a.cc"])


class UnityGroups(unittest.TestCase):
    def test_what_a_source_declares_for_itself_is_found(self):
        self.assertEqual(unity_groups.local_names("""
            #define TRIAL(x) x
            namespace lockstep { using testing::Harness; using testing::_;
            struct Shared { int member; };
            int Exported(int a) { int inner = 1; return inner; }
            namespace {
            constexpr int kMax = 3;
            struct Row { int number = 0; };
            std::map<std::string, int> Table(const Row& row, std::function<void(int)> f = {}) { return {}; }
            template <typename T> T Doubled(T t) { return t; }
            enum class Colour { kRed };
            using Clock = int;
            TEST_F(Suite, Case) { int inside = 1; }
            }  // namespace
            static int Hidden() { return 1; }
            void Shared::Method() {}
            }"""), {"#TRIAL", "testing::Harness", "testing::_", "kMax", "Row", "type Row", "Table",
                    "Doubled", "Colour", "type Colour", "Clock", "type Clock", "Suite.Case", "Hidden"})

    def test_sources_with_one_name_for_two_things_are_kept_apart(self):
        def grouped(*names):
            return unity_groups.grouped([(str(n), set(own), set(used), 9)
                                         for n, (own, used) in enumerate(names)])
        self.assertEqual(grouped((["x"], []), (["x"], []), (["n::x"], []), (["n::x"], []),
                                 (["y"], [])), [["0", "4"], ["1"], ["2", "3"]])
        self.assertEqual(grouped((["T", "type T"], ["T"]), ([], ["T"]), ([], ["U"])),
                         [["0", "2"], ["1"]])

    def test_a_group_has_a_size(self):
        most, lines = unity_groups.GROUP_SOURCES_MAX, unity_groups.GROUP_LINES_MAX
        many = [(str(n), set(), set(), 10) for n in range(most + 1)]
        self.assertEqual([len(group) for group in unity_groups.grouped(many)], [most, 1])
        long = [(str(n), set(), set(), lines) for n in range(2)]
        self.assertEqual(unity_groups.grouped(long), [["0"], ["1"]])


if __name__ == "__main__":
    unittest.main()
