// A library whose constructor runs the whole simulator step: before the program's main, and before
// the constructors of a preloaded library.
extern "C" int run_plugin(int argc, char** argv);

namespace {

int result = -1;

__attribute__((constructor)) void run_early(int argc, char** argv, char**) {
  result = run_plugin(argc, argv);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int early_result() { return result; }
