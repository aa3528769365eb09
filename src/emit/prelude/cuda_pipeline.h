// Products of four warps straight from shared memory (wgmma), and the pipeline that feeds them on compute capability 9.0: barriers that
// count arrivals and bytes (mbarrier), copies that one thread asks for (cp.async.bulk), also for all blocks of a cluster.

//@ barrier_init
#if defined(__CUDACC__)
/// 8 bytes of shared memory become a barrier; each of its phases completes with so many arrivals, and the bytes that these expect.
INLINE void barrier_init(void* b, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(arrivals) : "memory");
}
#endif
//@ barriers_ready
#if defined(__CUDACC__)
/// The barriers that this thread has made are there for bulk copies and for the other blocks of the cluster, once these have met.
INLINE void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
#endif
//@ barrier_arrive
#if defined(__CUDACC__)
/// What this thread has done so far is there for those who wait for the phase.
INLINE void barrier_arrive(void* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory"); }
#endif
//@ barrier_arrive_at
#if defined(__CUDACC__)
/// Arrives at the barrier in the same place of another block of the cluster, or this one. What this thread has written need not be seen
/// there: to release it at the cluster's scope would cost a fence of the whole device.
INLINE void barrier_arrive_at(void* b, int block) {
  vu there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(b)), "r"(block));
  asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}
#endif
//@ barrier_expect
#if defined(__CUDACC__)
/// Arrives, and makes the phase wait for so many bytes of bulk copies.
INLINE void barrier_expect(void* b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes) : "memory");
}
#endif
//@ barrier_wait
#if defined(__CUDACC__)
/// Until the phase of this parity is complete. Phases are counted from 0; of a new barrier the one before counts as complete.
INLINE void barrier_wait(void* b, int parity) {
  asm volatile(
      "{\n  .reg .pred done;\nwaiting:\n  mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n  @!done bra waiting;\n}" ::"r"(
          shared_address(b)),
      "r"(parity)
      : "memory");
}
#endif
//@ barrier_release
/// A warp arrives, once it is through, at this barrier of each of the cluster's blocks.
template <int blocks>
INLINE void barrier_release(void* b) {
  __syncwarp();
  if (lane() < blocks) blocks == 1 ? barrier_arrive(b) : barrier_arrive_at(b, lane());
}
//@ bulk_copy
#if defined(__CUDACC__)
/// Asynchronously into shared memory; the barrier is told of the bytes. All multiples of 16.
INLINE void bulk_copy(void* to, const void* from, int bytes, void* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(b))
               : "memory");
}
#endif
//@ bulk_copy_all
#if defined(__CUDACC__)
/// The same into the same place of all `blocks` of the cluster; each one's barrier is told.
template <int blocks>
INLINE void bulk_copy_all(void* to, const void* from, int bytes, void* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(b)), "h"((uint16_t)((1 << blocks) - 1))
               : "memory");
}
#endif
//@ tensor_map
#if defined(__CUDACC__)
/// How the copy unit sees a tensor (cuTensorMapEncodeTiled).
struct alignas(64) tensor_map {
  uint64_t opaque[16];
};
#endif
//@ tensor_copy_2d
#if defined(__CUDACC__)
/// The box that begins at these coordinates, asynchronously into shared memory, in rows of 128 bytes with the swizzle of 128; zeros where
/// the tensor has nothing. The barrier is told of the bytes.
INLINE void tensor_copy_2d(void* to, const void* map, int x, int y, void* b) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                   shared_address(to)),
               "l"(map), "r"(x), "r"(y), "r"(shared_address(b))
               : "memory");
}
#endif
//@ tensor_copy_3d
#if defined(__CUDACC__)
/// As tensor_copy_2d.
INLINE void tensor_copy_3d(void* to, const void* map, int x, int y, int z, void* b) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
                   shared_address(to)),
               "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(b))
               : "memory");
}
#endif
//@ tensor_copy_4d
#if defined(__CUDACC__)
/// As tensor_copy_2d.
INLINE void tensor_copy_4d(void* to, const void* map, int x, int y, int z, int w, void* b) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(
                   shared_address(to)),
               "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(shared_address(b))
               : "memory");
}
#endif
//@ pixel_copy
#if defined(__CUDACC__)
/// As tensor_copy_2d, of neighbouring channels of the pixels that the map's box has from this one on, each moved by the place in the
/// window.
INLINE void pixel_copy(void* to, const void* map, int channel, int x, int y, int image, int right, int down, void* b) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::
          "r"(shared_address(to)),
      "l"(map), "r"(channel), "r"(x), "r"(y), "r"(image), "r"(shared_address(b)), "h"((uint16_t)right), "h"((uint16_t)down)
      : "memory");
}
#endif
//@ cluster_sync
#if defined(__CUDACC__)
/// All threads of the cluster's blocks meet, wherever they are in the program.
INLINE void cluster_sync() { asm volatile("barrier.cluster.arrive.release;\n  barrier.cluster.wait.acquire;" ::: "memory"); }
#endif
//@ smem_get_at
#if defined(__CUDACC__)
/// 16 bytes in the same place of another block of the cluster, or this one.
INLINE uint4 smem_get_at(const void* p, int block) {
  vu there;
  uint4 v;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(p)), "r"(block));
  asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(there));
  return v;
}
#endif
//@ fragment_give
/// 16 × 32 sums into shared memory, in the order of the registers: a warp writes 512 neighbouring bytes at a time.
template <class V>
INLINE void fragment_give(const V* c, V* p) {
  struct alignas(16) quad {
    V x, y, z, w;
  };
#pragma unroll
  for (int i = 0; i < 4; ++i) smem_put((quad*)p + i * 32 + lane(), quad{c[4 * i], c[4 * i + 1], c[4 * i + 2], c[4 * i + 3]});
}
//@ fragment_take
/// += what another block of the cluster has given.
template <class V>
INLINE void fragment_take(V* c, const V* p, int block) {
  uint4 v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = smem_get_at((const uint4*)p + i * 32 + lane(), block);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    c[4 * i] += *(V*)&v[i].x, c[4 * i + 1] += *(V*)&v[i].y, c[4 * i + 2] += *(V*)&v[i].z, c[4 * i + 3] += *(V*)&v[i].w;
}

//@ registers_lower
#if defined(__CUDACC__)
/// From here on a thread of these four warps has n registers: fewer, which others may take.
template <int n>
INLINE void registers_lower() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}
#endif
//@ registers_raise
#if defined(__CUDACC__)
/// More, once they are there.
template <int n>
INLINE void registers_raise() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
}
#endif

//@ stage_descriptor
/// A factor staged from p on, `rows` of it in the stage: core matrices of 8 rows of 16 bytes along k, those of neighbouring rows 128 bytes
/// apart, those of the next 16 bytes of k behind all rows (PTX ISA, "Matrix Descriptor": no swizzle, leading dimension 16 · rows, stride
/// 128).
INLINE uint64_t stage_descriptor(const void* p, int rows) {
#if defined(__CUDACC__)
  const vu at = shared_address(p);
#else
  const vu at = (vu)((const unsigned char*)p - shared_base());
#endif
  return (uint64_t)((at & 0x3ffff) >> 4 | (vu)rows << 16) | 8ull << 32;
}
//@ box_descriptor
/// A factor that boxes have brought, from p on: rows of 128 bytes, eight of which share a swizzle (PTX ISA, "Matrix Descriptor": swizzle of
/// 128 bytes, stride 1024).
INLINE uint64_t box_descriptor(const void* p) {
#if defined(__CUDACC__)
  const vu at = shared_address(p);
#else
  const vu at = (vu)((const unsigned char*)p - shared_base());
#endif
  return (uint64_t)((at & 0x3ffff) >> 4 | 1 << 16) | 64ull << 32 | 1ull << 62;
}
//@ wgmma_f16
#if defined(__CUDACC__)
/// 64 × n sums += a · b, 16 of k, by four warps, without waiting for it.
template <int n>
__device__ void wgmma_f16(vf* c, uint64_t a, uint64_t b);
#endif
//@ wgmma_bf16
#if defined(__CUDACC__)
/// 64 × n sums += a · b, 16 of k, by four warps, without waiting for it.
template <int n>
__device__ void wgmma_bf16(vf* c, uint64_t a, uint64_t b);
#endif
//@ wgmma_tf32
#if defined(__CUDACC__)
/// 64 × n sums += a · b, 8 of k, by four warps, without waiting for it. Of each factor the last 13 bits are ignored.
template <int n>
__device__ void wgmma_tf32(vf* c, uint64_t a, uint64_t b);
#endif
//@ wgmma_s8
#if defined(__CUDACC__)
/// 64 × n sums += a · b, 32 of k, by four warps, without waiting for it.
template <int n>
__device__ void wgmma_s8(vi* c, uint64_t a, uint64_t b);
#endif
//@ wgmma_fence
#if defined(__CUDACC__)
/// What was written to the sums comes before the products that follow.
INLINE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
#endif
//@ wgmma_commit
#if defined(__CUDACC__)
INLINE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#endif
//@ wgmma_wait
#if defined(__CUDACC__)
/// Until all groups of products but the newest n are done.
template <int n>
INLINE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory");
}
#endif
//@ proxy_fence
#if defined(__CUDACC__)
/// What this thread has copied to shared memory is there for wgmma, once it has passed a barrier.
INLINE void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#endif
//@ fragment_settle
/// No use of these sums moves before this.
template <class V>
INLINE void fragment_settle(V* c) {
#if defined(__CUDACC__)
#pragma unroll
  for (int i = 0; i < 16; ++i) asm volatile("" : "+r"(*(vu*)&c[i])::"memory");
#endif
}
