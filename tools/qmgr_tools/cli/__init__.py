"""What all commands share: options, output, errors, completion, waiting."""
