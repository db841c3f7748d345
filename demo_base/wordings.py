"""How people ask: for each operation, the frames a model is trained on and those it is only examined with.

In a frame, `{a}` and `{b}` stand for the operands and `{k}` for a plain number. The held-out frames are other
sentences than the trained ones, made of mostly the same words: a model this small has read nothing else.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """What may be asked. `expression`: the tool's argument; `phrase`: the answer around the result `{r}`."""

    name: str
    operands: str
    """The kinds of `a` and `b`: v a vector, m a matrix; `vv` and `mm` have the same or matching shapes."""
    expression: str
    phrase: str
    trained: tuple[str, ...]
    held_out: tuple[str, ...]

    def frames(self, held_out: bool) -> tuple[str, ...]:
        """The frames of one side."""
        return self.held_out if held_out else self.trained


OPENERS = (
    *("", "", "", "", "Please ", "Hi! ", "Hello, ", "Quick question: ", "My homework: ", "Help me: "),
    *(
        "I am stuck. ",
        "Now ",
        "Next, ",
        "So, ",
        "Good morning. ",
        "For my project: ",
        "One more: ",
        "Question 2. ",
    ),
    *("Can I ask? ", "Please help: ", "Hello, please ", "If you can, please ", "Hi! Can I ask? "),
)
"""What may stand before a trained frame; after a comma or a word the frame goes on in lower case."""
CLOSERS = ("", "", "", "", " Thanks!", " Please.", " Thank you.", " I need it now.", " Be exact.")
"""What may stand behind a trained frame."""
HELD_OUT_OPENERS = ("", "", "Hi, ", "Hello! ", "Question: ", "Please help me. ", "Now, please ")
HELD_OUT_CLOSERS = ("", "", " Thank you!", " Thanks.", " I need it for my homework.")


def sentence(opener: str, frame: str, closer: str) -> str:
    """The three as one text."""
    goes_on = opener.rstrip()[-1:].isalpha() or opener.rstrip()[-1:] == ","
    return opener + (frame[0].lower() + frame[1:] if goes_on else frame) + closer


DOT = Operation(
    name="dot",
    operands="vv",
    expression="{a} @ {b}",
    phrase="The dot product is {r}.",
    trained=(
        "What is the dot product of {a} and {b}?",
        "Compute the dot product of {a} and {b}.",
        "Find the dot product of {a} with {b}.",
        "Dot product of {a} and {b}?",
        "Give me the inner product of {a} and {b}.",
        "What is the inner product of {a} with {b}?",
        "Take the dot product of the vectors {a} and {b}.",
        "Calculate {a} dot {b}.",
        "What is {a} dot {b}?",
        "What do you get for the dot product of {a} and {b}?",
        "Tell me the scalar product of {a} and {b}.",
        "I have two vectors, {a} and {b}. What is their dot product?",
        "For {a} and {b}, what is the inner product?",
        "Given {a} and {b}, find the dot product.",
        "Vectors {a} and {b}: what is the scalar product?",
    ),
    held_out=(
        "Can you compute the inner product of {a} and {b}?",
        "What is the scalar product of the vectors {a} and {b}?",
        "Given the vectors {a} and {b}, give me their dot product.",
        "I need the dot product of {a} and {b}.",
        "Dot {a} with {b}.",
    ),
)
ADD = Operation(
    name="add",
    operands="vv",
    expression="{a} + {b}",
    phrase="The sum of the two is {r}.",
    trained=(
        "What is {a} plus {b}?",
        "Add {a} and {b}.",
        "Add {a} to {b}.",
        "Compute {a} + {b}.",
        "What is {a} + {b}?",
        "Calculate {a} plus {b}.",
        "Add the vectors {a} and {b}.",
        "Find the vector sum of {a} and {b}.",
        "What do you get when you add {a} and {b}?",
        "Give me {a} + {b}.",
        "I have {a} and {b}. Add them.",
        "Given {a} and {b}, add them element by element.",
        "What is the elementwise sum of {a} and {b}?",
        "Tell me what {a} plus {b} is.",
    ),
    held_out=(
        "Can you add {a} and {b}?",
        "Please add the two vectors {a} and {b}.",
        "Give me the elementwise sum of {a} and {b}.",
        "Find {a} plus {b}.",
        "What do I get when I add {a} to {b}?",
    ),
)
SUBTRACT = Operation(
    name="subtract",
    operands="vv",
    expression="{a} - {b}",
    phrase="The difference is {r}.",
    trained=(
        "What is {a} minus {b}?",
        "Subtract {b} from {a}.",
        "Compute {a} - {b}.",
        "What is {a} - {b}?",
        "Calculate {a} minus {b}.",
        "Find the difference of {a} and {b}.",
        "What is the difference of {a} and {b}?",
        "Take {b} away from {a}.",
        "What do you get when you subtract {b} from {a}?",
        "Give me {a} - {b}.",
        "Given {a} and {b}, find the difference.",
        "Subtract the vector {b} from the vector {a}.",
        "Tell me what {a} minus {b} is.",
        "What is left of {a} when you take away {b}?",
    ),
    held_out=(
        "Can you subtract {b} from {a}?",
        "Give me the difference of {a} and {b}.",
        "Find {a} minus {b}.",
        "Please take the vector {b} away from {a}.",
        "I have {a} and {b}. What is their difference?",
    ),
)
MULTIPLY = Operation(
    name="multiply",
    operands="vv",
    expression="{a} * {b}",
    phrase="The elementwise product is {r}.",
    trained=(
        "Multiply {a} and {b} element by element.",
        "Multiply {a} by {b} elementwise.",
        "What is the elementwise product of {a} and {b}?",
        "Compute the elementwise product of {a} and {b}.",
        "Compute {a} * {b}.",
        "What is {a} * {b}?",
        "Calculate {a} times {b}, element by element.",
        "Find the elementwise product of {a} with {b}.",
        "Give me {a} * {b}.",
        "Given {a} and {b}, multiply them element by element.",
        "I have {a} and {b}. Multiply them elementwise.",
        "What do you get when you multiply {a} and {b} elementwise?",
        "Tell me the elementwise product of {a} and {b}.",
    ),
    held_out=(
        "Can you multiply {a} by {b} element by element?",
        "I need the elementwise product of {a} and {b}.",
        "Give me {a} times {b} elementwise.",
        "Given the vectors {a} and {b}, what is their elementwise product?",
        "Find {a} * {b}.",
    ),
)
SCALE = Operation(
    name="scale",
    operands="v",
    expression="{k} * {a}",
    phrase="The scaled vector is {r}.",
    trained=(
        "Multiply {a} by {k}.",
        "What is {k} times {a}?",
        "Scale {a} by {k}.",
        "Scale the vector {a} by {k}.",
        "What is {a} times {k}?",
        "Compute {k} times the vector {a}.",
        "Multiply every element of {a} by {k}.",
        "Calculate {k} times {a}.",
        "Give me {a} scaled by {k}.",
        "What do you get when you scale {a} by {k}?",
        "Take {a} and multiply it by {k}.",
        "Given {a}, scale it by {k}.",
        "Tell me {k} times {a}.",
    ),
    held_out=(
        "Can you scale {a} by {k}?",
        "What is {a} scaled by {k}?",
        "Please multiply the vector {a} by {k}.",
        "Find {k} times {a}.",
        "What do I get when I multiply {a} by {k}?",
    ),
)
SUM = Operation(
    name="sum",
    operands="v",
    expression="sum({a})",
    phrase="The total is {r}.",
    trained=(
        "What is the sum of {a}?",
        "Sum {a}.",
        "Sum up {a}.",
        "Add up {a}.",
        "Add up all the numbers in {a}.",
        "What is the total of {a}?",
        "Compute the sum of {a}.",
        "Find the total of the numbers {a}.",
        "Give me the sum of the elements of {a}.",
        "How much is {a} in total?",
        "Calculate the total of {a}.",
        "What do the elements of {a} add up to?",
        "Given {a}, what is the sum?",
        "Here are some numbers: {a}. What is their sum?",
        "Tell me the total of {a}.",
        "Add all elements of {a} together.",
    ),
    held_out=(
        "Can you sum up {a}?",
        "Find the sum of all numbers in {a}.",
        "Here are some numbers: {a}. Add them all up.",
        "Give me the total of {a}.",
        "What do the numbers {a} add up to?",
    ),
)
MINIMUM = Operation(
    name="min",
    operands="v",
    expression="min({a})",
    phrase="The smallest is {r}.",
    trained=(
        "What is the smallest number in {a}?",
        "Find the minimum of {a}.",
        "What is the minimum of {a}?",
        "Compute the minimum of {a}.",
        "Which number in {a} is the smallest?",
        "Give me the smallest element of {a}.",
        "Minimum of {a}?",
        "What is the least element of {a}?",
        "Which element of {a} is the least?",
        "Find the lowest number in {a}.",
        "What is the lowest element of {a}?",
        "Given {a}, find the smallest number.",
        "Here are some numbers: {a}. Which is the smallest?",
        "Tell me the minimum of {a}.",
        "Calculate the minimum of the numbers {a}.",
    ),
    held_out=(
        "Can you find the smallest number in {a}?",
        "Give me the minimum of {a}.",
        "Which element of {a} is the lowest?",
        "Here are some numbers: {a}. What is their minimum?",
        "Find the least element in {a}.",
    ),
)
MAXIMUM = Operation(
    name="max",
    operands="v",
    expression="max({a})",
    phrase="The largest is {r}.",
    trained=(
        "What is the largest number in {a}?",
        "Find the maximum of {a}.",
        "What is the maximum of {a}?",
        "Compute the maximum of {a}.",
        "Which number in {a} is the largest?",
        "Give me the largest element of {a}.",
        "Maximum of {a}?",
        "What is the biggest element of {a}?",
        "Which element of {a} is the biggest?",
        "Find the highest number in {a}.",
        "What is the highest element of {a}?",
        "Which is the greatest number in {a}?",
        "Given {a}, find the largest number.",
        "Here are some numbers: {a}. Which is the largest?",
        "Tell me the maximum of {a}.",
        "Calculate the maximum of the numbers {a}.",
    ),
    held_out=(
        "Can you find the largest number in {a}?",
        "Give me the maximum of {a}.",
        "Which element of {a} is the highest?",
        "Here are some numbers: {a}. What is their maximum?",
        "Find the biggest number in {a}.",
    ),
)
SORT = Operation(
    name="sort",
    operands="v",
    expression="sort({a})",
    phrase="In order they are {r}.",
    trained=(
        "Sort {a}.",
        "Sort the numbers {a}.",
        "Put {a} in order.",
        "Put the numbers {a} in ascending order.",
        "What is {a} in sorted order?",
        "Give me {a} sorted.",
        "Order {a} from smallest to largest.",
        "Arrange {a} in ascending order.",
        "Sort the vector {a} from smallest to largest.",
        "Compute the sorted version of {a}.",
        "Given {a}, sort the elements.",
        "Here are some numbers: {a}. Sort them.",
        "Arrange the elements of {a} from lowest to highest.",
        "Tell me the sorted order of {a}.",
    ),
    held_out=(
        "Can you sort {a}?",
        "Arrange the numbers {a} from smallest to largest.",
        "Sort the elements of {a} in ascending order.",
        "Here are some numbers: {a}. Put them in order.",
        "What does {a} look like sorted?",
    ),
)
SCAN = Operation(
    name="scan",
    operands="v",
    expression="scan({a})",
    phrase="The prefix sums are {r}.",
    trained=(
        "What are the prefix sums of {a}?",
        "Compute the prefix sums of {a}.",
        "Give me the running total of {a}.",
        "What is the running total of {a}?",
        "Find the running sum of {a}.",
        "Compute the cumulative sum of {a}.",
        "What is the cumulative sum of {a}?",
        "Prefix sums of {a}?",
        "Calculate the cumulative sums of the numbers {a}.",
        "Given {a}, what are the prefix sums?",
        "Here are some numbers: {a}. What are their running totals?",
        "Tell me the running sums of {a}.",
        "Scan {a}.",
    ),
    held_out=(
        "Can you compute the prefix sums of {a}?",
        "Find the cumulative sum of {a}.",
        "Give me the running sum of the numbers {a}.",
        "Here are some numbers: {a}. What are the prefix sums?",
        "Calculate the running totals of {a}.",
    ),
)
COUNT_EQUAL = Operation(
    name="count equal",
    operands="v",
    expression="count({a} == {k})",
    phrase="The count is {r}.",
    trained=(
        "How many times does {k} appear in {a}?",
        "How often does {k} appear in {a}?",
        "Count the number of times {k} appears in {a}.",
        "How many elements of {a} are equal to {k}?",
        "How many of the numbers {a} equal {k}?",
        "Count the elements of {a} that are equal to {k}.",
        "Count how often {k} is in {a}.",
        "In {a}, how many are equal to {k}?",
        "How many numbers in {a} are {k}?",
        "Given {a}, how often does {k} appear?",
        "Tell me how many elements of {a} equal {k}.",
    ),
    held_out=(
        "Can you count how many times {k} appears in {a}?",
        "In {a}, how often does {k} appear?",
        "How many numbers in {a} are equal to {k}?",
        "Count the numbers in {a} that equal {k}.",
    ),
)
COUNT_ABOVE = Operation(
    name="count above",
    operands="v",
    expression="count({a} > {k})",
    phrase="The count is {r}.",
    trained=(
        "How many elements of {a} are greater than {k}?",
        "How many numbers in {a} are larger than {k}?",
        "Count the elements of {a} that are above {k}.",
        "How many of the numbers {a} are above {k}?",
        "How many are greater than {k} in {a}?",
        "Count the numbers in {a} that are bigger than {k}.",
        "In {a}, how many are more than {k}?",
        "How many elements of {a} are more than {k}?",
        "Given {a}, count those greater than {k}.",
        "Tell me how many elements of {a} are larger than {k}.",
    ),
    held_out=(
        "Can you count the elements of {a} that are greater than {k}?",
        "In {a}, how many are above {k}?",
        "How many numbers in {a} are bigger than {k}?",
        "Count the numbers in {a} that are larger than {k}.",
    ),
)
COUNT_BELOW = Operation(
    name="count below",
    operands="v",
    expression="count({a} < {k})",
    phrase="The count is {r}.",
    trained=(
        "How many elements of {a} are less than {k}?",
        "How many numbers in {a} are smaller than {k}?",
        "Count the elements of {a} that are below {k}.",
        "How many of the numbers {a} are below {k}?",
        "How many are less than {k} in {a}?",
        "Count the numbers in {a} that are lower than {k}.",
        "In {a}, how many are smaller than {k}?",
        "How many elements of {a} are under {k}?",
        "Given {a}, count those less than {k}.",
        "Tell me how many elements of {a} are smaller than {k}.",
    ),
    held_out=(
        "Can you count the elements of {a} that are less than {k}?",
        "In {a}, how many are below {k}?",
        "How many numbers in {a} are lower than {k}?",
        "Count the numbers in {a} that are smaller than {k}.",
    ),
)
APPLY = Operation(
    name="matrix times vector",
    operands="mv",
    expression="{a} @ {b}",
    phrase="The product is {r}.",
    trained=(
        "Multiply the matrix {a} by the vector {b}.",
        "What is the matrix {a} times the vector {b}?",
        "Apply the matrix {a} to {b}.",
        "Apply {a} to the vector {b}.",
        "What is {a} @ {b}?",
        "Compute {a} @ {b}.",
        "Compute the product of the matrix {a} and the vector {b}.",
        "Calculate the matrix vector product of {a} and {b}.",
        "Give me the matrix {a} times {b}.",
        "What do you get when you apply {a} to {b}?",
        "Given the matrix {a} and the vector {b}, find the product.",
        "Find the matrix vector product of {a} with {b}.",
        "Tell me the product of {a} and the vector {b}.",
    ),
    held_out=(
        "Can you multiply the matrix {a} by the vector {b}?",
        "Find the product of the matrix {a} and the vector {b}.",
        "What is the matrix vector product of {a} and {b}?",
        "Please apply the matrix {a} to the vector {b}.",
        "Calculate {a} @ {b}.",
    ),
)
MATRIX_PRODUCT = Operation(
    name="matrix product",
    operands="mm",
    expression="{a} @ {b}",
    phrase="The product is {r}.",
    trained=(
        "Multiply the matrices {a} and {b}.",
        "What is the matrix product of {a} and {b}?",
        "Compute the matrix product of {a} and {b}.",
        "What is {a} @ {b}?",
        "Compute {a} @ {b}.",
        "Multiply the matrix {a} by the matrix {b}.",
        "Find the product of the matrices {a} and {b}.",
        "Calculate the matrix product of {a} with {b}.",
        "Give me the product of the matrix {a} and the matrix {b}.",
        "What do you get when you multiply the matrices {a} and {b}?",
        "Given the matrices {a} and {b}, find their product.",
        "I have the matrices {a} and {b}. Multiply them.",
        "Tell me the matrix product of {a} and {b}.",
    ),
    held_out=(
        "Can you multiply the matrices {a} and {b}?",
        "Find the matrix product of {a} and {b}.",
        "What is the product of the matrices {a} and {b}?",
        "Give me {a} @ {b}.",
        "I need the matrix product of {a} with {b}.",
    ),
)

OPERATIONS = (
    *(DOT, ADD, SUBTRACT, MULTIPLY, SCALE, SUM, MINIMUM, MAXIMUM, SORT, SCAN),
    *(COUNT_EQUAL, COUNT_ABOVE, COUNT_BELOW, APPLY, MATRIX_PRODUCT),
)
