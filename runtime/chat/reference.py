"""Expressions by numpy, in 32-bit words: what the machine is held against. Shapes are taken to fit."""

import numpy as np

from runtime.chat.expression import Binary, Count, Expression, Literal


def reference_value(item: Expression) -> np.ndarray:
    """The value, of dtype int32. Raises ValueError where shapes do not fit."""
    with np.errstate(over="ignore"):
        return np.asarray(_value(item)).astype(np.int32)


def _value(item: Expression) -> np.ndarray:
    if isinstance(item, Literal):
        return np.array(item.numbers, dtype=np.int32).reshape(item.shape)
    if isinstance(item, Binary):
        left, right = _value(item.left), _value(item.right)
        match item.name:
            case "add":
                return left + right
            case "subtract":
                return left - right
            case "multiply":
                return left * right
        return np.matmul(left, right, dtype=np.int32)
    if isinstance(item, Count):
        left, right = _value(item.left), _value(item.right)
        found = {"equal": left == right, "above": left > right, "below": left < right}[item.relation]
        return found.sum(dtype=np.int32)
    operand = _value(item.operand)
    match item.name:
        case "sum":
            return operand.sum(dtype=np.int32)
        case "min":
            return operand.min()
        case "max":
            return operand.max()
        case "sort":
            return np.sort(operand)
    return np.cumsum(operand, dtype=np.int32)
