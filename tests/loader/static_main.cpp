// Everything has happened in the constructor of a library that this program is linked with.
extern "C" int early_result();

int main() { return early_result(); }
