using System.Collections.Generic;
using Acme.Gpupools;
using Acme.Gpupools.Inputs;

return await Pulumi.Deployment.RunAsync(() =>
{
    var inference = new GpuNodePool("inference", new GpuNodePoolArgs
    {
        Cloud = Cloud.Gcp,
        Cluster = new ClusterArgs
        {
            Name = "serve-dev",
            Project = "ml-dev",
            Location = "europe-west4",
            ServiceAccount = "gpu-nodes@ml-dev.iam.gserviceaccount.com",
        },
        Pool = new PoolArgs
        {
            Gpu = PoolGpu.L4,
            Nodes = new NodesArgs { Max = 6 },
            Sharing = new SharingArgs { Mode = SharingMode.TimeSlicing, Replicas = 4 },
            Trust = new TrustArgs { Team = "vision" },
        },
    });
    return new Dictionary<string, object?> { ["pod"] = inference.Pod };
});
