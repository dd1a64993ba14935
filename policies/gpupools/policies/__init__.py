"""Rules for declared GPU pools (`rules`, pure) and the Pulumi policy pack that applies them (`pack`)."""
