/* The C interface, in the common subset of C and C++: a matrix product from JSON. */
#include <stdio.h>
#include <stdlib.h>

#include "rgen/rgen.h"

enum { SIZE = 48 };

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, rgen_last_error());
  return 1;
}

/* 64-byte aligned, at least one line. */
static void* aligned(int64_t bytes) { return aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64); }

int main(void) {
  static const char spec[] =
      "{\"name\": \"mm\", \"op\": \"matmul\", \"dtype\": \"f32\", \"params\": {\"m\": 48, \"n\": 48, \"k\": 48}, \"epilogue\": []}";
  static float a[SIZE * SIZE], b[SIZE * SIZE], c[SIZE * SIZE];
  rgen_program* program = NULL;
  rgen_profile* profile = NULL;
  rgen_kernel* kernel = NULL;
  int wrong = 0;

  if (rgen_program_parse(spec, NULL, &program) != RGEN_OK) return failed("spec");
  if (rgen_profile_load("host", NULL, &profile) != RGEN_OK) return failed("profile");
  if (rgen_compile(program, profile, NULL, &kernel) != RGEN_OK) return failed("compile");
  rgen_program_free(program); /* the kernel needs neither */
  rgen_profile_free(profile);

  for (int i = 0; i < SIZE * SIZE; ++i) {
    a[i] = (float)(i % 3);
    b[i] = i % (SIZE + 1) == 0 ? 2.0f : 0.0f; /* twice the identity */
  }
  const int64_t packed_bytes = rgen_kernel_prepack_bytes(kernel, 1);
  void *packed = aligned(packed_bytes), *workspace = aligned(rgen_kernel_workspace_bytes(kernel));
  if (packed_bytes > 0 && rgen_kernel_prepack(kernel, 1, b, packed) != RGEN_OK) return failed("prepack");
  void* const args[] = {a, packed_bytes > 0 ? packed : (void*)b, c};
  if (rgen_kernel_call(kernel, args, NULL, workspace, NULL) != RGEN_OK) return failed("call");

  for (int i = 0; i < SIZE * SIZE; ++i) wrong += c[i] != 2 * a[i];
  printf("%d of %d elements are wrong\n", wrong, SIZE * SIZE);
  free(packed);
  free(workspace);
  rgen_kernel_free(kernel);
  return wrong != 0;
}
