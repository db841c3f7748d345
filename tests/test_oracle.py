"""Every test kernel compiled as C++ for the host, against numpy; and that the host's threads are what CUDA says."""

from pathlib import Path

import pytest

from tests.kernels.case import KernelCase, array, launch_case, line, zeros
from tests.kernels.cases import CASES
from tests.oracle.driver import (
    Arrays,
    HostKernel,
    HostProgram,
    OracleError,
    OracleFault,
    build,
    cxx_compiler,
    run_oracle,
)
from toolchain.launch import Argument
from toolchain.machine_spec import CLASSIC, NANO

pytestmark = pytest.mark.skipif(cxx_compiler() is None, reason="needs a C++ compiler")

MACHINES = (NANO, CLASSIC)


@pytest.fixture(scope="module", params=(False, True), ids=("plain", "undefined"))
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HostProgram:
    """Every test kernel, once plain and once with C++'s undefined behaviour as a fault."""
    kernels = tuple(dict.fromkeys(HostKernel(case.source, case.entry) for case in CASES))
    return build(kernels, tmp_path_factory.mktemp("oracle"), sanitize=request.param)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kernel(case: KernelCase, program: HostProgram) -> None:
    kernel = HostKernel(case.source, case.entry)
    for spec in filter(case.fits, MACHINES):
        launches = case.launches(spec)
        results = program.run([(kernel, launch.launch) for launch in launches], spec.lanes)
        for number, (launch, arrays) in enumerate(zip(launches, results, strict=True)):
            assert arrays == launch.expected(), f"input set {number}, {spec.name}"


# What the host's threads do, on kernels whose results follow from the CUDA C++ Programming Guide.


def run(
    folder: Path, text: str, threads: int, *arguments: Argument, lanes: int = 4, blocks: int = 1
) -> Arrays:
    """The arrays after a launch of the kernel `k` with this text and a word of dynamic shared memory."""
    source = folder / "k.cu"
    source.write_text(text)
    launch = launch_case(line(blocks), line(threads), arguments, dynamic_shared=4).launch
    return run_oracle(source, "k", launch, lanes)


def test_threads_meet_at_barriers(tmp_path: Path) -> None:
    """Each thread reads what its neighbour wrote before the barrier, and the barrier counts."""
    text = """
        __global__ void k(int *out, int *votes) {
            __shared__ int tile[6];
            int i = threadIdx.x;
            tile[i] = 10 * i;
            __syncthreads();
            out[i] = tile[(i + 1) % 6];
            votes[i] = __syncthreads_count(i % 3) + 10 * __syncthreads_and(i >= 0) + 100 * __syncthreads_or(i > 5);
        }"""
    arrays = run(tmp_path, text, 6, zeros("out", 6), zeros("votes", 6))
    assert arrays == {"out": [10, 20, 30, 40, 50, 0], "votes": [4 + 10] * 6}


@pytest.mark.parametrize("lanes", (2, 4, 32))
def test_warp_operations(lanes: int, tmp_path: Path) -> None:
    text = """
        __global__ void k(int *out) {
            int i = threadIdx.x, all = 0xffffffff;
            out[i] = __shfl_down_sync(all, i, 1, 2);
            out[32 + i] = __shfl_xor_sync(all, i, 1);
            out[64 + i] = __ballot_sync(all, i % 2);
            out[96 + i] = __match_any_sync(all, i % 2);
        }"""
    out = run(tmp_path, text, 32, zeros("out", 128), lanes=lanes)["out"]
    odd = sum(1 << lane for lane in range(1, lanes, 2))
    as_signed = [mask - (mask >> 31 << 32) for mask in (odd, odd >> 1)]
    assert out[:32] == [i | 1 for i in range(32)]
    assert out[32:64] == [i ^ 1 for i in range(32)]
    assert out[64:96] == [as_signed[0]] * 32
    assert out[96:] == [as_signed[1], as_signed[0]] * 16


def test_a_vote_of_some_lanes(tmp_path: Path) -> None:
    """A mask names the lanes that vote; the others go on. Lanes that come to one call together are active there."""
    text = """
        __global__ void k(int *out) {
            int i = threadIdx.x;
            if (i < 3) out[i] = __ballot_sync(7, i != 1) + 16 * __activemask();
            else out[i] = __activemask();
        }"""
    assert run(tmp_path, text, 4, zeros("out", 4))["out"] == [5 + 16 * 7] * 3 + [8]


def test_atomics_and_a_lock(tmp_path: Path) -> None:
    """The lowest lane is first; a thread that spins lets the holder of the lock go on."""
    text = """
        __device__ int lock;
        __global__ void k(int *out, int *order) {
            order[atomicAdd(out, 1)] = threadIdx.x;
            while (atomicCAS(&lock, 0, 1) != 0) {}
            out[1] = 3 * out[1] + 1;
            atomicExch(&lock, 0);
        }"""
    arrays = run(tmp_path, text, 4, zeros("out", 2), zeros("order", 4))
    assert arrays == {"out": [4, 1 + 3 + 9 + 27], "order": [0, 1, 2, 3]}


def test_shared_memory_is_forgotten_between_blocks(tmp_path: Path) -> None:
    text = """
        __global__ void k(int *out) {
            extern __shared__ int dynamic[];
            __shared__ int fixed;
            out[blockIdx.x] = (fixed == 7) + (dynamic[0] == 8);
            fixed = 7;
            dynamic[0] = 8;
        }"""
    assert run(tmp_path, text, 1, zeros("out", 2), blocks=2)["out"] == [0, 0]


FAULTS = {
    "if (i == 0) __syncthreads(); else __syncwarp();": "deadlock.*thread 0 waits in __syncthreads",
    "if (i == 0) __syncthreads(); else __ballot_sync(15, 1);": "thread 1 waits in __ballot_sync of lanes 0xf",
    "out[2] = 1;": "a store outside array 0",
    "extern __shared__ int words[]; words[i] = i;": "a store past the dynamic shared memory",
    "out[i] = 7 / out[i];": "division by zero",
    "while (true) atomicAdd(out, 1);": "did not end",
    "*(volatile int *)4 = 1;": "crashed",
    "__shfl_sync(15, i, 0, 3);": "the width 3",
    "__ballot_sync(2, 1);": "a mask 0x2 that leaves it out",
}


@pytest.mark.parametrize("statement", FAULTS)
def test_faults_are_reported(statement: str, tmp_path: Path) -> None:
    text = f"__global__ void k(int *out) {{ int i = threadIdx.x; {statement} }}"
    with pytest.raises(OracleFault, match=FAULTS[statement]):
        run(tmp_path, text, 2, zeros("out", 2))


def test_undefined_behaviour_is_a_fault(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("__global__ void k(int *out) { out[0] = 1 << out[0]; }")
    launch = launch_case(line(1), line(1), (array("out", [32]),)).launch
    with pytest.raises(OracleFault, match="shift exponent 32"):
        run_oracle(source, "k", launch, 4, sanitize=True)


def test_a_kernel_that_is_no_cpp(tmp_path: Path) -> None:
    with pytest.raises(OracleError, match=r"k\.cu:1:.*nonsense"):
        run(tmp_path, "__global__ void k(int *out) { nonsense; }", 1, zeros("out", 1))
