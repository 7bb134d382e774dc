"""A small ``cooperative_groups.h`` of our own: what kernels use most, without the toolkit's thousands of lines.

Grid-wide synchronisation becomes an instruction that the interpreter names as not modelled.
"""

from __future__ import annotations

HEADERS = frozenset(f"cooperative_groups{part}.h" for part in ("", "/reduce", "/scan", "/memcpy_async"))
"""Headers it stands in for; a unit that needs more of them is compiled again with the toolkit's."""

TEXT = r"""
#ifndef PRELAUNCH_GROUPS
#define PRELAUNCH_GROUPS
namespace cooperative_groups {
__device__ inline unsigned prelaunch_rank() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
struct thread_block {
  __device__ void sync() const { __syncthreads(); }
  __device__ unsigned thread_rank() const { return prelaunch_rank(); }
  __device__ unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
  __device__ unsigned num_threads() const { return size(); }
  __device__ dim3 group_index() const { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  __device__ dim3 thread_index() const { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  __device__ dim3 group_dim() const { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  __device__ dim3 dim_threads() const { return group_dim(); }
};
__device__ inline thread_block this_thread_block() { return thread_block(); }
struct grid_group {
  __device__ void sync() const { asm volatile("prelaunch.grid.sync;"); }
  __device__ bool is_valid() const { return true; }
  __device__ unsigned long long block_rank() const {
    return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
  }
  __device__ unsigned long long num_blocks() const { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
  __device__ unsigned long long thread_rank() const {
    return block_rank() * (blockDim.x * blockDim.y * blockDim.z) + prelaunch_rank();
  }
  __device__ unsigned long long size() const { return num_blocks() * (blockDim.x * blockDim.y * blockDim.z); }
  __device__ unsigned long long num_threads() const { return size(); }
  __device__ dim3 dim_blocks() const { return dim3(gridDim.x, gridDim.y, gridDim.z); }
  __device__ dim3 block_index() const { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
};
__device__ inline grid_group this_grid() { return grid_group(); }
template <unsigned int N, class Parent = void> struct thread_block_tile {
  __device__ thread_block_tile() {}
  template <class Q> __device__ thread_block_tile(const thread_block_tile<N, Q>&) {}
  __device__ static unsigned prelaunch_mask() {
    return N >= 32 ? 0xffffffffu : ((1u << (N & 31)) - 1u) << ((prelaunch_rank() & 31u) / N * N);
  }
  __device__ void sync() const { __syncwarp(prelaunch_mask()); }
  __device__ unsigned thread_rank() const { return prelaunch_rank() % N; }
  __device__ static constexpr unsigned size() { return N; }
  __device__ static constexpr unsigned num_threads() { return N; }
  __device__ unsigned meta_group_rank() const { return prelaunch_rank() / N; }
  __device__ unsigned meta_group_size() const { return (blockDim.x * blockDim.y * blockDim.z + N - 1) / N; }
  template <class T> __device__ T shfl(T v, int lane) const { return __shfl_sync(prelaunch_mask(), v, lane, N); }
  template <class T> __device__ T shfl_down(T v, unsigned d) const {
    return __shfl_down_sync(prelaunch_mask(), v, d, N);
  }
  template <class T> __device__ T shfl_up(T v, unsigned d) const { return __shfl_up_sync(prelaunch_mask(), v, d, N); }
  template <class T> __device__ T shfl_xor(T v, unsigned m) const { return __shfl_xor_sync(prelaunch_mask(), v, m, N); }
  __device__ int any(int p) const { return __any_sync(prelaunch_mask(), p); }
  __device__ int all(int p) const { return __all_sync(prelaunch_mask(), p); }
  __device__ unsigned ballot(int p) const {
    return (__ballot_sync(prelaunch_mask(), p) & prelaunch_mask()) >> ((prelaunch_rank() & 31u) / N * N & 31u);
  }
};
template <unsigned int N, class G> __device__ inline thread_block_tile<N, G> tiled_partition(const G&) {
  return thread_block_tile<N, G>();
}
template <class G> __device__ inline void sync(const G& group) { group.sync(); }
template <class T> struct plus { __device__ T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { __device__ T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { __device__ T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct bit_and { __device__ T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { __device__ T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { __device__ T operator()(T a, T b) const { return a ^ b; } };
template <unsigned int N, class P, class T, class Op>
__device__ inline T reduce(const thread_block_tile<N, P>& tile, T v, Op op) {
  for (unsigned d = N / 2; d; d >>= 1) v = op(v, tile.shfl_xor(v, d));
  return v;
}
}
#endif
"""
