// Makes the simulator step, built with its main renamed to step_main, a library.
int step_main(int argc, char** argv);

extern "C" __attribute__((visibility("default"))) int run_plugin(int argc, char** argv) {
  return step_main(argc, argv);
}
