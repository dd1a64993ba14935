"""Holds the objects of a live cluster against the plan of its pools, and names what keeps a pool from being ready."""
