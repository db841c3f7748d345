"""The machine written once as circuits over a MachineSpec: front, four stages, back."""
