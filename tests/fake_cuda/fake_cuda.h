// What tests ask of the fake driver, beside the driver's own functions. Found by dlsym: the fake is a shared object, opened as the real one
// is.
//
// Environment: FAKE_CUDA_DEVICES (1), FAKE_CUDA_CC (8.0), FAKE_CUDA_MEMORY (bytes; 1 GiB), FAKE_CUDA_FAIL (CALL:RESULT[:NTH], the result
// that the nth such call from now on gives), FAKE_CUDA_REPORT (a file: the counts when the process ends, one a line).
#pragma once

extern "C" {
/// Forgets the calls that were recorded and the failure that was asked for; what is alive stays.
void fake_cuda_reset(void);
/// The next `nth` call of this name returns `result`; "" for none.
void fake_cuda_fail(const char* call, int result, int nth);
/// All calls since the last reset, one a line, with what matters of their arguments. Valid until the next call.
const char* fake_cuda_calls(void);
/// Alive: "allocations", "bytes", "modules", "streams", "events", "primaries" (counts of all primary contexts); ever: "misuses" (calls with
/// what was destroyed or never existed), "launches".
long fake_cuda_count(const char* what);
/// A context of the caller's own, current on this thread; and its end.
void* fake_cuda_new_context(int device);
void fake_cuda_destroy_context(void* context);
}
