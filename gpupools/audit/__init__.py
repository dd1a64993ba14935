"""What the rules can judge besides a running Pulumi program: files, one module for each form.

A form turns a file into `document.Resource`s in Pulumi's wire form (type token, camelCase inputs, `UNKNOWN`), which
the same readers read as in a preview (`Cloud.read_pools`). Imports no Pulumi. Which form a file has is seen from what
it holds, never from its name (`reading`); `judging` asks the rules, `sarif` and `junit` write the answer.
"""
