"""Holds the objects of a cluster against the plan of its pools, and names what keeps a pool from being ready. Pure."""
