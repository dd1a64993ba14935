"""What others declared, read back into facts."""
