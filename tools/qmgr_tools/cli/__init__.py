"""The parts that all commands share: options, output, errors, completion, waiting."""
