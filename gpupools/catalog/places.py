"""Regions of a cloud, and where it offers its instance types, as far as a dated list says. Pure."""

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpupools.common.csv_rows import csv_rows
from gpupools.common.errors import nearest


class Places(NamedTuple):
    """The list of one cloud."""

    regions: frozenset[str] = frozenset()
    """All regions; empty if there is no list."""
    covered: frozenset[str] = frozenset()
    """Regions of which the list has all offers of its instance types."""
    offers: Mapping[str, frozenset[str]] = {}
    """Regions or zones by instance type. A type without an entry is not covered."""
    zones: frozenset[str] = frozenset()
    """All zones of the regions of which it has one."""
    dated: str = ""
    """Date of the offers."""
    source: str = ""

    def region_fix(self, given: str) -> str:
        """Return the fix for a region that does not exist."""
        plain = given.strip().lower()
        close = [spelling for spelling in (plain, plain[:-1], plain.rpartition("-")[0]) if spelling in self.regions]
        if close:
            return f"write {close[0]}" if close[0] == plain else f"write the region {close[0]}, not a zone of it"
        return nearest(given, self.regions)

    def has_zone(self, zone: str, region: str) -> bool | None:
        """Return whether a zone exists; None if the list does not have the region's zones, or the kind of zone."""
        here = [own_zone for own_zone in self.zones if own_zone.rpartition("-")[0] == region]
        # AI zones (`us-central1-ai1a`) have longer names, and no list.
        return zone in here if here and len(zone) == len(here[0]) else None

    def zone_fix(self, region: str) -> str:
        """Return the fix for a zone that does not exist."""
        own = sorted(zone for zone in self.zones if zone.rpartition("-")[0] == region)
        return f"use {', '.join(own[:-1])} or {own[-1]}; or set places: trust if it is newer than the list"

    def offered(self, instance_type: str, region: str, zones: Collection[str] = ()) -> bool | None:
        """Return whether a region, or one of some zones of it, has an instance type; None if no list says it."""
        there = self.offers.get(instance_type)
        if there is None or region not in self.covered:
            return None
        here = {place for place in there if place == region or place.startswith(f"{region}-")}
        return bool(here & set(zones)) if zones and here and region not in here else bool(here)

    def nearest_offers(self, instance_type: str, place: str) -> list[str]:
        """Return the places with an instance type, those of the same part of the world first."""
        first, _, rest = place.partition("-")
        return sorted(
            self.offers.get(instance_type, ()),
            key=lambda offer: (not offer.startswith(f"{first}-{rest[:4]}"), not offer.startswith(f"{first}-"), offer),
        )


@cache
def read_places(file: Path) -> Places:
    """Return the list in a file.

    Row `*` has all regions, `zones` their zones, `covered` the regions with offers, and others the offers of one type.
    """
    rows = csv_rows(file)
    places = {row["instance_type"]: frozenset(row["places"].split()) for row in rows}
    regions, covered = places.pop("*"), places.pop("covered", frozenset())
    zones = places.pop("zones", frozenset())
    return Places(regions, covered, places, zones, rows[-1]["dated"], rows[-1]["source"])
