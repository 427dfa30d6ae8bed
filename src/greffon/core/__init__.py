"""The ground floor: errors, files, configuration, presets, the machine. Knows no tensors of models and no text."""
