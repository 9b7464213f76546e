// Prints the sample reports as JSON, one a line, for the test against the schema.
#include <cstdio>

#include "report/json.h"
#include "sample_reports.h"

int main() {
  for (const samples::Report& report :
       {samples::without_captures(), samples::full(), samples::hostile(), samples::abandoned()}) {
    std::fputs(hipgraft::report::to_json(report).c_str(), stdout);
  }
}
