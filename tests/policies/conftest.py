"""One running pack with its defaults, for all tests of this folder that ask nothing else of it."""

from tests.policies.asking import running

pack = running(scope="session")
