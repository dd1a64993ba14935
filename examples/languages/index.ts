import * as gpupools from "@acme/gpupools";

const inference = new gpupools.GpuNodePool("inference", {
    cloud: "gcp",
    cluster: {
        name: "serve-dev",
        project: "ml-dev",
        location: "europe-west4",
        serviceAccount: "gpu-nodes@ml-dev.iam.gserviceaccount.com",
    },
    pool: {
        gpu: "L4",
        nodes: { max: 6 },
        sharing: { mode: "time-slicing", replicas: 4 },
        trust: { team: "vision" },
    },
});

export const pod = inference.pod;
