module neuronfleet/tests/cluster/build/karpenter-provider-aws

go 1.26.10

require github.com/aws/karpenter-provider-aws v1.14.3
