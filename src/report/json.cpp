#include "report/json.h"

#include <fmt/format.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cmath>
#include <string_view>

#include "report/node_kinds.h"
#include "util/utf8.h"

namespace hipgraft::report {

namespace {

// RapidJSON's writer with our types: any bytes for a string, any double for a number.
class Json {
 public:
  explicit Json(rapidjson::StringBuffer& buffer) : writer_(buffer) {}

  template <class Body>
  void object(Body body) {
    writer_.StartObject();
    body();
    writer_.EndObject();
  }

  template <class Items, class Body>
  void array(const Items& items, Body body) {
    writer_.StartArray();
    for (const auto& item : items) body(item);
    writer_.EndArray();
  }

  Json& key(std::string_view name) {
    string(name);  // in this writer a key is a string at a key's place
    return *this;
  }

  void string(std::string_view bytes) {
    const std::string text = util::to_utf8(bytes);
    writer_.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
  }
  void number(std::uint64_t value) { writer_.Uint64(value); }
  void number(double value) { writer_.Double(std::isfinite(value) ? value : 0); }
  void boolean(bool value) { writer_.Bool(value); }
  void null() { writer_.Null(); }
  void empty_array() {
    writer_.StartArray();
    writer_.EndArray();
  }

 private:
  rapidjson::Writer<rapidjson::StringBuffer> writer_;
};

const char* status_name(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::broken:
      return "broken";
    case Status::abandoned:
      return "abandoned";
  }
  return "ok";
}

void write_site(Json& json, const Site& site) {
  json.object([&] {
    json.key("symbol").string(site.symbol);
    json.key("module").string(site.module);
    json.key("offset").number(site.offset);
  });
}

void write_first_cause(Json& json, const Capture& capture) {
  if (!capture.has_first_cause) return json.null();
  const Cause& cause = capture.first_cause;
  json.object([&] {
    json.key("call").string(cause.call);
    json.key("error").string(cause.error);
    json.key("site");
    write_site(json, cause.site);
    json.key("detail").string(cause.detail);
  });
}

void write_counts(Json& json, const NodeCounts& counts) {
  json.object([&] {
    for (const NodeKind& kind : kNodeKinds) json.key(kind.key).number(counts.*kind.count);
    json.key("total").number(counts.total());
  });
}

void write_nodes(Json& json, const NodeCounts& native, const NodeCounts& captured) {
  json.object([&] {
    json.key("native");
    write_counts(json, native);
    json.key("captured");
    write_counts(json, captured);
  });
}

void write_named_counts(Json& json, const std::vector<NamedCount>& counts, const char* name_key) {
  json.array(counts, [&](const NamedCount& item) {
    json.object([&] {
      json.key(name_key).string(item.name);
      json.key("count").number(item.count);
    });
  });
}

void write_blocks(Json& json, const std::vector<Block>& blocks) {
  json.array(blocks, [&](const Block& block) {
    json.object([&] {
      // As text: a JSON number loses bits above 2^53 in many readers.
      json.key("address").string(fmt::format("{:#x}", block.address));
      json.key("bytes").number(block.bytes);
      json.key("escaped").boolean(block.escaped);
    });
  });
}

void write_arena(Json& json, const ArenaUse& arena) {
  json.object([&] {
    json.key("requests").number(arena.requests);
    json.key("bytes_requested").number(arena.bytes_requested);
    json.key("high_water").number(arena.high_water);
    json.key("lower_bound").number(arena.lower_bound);
    json.key("chunk_bytes").number(arena.chunk_bytes);
    json.key("chunks").number(arena.chunks);
    json.key("grown_in_capture").number(arena.grown_in_capture);
    json.key("escapes").number(arena.escapes);
    json.key("escaped_bytes").number(arena.escaped_bytes);
    json.key("requesters").array(arena.requesters, [&](const Requester& requester) {
      json.object([&] {
        json.key("site");
        write_site(json, requester.site);
        json.key("requests").number(requester.requests);
        json.key("bytes").number(requester.bytes);
      });
    });
    json.key("native_fallbacks");
    write_named_counts(json, arena.native_fallbacks, "reason");
    if (arena.blocks.empty()) return;
    json.key("blocks");
    write_blocks(json, arena.blocks);
  });
}

void write_graph(Json& json, const Graph& graph) {
  json.object([&] {
    json.key("nodes").array(graph.nodes, [&](const Node& node) {
      json.object([&] {
        json.key("id").number(node.id);
        json.key("kind").string(node.kind);
        if (!node.name.empty()) json.key("name").string(node.name);
      });
    });
    json.key("edges").array(graph.edges, [&](const auto& edge) {
      json.array(std::initializer_list<std::uint64_t>{edge.first, edge.second},
                 [&](std::uint64_t node) { json.number(node); });
    });
  });
}

void write_replays(Json& json, const Replays& replays) {
  json.object([&] {
    json.key("count").number(replays.count);
    json.key("ordered").number(replays.ordered);
    json.key("host_us").object([&] {
      json.key("p50").number(replays.host_us_p50);
      json.key("p99").number(replays.host_us_p99);
      json.key("max").number(replays.host_us_max);
    });
  });
}

void write_capture(Json& json, const Capture& capture) {
  json.object([&] {
    json.key("id").number(capture.id);
    json.key("count").number(capture.count);
    json.key("site");
    write_site(json, capture.site);
    json.key("mode").string(capture.mode);
    json.key("status").string(status_name(capture.status));
    json.key("first_cause");
    write_first_cause(json, capture);
    json.key("nodes");
    write_nodes(json, capture.native, capture.captured);
    json.key("edges").number(capture.edges);
    json.key("width").number(capture.width);
    json.key("critical_path").number(capture.critical_path);
    json.key("linearized").boolean(capture.linearized);
    json.key("kernels");
    write_named_counts(json, capture.kernels, "name");
    json.key("arena");
    write_arena(json, capture.arena);
    for (const char* list : {"syncs", "rescued", "lost", "hazards"}) json.key(list).empty_array();
    if (capture.has_graph) {
      json.key("graph");
      write_graph(json, capture.graph);
    }
    json.key("execs").number(capture.execs);
    json.key("replays");
    write_replays(json, capture.replays);
  });
}

struct Totals {
  std::uint64_t captures = 0;
  NodeCounts native;
  NodeCounts captured;
  std::uint64_t mem_nodes_avoided = 0;
  std::uint64_t replays = 0;
};

std::uint64_t mem_nodes(const NodeCounts& counts) { return counts.mem_alloc + counts.mem_free; }

void add(NodeCounts& sum, const NodeCounts& counts, std::uint64_t times) {
  for (const NodeKind& kind : kNodeKinds) sum.*kind.count += counts.*kind.count * times;
}

Totals totals_of(const std::vector<Capture>& captures) {
  Totals totals;
  for (const Capture& capture : captures) {
    totals.captures += capture.count;
    add(totals.native, capture.native, capture.count);
    add(totals.captured, capture.captured, capture.count);
    totals.replays += capture.replays.count;
    const std::uint64_t native = mem_nodes(capture.native);
    const std::uint64_t captured = mem_nodes(capture.captured);
    if (native > captured) totals.mem_nodes_avoided += (native - captured) * capture.count;
  }
  return totals;
}

void write_totals(Json& json, const Totals& totals, const Report& report) {
  json.object([&] {
    json.key("captures").number(totals.captures);
    json.key("nodes");
    write_nodes(json, totals.native, totals.captured);
    json.key("mem_nodes_avoided").number(totals.mem_nodes_avoided);
    json.key("replays").number(totals.replays);
    json.key("arena_held_bytes").number(report.arena_held_bytes);
    json.key("arena_idle_bytes").number(report.arena_idle_bytes);
  });
}

void write_report(Json& json, const Report& report) {
  const auto write_string = [&](const std::string& text) { json.string(text); };
  json.object([&] {
    json.key("schema").string("hipgraft.report/1");
    json.key("process").object([&] {
      json.key("pid").number(report.pid);
      json.key("exe").string(report.exe);
      json.key("args").array(report.args, write_string);
    });
    json.key("runtime").object([&] {
      json.key("path").string(report.runtime_path);
      json.key("version").string(report.runtime_version);
      json.key("route").string(report.route);
      json.key("devices").array(report.devices, write_string);
    });
    json.key("options").object([&] {
      for (const auto& [variable, value] : report.options) json.key(variable).string(value);
    });
    json.key("captures").array(report.captures, [&](const Capture& capture) {
      write_capture(json, capture);
    });
    json.key("replay").object([] {});
    json.key("totals");
    write_totals(json, totals_of(report.captures), report);
  });
}

}  // namespace

std::string to_json(const Report& report) {
  rapidjson::StringBuffer buffer;
  Json json(buffer);
  write_report(json, report);
  std::string text(buffer.GetString(), buffer.GetSize());
  text += '\n';
  return text;
}

}  // namespace hipgraft::report
