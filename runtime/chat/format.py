"""The messages of a conversation: what the model is told, and how it calls a tool, in Qwen3.5's own format.

Roles and calls are written by the tokenizer's chat template. A call is `<tool_call>`, `<function=NAME>`, for each
parameter `<parameter=NAME>`, its text and `</parameter>`, then the closing tags; the response goes back as
`<tool_response>`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

END = "<|im_end|>"
_CALL = re.compile(r"<tool_call>\s*<function=([^>]*)>(.*?)</function>\s*</tool_call>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>]*)>\n?(.*?)\n?</parameter>", re.DOTALL)

Message = dict[str, object]
"""As chat templates take it: role, content, tool_calls."""
Schema = Mapping[str, object]
"""A tool as chat templates take it: JSON schema of a function."""


@dataclass(frozen=True)
class ToolCall:
    """A tool by name, and the text of each argument."""

    name: str
    arguments: Mapping[str, str]


def tool_schema(name: str, description: str, parameters: tuple[str, ...]) -> Schema:
    """A tool whose parameters are all texts, and all needed."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {parameter: {"type": "string"} for parameter in parameters},
                "required": list(parameters),
            },
        },
    }


def call_in(text: str) -> ToolCall | None:
    """The first call in a message of the model, None where it calls nothing."""
    match = _CALL.search(text)
    if match is None:
        return None
    return ToolCall(match.group(1).strip(), dict(_PARAMETER.findall(match.group(2))))


def call_message(call: ToolCall) -> Message:
    """The model's message with a call."""
    function = {"name": call.name, "arguments": dict(call.arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"function": function}]}


def response_message(text: str) -> Message:
    """The tool's response."""
    return {"role": "tool", "content": text}
