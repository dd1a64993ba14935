"""The program that `pulumi up` runs for a stack file (`program`)."""
