// A C++ builder for the programs that the JSON forms describe.
//
//   Builder b("mm_relu");
//   auto A = b.input("A", {128, 64}), B = b.input("B", {64, 32}, DType::f32, {.constant = true});
//   Ax m = b.axis("m", 128), n = b.axis("n", 32), k = b.axis("k", 64);
//   auto C = b.stage("C", {m, n}, sum({k}, A(m, k) * B(k, n)));
//   auto D = b.stage("D", {m, n}, max(C(m, n), 0));
//   ir::TensorProgram p = b.build({D});                    // verified
#pragma once
