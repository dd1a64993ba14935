"""The offline preview: runs the real stack program against a strict monitor, without CLI, account or network.

Import the modules you need; this one stays empty so that a refused stack file never imports Pulumi.
"""
