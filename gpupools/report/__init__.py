"""What a stack file would create, as a page and as a comment on a pull request; decides nothing."""
