"""Runs every launch of every test kernel on the first GPU and writes RESULTS.json: `python -m tests.hardware.run`."""

import subprocess
import sys

from tests.hardware.cuda_device import CudaDevice, CudaError
from tests.hardware.results import FILE, differences, run_all, write_results
from toolchain.machine_spec import CLASSIC


def main() -> int:
    """Writes the results and says what differs from what the tests expect: 1 if anything does, 2 without a GPU."""
    try:
        device = CudaDevice(CLASSIC.lanes)
        answer = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True)
    except (CudaError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    release = next(line for line in answer.stdout.splitlines() if "release" in line)
    results = run_all(device, release.strip(), CLASSIC)
    write_results(results)
    wrong = differences(results, CLASSIC)
    print(
        "\n".join([*wrong, f"{len(results.results)} launches on {device.name}, {len(wrong)} wrong: {FILE}"])
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
