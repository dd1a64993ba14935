"""The pure domain: what a GPU node pool must become, decided from data, without Pulumi, network or clock."""
