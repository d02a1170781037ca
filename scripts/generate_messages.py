#!/usr/bin/python3
"""Makes the C++ of our messages from their contract, proto/lockstep.

    protoc -I proto --include_imports --include_source_info --descriptor_set_out=SET FILE.proto...
    scripts/generate_messages.py SET FOLDER

The build does that (cmake/LockstepMessages.cmake). Of each file STEM.proto come:

    STEM_messages.h   a plain struct for each message: its fields, `==`, its name, and the list of
                      fields that codec.h reads; the enums and their names; what requests are (KindOf)
    STEM_codec.cc     how they become bytes and are read from them (codec_templates.h)
    STEM_pairs.h      for tests: each struct beside protobuf's class

and all requests together become one more, kinds.h: who answers which. What a message says besides
its fields is in its options and those of its fields: proto/lockstep/options.proto.

A file is written only when it changes, so that nothing is compiled again without need.
"""

import pathlib
import re
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

OPTIONS = "lockstep/options.proto"
# Package, folder of its headers, namespace.
PACKAGES = {
    "lockstep.v1": ("lockstep/wire/native", "lockstep::wire::native"),
    "lockstep.store.v1": ("lockstep/wire/store", "lockstep::wire::store"),
}
# What a namespace other than field.h's takes from that.
BORROWED = ("Bytes", "EnumName", "Field", "SharedBytes")

F = descriptor_pb2.FieldDescriptorProto
NUMBERS = {
    F.TYPE_INT32: "int32_t",
    F.TYPE_INT64: "int64_t",
    F.TYPE_UINT32: "uint32_t",
    F.TYPE_UINT64: "uint64_t",
}
BYTES = {"OWNED": "Bytes", "SHARED": "SharedBytes", "VIEWED": "BytesView"}


class ContractError(Exception):
    """What is wrong with the contract, and where."""


def class_of(descriptor, pool):
    """Python's class of a message. Debian's protobuf has it elsewhere than newer ones."""
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


class Options:
    """Our options of a message or field. descriptor_pb2 has them as unknown fields; here they
    are parsed again with their definitions."""

    def __init__(self, files):
        pool = descriptor_pool.DescriptorPool()
        for file in files:
            pool.Add(file)
        self._pool = pool

    def of(self, described, name):
        """The value of our option `name`: a message, a number or bool, or the name of a value."""
        options = described.options
        descriptor = self._pool.FindMessageTypeByName(options.DESCRIPTOR.full_name)
        known = class_of(descriptor, self._pool).FromString(options.SerializeToString())
        extension = self._pool.FindExtensionByName(f"lockstep.{name}")
        value = known.Extensions[extension]
        if extension.enum_type is not None:
            return extension.enum_type.values_by_number[value].name
        return value

    def values(self, enum):
        """The values of our enum by their numbers."""
        return self._pool.FindEnumTypeByName(f"lockstep.{enum}").values_by_number

    def has(self, described, name):
        """Whether it says anything of it."""
        return bool(self.of(described, name).ListFields())


class Comments:
    """What stands above a message, enum, field or value, or behind it."""

    def __init__(self, file):
        self._of = {tuple(place.path): place for place in file.source_code_info.location}

    def place(self, path):
        """Where in the file it is."""
        return tuple(self._of[path].span)

    def above(self, path, indent):
        return self._lines(path, "leading_comments", indent)

    def behind(self, path):
        lines = self._lines(path, "trailing_comments", "")
        return "  " + lines[0] if len(lines) == 1 else ""

    def _lines(self, path, which, indent):
        text = getattr(self._of.get(path), which, "").rstrip("\n")
        return [f"{indent}//{line.rstrip()}" for line in text.split("\n")] if text else []


def camel(name):
    """ID_BYTES -> IdBytes"""
    return "".join(word.capitalize() for word in name.split("_"))


def short(type_name):
    """.lockstep.v1.Label -> Label"""
    return type_name.rsplit(".", 1)[1]


class Header:
    """The header of one file."""

    def __init__(self, file, options, trusted):
        self.file = file
        self.stem = pathlib.PurePath(file.name).stem
        self.folder, self.namespace = PACKAGES[file.package]
        self.options = options
        self.trusted = trusted
        self.comments = Comments(file)
        self.prefixes = {enum.name: re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", enum.name).upper() + "_"
                         for enum in file.enum_type}

    @property
    def name(self):
        return f"{self.folder}/{self.stem}_messages.h"

    def requests(self):
        found = [(message, self.options.of(message, "request"))
                 for message in self.file.message_type if self.options.has(message, "request")]
        for message, request in found:
            if request.kind == 0 or request.route == 0:
                raise ContractError(f"{self.file.name}: {message.name}: a request has a kind and a "
                                    "route")
        return found

    def route(self, request):
        return self.options.values("Route")[request.route].name

    def roles(self, request):
        return [self.options.values("Role")[role].name for role in request.may]

    # --- What a contract may have ---

    def check(self, known):
        """`known`: the messages and enums that fields may be of."""
        if self.file.syntax != "proto3":
            raise ContractError(f"{self.file.name}: not proto3")
        for message in self.file.message_type:
            if message.nested_type or message.enum_type:
                raise ContractError(f"{self.file.name}: {message.name} has a type or a map inside: "
                                    "not known here")
            for field in message.field:
                self.check_field(message, field, known)
            if sum(self.options.of(field, "timeout") for field in message.field) > 1:
                raise ContractError(f"{self.file.name}: {message.name} has two timeouts")

    def check_field(self, message, field, known):
        def refuse(why):
            raise ContractError(f"{self.file.name}: {message.name}.{field.name} {why}")

        if field.HasField("oneof_index") and not field.proto3_optional:
            refuse("is in a oneof: not known here")
        if field.type_name and field.type_name not in known:
            refuse(f"is of {field.type_name}, which is not in our contract")
        if self.options.of(field, "storage") != "OWNED" and field.type != F.TYPE_BYTES:
            refuse("can have no (storage): it is not bytes")
        if self.options.of(field, "timeout") and (
                field.type != F.TYPE_INT64 or field.label == F.LABEL_REPEATED):
            refuse("can be no (timeout): it is not one int64")

    # --- Types ---

    def element_type(self, field):
        if field.type in NUMBERS:
            return NUMBERS[field.type]
        if field.type == F.TYPE_BOOL:
            return "bool"
        if field.type == F.TYPE_STRING:
            return "std::string"
        if field.type == F.TYPE_BYTES:
            return BYTES[self.options.of(field, "storage")]
        if field.type in (F.TYPE_MESSAGE, F.TYPE_ENUM):
            return short(field.type_name)
        raise ContractError(f"{self.file.name}: {field.name}: no field may have that type")

    def member(self, field):
        """As it is declared."""
        element = self.element_type(field)
        if field.label == F.LABEL_REPEATED:
            return f"std::vector<{element}> {field.name};"
        if field.proto3_optional:
            return f"std::optional<{element}> {field.name};"
        if field.type == F.TYPE_BOOL:
            return f"bool {field.name} = false;"
        if field.type in NUMBERS:
            return f"{element} {field.name} = 0;"
        if field.type == F.TYPE_ENUM:
            return f"{element} {field.name} = {element}{{}};"
        return f"{element} {field.name};"

    def bounds(self, message, field):
        """What the list of fields says of it besides its name, number and place."""
        is_number = field.type in NUMBERS
        is_text = field.type in (F.TYPE_STRING, F.TYPE_BYTES)
        of_type = {}
        for option, fits in (("max_bytes", is_text), ("range", is_number),
                             ("max_items", field.label == F.LABEL_REPEATED)):
            value = self.options.of(field, option)
            stated = not value.endswith("_UNSPECIFIED")
            if stated and not fits:
                raise ContractError(f"{self.file.name}: {message.name}.{field.name} can have no "
                                    f"({option}): that is of another type")
            of_type[option] = f"k{camel(value)}" if stated else ""
        element = of_type["max_bytes"] or of_type["range"]
        count = of_type["max_items"]
        return [element or "{}", count] if count else [element] if element else []

    # --- Parts ---

    def enum(self, enum, path):
        prefix = self.prefixes[enum.name]
        yield from self.comments.above(path, "")
        yield f"enum class {enum.name} : int32_t {{"
        names = []
        for at, value in enumerate(enum.value):
            if not value.name.startswith(prefix):
                raise ContractError(f"{self.file.name}: {value.name} does not begin with {prefix}")
            short_name = value.name[len(prefix):]
            names.append((f"k{camel(short_name)}", short_name.lower()))
            yield from self.comments.above(path + (2, at), "  ")
            yield f"  {names[-1][0]} = {value.number},{self.comments.behind(path + (2, at))}"
        yield "};"
        entry = f"EnumName<{enum.name}>"
        yield f"constexpr std::array<{entry}, {len(names)}> EnumNames({enum.name}) {{"
        yield f"  using enum {enum.name};"
        yield "  return {{" + ",\n           ".join(
            f'{{{value}, "{name}"}}' for value, name in names) + "}};"
        yield "}"

    def message(self, message, path):
        name = message.name
        yield from self.comments.above(path, "")
        yield f"struct {name} {{"
        fields = sorted(enumerate(message.field), key=lambda entry: entry[1].number)
        for at, field in fields:
            yield from self.comments.above(path + (2, at), "  ")
            yield f"  {self.member(field)}{self.comments.behind(path + (2, at))}"
        if fields:
            yield ""
        yield f"  friend bool operator==(const {name}&, const {name}&) = default;"
        yield f'  static constexpr std::string_view kName = "{self.file.package}.{name}";'
        if name in self.trusted:
            yield "  static constexpr bool kFromOurServer = true;"
        for _, field in fields:
            if self.options.of(field, "timeout"):
                yield f"  static constexpr uint32_t kTimeoutField = {field.number};"
        # `M` is this very message: what depends on it costs a compiler nothing until it is used.
        yield f"  template <class Visit, class M = {name}>"
        if not fields:
            yield "  static constexpr void Fields(Visit&&) {}"
        else:
            yield "  static constexpr void Fields(Visit&& visit) {"
            for _, field in fields:
                entry = ", ".join([f'{field.number}, "{field.name}", &M::{field.name}',
                                   *self.bounds(message, field)])
                yield f"    visit(Field({entry}));"
            yield "  }"
        yield "};"

    def kind(self, message, request):
        if request.raw_reply:
            reply = "RawReply"
        else:
            reply = request.reply or f"{message.name}Reply"
            if reply not in [other.name for other in self.file.message_type]:
                raise ContractError(f"{self.file.name}: {message.name} is answered with {reply}, "
                                    "which is not in this file")
        route = f"Route::k{camel(self.route(request))}"
        yield "template <>"
        yield (f"struct KindOf<{message.name}>\n"
               f"    : Kind<{request.kind}, {route}, {reply}, {message.name}> {{}};")

    def in_order(self):
        """Messages and enums, each behind what it holds."""
        parts = {enum.name: (enum, (5, at)) for at, enum in enumerate(self.file.enum_type)}
        parts |= {message.name: (message, (4, at))
                  for at, message in enumerate(self.file.message_type)}
        # In the order of the file, as far as that goes.
        first_line = {name: self.comments.place(path) for name, (_, path) in parts.items()}
        done, doing = [], []

        def add(name):
            if name in done or name not in parts:
                return
            if name in doing:
                raise ContractError(f"{self.file.name}: {name} holds itself")
            doing.append(name)
            for field in getattr(parts[name][0], "field", ()):
                # A message may hold a list of its own type.
                if field.type_name and not (field.label == F.LABEL_REPEATED
                                            and short(field.type_name) == name):
                    add(short(field.type_name))
            doing.pop()
            done.append(name)

        for name in sorted(parts, key=first_line.get):
            add(name)
        return [parts[name] for name in done]

    def text(self):
        body = []
        for part, path in self.in_order():
            body.append("")
            is_enum = isinstance(part, descriptor_pb2.EnumDescriptorProto)
            body += self.enum(part, path) if is_enum else self.message(part, path)
        for message, request in self.requests():
            body.append("")
            body += self.kind(message, request)
        code = "\n".join(body)
        yield f"// Made by scripts/generate_messages.py from proto/{self.file.name}: change that."
        yield "#pragma once"
        yield ""
        for header, sign in (("array", "std::array<"), ("cstdint", "int"),
                             ("optional", "std::optional<"), ("string", "std::string "),
                             ("string_view", "std::string_view"), ("vector", "std::vector<")):
            if sign in code or header == "cstdint":
                yield f"#include <{header}>"
        yield ""
        includes = {"lockstep/wire/native/field.h"}
        if re.search(r"\bk(%s)\b" % "|".join(self.bound_names()), code):
            includes.add("lockstep/wire/native/bounds.h")
        if self.requests():
            includes.add("lockstep/wire/native/kind.h")
        for imported in self.file.dependency:
            stem = pathlib.PurePath(imported).stem
            if imported.startswith("lockstep/") and imported != OPTIONS:
                includes.add(f"{self.folder}/{stem}_messages.h")
        for include in sorted(includes):
            yield f'#include "{include}"'
        yield ""
        yield f"namespace {self.namespace} {{"
        if self.namespace != PACKAGES["lockstep.v1"][1]:
            yield ""
            for name in BORROWED:
                if re.search(rf"\b{name}\b", code):
                    yield f"using native::{name};"
        yield from body
        yield ""
        yield f"}}  // namespace {self.namespace}"

    def bound_names(self):
        for enum in ("Text", "Count", "Number"):
            for value in self.options.values(enum).values():
                yield camel(value.name)

    def codec(self):
        """The bytes of its messages, compiled once."""
        yield f"// Made by scripts/generate_messages.py from proto/{self.file.name}: change that."
        yield '#include "lockstep/wire/native/codec_templates.h"'
        yield f'#include "{self.name}"'
        yield ""
        yield "namespace lockstep::wire::native {"
        yield ""
        for message in self.file.message_type:
            yield f"LOCKSTEP_INSTANTIATE_CODEC({self.namespace}::{message.name});"
        for message, _ in self.requests():
            yield f"static_assert(StatesItsBounds<{message.name}>(),"
            yield '              "state a bound for each text, list and number (lockstep/options.proto)");'
        yield ""
        yield "}  // namespace lockstep::wire::native"

    def pairs(self):
        """Its structs beside protobuf's classes, as a list of types for googletest."""
        theirs = "::" + self.file.package.replace(".", "::")
        yield f"// Made by scripts/generate_messages.py from proto/{self.file.name}: change that."
        yield "#pragma once"
        yield ""
        yield '#include "gtest/gtest.h"'
        yield f'#include "{self.file.name[:-len(".proto")]}.pb.h"'
        yield '#include "lockstep/wire/native/contract_suite_test.h"'
        yield f'#include "{self.name}"'
        yield ""
        yield "namespace lockstep::wire::native::contract {"
        yield ""
        pairs = [f"Pair<::{self.namespace}::{message.name}, {theirs}::{message.name}>"
                 for message in self.file.message_type]
        yield f"using {camel(self.stem)}Pairs = testing::Types<\n    " + ",\n    ".join(pairs) + ">;"
        yield ""
        yield "}  // namespace lockstep::wire::native::contract"


def kinds(headers):
    """Who answers which request."""
    requests = sorted(((request.kind, message.name, header.route(request))
                       for header in headers for message, request in header.requests()))
    may = {request.kind: header.roles(request)
           for header in headers for _, request in header.requests()}
    for (kind, name, _), (other, second, _) in zip(requests, requests[1:]):
        if kind == other:
            raise ContractError(f"{name} and {second} are both of kind {kind}")
    yield "// Made by scripts/generate_messages.py from proto/lockstep: change that."
    yield "//"
    yield "// The requests that travel over a link (docs/formats/link.md), and who answers them. Pure."
    yield "#pragma once"
    yield ""
    includes = [header.name for header in headers if header.requests()]
    for include in sorted(includes + ["lockstep/wire/native/kind.h"]):
        yield f'#include "{include}"'
    yield ""
    namespace = PACKAGES["lockstep.v1"][1]
    yield f"namespace {namespace} {{"
    yield ""
    routes = []
    for _, _, route in requests:
        if route not in routes:
            routes.append(route)
    for route in routes:
        names = [name for _, name, its in requests if its == route]
        yield f"using {camel(route)}Requests = Requests<\n    " + ",\n    ".join(names) + ">;"
        yield ""
    yield "// kUnspecified: there is no request of that kind."
    yield "constexpr Route RouteOf(RequestKind kind) {"
    yield "  switch (kind) {"
    for route in routes:
        for kind, name, its in requests:
            if its == route:
                yield f"    case {kind}:  // {name}"
        yield f"      return Route::k{camel(route)};"
    yield "    default:"
    yield "      return Route::kUnspecified;"
    yield "  }"
    yield "}"
    yield ""
    yield "// Whether a role that is not the operator's may ask a request of that kind."
    yield "constexpr bool MayAsk([[maybe_unused]] Role role, RequestKind kind) {"
    yield "  switch (kind) {"
    for kind, name, _ in requests:
        roles = " || ".join(f"role == Role::k{camel(role)}" for role in may[kind])
        yield f"    case {kind}:  // {name}"
        yield f"      return {roles or 'false'};"
    yield "    default:\n      return false;\n  }\n}\n"
    yield f"}}  // namespace {namespace}"


def generate(descriptors):
    """The texts by the files' names."""
    ours = [file for file in descriptors.file if file.package in PACKAGES]
    options = Options(descriptors.file)
    trusted = {}
    for file in ours:
        names = trusted.setdefault(file.package, set())
        everything = options.of(file, "all_from_our_server")
        for message in file.message_type:
            if everything or options.of(message, "from_our_server"):
                names.add(message.name)
            if options.has(message, "request"):
                names.add(options.of(message, "request").reply or f"{message.name}Reply")
    headers = [Header(file, options, trusted[file.package]) for file in ours]
    known = {f".{file.package}.{type_.name}" for file in ours
             for type_ in [*file.message_type, *file.enum_type]}
    texts = {}
    for header in headers:
        header.check(known)
        texts[header.name] = header.text()
        texts[header.name.replace("_messages.h", "_codec.cc")] = header.codec()
        texts[header.name.replace("_messages.h", "_pairs.h")] = header.pairs()
    texts[f"{PACKAGES['lockstep.v1'][0]}/kinds.h"] = kinds(headers)
    return {name: "\n".join(lines) + "\n" for name, lines in texts.items()}


def main():
    descriptors = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(sys.argv[1]).read_bytes())
    try:
        texts = generate(descriptors)
    except ContractError as wrong:
        print(f"{sys.argv[0]}: {wrong}", file=sys.stderr)
        return 1
    for name, text in texts.items():
        path = pathlib.Path(sys.argv[2]) / name
        if path.exists() and path.read_text() == text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
