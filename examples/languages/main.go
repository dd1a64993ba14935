package main

import (
	"github.com/acme/pulumi-gpupools/sdk/go/gpupools"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

func main() {
	pulumi.Run(func(ctx *pulumi.Context) error {
		gpu := gpupools.PoolGpuL4
		inference, err := gpupools.NewGpuNodePool(ctx, "inference", &gpupools.GpuNodePoolArgs{
			Cloud: gpupools.CloudGcp,
			Cluster: gpupools.ClusterArgs{
				Name:           pulumi.String("serve-dev"),
				Project:        pulumi.String("ml-dev"),
				Location:       pulumi.StringRef("europe-west4"),
				ServiceAccount: pulumi.String("gpu-nodes@ml-dev.iam.gserviceaccount.com"),
			},
			Pool: gpupools.PoolArgs{
				Gpu:   &gpu,
				Nodes: gpupools.NodesArgs{Max: pulumi.IntRef(6)},
				Sharing: &gpupools.SharingArgs{
					Mode:     gpupools.SharingModeTimeSlicing,
					Replicas: pulumi.IntRef(4),
				},
				Trust: &gpupools.TrustArgs{Team: pulumi.StringRef("vision")},
			},
		})
		if err != nil {
			return err
		}
		ctx.Export("pod", inference.Pod)
		return nil
	})
}
