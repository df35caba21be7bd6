"""Pure arithmetic that plugins and extender agents share: arrays and numbers in, arrays and numbers out."""
