vacuum analyze
