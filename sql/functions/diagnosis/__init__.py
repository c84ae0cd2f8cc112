"""Diagnosis: failures and their causes, samples of attempts, hosts compared."""
