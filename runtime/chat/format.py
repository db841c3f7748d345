"""The messages of a conversation: what the model is told, and how it calls the tool, in Qwen3.5's own format.

Roles and calls are written by the tokenizer's chat template. A call is `<tool_call>`, `<function=evaluate>`,
`<parameter=expression>`, the expression, and the closing tags; the response goes back as `<tool_response>`.
"""

import re

SYSTEM = "Answer questions about numbers with evaluate."
TOOL_NAME, PARAMETER = "evaluate", "expression"
TOOL = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": "Evaluates an expression on the GPU.",
        "parameters": {
            "type": "object",
            "properties": {PARAMETER: {"type": "string"}},
            "required": [PARAMETER],
        },
    },
}
END = "<|im_end|>"
_CALL = re.compile(
    rf"\s*<tool_call>\s*<function={TOOL_NAME}>\s*<parameter={PARAMETER}>\s*(.*?)\s*</parameter>\s*</function>\s*"
    r"</tool_call>\s*",
    re.DOTALL,
)

Message = dict[str, object]
"""As chat templates take it: role, content, tool_calls."""


def call_in(text: str) -> str | None:
    """The expression that a message of the model calls the tool with, None where it calls nothing."""
    match = _CALL.search(text)
    return None if match is None else match.group(1)


def call_message(expression: str) -> Message:
    """The model's message with that call."""
    call = {"function": {"name": TOOL_NAME, "arguments": {PARAMETER: expression}}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def response_message(text: str) -> Message:
    """The tool's response."""
    return {"role": "tool", "content": text}
