#!/usr/bin/python3
"""What is made of a contract, and what is wrong with one."""

import pathlib
import subprocess
import tempfile
import unittest

import generate_messages
from google.protobuf import descriptor_pb2

PROTO = pathlib.Path(__file__).resolve().parent.parent / "proto"
HEAD = """syntax = "proto3";
package lockstep.v1;
import "lockstep/options.proto";
"""


def headers_of(body, head=HEAD):
    """The texts made of a file of that body, by the names of the headers."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trial.proto"
        path.write_text(head + body)
        out = pathlib.Path(folder) / "set"
        subprocess.run(["protoc", "-I", folder, "-I", PROTO, "--include_imports",
                        "--include_source_info", f"--descriptor_set_out={out}", path], check=True)
        descriptors = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    return generate_messages.generate(descriptors)


def messages_of(body):
    return headers_of(body)["lockstep/wire/native/trial_messages.h"]


class Messages(unittest.TestCase):
    maxDiff = None

    def test_a_message_is_a_struct_with_a_list_of_its_fields(self):
        text = messages_of("""
            // Who is where.
            message Place {
              // A name.
              string who = 1 [(max_bytes) = NAME_BYTES];
              optional int32 index = 3 [(range) = PID];  // Absent: anywhere.
            }""")
        self.assertIn("""
// Who is where.
struct Place {
  // A name.
  std::string who;
  std::optional<int32_t> index;  // Absent: anywhere.

  friend bool operator==(const Place&, const Place&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Place";
  template <class Visit, class M = Place>
  static constexpr void Fields(Visit&& visit) {
    visit(Field(1, "who", &M::who, kNameBytes));
    visit(Field(3, "index", &M::index, kPid));
  }
};
""", text)

    def test_every_type_that_a_field_may_have(self):
        text = messages_of("""
            enum Colour { COLOUR_UNSPECIFIED = 0; COLOUR_DARK_RED = 7; }
            message Inner {}
            message All {
              bool a = 1; int32 b = 2; int64 c = 3; uint32 d = 4; uint64 e = 5; string f = 6;
              bytes g = 7; bytes h = 8 [(storage) = SHARED]; bytes i = 9 [(storage) = VIEWED];
              Colour j = 10; Inner k = 11; optional Inner l = 12; repeated string m = 13;
              repeated Inner n = 14; optional bool o = 15;
            }""")
        for member in ("bool a = false;", "int32_t b = 0;", "int64_t c = 0;", "uint32_t d = 0;",
                       "uint64_t e = 0;", "std::string f;", "Bytes g;", "SharedBytes h;",
                       "BytesView i;", "Colour j = Colour{};", "Inner k;", "std::optional<Inner> l;",
                       "std::vector<std::string> m;", "std::vector<Inner> n;",
                       "std::optional<bool> o;"):
            self.assertIn(f"\n  {member}\n", text)
        self.assertIn("  kDarkRed = 7,\n", text)
        self.assertIn('{kDarkRed, "dark_red"}', text)

    def test_a_list_has_bounds_of_its_own_and_of_what_is_in_it(self):
        text = messages_of("""
            message Inner {}
            message Lists {
              repeated string texts = 1 [(max_bytes) = ID_BYTES, (max_items) = FEW];
              repeated Inner inner = 2 [(max_items) = MANY];
            }""")
        self.assertIn('Field(1, "texts", &M::texts, kIdBytes, kFew)', text)
        self.assertIn('Field(2, "inner", &M::inner, {}, kMany)', text)

    def test_fields_are_in_the_order_of_their_numbers(self):
        text = messages_of("message Late { bool second = 2; bool first = 1; }")
        self.assertLess(text.index("&M::first"), text.index("&M::second"))

    def test_what_a_message_holds_stands_before_it(self):
        text = messages_of("message Outer { Inner inner = 1; } message Inner {}")
        self.assertLess(text.index("struct Inner"), text.index("struct Outer"))

    def test_which_field_is_the_callers_timeout(self):
        text = messages_of("message Wait { int64 timeout_us = 4 [(timeout) = true]; }")
        self.assertIn("static constexpr uint32_t kTimeoutField = 4;", text)

    def test_the_bytes_of_each_message_are_compiled_once(self):
        codec = headers_of("""
            message Ask { option (request) = {kind: 1, route: SERVER}; }
            message AskReply {}""")["lockstep/wire/native/trial_codec.cc"]
        for name in ("Ask", "AskReply"):
            self.assertIn(f"LOCKSTEP_INSTANTIATE_CODEC(lockstep::wire::native::{name});\n", codec)
        self.assertIn("static_assert(StatesItsBounds<Ask>(),", codec)
        self.assertNotIn("StatesItsBounds<AskReply>", codec)

    def test_only_answers_and_what_says_so_is_trusted(self):
        text = messages_of("""
            message Ask { option (request) = {kind: 1, route: SERVER}; }
            message AskReply {}
            message Welcome { option (from_our_server) = true; }
            message Other {}""")
        trusted = [part.split(" ")[0] for part in text.split("struct ")[1:]
                   if "kFromOurServer = true" in part]
        self.assertEqual(trusted, ["AskReply", "Welcome"])


class Kinds(unittest.TestCase):
    TWO = """
        message Ask { option (request) = {kind: %d, route: SERVER}; }
        message AskReply {}
        message Read { option (request) = {kind: %d, route: WORKER, raw_reply: true}; }"""

    def test_a_request_has_its_kind_its_route_and_its_reply(self):
        text = messages_of(self.TWO % (1, 70))
        self.assertIn("KindOf<Ask>\n    : Kind<1, Route::kServer, AskReply, Ask> {};", text)
        self.assertIn("KindOf<Read>\n    : Kind<70, Route::kWorker, RawReply, Read> {};", text)

    def test_who_answers_is_found_by_the_kind(self):
        kinds = headers_of(self.TWO % (1, 70))["lockstep/wire/native/kinds.h"]
        self.assertIn("    case 1:  // Ask\n      return Route::kServer;", kinds)
        self.assertIn("    case 70:  // Read\n      return Route::kWorker;", kinds)

    def test_no_two_requests_are_of_one_kind(self):
        with self.assertRaisesRegex(generate_messages.ContractError, "Ask and Read .* kind 3"):
            headers_of(self.TWO % (3, 3))

    def test_a_request_without_a_number_or_a_route_is_none(self):
        for options in ("kind: 5", "route: SERVER"):
            with self.assertRaisesRegex(generate_messages.ContractError, "Ask: .*kind.*route"):
                headers_of("message Ask { option (request) = {%s}; } message AskReply {}" % options)

    def test_the_reply_must_be_there(self):
        with self.assertRaisesRegex(generate_messages.ContractError, "AskReply"):
            headers_of("message Ask { option (request) = {kind: 1, route: SERVER}; }")


class Mistakes(unittest.TestCase):
    def refused(self, body, why):
        with self.assertRaisesRegex(generate_messages.ContractError, why):
            headers_of(body)

    def test_a_bound_that_does_not_fit_the_type(self):
        self.refused("message A { bool a = 1 [(max_bytes) = ID_BYTES]; }", r"A\.a .*max_bytes")
        self.refused("message A { string a = 1 [(range) = PID]; }", r"A\.a .*range")
        self.refused("message A { string a = 1 [(max_items) = FEW]; }", r"A\.a .*max_items")

    def test_a_type_that_no_field_may_have(self):
        self.refused("message A { double a = 1; }", "a: no field may have")

    def test_a_value_of_an_enum_without_its_prefix(self):
        self.refused("enum Colour { RED = 0; }", "RED does not begin with COLOUR_")

    def test_a_message_that_holds_itself(self):
        self.refused("message A { optional B b = 1; } message B { optional A a = 1; }", "holds itself")
        self.refused("message A { optional A a = 1; }", "holds itself")

    def test_what_the_structs_cannot_say(self):
        self.refused("message A { oneof either { bool a = 1; bool b = 2; } }", r"A\.a is in a oneof")
        self.refused("message A { message B {} }", "A has a type or a map inside")
        self.refused("message A { map<string, string> a = 1; }", "A has a type or a map inside")
        self.refused('import "google/protobuf/any.proto";'
                     "message A { google.protobuf.Any a = 1; }", "Any, which is not in our contract")

    def test_an_option_of_a_field_that_does_not_fit_its_type(self):
        self.refused("message A { string a = 1 [(storage) = SHARED]; }", r"A\.a can have no .storage")
        self.refused("message A { bool a = 1 [(timeout) = true]; }", r"A\.a can be no .timeout")
        self.refused("message A { int64 a = 1 [(timeout) = true]; int64 b = 2 [(timeout) = true]; }",
                     "A has two timeouts")


if __name__ == "__main__":
    unittest.main()
