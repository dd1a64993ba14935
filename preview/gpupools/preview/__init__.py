"""The offline preview: runs the real stack program against a strict monitor, without CLI, account or network.

Import the modules you need; this one is empty, so that a rejected stack file never imports Pulumi.
"""
