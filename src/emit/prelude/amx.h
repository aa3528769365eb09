// Intel AMX tiles. Macros, since tile numbers are part of the instruction (any constant expression will do). Written as
// assembly because GCC 12's intrinsics say nothing about memory: stores to what they read were moved behind them.

//@ tile_config
/// For tile t: `rows[t]` rows of `row_bytes[t]` bytes. palette = 1, everything else zero.
struct alignas(64) tile_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
//@ amx_request
/// Asks the system for this process's tile registers; 0 when granted (again, perhaps).
INLINE long amx_request() {
  long result;
  __asm__ volatile("syscall"  // arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA)
                   : "=a"(result)
                   : "0"(158L), "D"(0x1023L), "S"(18L)
                   : "rcx", "r11", "memory");
  return result;
}
//@ tile_configure ! amx-tile
/// Zeroes all tiles and gives them their shapes, for the calling thread until its `tile_release`.
INLINE void tile_configure(const tile_config* config) { __asm__ volatile("ldtilecfg %0" : : "m"(*config) : "memory"); }
//@ tile_release ! amx-tile
INLINE void tile_release() { __asm__ volatile("tilerelease" : : : "memory"); }
//@ tile_zero ! amx-tile
#define tile_zero(t) __asm__ volatile("tilezero %%tmm%c0" : : "i"(t))
//@ tile_load ! amx-tile
/// Row r of tile t from base + r * stride bytes.
#define tile_load(t, base, stride) \
  __asm__ volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(t), "r"((const void*)(base)), "r"((int64_t)(stride)) : "memory")
//@ tile_stream_load ! amx-tile
/// As `tile_load`, of data that the first-level cache should not keep in place of others.
#define tile_stream_load(t, base, stride) \
  __asm__ volatile("tileloaddt1 (%1,%2,1), %%tmm%c0" : : "i"(t), "r"((const void*)(base)), "r"((int64_t)(stride)) : "memory")
//@ tile_store ! amx-tile
#define tile_store(t, base, stride) \
  __asm__ volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(t), "r"((void*)(base)), "r"((int64_t)(stride)) : "memory")
//@ tile_store_early ! amx-tile
/// Of sums that are not finished, for nobody: the first store of a tile register in some 600 ns takes 300 ns (Granite Rapids), and this one
/// comes in time, at no cost.
#define tile_store_early(t, base, stride) tile_store(t, base, stride)
//@ tile_multiply
#define tile_multiply(instruction, c, a, b) __asm__ volatile(instruction " %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b))
//@ tile_dpbf16 ! amx-bf16
/// c[m][n] += a[m][2 k] b[k][2 n] + a[m][2 k + 1] b[k][2 n + 1] for all k: bf16 pairs into f32; subnormals count as zero.
#define tile_dpbf16(c, a, b) tile_multiply("tdpbf16ps", c, a, b)
//@ tile_dpbssd ! amx-int8
/// c[m][n] += the sum of a[m][4 k + i] b[k][4 n + i] over i < 4 and all k: bytes into s32. Here a and b are signed.
#define tile_dpbssd(c, a, b) tile_multiply("tdpbssd", c, a, b)
//@ tile_dpbsud ! amx-int8
#define tile_dpbsud(c, a, b) tile_multiply("tdpbsud", c, a, b)
//@ tile_dpbusd ! amx-int8
#define tile_dpbusd(c, a, b) tile_multiply("tdpbusd", c, a, b)
//@ tile_dpbuud ! amx-int8
#define tile_dpbuud(c, a, b) tile_multiply("tdpbuud", c, a, b)
