"""The float32 nearest to exact numbers, for values that are equal only at single precision."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from datarecs_kernel.whole_units import Integers, doubles_of

_BEYOND = 2.0**128
"""The value of the float32 after the largest one, if it existed."""


def nearest_float32(numbers: Integers, scale: int) -> NDArray[np.float32]:
    """The float32 nearest to units of 10^-scale, ties to even; infinite above the largest.

    Rounding through a double rounds twice, which is wrong only if the double is midway between two
    float32: there the exact number decides.
    """
    doubles = doubles_of(numbers, scale)
    with np.errstate(over="ignore"):
        single = doubles.astype(np.float32)
    near = np.where(np.isfinite(single), single, np.copysign(_BEYOND, doubles)).astype(np.float64)
    inward = np.nextafter(single, np.float32(0)).astype(np.float64)
    outward = np.nextafter(single, np.copysign(np.float32(np.inf), single))
    after = np.where(np.isfinite(outward), outward, np.copysign(_BEYOND, doubles))
    is_out, is_in = (near + after) / 2 == doubles, (near + inward) / 2 == doubles
    for at in np.flatnonzero((is_out | is_in) & (doubles != 0)).tolist():
        exact, middle = abs(Fraction(int(numbers[at]), 10**scale)), abs(Fraction(doubles[at]))
        if exact > middle and is_out[at]:
            single[at] = outward[at]
        if exact < middle and is_in[at]:
            single[at] = inward[at]
    return single
