"""The bench: what a step costs, beside the same loop that passes its messages as an argument."""
